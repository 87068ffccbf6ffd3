//! Metrics for Prometheus. None of them names a device or an address.

use crate::server::Server;
use crate::storage::RoundRecord;
use axum::http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};
use std::time::Duration;

/// The media type of the OpenMetrics text format.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
    code: &'static str,
}

type Label<T> = (&'static str, T);
type PerFederation<M> = Family<[Label<String>; 1], M>;

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<[Label<&'static str>; 1], Histogram>,
    uploads: PerFederation<Counter>,
    bytes_up: PerFederation<Counter>,
    bytes_down: PerFederation<Counter>,
    enrolments: PerFederation<Counter>,
    rounds: Family<[Label<String>; 2], Counter>,
    counted: PerFederation<Counter>,
    round_seconds: PerFederation<Histogram>,
    commits: Histogram,
    commit_changes: Histogram,
    devices: PerFederation<Gauge>,
    present: PerFederation<Gauge>,
    quarantined: PerFederation<Gauge>,
    state: Family<[Label<String>; 2], Gauge>,
    round: PerFederation<Gauge>,
    version: PerFederation<Gauge>,
}

fn from_100_us() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("sottovoce");
        let of = &mut registry;
        let seconds: Family<_, Histogram> = Family::new_with_constructor(from_100_us);
        let round_seconds: PerFederation<Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.25, 2.0, 18)));
        let commit_changes = Histogram::new(exponential_buckets(1.0, 2.0, 11));
        Self {
            requests: register(of, "requests", "Requests answered, by route and code", None),
            seconds: {
                let help = "Time from the head of a request to its response";
                register_as(of, "request", help, Some(Unit::Seconds), seconds)
            },
            uploads: register(of, "updates", "Updates stored", None),
            bytes_up: register(of, "updates", "Bytes of updates stored", Some(Unit::Bytes)),
            bytes_down: register(of, "models", "Bytes of models sent", Some(Unit::Bytes)),
            enrolments: register(of, "enrolments", "Devices enrolled", None),
            rounds: register(of, "rounds", "Rounds closed, by outcome", None),
            counted: register(of, "updates_counted", "Updates aggregated", None),
            round_seconds: {
                let help = "Time from the opening of a round to its end";
                register_as(of, "round", help, Some(Unit::Seconds), round_seconds)
            },
            commits: register_as(of, "commit", "Time of a commit", Some(Unit::Seconds), from_100_us()),
            commit_changes: register_as(of, "commit_changes", "Changes in a commit", None, commit_changes),
            devices: register(of, "devices", "Devices that can be selected", None),
            present: register(of, "devices_present", "Devices that checked in within five minutes", None),
            quarantined: register(
                of,
                "devices_quarantined",
                "Devices that are not asked because of what they sent",
                None,
            ),
            state: register(of, "federation_state", "1 for the state that a federation is in", None),
            round: register(of, "current_round", "The open round, or the next one", None),
            version: register(of, "current_version", "The version of the shared model", None),
            registry,
        }
    }

    /// All metrics in the OpenMetrics text format.
    pub(crate) fn encode(&self, server: &Server) -> String {
        // Those of federations that were deleted, and states that are past, do not stay.
        for gauge in [&self.devices, &self.present, &self.quarantined, &self.round, &self.version] {
            gauge.clear();
        }
        self.state.clear();
        for federation in server.federations() {
            let (labels, view) = (of(&federation.name), federation.view(crate::now()));
            self.devices.get_or_create(&labels).set(view.devices as i64);
            self.present.get_or_create(&labels).set(view.present as i64);
            self.round.get_or_create(&labels).set(view.round as i64);
            self.version.get_or_create(&labels).set(view.public.version as i64);
            self.quarantined.get_or_create(&labels).set(view.quarantined.len() as i64);
            let [name] = labels;
            self.state.get_or_create(&[name, ("state", view.public.state.to_owned())]).set(1);
        }
        self.text()
    }

    fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _written = text::encode(&mut out, &self.registry);
        out
    }

    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &'static str,
        status: StatusCode,
        code: &'static str,
        took: Duration,
    ) {
        let status = status.as_u16();
        self.seconds.get_or_create(&[("route", route)]).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { route, method, status, code }).inc();
    }

    pub(crate) fn received(&self, federation: &str, bytes: u64) {
        self.uploads.get_or_create(&of(federation)).inc();
        self.bytes_up.get_or_create(&of(federation)).inc_by(bytes);
    }

    pub(crate) fn sent(&self, federation: &str, bytes: u64) {
        self.bytes_down.get_or_create(&of(federation)).inc_by(bytes);
    }

    pub(crate) fn enrolled(&self, federation: &str) {
        self.enrolments.get_or_create(&of(federation)).inc();
    }

    pub(crate) fn committed(&self, changes: usize, took: Duration) {
        self.commits.observe(took.as_secs_f64());
        self.commit_changes.observe(changes as f64);
    }

    pub(crate) fn closed(&self, federation: &str, record: &RoundRecord) {
        let outcome = match record.version {
            Some(_) => "closed",
            None if record.counted > 0 => "measured",
            None => "abandoned",
        };
        let [of_federation] = of(federation);
        self.rounds.get_or_create(&[of_federation, ("outcome", outcome.to_owned())]).inc();
        self.counted.get_or_create(&of(federation)).inc_by(u64::from(record.counted));
        let took = record.closed.saturating_sub(record.opened) as f64 / 1000.0;
        self.round_seconds.get_or_create(&of(federation)).observe(took);
    }
}

fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>) -> M {
    register_as(registry, name, help, unit, M::default())
}

fn register_as<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, metric: M) -> M {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric.clone()),
        None => registry.register(name, help, metric.clone()),
    }
    metric
}

fn of(federation: &str) -> [Label<String>; 1] {
    [("federation", federation.to_owned())]
}

/// The label of a method; callers can invent methods, but not labels.
pub(crate) fn method_label(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "DELETE"].into_iter().find(|known| *known == method.as_str());
    known.unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const RULES: &str = include_str!("../../../docs/operations/alerts.yml");
    const DASHBOARD: &str = include_str!("../../../docs/operations/grafana.json");

    /// Names of metrics in a text.
    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("sottovoce_")).collect()
    }

    #[test]
    fn rules_and_dashboard_name_metrics_that_exist() {
        let metrics = Metrics::new();
        metrics.answered("/healthz", "GET", StatusCode::OK, "", Duration::ZERO);
        metrics.received("town", 1);
        metrics.sent("town", 1);
        metrics.enrolled("town");
        metrics.committed(1, Duration::ZERO);
        metrics.closed("town", &RoundRecord::default());
        for gauge in [&metrics.devices, &metrics.present, &metrics.quarantined, &metrics.round, &metrics.version] {
            gauge.get_or_create(&of("town")).set(1);
        }
        let [town] = of("town");
        metrics.state.get_or_create(&[town, ("state", "running".to_owned())]).set(1);
        let text = metrics.text();
        let known = names(&text);
        for (file, text) in [("alerts.yml", RULES), ("grafana.json", DASHBOARD)] {
            let used = names(text);
            assert!(used.len() > 5, "{file}: {used:?}");
            let unknown: Vec<_> = used.difference(&known).collect();
            assert!(unknown.is_empty(), "{file} names {unknown:?}, which the server does not export");
        }
        serde_json::from_str::<serde_json::Value>(DASHBOARD).unwrap();
    }
}
