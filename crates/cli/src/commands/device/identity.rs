//! `device identity`: the device's public key and its roster.

use super::as_usage;
use super::location;
use crate::args::{Common, Location};
use crate::folder;
use crate::output::{self, Usage, grouped};
use anyhow::Result;
use serde_json::json;
use sottovoce_device::{Device, Roster, read_roster};
use sottovoce_privacy::tokens::to_hex;
use std::path::Path;

/// `sottovoce device identity`.
pub(super) fn run(roster: Option<&Path>, none: bool, location: &Location, common: &Common) -> Result<()> {
    // An invalid file is reported before the device is opened.
    let roster = roster.map(read).transpose()?;
    let mut device = location::open(location)?;
    if roster.is_some() || none {
        device.set_roster(roster).map_err(as_usage)?;
    }
    show(&device, common)
}

/// Reads a roster; an error names the file and the line.
pub(super) fn read(file: &Path) -> Result<Roster> {
    read_roster(&folder::read_text(file)?).map_err(|error| Usage(format!("{}: {error}", file.display())).into())
}

/// The number of keys, and whether devices with this roster would accept this one.
pub(super) fn summary(device: &Device, roster: &Roster) -> String {
    let count = grouped(roster.len());
    match roster.contains(&device.identity()) {
        true => format!("{count} public keys, this device's among them"),
        false => {
            format!("{count} public keys, but not this device's: devices with the same roster will reject it")
        }
    }
}

fn show(device: &Device, common: &Common) -> Result<()> {
    let identity = to_hex(&device.identity());
    let facts = json!({
        "identity": identity, "roster": device.roster().map(Roster::len),
        "in_roster": device.roster().map(|roster| roster.contains(&device.identity())),
    });
    output::answer(common, &facts, || {
        let none = || "none: this device declines rounds with identities".to_owned();
        let roster = device.roster().map_or_else(none, |roster| summary(device, roster));
        format!("{identity}\n\n  roster         {roster}\n")
    })
}
