//! Invalid JSON, catalogs and configurations.

use crate::client::Request;
use crate::scene::{Scene, catalog};
use crate::table::Expected::Told;
use crate::table::{Case, case, json};
use serde_json::{Value, json as object};

const FOUND: &str = "/v1/operator/federations";
const TOKENS: &str = "/v1/operator/tokens";

pub(crate) fn cases(scene: &Scene) -> Vec<Case> {
    [founding(scene), catalogs(scene), tokens(scene)].into_iter().flatten().collect()
}

fn new(more: &Value) -> String {
    let mut config = object!({ "name": "new", "catalog": catalog(3), "model": "fcf" });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config.to_string()
}

fn founding(scene: &Scene) -> Vec<Case> {
    let post = |body: &str| json("POST", FOUND, &scene.host.admin, body);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let settings = format!(r#"{{"name":"new","catalog":"item\na","model":"fcf","settings":{deep}}}"#);
    let unknown = |settings: Value| new(&object!({ "settings": settings }));
    let many: Vec<Value> = (0..20_000).map(|number| object!({ "name": format!("c{number}") })).collect();
    let bad = || Told(400, "bad-request");
    let wrong = || Told(422, "wrong-config");
    let authorization = format!("Bearer {}", scene.host.admin);
    let packed = [("authorization", authorization.as_str()), ("content-encoding", "gzip")];
    vec![
        case("no JSON", post(""), bad()),
        case("half of it", post(r#"{"name":"#), bad()),
        case("a list", post("[]"), bad()),
        case("a list a hundred thousand deep", post(&deep), bad()),
        case("settings a hundred thousand deep", post(&settings), bad()),
        case("text that is no text", post("{\"name\":\"\u{0}\"}"), bad()),
        case("no catalog", post(r#"{"name":"new","model":"fcf"}"#), bad()),
        case("a name of another type", post(&new(&object!({ "name": 7 }))), bad()),
        case("packed JSON", Request::of("POST", FOUND, &packed, b"\x1f\x8b"), Told(415, "wrong-media")),
        case("an unknown field", post(&new(&object!({ "speed": 3 }))), wrong()),
        case("an unknown model", post(&new(&object!({ "model": "../fcf" }))), wrong()),
        case("an unknown setting", post(&unknown(object!({ "colour": 3 }))), wrong()),
        case("a setting of another type", post(&unknown(object!({ "factors": "many" }))), wrong()),
        case("factors of a million million", post(&unknown(object!({ "factors": 1_000_000_000_000_i64 }))), wrong()),
        case("a thousand million factors", post(&unknown(object!({ "factors": 1_000_000_000 }))), wrong()),
        case("less than nobody", post(&new(&object!({ "devices": -1 }))), wrong()),
        case("nobody", post(&new(&object!({ "devices": 0 }))), wrong()),
        case("everybody", post(&new(&object!({ "devices": 4_000_000_000_u32 }))), wrong()),
        case("no round", post(&new(&object!({ "rounds": 0 }))), wrong()),
        case("a bound of 0", post(&new(&object!({ "row_norm": 0 }))), wrong()),
        case(
            "a bound of 1e999",
            post(&new(&object!({ "row_norm": 1 })).replace("\"row_norm\":1", "\"row_norm\":1e999")),
            bad(),
        ),
        case("twenty thousand criteria", post(&new(&object!({ "criteria": many }))), wrong()),
        case("a name that is taken", post(&new(&object!({ "name": "films" }))), Told(409, "name-taken")),
        case("no name", post(&new(&object!({ "name": "" }))), wrong()),
        case("a name that is a path", post(&new(&object!({ "name": "../films" }))), wrong()),
        case("a name in capitals", post(&new(&object!({ "name": "FILMS" }))), wrong()),
        case("a name of 65 letters", post(&new(&object!({ "name": "a".repeat(65) }))), wrong()),
        case("a name with a line's end", post(&new(&object!({ "name": "new\r\nx: y" }))), wrong()),
    ]
}

fn catalogs(scene: &Scene) -> Vec<Case> {
    let post = |catalog: &str| {
        let body = new(&object!({ "catalog": catalog }));
        case(
            format!("catalog {:.40?}", catalog),
            json("POST", FOUND, &scene.host.admin, &body),
            Told(422, "wrong-config"),
        )
    };
    let long = format!("item\n{}\n", "x".repeat(5000));
    let many = [
        "",
        "item\n",
        "film\n1\n",
        "item\n1\n1\n",
        "item\n1\n\n2\n",
        "item\na\tb\tc\td\n",
        "item\n\t\t\n",
        "\u{feff}item\n1\n",
    ];
    many.into_iter().chain([long.as_str()]).map(post).collect()
}

fn tokens(scene: &Scene) -> Vec<Case> {
    let post = |body: &str| json("POST", TOKENS, &scene.host.admin, body);
    let enrolment =
        |body: &str| json("POST", "/v1/operator/federations/films/enrolment-tokens", &scene.host.admin, body);
    let bad = || Told(400, "bad-request");
    let label = format!(r#"{{"role":"observer","label":"{}"}}"#, "x".repeat(201));
    let list = format!("[{}0]", "0,".repeat(1_000_000));
    vec![
        case("a role that is none", post(r#"{"role":"king"}"#), bad()),
        case("no role", post("{}"), bad()),
        case("a role of another type", post(r#"{"role":["admin"]}"#), bad()),
        case("an unknown field of a token", post(r#"{"role":"observer","admin":true}"#), bad()),
        case("a role twice", post(r#"{"role":"observer","role":"admin"}"#), bad()),
        case("uses of an operator's token", post(r#"{"role":"observer","uses":3}"#), bad()),
        case("a label of 201 bytes", post(&label), bad()),
        case("a list of a million", post(&list), Told(413, "too-large")),
        case("a role to enrol with", enrolment(r#"{"role":"admin"}"#), bad()),
        case("more uses than there are numbers", enrolment(r#"{"uses":18446744073709551615}"#), bad()),
        case("less than no use", enrolment(r#"{"uses":-1}"#), bad()),
        case("a use and a half", enrolment(r#"{"uses":1.5}"#), bad()),
        case("an expiry that is text", enrolment(r#"{"expires_in_seconds":"soon"}"#), bad()),
    ]
}
