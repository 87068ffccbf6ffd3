//! Wrong credentials, and callers without permission.

use crate::client::Request;
use crate::scene::{Scene, long_key};
use crate::table::Expected::{Bare, Told};
use crate::table::{Case, case, json, wire};

const CHECK_IN: &str = "/v1/federations/films/check-in";
const ENROL: &str = "/v1/federations/films/devices";
const OPERATOR: &str = "/v1/operator/federations";

pub(crate) fn cases(scene: &Scene) -> Vec<Case> {
    [devices(scene), enrolment(scene), operators(scene)].into_iter().flatten().collect()
}

fn check_in(authorization: &str) -> Request {
    Request::of("POST", CHECK_IN, &[("authorization", authorization)], b"")
}

fn devices(scene: &Scene) -> Vec<Case> {
    let good = &scene.awaited.credential;
    let bad = Told(401, "bad-credential");
    let upper = good.to_uppercase();
    let mut cases = vec![
        case("no credential", Request::of("POST", CHECK_IN, &[], b""), Told(401, "no-credential")),
        case("an empty credential", check_in("Bearer "), Told(401, "bad-credential")),
        case("no scheme", check_in(good), Told(401, "bad-credential")),
        case("another scheme", check_in(&format!("Basic {good}")), Told(401, "no-credential")),
        case("a revoked device", check_in(&format!("Bearer {}", scene.revoked.credential)), Told(403, "revoked")),
        case("a withdrawn device", check_in(&format!("Bearer {}", scene.withdrawn.credential)), bad),
    ];
    let others = [
        ("a credential cut short", &good[..30]),
        ("a credential in capitals", upper.as_str()),
        ("another federation's credential", &scene.singer.credential),
        ("an enrolment token as a credential", &scene.enrolment),
        ("an operator's token as a credential", &scene.host.admin),
        ("a guessed credential", "svd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    ];
    let other =
        |(name, secret): (&str, &str)| case(name, check_in(&format!("Bearer {secret}")), Told(401, "bad-credential"));
    cases.extend(others.map(other));
    let long = format!("Bearer {}", "A".repeat(20_000));
    cases.push(case("a credential of 20 kB", check_in(&long), Told(401, "bad-credential")));
    let bytes = [
        b"POST ",
        CHECK_IN.as_bytes(),
        b" HTTP/1.1\r\nhost: t\r\nconnection: close\r\nauthorization: Bearer \xff\xfe\r\n\r\n",
    ];
    cases.push(case("a credential that is no text", Request::raw(bytes.concat()), Told(401, "bad-credential")));
    let stolen = wire("DELETE", "/v1/federations/songs/devices/me", good, "k", b"");
    cases.push(case("withdrawing from another federation", stolen, Told(401, "bad-credential")));
    let model = Request::of("GET", "/v1/federations/songs/models/0", &[], b"");
    cases.push(case("a private model without a credential", model, Told(401, "no-credential")));
    let model = wire("GET", "/v1/federations/songs/models/0", good, "k", b"");
    cases.push(case("a private model by a stranger", model, Told(401, "bad-credential")));
    let difference = Request::of("GET", "/v1/federations/songs/models/1/from/0", &[], b"");
    cases.push(case("a private difference without a credential", difference, Told(401, "no-credential")));
    cases
}

fn enrolment(scene: &Scene) -> Vec<Case> {
    let exactly = |token: &str, key: &str| wire("POST", ENROL, token, key, b"");
    let with = |token: &str, key: &str| exactly(token, &long_key(key));
    let long = "k".repeat(65);
    let headers = [("authorization", format!("Bearer {}", scene.enrolment))];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let key = long_key("k");
    let songs = wire("POST", "/v1/federations/songs/devices", &scene.enrolment, &key, b"");
    let nowhere = wire("POST", "/v1/federations/nowhere/devices", &scene.enrolment, &key, b"");
    vec![
        case(
            "enrolling without a token",
            Request::of("POST", ENROL, &[("idempotency-key", "k")], b""),
            Told(401, "no-credential"),
        ),
        case("enrolling with a credential", with(&scene.awaited.credential, "k"), Told(401, "bad-credential")),
        case("enrolling with an operator's token", with(&scene.host.admin, "k"), Told(401, "bad-credential")),
        case("enrolling with an expired token", with(&scene.expired, "k"), Told(401, "bad-credential")),
        case("enrolling with a token that is used up", with(&scene.used_up, "k"), Told(403, "used-up")),
        case("enrolling elsewhere with this token", songs, Told(401, "bad-credential")),
        case("enrolling nowhere", nowhere, Told(404, "no-federation")),
        case("enrolling without a key", Request::of("POST", ENROL, &headers, b""), Told(400, "bad-request")),
        case("enrolling with an empty key", exactly(&scene.enrolment, ""), Told(400, "bad-request")),
        case("enrolling with a key of 65 letters", exactly(&scene.enrolment, &long), Told(400, "bad-request")),
        case(
            "enrolling with a key that is none",
            exactly(&scene.enrolment, "../../x../../x../../x../../x"),
            Told(400, "bad-request"),
        ),
        case("enrolling with a key that can be guessed", exactly(&scene.enrolment, "1"), Told(400, "bad-request")),
        case("enrolling with a key of 21 letters", exactly(&scene.enrolment, &long[..21]), Told(400, "bad-request")),
        case("another's credential by its key", with(&scene.enrolment, "a"), Told(409, "key-used")),
    ]
}

fn operators(scene: &Scene) -> Vec<Case> {
    let films = format!("{OPERATOR}/films");
    let at = |rest: &str| format!("{films}{rest}");
    let token = r#"{"role":"admin"}"#;
    let get = |path: &str, secret: &str| json("GET", path, secret, "");
    let post = |path: &str, secret: &str, body: &str| json("POST", path, secret, body);
    let nobody = Told(403, "not-allowed");
    vec![
        case("federations without a token", Request::of("GET", OPERATOR, &[], b""), Told(401, "no-credential")),
        case("federations with a credential", get(OPERATOR, &scene.awaited.credential), Told(401, "bad-credential")),
        case("federations with an enrolment token", get(OPERATOR, &scene.enrolment), Told(401, "bad-credential")),
        case("federations with a removed token", get(OPERATOR, &scene.removed), Told(401, "bad-credential")),
        case("metrics without a token", Request::of("GET", "/metrics", &[], b""), Told(401, "no-credential")),
        case("metrics with a credential", get("/metrics", &scene.awaited.credential), Told(401, "bad-credential")),
        case("events without a token", Request::of("GET", "/v1/operator/events", &[], b""), Told(401, "no-credential")),
        case("an observer pauses", post(&at("/pause"), &scene.observer, ""), nobody),
        case("an observer creates", post(OPERATOR, &scene.observer, "{}"), Told(403, "not-allowed")),
        case("an observer shuts out", json("DELETE", &at("/devices/0"), &scene.observer, ""), Told(403, "not-allowed")),
        case("an observer lets in", post(&at("/enrolment-tokens"), &scene.observer, "{}"), Told(403, "not-allowed")),
        case(
            "an observer sees enrolment tokens",
            get(&at("/enrolment-tokens"), &scene.observer),
            Told(403, "not-allowed"),
        ),
        case(
            "an operator makes an admin",
            post("/v1/operator/tokens", &scene.operator, token),
            Told(403, "not-allowed"),
        ),
        case("an operator sees tokens", get("/v1/operator/tokens", &scene.operator), Told(403, "not-allowed")),
        case(
            "an operator removes the admin",
            json("DELETE", "/v1/operator/tokens/0", &scene.operator, ""),
            Told(403, "not-allowed"),
        ),
        case(
            "removing an operator's token as one to enrol with",
            json("DELETE", &at("/enrolment-tokens/0"), &scene.operator, ""),
            Told(404, "not-found"),
        ),
        case(
            "a token in the address",
            Request::of("GET", &format!("{OPERATOR}?token={}", scene.host.admin), &[], b""),
            Told(401, "no-credential"),
        ),
        case(
            "a token as a cookie",
            Request::of("GET", OPERATOR, &[("cookie", &scene.host.admin)], b""),
            Told(401, "no-credential"),
        ),
        case("a method that is none", json("BREW", OPERATOR, &scene.host.admin, ""), Told(405, "not-allowed-here")),
        case("PUT", json("PUT", &films, &scene.host.admin, "{}"), Told(405, "not-allowed-here")),
        case("unconfirmed DELETE", json("DELETE", &films, &scene.host.admin, ""), Told(400, "bad-request")),
        case("TRACE", json("TRACE", CHECK_IN, &scene.awaited.credential, ""), Told(405, "not-allowed-here")),
        case("GET of a check-in", json("GET", CHECK_IN, &scene.awaited.credential, ""), Told(405, "not-allowed-here")),
        case(
            "OPTIONS from a page elsewhere",
            Request::of("OPTIONS", OPERATOR, &[("origin", "http://elsewhere")], b""),
            Told(405, "not-allowed-here"),
        ),
        case("HEAD of a page", Request::of("HEAD", "/", &[], b""), Bare(200)),
    ]
}
