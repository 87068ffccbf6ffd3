//! What is measured, for Prometheus. Nothing here names a device or an address.

use crate::clerk;
use crate::federation::drive;
use crate::server::Server;
use crate::storage::RoundRecord;
use axum::http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The media type of what [`Metrics::encode`] writes.
pub const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    route: &'static str,
    method: &'static str,
    status: u16,
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    route: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    federation: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    federation: String,
    outcome: &'static str,
}

/// Counters and histograms of one server.
pub struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram>,
    uploads: Family<Of, Counter>,
    bytes_up: Family<Of, Counter>,
    bytes_down: Family<Of, Counter>,
    enrolments: Family<Of, Counter>,
    rounds: Family<Ended, Counter>,
    counted: Family<Of, Counter>,
    round_seconds: Family<Of, Histogram>,
    commits: Histogram,
    commit_changes: Histogram,
    devices: Family<Of, Gauge>,
    present: Family<Of, Gauge>,
    round: Family<Of, Gauge>,
    version: Family<Of, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn from_100_us() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

fn from_a_second() -> Histogram {
    Histogram::new(exponential_buckets(0.25, 2.0, 18))
}

impl Metrics {
    /// Nothing measured yet.
    pub fn new() -> Self {
        let mut new = Self {
            registry: Registry::with_prefix("sottovoce"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(from_100_us),
            uploads: Family::default(),
            bytes_up: Family::default(),
            bytes_down: Family::default(),
            enrolments: Family::default(),
            rounds: Family::default(),
            counted: Family::default(),
            round_seconds: Family::new_with_constructor(from_a_second),
            commits: from_100_us(),
            commit_changes: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            devices: Family::default(),
            present: Family::default(),
            round: Family::default(),
            version: Family::default(),
        };
        new.register();
        new
    }

    fn register(&mut self) {
        let Self { registry, .. } = self;
        registry.register("requests", "Requests answered, by route and code", self.requests.clone());
        let help = "Time from the head of a request to its answer";
        registry.register_with_unit("request", help, Unit::Seconds, self.seconds.clone());
        registry.register("updates", "Updates stored", self.uploads.clone());
        registry.register_with_unit("updates", "Bytes of updates stored", Unit::Bytes, self.bytes_up.clone());
        registry.register_with_unit("models", "Bytes of models sent", Unit::Bytes, self.bytes_down.clone());
        registry.register("enrolments", "Devices enrolled", self.enrolments.clone());
        registry.register("rounds", "Rounds that are over, by outcome", self.rounds.clone());
        registry.register("updates_counted", "Updates in rounds' sums", self.counted.clone());
        let help = "Time from the opening of a round to its end";
        registry.register_with_unit("round", help, Unit::Seconds, self.round_seconds.clone());
        let help = "Time that a transaction of the clerk's takes";
        registry.register_with_unit("commit", help, Unit::Seconds, self.commits.clone());
        registry.register("commit_changes", "Changes in a transaction", self.commit_changes.clone());
        registry.register("devices", "Devices that may be asked", self.devices.clone());
        registry.register(
            "devices_present",
            "Devices heard of in the last five minutes",
            self.present.clone(),
        );
        registry.register("current_round", "The round that is next, or under way", self.round.clone());
        registry.register("current_version", "The version of the shared model", self.version.clone());
    }

    /// Everything, as Prometheus reads it.
    pub fn encode(&self, server: &Server) -> String {
        for federation in server.federations() {
            let (of, view) = (of(&federation.name), federation.view(crate::now()));
            self.devices.get_or_create(&of).set(view.devices as i64);
            self.present.get_or_create(&of).set(view.present as i64);
            self.round.get_or_create(&of).set(view.round as i64);
            self.version.get_or_create(&of).set(view.public.version as i64);
        }
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
        self.seconds.get_or_create(&Route { route }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Request { route, method, status, code }).inc();
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
}

fn of(federation: &str) -> Of {
    Of { federation: federation.to_owned() }
}

/// Callers may invent methods; they do not invent labels.
pub(crate) fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "DELETE" => "DELETE",
        _ => "other",
    }
}

impl clerk::Watch for Metrics {
    fn committed(&self, changes: usize, took: Duration) {
        self.commits.observe(took.as_secs_f64());
        self.commit_changes.observe(changes as f64);
    }
}

impl drive::Observer for Metrics {
    fn closed(&self, federation: &str, record: &RoundRecord) {
        let outcome = if record.version.is_some() { "closed" } else { "abandoned" };
        self.rounds.get_or_create(&Ended { federation: federation.to_owned(), outcome }).inc();
        self.counted.get_or_create(&of(federation)).inc_by(u64::from(record.counted));
        let took = record.closed.saturating_sub(record.opened) as f64 / 1000.0;
        self.round_seconds.get_or_create(&of(federation)).observe(took);
    }
}
