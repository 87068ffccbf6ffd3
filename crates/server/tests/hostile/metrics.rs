//! The metrics.

use crate::client::{Request, send};
use crate::scene::Host;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Name and labels, as written, and the value of each sample.
type Samples = BTreeMap<String, f64>;

/// Parses the text as strictly as OpenMetrics requires.
fn samples(text: &str) -> Samples {
    let (mut found, mut families) = (Samples::new(), BTreeSet::new());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.last(), Some(&"# EOF"));
    for line in &lines[..lines.len() - 1] {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            assert!(matches!(words[0], "HELP" | "TYPE" | "UNIT") && words.len() == 3, "{line}");
            if words[0] == "TYPE" {
                assert!(matches!(words[2], "counter" | "gauge" | "histogram"), "{line}");
                assert!(families.insert(words[1].to_owned()), "{line} comes twice");
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let name = series.split('{').next().unwrap();
        assert!(name.starts_with("sottovoce_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
        let suffixes = ["", "_total", "_bucket", "_sum", "_count"];
        let known = |suffix: &&str| name.strip_suffix(*suffix).is_some_and(|family| families.contains(family));
        assert!(suffixes.iter().any(known), "{line} has no type");
        if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            let inside = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            labels_are_well_formed(inside.unwrap_or_else(|| panic!("{line}")));
        }
        let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(found.insert(series.to_owned(), value).is_none(), "{line} comes twice");
    }
    found
}

fn labels_are_well_formed(labels: &str) {
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, more) = rest.split_once("=\"").unwrap_or_else(|| panic!("{labels}"));
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{labels}");
        let (value, more) = more.split_once('"').unwrap_or_else(|| panic!("{labels}"));
        assert!(!value.contains(['\\', '\n']), "{labels}");
        rest = more.strip_prefix(',').unwrap_or(more);
    }
}

fn measured(host: &Host) -> Samples {
    let answer = host.call("GET", "/metrics", &host.admin, b"");
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    samples(&String::from_utf8(answer.body).unwrap())
}

#[test]
fn metrics_of_a_small_federation() {
    let host = Host::new();
    let settings = json!({ "factors": 2, "triples": 4, "cohort": 3, "learning_rate": 0.1 });
    host.create("films", &json!({ "devices": 3, "rounds": 2, "settings": settings }));
    let token = host.enrolment("films");
    let phones = ["a", "b", "c"].map(|key| host.phone("films", &token, key));
    let mut bytes = 0;
    for round in 0..2 {
        let sent: Vec<Vec<u8>> = phones.iter().map(|phone| host.answer(phone)).collect();
        bytes += sent.iter().map(Vec::len).sum::<usize>();
        let start = Instant::now();
        while host.server.federation("films").unwrap().view(0).round == round {
            assert!(start.elapsed() < Duration::from_secs(60), "round {round} is not closed");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    host.wait_for("films", "finished");
    let found = measured(&host);
    let of = |name: &str| found.get(&format!("sottovoce_{name}{{federation=\"films\"}}")).copied();
    assert_eq!(of("updates_total"), Some(6.0));
    assert_eq!(of("updates_counted_total"), Some(6.0));
    assert_eq!(of("updates_bytes_total"), Some(bytes as f64));
    assert_eq!(of("enrolments_total"), Some(3.0));
    assert_eq!((of("devices"), of("devices_present")), (Some(3.0), Some(3.0)));
    assert_eq!((of("current_round"), of("current_version")), (Some(2.0), Some(2.0)));
    assert_eq!(of("round_seconds_count"), Some(2.0));
    let closed = "sottovoce_rounds_total{federation=\"films\",outcome=\"closed\"}";
    assert_eq!(found.get(closed), Some(&2.0));
    let route = "/v1/federations/{federation}/rounds/{round}/updates";
    let stored = format!("sottovoce_requests_total{{route=\"{route}\",method=\"POST\",status=\"201\",code=\"\"}}");
    assert_eq!(found.get(&stored), Some(&6.0), "{found:#?}");
    assert!(of("models_bytes_total").unwrap() > 0.0);
}

#[test]
fn callers_cannot_add_labels() {
    let host = Host::new();
    host.create("films", &json!({}));
    let flood = |from: usize| {
        for number in from..from + 20 {
            let paths = [
                format!("/x{number}"),
                format!("/v1/federations/f{number}"),
                format!("/v1/federations/films/models/{number}"),
                format!("/v1/federations/films/rounds/{number}/updates"),
                format!("/v1/operator/federations/films/act{number}"),
            ];
            for path in &paths {
                for method in ["GET", "POST", &format!("M{number}")] {
                    send(host.at, &Request::of(method, path, &[("x-name", path)], b""));
                }
            }
        }
    };
    flood(1);
    let before: BTreeSet<String> = measured(&host).into_keys().collect();
    flood(100);
    let after: BTreeSet<String> = measured(&host).into_keys().collect();
    let new: Vec<&String> = after.difference(&before).filter(|name| !name.contains("/metrics")).collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(after.iter().all(|name| !name.contains("f100") && !name.contains("M100")));
}
