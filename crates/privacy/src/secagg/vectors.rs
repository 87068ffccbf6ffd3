//! Published test vectors: `tests/vectors/secagg.json`, for whoever implements the protocol elsewhere. The arithmetic
//! is implemented a second time in `tests/vectors/secagg.py`, which checks the same file (see `tests/vectors.rs`).
//!
//! `SOTTOVOCE_WRITE_VECTORS=1` writes the file anew. A change of it is a change of the protocol: devices and servers of
//! both versions do not understand each other, and the messages need a new version.

use super::keys::{self, Secrets};
use super::mask::add_keystream;
use super::messages::{EncryptedShares, Neighbours, Survivors};
use super::shamir::{self, Share};
use super::{ClientIndex, Config, Device, Message as _, Parameters, Server, Step, ThreatModel};
use crate::SecureRng;
use crate::tokens::to_hex;
use serde_json::{Value, json};
use sottovoce_protocol::{FederationId, RoundId};
use std::path::Path;

/// Bytes that depend on a word and a number.
fn bytes(word: &str, number: u64) -> [u8; 32] {
    SecureRng::new([0x5a; 32]).stream(word, number).seed()
}

fn words(words: &[u32]) -> String {
    to_hex(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
}

fn config(devices: u32, length: u32) -> Config {
    Config::new(FederationId(7), RoundId(41), devices, length).bound_to(bytes("binding", 0))
}

fn described(config: &Config) -> Value {
    json!({
        "federation": config.federation.0, "round": config.round.0, "devices": config.devices,
        "least": config.least, "length": config.length, "dropout": config.dropout, "colluding": config.colluding,
        "binding": to_hex(&config.binding),
    })
}

/// Streams of the generator, and what they begin with.
fn generators() -> Vec<Value> {
    let stream = |(label, index): (&str, u64)| {
        let seed = bytes("generator", index);
        let mut first = [0; 100];
        SecureRng::new(seed).stream(label, index).fill(&mut first);
        json!({"seed": to_hex(&seed), "label": label, "index": index, "bytes": to_hex(&first)})
    };
    [("secagg boxes", 0), ("secagg polynomial", 1), ("", 1 << 40)].into_iter().map(stream).collect()
}

/// Degrees and thresholds, or none.
fn parameters() -> Vec<Value> {
    let cases = [3, 5, 7, 32, 33, 70, 100, 255, 500, 1000, 100_000].map(|n| (n, 0.3, 0.1));
    let chosen = |(n, dropout, colluding): (u32, f64, f64)| {
        let of = |against| match Parameters::choose(n, dropout, colluding, Some(against)) {
            Ok(Parameters { neighbours, threshold, .. }) => json!({"neighbours": neighbours, "threshold": threshold}),
            Err(_) => Value::Null,
        };
        json!({
            "devices": n, "dropout": dropout, "colluding": colluding,
            "semi-honest": of(ThreatModel::SemiHonest), "malicious": of(ThreatModel::Malicious),
        })
    };
    cases.into_iter().chain([(1000, 0.2, 0.1), (40, 0.5, 0.1), (100, 0.6, 0.5)]).map(chosen).collect()
}

/// Keys of two devices and all that they derive with each other.
fn agreement() -> Value {
    let (config, clients) = (config(7, 20), [1, 4]);
    let seeds = clients.map(|client| bytes("device", client.into()));
    let secrets = seeds.map(Secrets::new);
    let device = |at: usize| {
        let (encryption, masks) = secrets[at].public();
        json!({
            "client": clients[at], "seed": to_hex(&seeds[at]),
            "encryption_secret": to_hex(secrets[at].encryption.as_bytes()), "encryption": to_hex(&encryption),
            "masks_secret": to_hex(secrets[at].masks.as_bytes()), "masks": to_hex(&masks),
            "self_mask": to_hex(&secrets[at].self_mask),
            "commitment": to_hex(&keys::commitment(&secrets[at].self_mask)),
            "self_mask_key": to_hex(&keys::self_mask_key(&config, clients[at], &secrets[at].self_mask)),
        })
    };
    let pair = |own: usize, peer: usize| {
        let public = secrets[peer].public().1;
        keys::pair_key(&config, (clients[own], &secrets[own].masks), (clients[peer], &public)).unwrap()
    };
    assert_eq!(pair(0, 1), pair(1, 0));
    json!({
        "config": described(&config), "devices": [device(0), device(1)],
        "context": to_hex(&keys::context("pair mask", &config, 1, 4)), "pair_key": to_hex(&pair(0, 1)),
    })
}

/// Points with which every secret gives zero; among them encodings that are not reduced.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

fn masks() -> Vec<Value> {
    let mask = |(length, subtract): (u32, bool)| {
        let (key, mut source) = (bytes("mask", length.into()), SecureRng::new(bytes("input", length.into())));
        let input: Vec<u32> = (0..length).map(|_| source.next_u32()).collect();
        let mut masked = input.clone();
        add_keystream(&key, subtract, &mut masked);
        json!({"key": to_hex(&key), "subtract": subtract, "words": words(&input), "masked": words(&masked)})
    };
    [(1, false), (16, true), (33, false)].into_iter().map(mask).collect()
}

fn boxed() -> Value {
    let (config, from, to) = (config(7, 20), 1, 4);
    let [sender, recipient] = [from, to].map(|client: ClientIndex| Secrets::new(bytes("device", client.into())));
    let shares = [bytes("self-mask share", 0), bytes("mask-key share", 0)];
    let (public, own) = (recipient.public().0, sender.public().0);
    let sealed = keys::encrypt(&config, &sender.encryption, from, (to, &public), (&shares[0], &shares[1])).unwrap();
    let opened = keys::decrypt(&config, &recipient.encryption, to, (from, &own), &sealed);
    assert_eq!(opened, Some((shares[0], shares[1])));
    let mut broken = sealed;
    broken[40] ^= 1;
    assert_eq!(keys::decrypt(&config, &recipient.encryption, to, (from, &own), &broken), None);
    json!({
        "config": described(&config), "from": from, "to": to, "self_mask": to_hex(&shares[0]),
        "mask_key": to_hex(&shares[1]), "box": to_hex(&sealed), "broken": to_hex(&broken),
    })
}

fn shares() -> Vec<Value> {
    let of = |(threshold, count): (usize, usize)| {
        let (secret, seed) = (bytes("secret", count as u64), bytes("coefficients", count as u64));
        let shares = shamir::split(&secret, threshold, count, &mut SecureRng::new(seed)).unwrap();
        // Points count from 1.
        let points: Vec<(u8, Share)> = (1..=255).zip(shares.iter().copied()).collect();
        assert_eq!(shamir::combine(&points[count - threshold..]), Some(secret));
        let shares: Vec<String> = shares.iter().map(|share| to_hex(share)).collect();
        json!({"secret": to_hex(&secret), "seed": to_hex(&seed), "threshold": threshold, "shares": shares})
    };
    vec![of((2, 2)), of((4, 6)), of((3, 255))]
}

/// False shares are corrected as long as they are at most half of those beyond the threshold.
fn corrected() -> Value {
    let (secret, threshold, wrong) = (bytes("secret", 0), 4, [2, 5]);
    let commitment = keys::commitment(&secret);
    let mut shares = shamir::split(&secret, threshold, 8, &mut SecureRng::new(bytes("coefficients", 0))).unwrap();
    wrong.iter().for_each(|&at: &usize| shares[at] = bytes("false share", at as u64));
    let points: Vec<(u8, Share)> = (1..=255).zip(shares.iter().copied()).collect();
    let found =
        super::reed_solomon::recover(&points, threshold, |found| keys::commitment(found) == commitment).unwrap();
    assert_eq!((found.secret, &found.wrong[..]), (secret, &wrong[..]));
    json!({
        "secret": to_hex(&secret), "commitment": to_hex(&commitment), "threshold": threshold, "wrong": wrong,
        "shares": shares.iter().map(|share| to_hex(share)).collect::<Vec<_>>(),
    })
}

/// A round of seven: one drops out before it sends its input, another before the masks are removed.
fn round() -> Value {
    const DROPS: [(ClientIndex, Step); 2] = [(2, Step::Mask), (5, Step::Unmask)];
    let config = config(7, 20);
    let input = |client: ClientIndex| -> Vec<u32> {
        let mut source = SecureRng::new(bytes("input of", client.into()));
        (0..config.length).map(|_| source.next_u32()).collect()
    };
    let new = |client: ClientIndex| Device::new(config.clone(), client, bytes("device", client.into()), None).unwrap();
    let mut devices: Vec<Device> = (0..config.devices).map(new).collect();
    let mut server = Server::new(config.clone(), bytes("server", 0)).unwrap();
    let mut members: Vec<Value> = (0..config.devices)
        .map(|client| {
            let seed = to_hex(&bytes("device", client.into()));
            json!({"client": client, "seed": seed, "input": words(&input(client)), "sent": {}, "received": {}})
        })
        .collect();
    while server.step() != Step::Done {
        let step = server.step();
        for client in server.waiting_for() {
            if DROPS.iter().any(|&(who, when)| who == client && step >= when) {
                continue;
            }
            let down = server.message_for(client).unwrap_or_default();
            let device = &mut devices[client as usize];
            let (name, up) = match step {
                Step::Advertise => ("advertise", device.advertise().encode()),
                Step::Share => ("share", device.share(&Neighbours::decode(&down).unwrap()).unwrap().encode()),
                Step::Mask => {
                    let received = EncryptedShares::decode(&down).unwrap();
                    ("mask", device.mask(&received, &input(client)).unwrap().encode())
                }
                _ => ("unmask", device.unmask(&Survivors::decode(&down).unwrap()).unwrap().encode()),
            };
            server.receive(client, &up).unwrap();
            let member = &mut members[client as usize];
            member["sent"][name] = to_hex(&up).into();
            if step != Step::Advertise {
                member["received"][name] = to_hex(&down).into();
            }
        }
        server.close_step().unwrap();
    }
    let (sum, parameters) = (server.sum().unwrap(), *server.parameters().unwrap());
    assert_eq!(sum.counted, [0, 1, 3, 4, 5, 6]);
    json!({
        "config": described(&config), "threshold": parameters.threshold, "neighbours": parameters.neighbours,
        "devices": members, "counted": sum.counted, "sum": words(&sum.words),
    })
}

#[test]
fn published_vectors_are_what_the_protocol_computes() {
    for point in SMALL_ORDER {
        let point = crate::tokens::from_hex(point).unwrap().try_into().unwrap();
        assert!(keys::is_low_order(&point), "{point:?}");
    }
    let vectors = json!({
        "about": "Secure aggregation of Sottovoce, messages of version 2. All bytes in hexadecimal; words are u32, \
            little-endian. See crates/privacy/src/secagg.",
        "generators": generators(), "parameters": parameters(), "agreement": agreement(),
        "small_order": SMALL_ORDER, "masks": masks(), "box": boxed(), "shares": shares(), "corrected": corrected(),
        "round": round(),
    });
    let text = serde_json::to_string_pretty(&vectors).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/secagg.json");
    if std::env::var_os("SOTTOVOCE_WRITE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == text,
        "{}: the protocol computes something else",
        path.display()
    );
}
