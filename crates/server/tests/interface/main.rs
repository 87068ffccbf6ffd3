//! The documentation of the HTTP interface matches the routes and codes.

use serde_json::Value;
use sottovoce_server::federation::FederationConfig;
use sottovoce_server::http::problem::CODES;
use sottovoce_server::http::{DOCUMENT, routes};
use std::collections::BTreeSet;

const REFERENCE: &str = include_str!("../../../../docs/http-api.md");

fn document() -> Value {
    serde_json::from_str(DOCUMENT).unwrap()
}

fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap();
        all.extend(methods.iter().map(|(method, of)| (method.to_uppercase(), path.clone(), of)));
    }
    all
}

#[test]
fn openapi_lists_every_route() {
    let document = document();
    let described: BTreeSet<(String, String)> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    let known: BTreeSet<(String, String)> =
        routes().into_iter().map(|(method, path)| (method.to_owned(), path)).collect();
    assert_eq!(described, known);
}

#[test]
fn openapi_lists_every_code() {
    let document = document();
    let enumerated: Vec<&str> = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut codes: Vec<&str> = CODES.iter().map(|(code, ..)| *code).collect();
    codes.sort_unstable();
    assert_eq!(enumerated, codes);
    let responses = document["components"]["responses"].as_object().unwrap();
    assert_eq!(responses.len(), CODES.len());
    for (code, _, meaning) in CODES {
        assert_eq!(responses[*code]["description"], format!("`{code}`: {meaning}"));
    }
}

/// The status and code of each error response of an operation.
fn errors(operation: &Value) -> Vec<(String, String)> {
    let mut errors = Vec::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        if let Some(reference) = response["$ref"].as_str() {
            errors.push((status.clone(), reference.rsplit('/').next().unwrap().to_owned()));
        }
        let schema = &response["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]["code"];
        let many = schema["enum"].as_array().into_iter().flatten();
        errors.extend(many.map(|code| (status.clone(), code.as_str().unwrap().to_owned())));
    }
    errors
}

#[test]
fn openapi_lists_codes_under_their_status() {
    let document = document();
    let mut used = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        for (status, code) in errors(operation) {
            let known = CODES.iter().find(|(each, ..)| *each == code);
            assert_eq!(known.map(|(_, status, _)| status.to_string()), Some(status), "{method} {path}: {code}");
            used.insert(code);
        }
        let secured = operation["security"].as_array().is_some_and(|schemes| !schemes.is_empty());
        let unauthorised = operation["responses"].get("401").is_some();
        assert_eq!(secured, unauthorised, "{method} {path}");
    }
    // The response to unsupported methods on all routes.
    used.insert("not-allowed-here".to_owned());
    assert_eq!(used.len(), CODES.len(), "{used:?}");
}

#[test]
fn openapi_references_resolve() {
    fn check(part: &Value, document: &Value) {
        match part {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                fields.values().for_each(|field| check(field, document));
            }
            Value::Array(parts) => parts.iter().for_each(|part| check(part, document)),
            _ => (),
        }
    }
    let document = document();
    check(&document, &document);
}

/// The fields of a configuration, from the error about an unknown one.
fn configuration_fields() -> BTreeSet<String> {
    let wrong = serde_json::from_str::<FederationConfig>(r#"{"no-such-field":1}"#).unwrap_err().to_string();
    let (_, expected) = wrong.split_once("expected one of").unwrap();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn openapi_lists_every_configuration_field() {
    let (document, mut known) = (document(), configuration_fields());
    let described = |name: &str| -> BTreeSet<String> {
        document["components"]["schemas"][name]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(described("Configuration"), known);
    known.extend(["name", "catalog"].map(str::to_owned));
    assert_eq!(described("Founding"), known);
}

/// Cells of the rows of the table below a heading.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let start = REFERENCE.find(heading).unwrap_or_else(|| panic!("no `{heading}`"));
    let lines = REFERENCE[start..].lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn reference_lists_every_code() {
    let written: BTreeSet<String> = table("## Codes").into_iter().map(|row| row.join("|")).collect();
    let known = |(code, status, meaning): &(&str, u16, &str)| format!("`{code}`|{status}|{meaning}");
    assert_eq!(written, CODES.iter().map(known).collect());
}

#[test]
fn people_read_the_same_routes() {
    let headings = ["## Devices", "## Advertisers", "## Operators", "## The server itself"];
    let rows = headings.into_iter().flat_map(table);
    let written: BTreeSet<String> = rows.map(|row| row[0].trim_matches('`').to_owned()).collect();
    let known = routes().into_iter().map(|(method, path)| format!("{method} {path}")).collect();
    assert_eq!(written, known);
}
