//! Runs somebody else's program on the same work.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// What a peer prints, as one line of JSON.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) peer: String,
    pub(super) cpu_s_per_epoch: f64,
    #[serde(default)]
    pub(super) triples_per_cpu_s: f64,
    #[serde(default)]
    pub(super) ndcg: f64,
}

/// Calls `command PEER FILE --factors F --epochs E --threads 1`.
pub(super) fn call(command: &str, peer: &str, file: &Path, factors: usize, epochs: usize) -> Result<Answer> {
    let line = format!("{command} {peer} \"$1\" --factors {factors} --epochs {epochs} --threads 1");
    let done = Command::new("sh")
        .args(["-c", &line, "sh"])
        .arg(file)
        .output()
        .with_context(|| format!("starting the peer: {command}"))?;
    if !done.status.success() {
        bail!("the peer {peer} failed ({}): {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .with_context(|| format!("the peer {peer} printed `{last}`, not one line of JSON"))
}
