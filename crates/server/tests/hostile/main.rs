//! Hostile requests to a real server: each gets the right response, changes nothing, and costs little.

#![allow(clippy::print_stdout, reason = "the figure of a proof")]

mod addresses;
mod anonymous;
mod bodies;
mod client;
mod connections;
mod credentials;
mod hoarders;
mod identities;
mod logs;
mod lying_devices;
mod messages;
mod metrics;
mod scene;
mod sealed;
mod streams;
mod table;
mod updates;

use client::send;
use scene::Scene;
use table::{Case, Expected};

/// The peak memory growth while all are sent. The largest request announces 18 exabytes; the longest sends 2 MB, of
/// which the server may hold no more than it accepts.
const MAX_GROWTH: u64 = 96 << 20;

/// The process's largest resident memory so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

fn differs(case: &Case, scene: &Scene) -> Option<String> {
    let answer = send(scene.host.at, &case.request);
    let found = (answer.status, answer.code());
    let text = String::from_utf8_lossy(&answer.body).chars().take(200).collect::<String>();
    let fine = match case.expected {
        Expected::Told(status, code) => {
            let media = answer.header("content-type") == Some("application/problem+json");
            media && found == (status, code.to_owned())
        }
        Expected::Bare(status) => answer.status == status && answer.code().is_empty(),
        Expected::HungUp => answer.status == 0,
        Expected::Fine(status) => answer.status == status,
    };
    (!fine).then(|| format!("{}: answered {} {text}", case.name, answer.status))
}

#[test]
fn hostile_requests_are_rejected_and_change_nothing() {
    let scene = Scene::new();
    let cases: Vec<Case> = [
        credentials::cases(&scene),
        addresses::cases(&scene),
        updates::cases(&scene),
        bodies::cases(&scene),
        connections::cases(&scene),
    ]
    .into_iter()
    .flatten()
    .collect();
    let (before, memory, mut wrong) = (scene.host.state(), peak(), Vec::new());
    // Cases that wait for a timeout wait together.
    let slow = connections::slow(&scene);
    std::thread::scope(|scope| {
        let sent: Vec<_> = slow.iter().map(|case| scope.spawn(|| differs(case, &scene))).collect();
        wrong.extend(sent.into_iter().filter_map(|sent| sent.join().unwrap()));
    });
    for case in &cases {
        wrong.extend(differs(case, &scene));
        if scene.host.state() != before {
            wrong.push(format!("{}: something changed", case.name));
            break;
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let grown = peak() - memory;
    assert!(grown < MAX_GROWTH, "memory grew by {} MiB", grown >> 20);
    scene.host.answer(&scene.awaited);
    println!("{} hostile requests, memory grew by {} KiB", cases.len() + slow.len(), grown >> 10);
}
