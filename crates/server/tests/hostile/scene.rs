//! A real server on a free port with three federations, and devices in every state.
//!
//! `films`: a round is open; one of its cohort has answered, one has not, one device is not in the cohort, one is
//! revoked, one has withdrawn. `songs`: other tables, private models, one device. `done`: its only round is over.

use crate::client::{Answer, Request, send};
use crate::messages::{self, Phone};
use serde_json::{Value, json};
use sottovoce_server::http::serve::{self, ListenOptions};
use sottovoce_server::http::timeouts::Timeouts;
use sottovoce_server::storage::{self, Storage, TokenPurpose};
use sottovoce_server::versions::VersionStore;
use sottovoce_server::{Role, Server};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// The timeouts of the server.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_millis(800),
    body: Duration::from_millis(800),
    response: Duration::from_millis(800),
    idle: Duration::from_millis(2500),
};
/// Bytes of all bodies that it holds at a time.
pub(crate) const BODY_BYTES: u64 = 8 << 20;

/// An item id that would be found in a log.
pub(crate) fn item(number: usize) -> String {
    format!("itm7731x{number}")
}

pub(crate) fn catalog(items: usize) -> String {
    let lines = (0..items).map(|number| format!("{}\tTitle {number}\tone|two\n", item(number)));
    std::iter::once("item\ttitle\tcategories\n".to_owned()).chain(lines).collect()
}

/// The key of an enrolment, which must be long.
pub(crate) fn long_key(key: &str) -> String {
    format!("{key:->30}")
}

/// A server that listens.
pub(crate) struct Host {
    pub(crate) at: SocketAddr,
    pub(crate) server: Arc<Server>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) admin: String,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    _folder: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with(ListenOptions { timeouts: TIMEOUTS, body_bytes: BODY_BYTES, ..ListenOptions::default() })
    }

    pub(crate) fn with(options: ListenOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let url = format!("sqlite:{}", folder.path().join("server.sqlite").display());
        let storage: Arc<dyn Storage> = Arc::from(storage::open(&url).unwrap());
        let versions = VersionStore::open(&folder.path().join("models").display().to_string()).unwrap();
        let server = runtime.block_on(Server::open(Arc::clone(&storage), versions, None)).unwrap();
        let (listener, at) = runtime.block_on(serve::listen("127.0.0.1:0")).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = serve::serve(Arc::clone(&server), listener, options, async {
            let _stopped = stopped.await;
        });
        runtime.spawn(served);
        let mut host = Self {
            at,
            server,
            storage,
            admin: String::new(),
            runtime: Some(runtime),
            stop: Some(stop),
            _folder: folder,
        };
        host.admin = host.token(Role::Admin);
        host
    }

    /// An operator's token.
    pub(crate) fn token(&self, role: Role) -> String {
        self.add_token(TokenPurpose::Operator { role: role.to_string() }, None)
    }

    pub(crate) fn add_token(&self, purpose: TokenPurpose, expires: Option<u64>) -> String {
        let token = self.server.add_token(purpose, "", expires);
        self.runtime.as_ref().unwrap().block_on(token).unwrap().0
    }

    pub(crate) fn call(&self, method: &str, path: &str, secret: &str, body: &[u8]) -> Answer {
        let authorization = format!("Bearer {secret}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("idempotency-key", "key-1"),
            ("content-type", "application/vnd.sottovoce"),
        ];
        send(self.at, &Request::of(method, path, &headers, body))
    }

    pub(crate) fn create(&self, name: &str, more: &Value) {
        let mut config = json!({ "name": name, "catalog": catalog(12), "model": "fpl", "check_in_seconds": 1,
            "settings": { "factors": 2, "triples": 4, "cohort": 1, "learning_rate": 0.1 } });
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        let body = config.to_string();
        let answer = self.call("POST", "/v1/operator/federations", &self.admin, body.as_bytes());
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    }

    pub(crate) fn enrolment(&self, federation: &str) -> String {
        let path = format!("/v1/operator/federations/{federation}/enrolment-tokens");
        self.call("POST", &path, &self.admin, b"{}").json()["token"].as_str().unwrap().to_owned()
    }

    /// Enrols a device and downloads the model.
    pub(crate) fn phone(&self, federation: &str, token: &str, key: &str) -> Phone {
        let authorization = format!("Bearer {token}");
        let key = long_key(key);
        let headers = [("authorization", authorization.as_str()), ("idempotency-key", key.as_str())];
        let path = format!("/v1/federations/{federation}/devices");
        let answer = send(self.at, &Request::of("POST", &path, &headers, b""));
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        let credential = answer.json()["credential"].as_str().unwrap().to_owned();
        let number = answer.json()["device"].as_u64().unwrap() as u32;
        Phone { federation: federation.to_owned(), number, credential }
    }

    /// The terms of the round that a device is selected for; waits for a round to open.
    pub(crate) fn terms(&self, phone: &Phone) -> Option<sottovoce_protocol::RoundTerms> {
        let start = Instant::now();
        let path = format!("/v1/federations/{}/check-in", phone.federation);
        while start.elapsed() < Duration::from_secs(20) {
            let view = self.server.federation(&phone.federation).unwrap().view(0);
            let answer = self.call("POST", &path, &phone.credential, b"");
            if answer.status == 200 {
                return Some(sottovoce_protocol::codec::decode_terms(&answer.body).unwrap());
            }
            assert_eq!(answer.status, 204, "{answer:?}");
            if view.under_way.is_some() || view.public.state == "finished" {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// A device answers its round honestly.
    pub(crate) fn answer(&self, phone: &Phone) -> Vec<u8> {
        let terms = self.terms(phone).unwrap();
        let bytes = messages::honest(&self.layout(phone), &terms);
        let path = format!("/v1/federations/{}/rounds/{}/updates", phone.federation, terms.round.0);
        let answer = self.call("POST", &path, &phone.credential, &bytes);
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        bytes
    }

    pub(crate) fn layout(&self, phone: &Phone) -> sottovoce_protocol::Layout {
        let public = self.server.federation(&phone.federation).unwrap().public();
        let path = format!("/v1/federations/{}/models/{}", phone.federation, public.version);
        let model = self.call("GET", &path, &phone.credential, b"");
        sottovoce_protocol::codec::decode_model(&model.body).unwrap().parameters.layout()
    }

    /// Waits until a federation is in a state.
    pub(crate) fn wait_for(&self, federation: &str, state: &str) {
        let start = Instant::now();
        while self.server.federation(federation).unwrap().public().state != state {
            assert!(start.elapsed() < Duration::from_secs(60), "{federation} is not {state}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The whole state, in memory and in the database, without the times of check-ins and the number of rejected
    /// uploads.
    pub(crate) fn state(&self) -> String {
        let mut stored = self.storage.load().unwrap();
        stored.devices.iter_mut().for_each(|device| device.seen = 0);
        let mut text = format!("{stored:?}");
        for federation in self.server.federations() {
            let mut view = federation.view(0);
            view.present = 0;
            if let Some(round) = &mut view.under_way {
                round.refused = 0;
            }
            let rounds = self.storage.rounds(federation.id, None, 1000).unwrap();
            text.push_str(&format!("{view:?}{rounds:?}"));
            self.storage
                .updates(federation.id, view.round, &mut |sender, bytes| {
                    text.push_str(&format!("{sender:?}:{}", blake3::hash(bytes)));
                    Ok(())
                })
                .unwrap();
        }
        text.push_str(&format!("{:?}", self.server.tokens(None)));
        text
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
    }
}

/// The devices and tokens of the test.
pub(crate) struct Scene {
    pub(crate) host: Host,
    /// Of `films`, has answered the open round with `sent`.
    pub(crate) answered: Phone,
    pub(crate) sent: Vec<u8>,
    /// Of `films`, has not answered yet.
    pub(crate) awaited: Phone,
    pub(crate) terms: sottovoce_protocol::RoundTerms,
    pub(crate) layout: sottovoce_protocol::Layout,
    /// Of `films`, not in the cohort.
    pub(crate) idle: Phone,
    pub(crate) revoked: Phone,
    pub(crate) withdrawn: Phone,
    /// Of `songs`.
    pub(crate) singer: Phone,
    pub(crate) other_layout: sottovoce_protocol::Layout,
    /// Of `done`, whose round is closed; `late` was not selected for it.
    pub(crate) finished: Phone,
    pub(crate) finished_sent: Vec<u8>,
    pub(crate) late: Phone,
    pub(crate) observer: String,
    pub(crate) operator: String,
    pub(crate) enrolment: String,
    pub(crate) used_up: String,
    pub(crate) expired: String,
    pub(crate) removed: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let host = Host::new();
        let more = json!({ "devices": 4, "row_norm": 10.0, "minimum": 2,
            "settings": { "factors": 2, "triples": 4, "cohort": 3, "learning_rate": 0.1 } });
        host.create("films", &more);
        let enrolment = host.enrolment("films");
        let [revoked, withdrawn] = ["r", "w"].map(|key| host.phone("films", &enrolment, key));
        let path = format!("/v1/operator/federations/films/devices/{}", revoked.number);
        assert_eq!(host.call("DELETE", &path, &host.admin, b"").status, 204);
        let gone = host.call("DELETE", "/v1/federations/films/devices/me", &withdrawn.credential, b"");
        assert_eq!(gone.status, 204);
        let phones = ["a", "b", "c", "d"].map(|key| host.phone("films", &enrolment, key));
        let (asked, idle): (Vec<Phone>, Vec<Phone>) = phones.into_iter().partition(|phone| host.terms(phone).is_some());
        let (answered, awaited, idle) = (asked[0].clone(), asked[1].clone(), idle[0].clone());
        let sent = host.answer(&answered);
        let more = json!({ "private_models": true, "samples": true, "catalog": catalog(5),
            "criteria": [{ "name": "auc", "why": "to see whether it helps" }] });
        host.create("songs", &more);
        let singer = host.phone("songs", &host.enrolment("songs"), "s");
        host.create("done", &json!({ "rounds": 1 }));
        let token = host.enrolment("done");
        let finished = host.phone("done", &token, "f");
        let finished_sent = host.answer(&finished);
        host.wait_for("done", "finished");
        let late = host.phone("done", &token, "l");
        let id = host.server.federation("films").unwrap().id;
        let enrol =
            |uses: u64, expires| host.add_token(TokenPurpose::Enrolment { federation: id, uses: Some(uses) }, expires);
        let (used_up, expired, removed) = (enrol(0, None), enrol(9, Some(1)), host.token(Role::Admin));
        let tokens = host.server.tokens(None);
        let path = format!("/v1/operator/tokens/{}", tokens.last().unwrap().id);
        assert_eq!(host.call("DELETE", &path, &host.admin, b"").status, 204);
        Self {
            terms: host.terms(&awaited).unwrap(),
            layout: host.layout(&awaited),
            other_layout: host.layout(&singer),
            observer: host.token(Role::Observer),
            operator: host.token(Role::Operator),
            answered,
            sent,
            awaited,
            idle,
            revoked,
            withdrawn,
            singer,
            finished,
            finished_sent,
            late,
            enrolment,
            used_up,
            expired,
            removed,
            host,
        }
    }
}
