//! `device identity`: who this device is to others, and whom it knows.

use super::as_usage;
use super::place::{self, Patience};
use crate::args::{Common, Place};
use crate::output::{self, Usage, grouped};
use anyhow::{Context, Result};
use serde_json::json;
use sottovoce_device::{Device, Roster, read_roster};
use sottovoce_privacy::tokens::to_hex;
use std::path::Path;

/// `sottovoce device identity`.
pub(super) fn run(roster: Option<&Path>, none: bool, place: &Place, common: &Common) -> Result<()> {
    // A file that is wrong is told before anything is opened.
    let roster = roster.map(read).transpose()?;
    let mut device = place::open(place, Patience::Some)?;
    if roster.is_some() || none {
        device.set_roster(roster).map_err(as_usage)?;
    }
    show(&device, common)
}

/// A roster from a file; a bad line is named with the file.
pub(super) fn read(file: &Path) -> Result<Roster> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    read_roster(&text).map_err(|error| Usage(format!("{}: {error}", file.display())).into())
}

/// How many it has, and whether others who use it would take this device.
pub(super) fn summary(device: &Device, roster: &Roster) -> String {
    let count = grouped(roster.len() as u128);
    match roster.contains(&device.identity()) {
        true => format!("{count} public keys, this device's among them"),
        false => {
            format!("{count} public keys, but not this device's: whoever uses the same list will refuse it")
        }
    }
}

fn show(device: &Device, common: &Common) -> Result<()> {
    let identity = to_hex(&device.identity());
    if common.json {
        return output::print_json(&json!({
            "identity": identity, "roster": device.roster().map(Roster::len),
            "in_roster": device.roster().map(|roster| roster.contains(&device.identity())),
        }));
    }
    let roster = match device.roster() {
        Some(roster) => summary(device, roster),
        None => "none: rounds that ask for identities go without this device".to_owned(),
    };
    output::print(&format!("{identity}\n\n  roster         {roster}\n"))
}
