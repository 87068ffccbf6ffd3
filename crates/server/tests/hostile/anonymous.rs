//! Anonymous uploads, and devices that try to send more than one.

use crate::client::{Answer, Request, send};
use crate::messages::{self, Phone};
use crate::scene::Host;
use serde_json::json;
use sottovoce_privacy::tokens::{Scope, Token, TokenRequest as Wanted, TokenResponse, to_hex};
use sottovoce_privacy::{SecureRng, anonymous_key};
use sottovoce_protocol::{Layout, RoundTerms};
use sottovoce_server::storage::Sender;
use std::time::{Duration, Instant};

/// A federation of three devices, all selected for every round.
struct Town {
    host: Host,
    phones: Vec<Phone>,
    layout: Layout,
}

impl Town {
    fn new() -> Self {
        let host = Host::new();
        let settings = json!({ "factors": 2, "triples": 4, "cohort": 3, "learning_rate": 0.1, "anonymous": true });
        host.create("town", &json!({ "devices": 3, "minimum": 1, "rounds": 3, "settings": settings }));
        let enrolment = host.enrolment("town");
        let phones: Vec<Phone> = ["a", "b", "c"].map(|key| host.phone("town", &enrolment, key)).into();
        let layout = host.layout(&phones[0]);
        Self { host, phones, layout }
    }

    fn terms(&self, round: u64) -> RoundTerms {
        let start = Instant::now();
        loop {
            let terms = self.phones.iter().find_map(|phone| self.host.terms(phone));
            match terms.filter(|terms| terms.round.0 == round) {
                Some(terms) => return terms,
                None => assert!(start.elapsed() < Duration::from_secs(60), "no round {round}"),
            }
        }
    }

    fn ask(&self, phone: &Phone, round: u64, body: &[u8]) -> Answer {
        let path = format!("/v1/federations/town/rounds/{round}/token");
        self.host.call("POST", &path, &phone.credential, body)
    }

    /// A device's token, requested honestly.
    fn token(&self, phone: &Phone, terms: &RoundTerms) -> Token {
        let wanted = wanted(phone, terms);
        let answer = self.ask(phone, terms.round.0, &wanted.blinded().to_bytes());
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")), "{answer:?}");
        let key = anonymous_key(&terms.privacy).unwrap().unwrap();
        wanted.finalize(&TokenResponse::from_bytes(&answer.body).unwrap(), &key).unwrap()
    }

    fn upload(&self, round: u64, token: &[u8], key: &str, bytes: &[u8]) -> Answer {
        let (path, token) = (format!("/v1/federations/town/rounds/{round}/anonymous-updates"), to_hex(token));
        let headers = [
            ("sottovoce-token", token.as_str()),
            ("idempotency-key", key),
            ("content-type", "application/vnd.sottovoce"),
        ];
        send(self.host.at, &Request::of("POST", &path, &headers, bytes))
    }

    fn stored(&self) -> Option<u32> {
        self.host.server.federation("town").unwrap().view(0).under_way.map(|round| round.stored)
    }

    fn revoke(&self, phone: &Phone) {
        let path = format!("/v1/operator/federations/town/devices/{}", phone.number);
        assert_eq!(self.host.call("DELETE", &path, &self.host.admin, b"").status, 204);
    }
}

fn wanted(phone: &Phone, terms: &RoundTerms) -> Wanted {
    let scope = Scope { federation: terms.federation, round: terms.round };
    Wanted::new(&mut SecureRng::new([phone.number as u8; 32]), scope)
}

fn status_and_code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

fn no(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn devices_get_one_token_per_round_and_revoked_ones_none() {
    let town = Town::new();
    let terms = town.terms(0);
    let [first, second, third] = &town.phones[..] else { panic!("three") };
    let token = town.token(first, &terms);
    assert_eq!(town.token(first, &terms), token, "a repeated request gets the same token");
    let other = wanted(second, &terms).blinded().to_bytes();
    assert_eq!(status_and_code(&town.ask(first, 0, &other)), no(409, "token-taken"));
    town.revoke(third);
    let mine = wanted(third, &terms).blinded().to_bytes();
    assert_eq!(status_and_code(&town.ask(third, 0, &mine)), no(403, "revoked"));
    let late = town.host.phone("town", &town.host.enrolment("town"), "d");
    assert_eq!(status_and_code(&town.ask(&late, 0, &mine)), no(403, "not-asked"));
    let stranger = Phone { credential: "svd_x".to_owned(), ..second.clone() };
    assert_eq!(status_and_code(&town.ask(&stranger, 0, &mine)), no(401, "bad-credential"));
    assert_eq!(status_and_code(&town.ask(second, 1, &mine)), no(422, "wrong-round"));
    for wrong in [&[][..], &[0; 32], &[255; 32], &mine[1..], &[7; 256]] {
        assert_eq!(status_and_code(&town.ask(second, 0, wrong)), no(422, "malformed"), "{wrong:?}");
    }
    // Its credential does not permit a second update.
    let bytes = messages::honest(&town.layout, &terms);
    let named = town.host.call("POST", "/v1/federations/town/rounds/0/updates", &first.credential, &bytes);
    assert_eq!(status_and_code(&named), no(409, "other-way"));
    // Revoked after it had its token: the update with the token counts, nobody knows whose it is.
    town.revoke(first);
    assert_eq!(status_and_code(&town.ask(first, 0, &other)), no(403, "revoked"));
    assert_eq!(town.upload(0, &token.to_bytes(), "k", &bytes).status, 201);
    assert_eq!(town.stored(), Some(1));
}

#[test]
fn token_permits_one_update_of_its_round() {
    let town = Town::new();
    let terms = town.terms(0);
    let tokens: Vec<[u8; Token::BYTES]> =
        town.phones.iter().map(|phone| town.token(phone, &terms).to_bytes()).collect();
    let bytes = messages::honest(&town.layout, &terms);
    let other = messages::with_value(&town.layout, &terms, 0.5);
    assert_eq!(town.upload(0, &tokens[0], "k", &bytes).status, 201);
    assert_eq!(town.upload(0, &tokens[0], "k", &bytes).status, 200);
    assert_eq!(status_and_code(&town.upload(0, &tokens[0], "k", &other)), no(409, "key-reused"));
    assert_eq!(status_and_code(&town.upload(0, &tokens[0], "l", &other)), no(409, "duplicate"));
    assert_eq!(town.stored(), Some(1), "it counts once");
    for place in [0, 8, 16, 48, 111] {
        let mut forged = tokens[1];
        forged[place] ^= 1;
        assert_eq!(status_and_code(&town.upload(0, &forged, "m", &bytes)), no(401, "bad-token"), "byte {place}");
    }
    assert_eq!(status_and_code(&town.upload(0, &tokens[1][1..], "m", &bytes)), no(401, "bad-token"));
    let headers = [("idempotency-key", "m"), ("content-type", "application/vnd.sottovoce")];
    let path = "/v1/federations/town/rounds/0/anonymous-updates";
    let without = send(town.host.at, &Request::of("POST", path, &headers, &bytes));
    assert_eq!(status_and_code(&without), no(401, "no-token"));
    assert_eq!(status_and_code(&town.upload(0, &tokens[1], "m", b"hello")), no(422, "malformed"));
    assert_eq!(town.stored(), Some(1));
    // A rejected update has not spent it.
    assert_eq!(town.upload(0, &tokens[1], "m", &bytes).status, 201);
    assert_eq!(town.upload(0, &tokens[2], "n", &bytes).status, 201);
    let next = town.terms(1);
    assert_ne!(anonymous_key(&next.privacy), anonymous_key(&terms.privacy));
    let bytes_of_next = messages::honest(&town.layout, &next);
    assert_eq!(status_and_code(&town.upload(1, &tokens[0], "k", &bytes_of_next)), no(401, "bad-token"));
    assert_eq!(town.upload(0, &tokens[0], "k", &bytes).status, 200, "recognised when the round is closed");
    assert_eq!(status_and_code(&town.upload(0, &tokens[0], "l", &bytes)), no(409, "duplicate"));
    assert_eq!(status_and_code(&town.upload(7, &tokens[0], "k", &bytes)), no(422, "wrong-round"));
    let federation = town.host.server.federation("town").unwrap();
    let rounds = town.host.storage.rounds(federation.id, None, 9).unwrap();
    assert_eq!((rounds.len(), rounds[0].counted, rounds[0].asked), (1, 3, 3));
}

/// Devices exchange their tokens before they upload, and nothing differs: so what is stored of uploads cannot depend on whose
/// they are. And no upload of two rounds is stored with the number of a device.
#[test]
fn database_does_not_link_uploads_to_devices() {
    let town = Town::new();
    let mut expected = Vec::new();
    for round in 0..2 {
        let terms = town.terms(round);
        let mut tokens: Vec<Token> = town.phones.iter().map(|phone| town.token(phone, &terms)).collect();
        tokens.rotate_left(1);
        let bytes = messages::honest(&town.layout, &terms);
        for (number, token) in tokens.iter().enumerate() {
            assert_eq!(town.upload(round, &token.to_bytes(), &format!("k{number}"), &bytes).status, 201);
        }
        expected.extend(tokens.iter().map(|token| (round, Sender::Token(token.nullifier()))));
    }
    town.terms(2);
    let stored = town.host.storage.load().unwrap();
    let found: Vec<_> = stored.receipts.iter().map(|(_, round, of)| (*round, of.sender)).collect();
    expected.sort_unstable();
    assert_eq!(found, expected, "no receipt names a device");
    assert_eq!(stored.rounds.len(), 1);
    let open = &stored.rounds[0];
    assert!(open.received.is_empty() && open.issued.is_empty(), "who had a token is deleted with the round");
    for round in 0..3 {
        let mut named = 0;
        let mut count = |sender, _: &[u8]| {
            named += usize::from(matches!(sender, Sender::Device(_)));
            Ok(())
        };
        town.host.storage.updates(open.opening.federation, round, &mut count).unwrap();
        assert_eq!(named, 0);
    }
}

/// Rounds with credentials neither issue nor accept tokens.
#[test]
fn other_rounds_have_no_tokens() {
    let host = Host::new();
    host.create("films", &json!({}));
    let phone = host.phone("films", &host.enrolment("films"), "a");
    let terms = host.terms(&phone).unwrap();
    let blinded = wanted(&phone, &terms).blinded().to_bytes();
    let asked = host.call("POST", "/v1/federations/films/rounds/0/token", &phone.credential, &blinded);
    assert_eq!(status_and_code(&asked), no(409, "other-way"));
    let sealed = json!({ "name": "wrong", "catalog": crate::scene::catalog(3), "model": "fcf",
        "settings": { "anonymous": true, "seal": "secagg" } });
    let body = sealed.to_string();
    let answer = host.call("POST", "/v1/operator/federations", &host.admin, body.as_bytes());
    assert_eq!(status_and_code(&answer), no(422, "wrong-config"));
    let why = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(why.contains("do not go with a seal"), "{why}");
}
