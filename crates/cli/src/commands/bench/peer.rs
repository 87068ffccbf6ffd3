//! Runs a peer program on the same work.

use super::Peer;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// What a peer prints, as one line of JSON.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) peer: String,
    #[serde(default)]
    pub(super) cpu_s_per_epoch: f64,
    #[serde(default)]
    pub(super) wall_s_per_epoch: f64,
    #[serde(default)]
    pub(super) cpu_us_per_step: f64,
    #[serde(default)]
    pub(super) triples_per_cpu_s: f64,
    #[serde(default)]
    pub(super) words_per_cpu_s: f64,
    #[serde(default)]
    pub(super) ndcg: f64,
}

impl Answer {
    /// The peer's figure next to ours.
    pub(super) fn compare(&self, value: f64, ratio: f64) -> Peer {
        Peer { name: self.peer.clone(), value, ratio }
    }
}

/// Calls `command PEER FILE --key value ...`; without the file where the peer needs none.
pub(super) fn call(command: &str, peer: &str, file: Option<&Path>, options: &[(&str, usize)]) -> Result<Answer> {
    let options: String = options.iter().map(|(key, value)| format!(" --{key} {value}")).collect();
    let line = format!("{command} {peer} \"$@\"{options}");
    let done = Command::new("sh")
        .args(["-c", &line, "sh"])
        .args(file)
        .output()
        .with_context(|| format!("starting the peer: {command}"))?;
    if !done.status.success() {
        bail!("the peer {peer} failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("the peer {peer} printed `{last}`, not one line of JSON"))
}
