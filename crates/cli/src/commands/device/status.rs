//! `device status`.

use super::location;
use crate::args::{Common, Location};
use crate::output::{self, grouped};
use anyhow::Result;
use serde_json::json;
use sottovoce_device::{Device, Membership};
use sottovoce_protocol::{Participation, SealedDisclosure};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// `sottovoce device status`.
pub(crate) fn run(location: &Location, common: &Common) -> Result<()> {
    let folder = location::folder(location)?;
    let device = location::open(location)?;
    let files = ["state", "model", "catalog"].into_iter();
    let bytes = files.filter_map(|name| fs::metadata(folder.join(name)).ok()).map(|file| file.len()).sum();
    output::answer(common, &document(&device, &folder, bytes), || page(&device, &folder, bytes))
}

fn membership(device: &Device) -> &'static str {
    match device.membership() {
        Membership::Enrolling { .. } => "enrolling",
        Membership::Enrolled { .. } if device.policy().participation() == Participation::Paused => "paused",
        Membership::Enrolled { .. } => "enrolled",
        Membership::Withdrawing { .. } => "withdrawing",
        Membership::Withdrawn => "withdrawn",
    }
}

fn document(device: &Device, folder: &Path, bytes: u64) -> serde_json::Value {
    let totals = device.ledger().totals();
    json!({
        "state": membership(device), "federation": device.federation(), "server": device.server(),
        "device": device.number(), "interactions": device.history().len(), "pages": device.pages().len(), "unknown": device.unknown_items(),
        "items": device.items().map(|items| items.len()), "version": device.model().map(|model| model.version.0),
        "last_round": device.last_round(), "unacknowledged": device.has_pending(), "pi": device.policy().pi(),
        "sealed_pi": device.policy().sealed.map(SealedDisclosure::pi), "disclosure": device.policy().disclosure.name(),
        "uploads_are_kept": device.uploads_are_retained(), "updates": totals.updates, "bytes_sent": totals.bytes, "store": folder, "store_bytes": bytes,
    })
}

fn page(device: &Device, folder: &Path, bytes: u64) -> String {
    let mut text = format!("{} at {}: {}\n", device.federation(), device.server(), membership(device));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:14} {value}");
    };
    if let Some(number) = device.number() {
        line("device", number.to_string());
    }
    let unknown = match device.unknown_items() {
        0 => String::new(),
        unknown => {
            format!(", {} of them with items that are not in the catalog", grouped(unknown))
        }
    };
    line("history", format!("{} interactions{unknown}", grouped(device.history().len())));
    if !device.pages().is_empty() {
        line("pages", format!("{} read last", grouped(device.pages().len())));
    }
    match device.items() {
        Some(items) => line("catalog", format!("{} items", grouped(items.len()))),
        None => line("catalog", "none yet".to_owned()),
    }
    match device.model() {
        Some(model) => line("shared model", format!("version {}", model.version.0)),
        None => {
            line("shared model", "none yet: `sottovoce device run` downloads it once training has begun".to_owned())
        }
    }
    line("last round", device.last_round().map_or("none yet".to_owned(), |round| round.to_string()));
    if device.has_pending() {
        line("", "its update was not acknowledged yet; it will be sent again".to_owned());
    }
    let totals = device.ledger().totals();
    line("sent", format!("{} updates, {} bytes", grouped(totals.updates), grouped(totals.bytes)));
    if device.uploads_are_retained() {
        line("", "the server retains them; `device policy --refuse kept-uploads` declines its rounds".to_owned());
    }
    let policy = device.policy();
    let sealed = policy.sealed.filter(|sealed| sealed.pi() != policy.pi());
    let sealed = sealed.map(|sealed| format!(" ({} in sealed rounds)", sealed.pi())).unwrap_or_default();
    line("pi", format!("{}{sealed}, {}", policy.pi(), policy.disclosure.name()));
    line("store", format!("{} ({} bytes)", folder.display(), grouped(bytes)));
    text
}
