//! Devices that drop out of sealed rounds.

use crate::harness::{Database, TestServer, printed, program};
use serde_json::Value;
use sottovoce_device::{
    Device, Enrolment, History, HttpOptions, HttpTransport, MemoryStore, Method, NextStep, Options, Request, Response,
    Secret, Seeds, Timing, Transport, TransportError,
};
use sottovoce_protocol::Policy;
use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const DEVICES: u8 = 20;
const ITEMS: usize = 30;

/// A connection that fails after a number of messages of a sealed round: keys, shares, the masked update, shares of
/// dropouts.
struct Wire<'a> {
    http: &'a HttpTransport,
    left: AtomicUsize,
    /// The response to this message is lost, counted from here.
    unheard: AtomicUsize,
}

impl Transport for Wire<'_> {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let is_step = request.path.ends_with("/seal") || request.path.ends_with("/updates");
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(TransportError("cut".to_owned()));
        }
        if is_step && request.method == Method::Post {
            self.left.store(left - 1, Ordering::SeqCst);
            let unheard = self.unheard.load(Ordering::SeqCst);
            self.unheard.store(unheard.saturating_sub(1), Ordering::SeqCst);
            if unheard == 1 {
                self.http.send(request)?;
                return Err(TransportError("the answer was lost".to_owned()));
            }
        }
        self.http.send(request)
    }
}

/// Devices in this process, each with its connection.
struct People<'a> {
    devices: Vec<(Device, Wire<'a>)>,
    start: Instant,
}

impl<'a> People<'a> {
    fn enrol(server: &TestServer, http: &'a HttpTransport, federation: &str) -> Self {
        let mut people = Self { devices: Vec::new(), start: Instant::now() };
        people.join(server, http, federation, 0..DEVICES);
        people
    }

    fn join(&mut self, server: &TestServer, http: &'a HttpTransport, federation: &str, numbers: Range<u8>) {
        let token = fs::read_to_string(server.path("enrol.token")).unwrap();
        let make = |number: u8| {
            let (secret, policy) = (Secret::new([number; 32]), Policy::new(1.0).unwrap());
            let mut enrolment = Enrolment::new(&server.url(), federation, &token, secret, policy);
            enrolment.accept = ["open".to_owned()].into();
            enrolment.seeds = Seeds::Simulated { seed: 3, user: number.into() };
            let items = (0..4).map(|item| format!("i{}", (usize::from(number) * 7 + item * 3) % ITEMS));
            enrolment.history = History::from_ids(items.collect::<Vec<_>>().iter().map(String::as_str));
            let soon = Duration::from_millis(20);
            let timing =
                Timing { initial_backoff: soon, max_backoff: soon, check_in_interval: soon, conditions_interval: soon };
            let options = Options { timing, ..Options::default() };
            let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, options).unwrap();
            assert_eq!(device.join(http, Duration::ZERO).unwrap(), None);
            let (left, unheard) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
            (device, Wire { http, left, unheard })
        };
        self.devices.extend(numbers.map(make));
    }

    /// These drop out after a number of messages.
    fn cut(&self, numbers: Range<usize>, messages: usize) {
        self.devices[numbers].iter().for_each(|(_, wire)| wire.left.store(messages, Ordering::SeqCst));
    }

    /// Takes part until this round is closed; returns the closed rounds, the latest first.
    fn until_over(&mut self, server: &TestServer, federation: &str, round: u64) -> Vec<Value> {
        loop {
            for (device, wire) in &mut self.devices {
                if wire.left.load(Ordering::SeqCst) > 0 {
                    let next = device.step(wire, self.start.elapsed()).unwrap();
                    assert!(matches!(next, NextStep::Wait(..)), "{next:?}");
                }
            }
            let told = server.operate(&["rounds", federation]);
            let rounds = told["rounds"].as_array().unwrap();
            if rounds.len() as u64 > round {
                return rounds.clone();
            }
            assert!(self.start.elapsed() < Duration::from_secs(120), "round {round} does not end: {told}");
        }
    }
}

/// Creates a federation whose steps time out after this many seconds.
fn create(server: &TestServer, name: &str, step: u64) {
    let items = (0..ITEMS).fold("item\ttitle\tcategories\n".to_owned(), |mut text, item| {
        let _ = writeln!(text, "i{item}\t\t");
        text
    });
    fs::write(server.path("catalog.tsv"), items).unwrap();
    let catalog = server.path("catalog.tsv");
    let create = ["--model", "fcf", "--catalog", catalog.to_str().unwrap(), "--rounds", "9", "--minimum", "5"];
    let settings = ["--set", "factors=2", "--set", "cohort=20", "--set", "seal=secagg", "--set", "seal_dropout=0.3"];
    server.create(
        name,
        &[
            &create[..],
            &settings,
            &["--devices", "20", "--check-in-seconds", "0", "--seal-step-seconds", &step.to_string()],
        ]
        .concat(),
    );
    // No round opens until all devices have enrolled.
    server.operate(&["pause", name]);
}

/// Opens one round, and no more.
fn one_round(server: &TestServer, name: &str) {
    server.operate(&["resume", name]);
    while !server.operate(&["show", name])["under_way"].is_object() {
        std::thread::sleep(Duration::from_millis(20));
    }
    server.operate(&["pause", name]);
}

#[test]
fn rounds_tolerate_dropouts_up_to_a_limit() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let http = HttpTransport::new(&server.url(), &HttpOptions::default()).unwrap();

    // Six of twenty may drop out: two after each step. Updates that arrived are aggregated.
    create(&server, "town", 2);
    let mut people = People::enrol(&server, &http, "town");
    one_round(&server, "town");
    (0..3).for_each(|step| people.cut(2 * step..2 * step + 2, step + 1));
    let rounds = people.until_over(&server, "town", 0);
    assert_eq!((&rounds[0]["asked"], &rounds[0]["counted"]), (&20.into(), &16.into()), "{rounds:#?}");

    // Six others replace them. Eight drop out of the next round: it is abandoned.
    let before = server.operate(&["show", "town"])["digest"].clone();
    (0..6).for_each(|device| revoke(&server, device));
    people.join(&server, &http, "town", DEVICES..DEVICES + 6);
    people.cut(6..14, 2);
    one_round(&server, "town");
    let rounds = people.until_over(&server, "town", 1);
    assert_eq!((&rounds[0]["asked"], &rounds[0]["counted"]), (&20.into(), &0.into()), "{rounds:#?}");
    assert!(rounds[0]["version"].is_null(), "{rounds:#?}");
    assert!(rounds[0]["remark"].as_str().unwrap().contains("after the step Mask"), "{rounds:#?}");
    let after = server.operate(&["show", "town"]);
    assert_eq!((&after["version"], &after["digest"]), (&1.into(), &before));

    // They come back, and training continues.
    people.cut(6..14, usize::MAX);
    one_round(&server, "town");
    let rounds = people.until_over(&server, "town", 2);
    assert_eq!((&rounds[0]["version"], &rounds[0]["counted"]), (&2.into(), &20.into()), "{rounds:#?}");

    // If the same devices decline instead, the sum is the same.
    create(&server, "village", 2);
    let mut people = People::enrol(&server, &http, "village");
    let refuse = |policy: &mut Policy| {
        policy.least_cohort = 1000;
        Ok(())
    };
    people.devices[..4].iter_mut().for_each(|(device, _)| device.set_policy(refuse).unwrap());
    one_round(&server, "village");
    let rounds = people.until_over(&server, "village", 0);
    assert_eq!((&rounds[0]["version"], &rounds[0]["counted"]), (&1.into(), &16.into()), "{rounds:#?}");
    assert_eq!(model(&http, "town", 1), model(&http, "village", 1));
}

/// A device repeats a message whose response was lost, although the others are in a later step.
#[test]
fn device_that_missed_a_response_is_aggregated() {
    let server = TestServer::new(Database::Sqlite);
    let _serving = server.serve();
    let http = HttpTransport::new(&server.url(), &HttpOptions::default()).unwrap();
    let step = 60;
    create(&server, "town", step);
    let mut people = People::enrol(&server, &http, "town");
    // The last device of each step: its message ends the step, and the response is lost.
    let last = people.devices.len() - 1;
    for (round, message) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        people.devices[last].1.unheard.store(message, Ordering::SeqCst);
        one_round(&server, "town");
        let rounds = people.until_over(&server, "town", round);
        assert_eq!((&rounds[0]["asked"], &rounds[0]["counted"]), (&20.into(), &20.into()), "{rounds:#?}");
        let took = rounds[0]["closed"].as_u64().unwrap() - rounds[0]["opened"].as_u64().unwrap();
        assert!(took < 1000 * step, "message {message}: the step timed out");
    }
}

/// Revokes a device.
fn revoke(server: &TestServer, device: usize) {
    let mut command = program();
    command.args(["federation", "revoke", "town", &device.to_string(), "--server", &server.url()]);
    printed(command.arg("--token-file").arg(server.path("server/admin.token")));
}

/// The parameters of a version.
fn model(http: &HttpTransport, federation: &str, version: u64) -> Vec<f32> {
    let request = Request {
        path: format!("/v1/federations/{federation}/models/{version}"),
        max_response_bytes: 1 << 20,
        ..Request::default()
    };
    let response = http.send(&request).unwrap();
    assert_eq!(response.status, 200);
    let model = sottovoce_protocol::codec::decode_model(&response.body).unwrap();
    model.parameters.tables().iter().flat_map(|table| table.values().to_vec()).collect()
}
