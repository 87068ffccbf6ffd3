//! Requests that are hardly HTTP: slow, endless, flooding, or smuggled.

use crate::client::Request;
use crate::messages;
use crate::scene::Scene;
use crate::table::Expected::{Bare, HungUp, Told};
use crate::table::{Case, case};
use std::time::Duration;

const UPDATES: &str = "/v1/federations/films/rounds/0/updates";
const LONG: Duration = Duration::from_millis(1500);

pub(crate) fn cases(scene: &Scene) -> Vec<Case> {
    [lengths(scene), floods(), smuggled(scene), second_protocol()].into_iter().flatten().collect()
}

/// The head of an upload with these headers beside the usual.
fn upload(scene: &Scene, more: &[(&str, &str)]) -> Request {
    let authorization = format!("Bearer {}", scene.awaited.credential);
    let mut headers = vec![
        ("authorization", authorization.as_str()),
        ("idempotency-key", "k"),
        ("content-type", "application/vnd.sottovoce"),
    ];
    headers.extend_from_slice(more);
    Request::head("POST", UPDATES, &headers)
}

fn chunk(bytes: usize) -> Vec<u8> {
    [format!("{bytes:x}\r\n").into_bytes(), vec![0; bytes], b"\r\n".to_vec()].concat()
}

fn lengths(scene: &Scene) -> Vec<Case> {
    let stated = |length: &str| upload(scene, &[("content-length", length)]);
    let chunked = || upload(scene, &[("transfer-encoding", "chunked")]);
    let admin = format!("Bearer {}", scene.host.admin);
    let giant = [("authorization", admin.as_str()), ("content-length", "300000000")];
    let token = [("authorization", admin.as_str()), ("content-length", "70000")];
    vec![
        case("a terabyte stated", stated("1099511627776"), Told(413, "too-large")),
        case("2^64 - 2 bytes stated", stated("18446744073709551614"), Bare(431)),
        case("2^64 bytes stated", stated("18446744073709551616"), Bare(400)),
        case("less than no bytes stated", stated("-1"), Bare(400)),
        case("bytes stated in words", stated("many"), Bare(400)),
        case("an endless body", chunked().then(Duration::ZERO, chunk(1 << 17)), Told(413, "too-large")),
        case(
            "a chunk of 2^64 bytes",
            chunked().then(Duration::ZERO, "ffffffffffffffffff\r\nx"),
            Told(400, "bad-request"),
        ),
        case("a chunk that is none", chunked().then(Duration::ZERO, "zz\r\nx\r\n"), Told(400, "bad-request")),
        case(
            "a catalog of 300 MB stated",
            Request::head("POST", "/v1/operator/federations", &giant),
            Told(413, "too-large"),
        ),
        case("a token of 70 kB stated", Request::head("POST", "/v1/operator/tokens", &token), Told(413, "too-large")),
    ]
}

/// Requests that the server waits for until a timeout.
pub(crate) fn slow(scene: &Scene) -> Vec<Case> {
    let head = Request::raw("POST /v1/federations/films/check-in HTTP/1.1\r\nhost: t\r\n");
    let drip = (0..20).fold(Request::raw("GET / HTTP/1.1\r\n"), |request, number| {
        request.then(Duration::from_millis(100), format!("x-{number}: y\r\n"))
    });
    let body = upload(scene, &[("content-length", "5000")]);
    let dripping = (0..20).fold(body.clone(), |request, _| request.then(Duration::from_millis(100), "x"));
    let chunks = upload(scene, &[("transfer-encoding", "chunked")]);
    vec![
        case("not a byte", Request::raw("").then(LONG, ""), HungUp),
        case("half a line", Request::raw("GET /v1/fed").then(LONG, ""), HungUp),
        case("half a head", head.then(LONG, ""), HungUp),
        case("a head that drips", drip, HungUp),
        case("half of HTTP/2's greeting", Request::raw("PRI * HTTP/2.0\r\n").then(LONG, ""), HungUp),
        case("a body that does not come", body.then(LONG, ""), Told(408, "slow")),
        case("a body that drips", dripping, Told(408, "slow")),
        case("chunks that do not come", chunks.then(LONG, ""), Told(408, "slow")),
    ]
}

fn floods() -> Vec<Case> {
    let flood = |count: usize, bytes: usize| {
        let mut text = "GET / HTTP/1.1\r\nhost: t\r\n".to_owned();
        (0..count).for_each(|number| text.push_str(&format!("x-{number}: {}\r\n", "a".repeat(bytes))));
        Request::raw(text + "\r\n")
    };
    let colon = Request::raw("GET / HTTP/1.1\r\nhost\r\n\r\n");
    let binary: Vec<u8> = (0..=255u8).cycle().take(5000).collect();
    let tls = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    vec![
        case("two hundred headers", flood(200, 1), Bare(431)),
        case("five thousand headers", flood(5000, 1), Bare(431)),
        case("one header of 100 kB", flood(1, 100_000), Bare(431)),
        case("fifty headers of 10 kB", flood(50, 10_000), Bare(431)),
        case("a header without a colon", colon, Bare(400)),
        case("bytes at random", Request::raw(binary), Bare(400)),
        case("TLS to a plain port", Request::raw(tls.to_vec()), Bare(400)),
        case("HTTP/0.9", Request::raw("GET /\r\n\r\n"), Bare(400)),
        case("HTTP/3.7", Request::raw("GET / HTTP/3.7\r\nhost: t\r\n\r\n"), Bare(400)),
        case("another protocol", Request::raw("SSH-2.0-OpenSSH_9.6\r\n\r\n"), Bare(400)),
    ]
}

/// Request smuggling: no second request is answered, and nothing changes. Chunks take precedence over a length, as the standard
/// requires.
fn smuggled(scene: &Scene) -> Vec<Case> {
    let second = format!(
        "DELETE /v1/federations/films/devices/me HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n\r\n",
        scene.awaited.credential
    );
    let after = |request: Request, body: &str| request.then(Duration::ZERO, format!("{body}{second}"));
    let honest = messages::honest(&scene.layout, &scene.terms).len().to_string();
    let both = upload(scene, &[("content-length", &honest), ("transfer-encoding", "chunked")]);
    let two = upload(scene, &[("content-length", "0"), ("content-length", "50")]);
    let list = upload(scene, &[("content-length", "0, 50")]);
    let plus = upload(scene, &[("content-length", "+5")]);
    let unknown = upload(scene, &[("transfer-encoding", "chunked, x")]);
    let spaced = upload(scene, &[("transfer-encoding ", "chunked")]);
    let folded = upload(scene, &[("x", "y\r\n transfer-encoding: chunked"), ("content-length", "0")]);
    let early = upload(scene, &[("transfer-encoding", "chunked")]);
    vec![
        case("length and chunks", after(both, "0\r\n\r\n"), Told(422, "malformed")),
        case("two lengths", after(two, ""), Bare(400)),
        case("a list of lengths", after(list, ""), Bare(400)),
        case("a length with a sign", after(plus, "hello"), Bare(400)),
        case("an unknown transfer coding", after(unknown, "0\r\n\r\n"), Bare(400)),
        case("a space before the colon", after(spaced, "0\r\n\r\n"), Bare(400)),
        case("a folded header", after(folded, ""), Bare(400)),
        case("a second request after the first's end", after(early, "0\r\n\r\n"), Told(422, "malformed")),
    ]
}

/// HTTP/2 without TLS by prior knowledge, misused.
fn second_protocol() -> Vec<Case> {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frame =
        |kind: u8, flags: u8, stream: u8, length: [u8; 3]| [&length[..], &[kind, flags, 0, 0, 0, stream]].concat();
    let settings = frame(4, 0, 0, [0, 0, 0]);
    let with = |frames: &[Vec<u8>]| Request::raw([&preface[..], &settings, &frames.concat()].concat());
    vec![
        case("HTTP/2: a frame of 16 MiB", with(&[frame(0, 0, 1, [0xff; 3])]), HungUp),
        case("HTTP/2: data before a head", with(&[frame(0, 0, 1, [0, 0, 0])]), HungUp),
        case("HTTP/2: a head on stream 0", with(&[frame(1, 4, 0, [0, 0, 0])]), HungUp),
        case("HTTP/2: a head that is none", with(&[[frame(1, 4, 1, [0, 0, 1]), vec![0xff]].concat()]), HungUp),
        case("HTTP/2: settings of a wrong size", with(&[[frame(4, 0, 0, [0, 0, 1]), vec![0]].concat()]), HungUp),
        case("HTTP/2: a second greeting", with(&[preface.to_vec()]), HungUp),
    ]
}
