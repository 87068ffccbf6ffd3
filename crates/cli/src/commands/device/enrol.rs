//! `device enrol`.

use super::location;
use super::{as_usage, clicks, identity, interactions, now};
use crate::args::{Common, Enrol};
use crate::commands::fleet::{about, catalog};
use crate::folder::read_text;
use crate::key_file;
use crate::output::{self, Usage, grouped, usage};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use sottovoce_device::{
    Device, Enrolment, History, HttpTransport, NextStep, Options, Roster, StopReason, random_secret,
};
use sottovoce_privacy::OPEN;
use sottovoce_privacy::tokens::to_hex;
use sottovoce_protocol::{DisclosureMode, Policy, PolicyError, SealedDisclosure};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// `sottovoce device enrol`.
pub(crate) fn run(args: &Enrol, common: &Common) -> Result<()> {
    let token = match (&args.token, &args.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(file)) => read_text(file)?,
        (None, None) => String::new(),
    };
    let ca = args.ca.as_deref().map(read_text).transpose()?.unwrap_or_default();
    let transport = location::transport(&args.server, &ca)?;
    // If the server does not answer, enrolment fails with a better error.
    let about = about(&transport, &args.federation).unwrap_or_default();
    check_open(&about, &args.federation, &args.accept)?;
    let wrong = |error: PolicyError| Usage(error.to_string());
    let mut policy = Policy::new(args.pi).map_err(wrong)?;
    policy.sealed = Some(SealedDisclosure::new(args.sealed_pi, args.sealed_least).map_err(wrong)?);
    policy.disclosure = args.disclosure;
    let mut history = History::new();
    let (mut pages, mut items) = (Vec::new(), None);
    if let Some(file) = &args.history {
        history.extend(interactions(file)?.iter().map(|(id, time)| (id.as_str(), *time)));
        if history.is_empty() {
            return usage(format!("{} has no interactions: a device learns from a history", file.display()));
        }
    }
    if let Some(file) = &args.clicks.clicks {
        // Interests are categories of the catalog.
        let known = catalog(&transport, &args.federation)?;
        let (reading, _) = clicks::read(file, &args.clicks, &known)?;
        history = History::from_ids(reading.interests.iter().map(String::as_str));
        (pages, items) = (reading.pages, Some(known));
        if history.is_empty() && !common.quiet {
            output::note(
                "your clicks show no interest in a category of the catalog: the device can learn once they do",
            );
        }
    }

    let folder = location::folder(&args.location)?;
    let (key, created) = location::create_key(&args.location, &folder)?;
    let store = location::store(&folder, &key, location::Wait::Limited)?;
    let mut new = Enrolment::new(&args.server, &args.federation, token.trim(), random_secret()?, policy);
    new.key = key_file::read_shared(args.federation_key.as_deref())?;
    new.roster = args.roster.as_deref().map(identity::read).transpose()?;
    new.accept = args.accept.iter().cloned().collect();
    let enrolment = Enrolment { ca, history, pages, items, ..new };
    let mut device = Device::enrol(Box::new(store), enrolment, Options::default()).map_err(as_usage)?;
    join(&mut device, &transport)?;
    let key = (location::key_path(&args.location, &folder), created);
    report(&device, &folder, key, &about, common)
}

/// That nobody joins unasked a federation that is open by its server's own description. One that is open in spite of it
/// finds no device to take part.
pub(crate) fn check_open(about: &Value, federation: &str, accepted: &[String]) -> Result<()> {
    if !about.get("seal").is_some_and(Value::is_null) || accepted.iter().any(|what| what == OPEN) {
        return Ok(());
    }
    usage(format!(
        "{federation} is an open federation: no seal hides uploads among those of others, so its server sees each by \
         itself and can infer from it what is in the history. Add --accept open if you agree"
    ))
}

/// Enrols with the server.
fn join(device: &mut Device, transport: &HttpTransport) -> Result<()> {
    match device.join(transport, now())? {
        None => Ok(()),
        Some(NextStep::Stop(end)) => {
            // Not enrolled: the store can be used for another attempt.
            device.withdraw()?;
            bail!("{}", advice(&end));
        }
        Some(NextStep::Wait(_, rest)) => {
            bail!("not enrolled yet: {rest}; `sottovoce device run` retries")
        }
    }
}

fn advice(end: &StopReason) -> String {
    match end {
        StopReason::Rejected { status: 401 | 403, .. } => format!("{end}; ask the operator for a new token"),
        StopReason::Rejected { status: 404, .. } => format!("{end}; is the federation's name right?"),
        _ => end.to_string(),
    }
}

fn report(
    device: &Device,
    folder: &Path,
    (key, created): (PathBuf, bool),
    about: &Value,
    common: &Common,
) -> Result<()> {
    let retains_uploads = about["record_uploads"] == true;
    let items = device.items().map_or(0, |items| items.len());
    let (interactions, unknown) = (device.history().len(), device.unknown_items());
    if common.json {
        return output::print_json(&json!({
            "federation": device.federation(), "server": device.server(), "device": device.number(),
            "items": items, "interactions": interactions, "pages": device.pages().len(), "unknown": unknown, "pi": device.policy().pi(), "disclosure": device.policy().disclosure.name(),
            "sealed_pi": device.policy().sealed.map(SealedDisclosure::pi),
            "sealed_least": device.policy().sealed.map(|sealed| sealed.least), "seal": about["seal"],
            "identity": to_hex(&device.identity()), "roster": device.roster().map(Roster::len),
            "record_uploads": retains_uploads, "store": folder, "key_file": key, "key_made": created,
        }));
    }
    let mut text = format!("Enrolled in {} as device {}.\n\n", device.federation(), device.number().unwrap_or(0));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:12} {value}");
    };
    line("history", format!("{} interactions; they stay on this device", grouped(interactions)));
    if !device.pages().is_empty() {
        line("pages", format!("{} read last; they stay on this device, too", grouped(device.pages().len())));
    }
    if unknown > 0 {
        line("", format!("{} with items that are not in the catalog (yet)", grouped(unknown)));
    }
    line("catalog", format!("{} items", grouped(items)));
    let policy = device.policy();
    let when = match policy.disclosure {
        _ if policy.pi() >= 1.0 => "uploads are computed from all of your items",
        DisclosureMode::Fixed => "always the same items",
        DisclosureMode::PerRound => "drawn in each round",
    };
    line("policy", format!("pi = {}, {when}; `sottovoce device policy` shows and changes it", policy.pi()));
    if let Some(sealed) = policy.sealed.filter(|sealed| sealed.pi() != policy.pi()) {
        line("", format!("pi = {} in sealed rounds of at least {} devices", sealed.pi(), sealed.least));
    }
    match about.get("seal") {
        Some(Value::Null) => {
            line("seal", "none: the server sees each upload by itself, as you agreed (--accept open)".to_owned());
        }
        Some(Value::String(seal)) => {
            line("seal", format!("{seal}, says the server; this device declines rounds with less"));
        }
        _ => {}
    }
    if retains_uploads {
        line("uploads", "the server retains all of them for an audit until you withdraw;".to_owned());
        line("", "`sottovoce device policy --refuse kept-uploads` declines its rounds".to_owned());
    }
    if let Some(roster) = device.roster() {
        line("roster", identity::summary(device, roster));
    }
    line("store", folder.display().to_string());
    line("key", key.display().to_string());
    text.push_str("\nThe store is encrypted with the key. Whoever has both can read it: keep the key private.\n");
    text.push_str("\nNext:  sottovoce device run          take part in rounds\n");
    text.push_str("       sottovoce device recommend    once training has begun\n");
    output::print(&text)
}
