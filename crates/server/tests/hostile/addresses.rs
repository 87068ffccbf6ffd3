//! Addresses that lead elsewhere or nowhere, and numbers out of bounds.

use crate::client::Request;
use crate::scene::Scene;
use crate::table::Expected::{Bare, Fine, Told};
use crate::table::{Case, case, json};

pub(crate) fn cases(scene: &Scene) -> Vec<Case> {
    let nothing = [
        "/v1/federations/films/../../operator/federations",
        "/v1/federations/../operator/federations",
        "/../../../../etc/passwd",
        "/dashboard/../../Cargo.toml",
        "/dashboard/%2e%2e/%2e%2e/Cargo.toml",
        "//v1//federations//films",
        "/v1/federations/films/",
        "/V1/federations/films",
        "/v1/operator/federations/films/explode/now",
        "/.git/config",
        "/wp-login.php",
    ];
    let nobody = [
        "/v1/federations//catalog",
        "/v1/federations/%2e%2e",
        "/v1/federations/..%2foperator%2ftokens",
        "/v1/federations/films%00",
        "/v1/federations/films%0d%0aset-cookie:%20a=b",
        "/v1/federations/FILMS",
        "/v1/federations/'%20OR%201=1--",
        "/v1/federations/%F0%9F%8E%AC",
    ];
    let wrong = [
        "/v1/federations/%ff%fe",
        "/v1/federations/films/models/-1",
        "/v1/federations/films/models/1e3",
        "/v1/federations/films/models/18446744073709551616",
        "/v1/federations/films/models/0x10",
    ];
    let get = |path: &str| Request::of("GET", path, &[], b"");
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(nothing.map(|path| case(path, get(path), Told(404, "not-found"))));
    cases.extend(nobody.map(|path| case(path, get(path), Told(404, "no-federation"))));
    cases.extend(wrong.map(|path| case(path, get(path), Told(400, "bad-request"))));
    cases.extend(files());
    cases.extend(bounds(scene));
    cases
}

fn files() -> Vec<Case> {
    let model = "/v1/federations/films/models/0";
    let part = |range: &str| Request::of("GET", model, &[("range", range)], b"");
    let get = |path: &str| Request::of("GET", path, &[], b"");
    let long = format!("/v1/federations/{}", "a".repeat(30_000));
    let longer = format!("/{}", "a".repeat(70_000));
    vec![
        case("a version to come", get("/v1/federations/films/models/9"), Told(404, "version-unknown")),
        case(
            "a difference to a version to come",
            get("/v1/federations/films/models/0/from/9"),
            Told(404, "no-difference"),
        ),
        case("a range past the end", part("bytes=99999999-"), Told(416, "bad-range")),
        case("a range of 2^64", part("bytes=18446744073709551615-18446744073709551615"), Told(416, "bad-range")),
        case("a range backwards", part("bytes=9-1"), Fine(200)),
        case("a thousand ranges", part(&format!("bytes={}", "0-,".repeat(1000))), Fine(200)),
        case("a range that is none", part("bytes=\u{1}"), Bare(400)),
        case("a path of 30 kB", get(&long), Told(404, "no-federation")),
        case("a path of 70 kB", get(&longer), Bare(431)),
        case("no path", Request::raw("GET  HTTP/1.1\r\nhost: t\r\n\r\n"), Bare(400)),
        case(
            "bytes that are no text in the path",
            Request::raw(b"GET /\xff\xfe HTTP/1.1\r\nhost: t\r\n\r\n".to_vec()),
            Bare(400),
        ),
        case("a NUL in the path", Request::raw(b"GET /\0 HTTP/1.1\r\nhost: t\r\n\r\n".to_vec()), Bare(400)),
        case(
            "another server's address",
            get("http://elsewhere.invalid/v1/operator/federations"),
            Told(401, "no-credential"),
        ),
    ]
}

fn bounds(scene: &Scene) -> Vec<Case> {
    let observer = &scene.observer;
    let rounds = |query: &str| json("GET", &format!("/v1/operator/federations/films/rounds?{query}"), observer, "");
    let admin = &scene.host.admin;
    let device = |number: &str| json("DELETE", &format!("/v1/operator/federations/films/devices/{number}"), admin, "");
    vec![
        case("rounds before 2^64 - 1", rounds("before=18446744073709551615"), Fine(200)),
        case("rounds before 2^64", rounds("before=18446744073709551616"), Told(400, "bad-request")),
        case("rounds before -1", rounds("before=-1"), Told(400, "bad-request")),
        case("no rounds at all", rounds("limit=0"), Fine(200)),
        case("all rounds there are", rounds("limit=18446744073709551615"), Fine(200)),
        case("so many rounds twice", rounds("limit=1&limit=2"), Told(400, "bad-request")),
        case("rounds by name", rounds("limit=%27%20OR%201=1"), Told(400, "bad-request")),
        case("shutting out nobody", device("4000000000"), Told(404, "not-found")),
        case("shutting out device 2^32", device("4294967296"), Told(400, "bad-request")),
        case("shutting out device -1", device("-1"), Told(400, "bad-request")),
        case(
            "removing token 2^64 - 1",
            json("DELETE", "/v1/operator/tokens/18446744073709551615", admin, ""),
            Told(404, "not-found"),
        ),
        case(
            "an action that is none",
            json("POST", "/v1/operator/federations/films/explode", admin, ""),
            Told(404, "not-found"),
        ),
        case(
            "resuming what is finished",
            json("POST", "/v1/operator/federations/done/resume", admin, ""),
            Told(409, "not-now"),
        ),
    ]
}
