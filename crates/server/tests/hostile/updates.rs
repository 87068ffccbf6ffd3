//! Updates that are invalid, repeated, late, early or another device's.

use crate::client::Request;
use crate::messages::{self, flipped, patched};
use crate::scene::Scene;
use crate::table::Expected::{Fine, Told};
use crate::table::{Case, case, wire};
use sottovoce_protocol::ValueEncoding;
use std::io::Write;

const UPDATES: &str = "/v1/federations/films/rounds/0/updates";

pub(crate) fn cases(scene: &Scene) -> Vec<Case> {
    [contents(scene), repeated(scene), places(scene), wrappings(scene), refusals(scene)].into_iter().flatten().collect()
}

fn contents(scene: &Scene) -> Vec<Case> {
    let (layout, terms) = (&scene.layout, &scene.terms);
    let honest = messages::honest(layout, terms);
    let model = scene.host.call("GET", "/v1/federations/films/models/0", "", b"").body;
    let with = |body: &[u8]| wire("POST", UPDATES, &scene.awaited.credential, "k", body);
    let (inf, nan) = (f32::INFINITY.to_bits(), f32::NAN.to_bits());
    let cut = &honest[..honest.len() - 7];
    let mut longer = honest.clone();
    longer.extend_from_slice(&honest);
    let malformed = || Told(422, "malformed");
    vec![
        case("nothing", with(b""), malformed()),
        case("text", with(b"hello"), malformed()),
        case("JSON", with(b"{\"update\":1}"), malformed()),
        case("zeros", with(&[0; 1000]), malformed()),
        case("a NaN", with(&messages::with_bits(layout, terms, nan)), Told(422, "not-finite")),
        case("a signalling NaN", with(&messages::with_bits(layout, terms, 0x7f80_0001)), Told(422, "not-finite")),
        case("an infinite value", with(&messages::with_bits(layout, terms, inf)), Told(422, "not-finite")),
        case("minus infinity", with(&messages::with_bits(layout, terms, inf | 1 << 31)), Told(422, "not-finite")),
        case("a version to come", with(&patched(honest.clone(), 4, 2)), malformed()),
        case("version 0", with(&patched(honest.clone(), 4, 0)), malformed()),
        case("a model instead", with(&model), malformed()),
        case("an unknown kind", with(&patched(honest.clone(), 5, 99)), malformed()),
        case("another magic", with(&flipped(honest.clone(), 0)), malformed()),
        case("a wrong checksum", with(&flipped(honest.clone(), honest.len() - 1)), malformed()),
        case("a changed value", with(&flipped(honest.clone(), honest.len() - 6)), malformed()),
        case("a length of 4 GiB", with(&[&honest[..6], &[0xff; 4], &honest[10..]].concat()), malformed()),
        case("half of it", with(&honest[..honest.len() / 2]), malformed()),
        case("all but its end", with(cut), malformed()),
        case("twice in one", with(&longer), malformed()),
        case(
            "a value of 8 bits",
            with(&messages::written_as(layout, terms, ValueEncoding::I8Row)),
            Told(422, "wrong-encoding"),
        ),
        case(
            "values of 16 bits",
            with(&messages::written_as(layout, terms, ValueEncoding::F16)),
            Told(422, "wrong-encoding"),
        ),
        case("other tables", with(&messages::honest(&scene.other_layout, terms)), Told(422, "wrong-shape")),
        case("a row too large", with(&messages::with_value(layout, terms, 1e6)), Told(422, "row-too-large")),
        case("a row much too large", with(&messages::with_value(layout, terms, f32::MAX)), Told(422, "row-too-large")),
        case("an unasked criterion", with(&messages::talkative(layout, terms, false)), Told(422, "wrong-encoding")),
        case("an unasked sample count", with(&messages::talkative(layout, terms, true)), Told(422, "wrong-encoding")),
        case("for another round inside", with(&messages::for_round(layout, terms, 7)), Told(422, "wrong-round")),
        case(
            "for another federation inside",
            with(&messages::for_federation(layout, terms, 77)),
            Told(422, "wrong-round"),
        ),
    ]
}

fn repeated(scene: &Scene) -> Vec<Case> {
    let other = messages::with_value(&scene.layout, &scene.terms, 0.5);
    let by = |key: &str, body: &[u8]| wire("POST", UPDATES, &scene.answered.credential, key, body);
    let done = "/v1/federations/done/rounds/0/updates";
    let late = |key: &str, body: &[u8]| wire("POST", done, &scene.finished.credential, key, body);
    let changed = flipped(scene.finished_sent.clone(), 20);
    vec![
        case("the same again", by("key-1", &scene.sent), Fine(200)),
        case("other bytes under the same key", by("key-1", &other), Told(409, "key-reused")),
        case("the same bytes under another key", by("key-2", &scene.sent), Told(409, "duplicate")),
        case("other bytes under another key", by("key-2", &other), Told(409, "duplicate")),
        case("nonsense under the same key", by("key-1", b"x"), Told(409, "key-reused")),
        case("the same again when the round is over", late("key-1", &scene.finished_sent), Fine(200)),
        case("other bytes when the round is over", late("key-1", &changed), Told(409, "key-reused")),
        case("another key when the round is over", late("key-9", &scene.finished_sent), Told(409, "duplicate")),
    ]
}

fn places(scene: &Scene) -> Vec<Case> {
    let honest = messages::honest(&scene.layout, &scene.terms);
    let by = |path: &str, secret: &str| wire("POST", path, secret, "k", &honest);
    let films = |round: &str| format!("/v1/federations/films/rounds/{round}/updates");
    let awaited = &scene.awaited.credential;
    let late = by("/v1/federations/done/rounds/0/updates", &scene.late.credential);
    let other = by("/v1/federations/songs/rounds/0/updates", awaited);
    let lent = by("/v1/federations/songs/rounds/0/updates", &scene.singer.credential);
    vec![
        case("a round to come", by(&films("1"), awaited), Told(422, "wrong-round")),
        case("round 2^64 - 1", by(&films("18446744073709551615"), awaited), Told(422, "wrong-round")),
        case("round 2^64", by(&films("18446744073709551616"), awaited), Told(400, "bad-request")),
        case("round -1", by(&films("-1"), awaited), Told(400, "bad-request")),
        case("a round that is over", late, Told(409, "round-closed")),
        case("not asked", by(UPDATES, &scene.idle.credential), Told(403, "not-asked")),
        case("by a revoked device", by(UPDATES, &scene.revoked.credential), Told(403, "revoked")),
        case("by a withdrawn device", by(UPDATES, &scene.withdrawn.credential), Told(401, "bad-credential")),
        case("by an operator", by(UPDATES, &scene.host.admin), Told(401, "bad-credential")),
        case("to another federation", other, Told(401, "bad-credential")),
        case("another device's round", lent, Told(422, "wrong-shape")),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A gigabyte of zeros, packed twice.
fn bomb() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&zeros).unwrap());
    let packed = encoder.finish().unwrap();
    gzip(&packed.repeat(16))
}

fn wrappings(scene: &Scene) -> Vec<Case> {
    let honest = messages::honest(&scene.layout, &scene.terms);
    let authorization = format!("Bearer {}", scene.awaited.credential);
    let with = |more: &[(&str, &str)], body: &[u8]| {
        let mut headers = vec![("authorization", authorization.as_str()), ("idempotency-key", "k")];
        headers.extend_from_slice(more);
        Request::of("POST", UPDATES, &headers, body)
    };
    let wire = ("content-type", "application/vnd.sottovoce");
    let keyless = [("authorization", authorization.as_str()), wire];
    vec![
        case("a gzip bomb", with(&[wire, ("content-encoding", "gzip, gzip")], &bomb()), Told(415, "wrong-media")),
        case("a packed update", with(&[wire, ("content-encoding", "gzip")], &gzip(&honest)), Told(415, "wrong-media")),
        case("zstd", with(&[wire, ("content-encoding", "zstd")], &honest), Told(415, "wrong-media")),
        case(
            "packed twice",
            with(&[wire, ("content-encoding", "identity"), ("content-encoding", "gzip")], &honest),
            Told(415, "wrong-media"),
        ),
        case("an unknown coding", with(&[wire, ("content-encoding", "x-bomb")], &honest), Told(415, "wrong-media")),
        case("no media type", with(&[], &honest), Told(415, "wrong-media")),
        case("another media type", with(&[("content-type", "application/json")], &honest), Told(415, "wrong-media")),
        case("a form", with(&[("content-type", "multipart/form-data; boundary=x")], &honest), Told(415, "wrong-media")),
        case("no key", Request::of("POST", UPDATES, &keyless, &honest), Told(400, "bad-request")),
        case("a byte too many", with(&[wire], &vec![0; 200_000]), Told(413, "too-large")),
    ]
}

fn refusals(scene: &Scene) -> Vec<Case> {
    let federation = scene.host.server.federation("films").unwrap().id;
    let path = "/v1/federations/films/rounds/0/refusal";
    let no = messages::refusal(federation, 0);
    let by = |secret: &str, body: &[u8]| wire("POST", path, secret, "k", body);
    let awaited = &scene.awaited.credential;
    let update = messages::honest(&scene.layout, &scene.terms);
    vec![
        case("a refusal after the answer", by(&scene.answered.credential, &no), Told(409, "duplicate")),
        case("a refusal of who was not asked", by(&scene.idle.credential, &no), Told(403, "not-asked")),
        case("a refusal by an operator", by(&scene.host.admin, &no), Told(401, "bad-credential")),
        case("a refusal that is none", by(awaited, b"no"), Told(422, "malformed")),
        case("an update as a refusal", by(awaited, &update), Told(422, "malformed")),
        case("a refusal of 5 kB", by(awaited, &[0; 5000]), Told(413, "too-large")),
        case("a refusal of another round", by(awaited, &messages::refusal(federation, 3)), Told(422, "wrong-round")),
        case("a refusal elsewhere", by(awaited, &messages::refusal(federation + 7, 0)), Told(422, "wrong-round")),
    ]
}
