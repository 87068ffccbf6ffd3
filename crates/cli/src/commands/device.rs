//! `device`: the commands of a device's owner.

mod audiences;
pub(crate) mod clicks;
pub(crate) mod enrol;
mod identity;
mod ledger;
mod location;
mod policy;
mod run;
mod status;

use crate::args::{ClickLog, Common, Device as Args};
use crate::commands::data::dropped;
use crate::folder;
use crate::output::{self, Usage, grouped, usage};
use anyhow::{Context, Result};
use serde_json::json;
use sottovoce_device::{ClickImport, Device, DeviceError, Explanation, ImportSummary, Items, Lookup, read_history};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// `sottovoce device ...`.
pub(crate) fn run(args: &Args, common: &Common) -> Result<()> {
    match args {
        Args::Enrol(args) => enrol::run(args, common),
        Args::Run(args) => run::run(args, common),
        Args::Import { file, clicks, location } => {
            let mut device = location::open(location)?;
            match file {
                Some(file) => import(&mut device, file, common),
                None => import_clicks(&mut device, clicks, common),
            }
        }
        Args::Recommend { k, explain, location } => recommend(&location::open(location)?, *k, *explain, common),
        Args::Policy(args) => policy::run(args, common),
        Args::Identity { roster, no_roster, location } => {
            identity::run(roster.as_deref(), *no_roster, location, common)
        }
        Args::Ledger { item, location } => ledger::show(&location::open(location)?, item.as_deref(), common),
        Args::Audiences { command, location } => audiences::run(command.as_ref(), location, common),
        Args::Status(location) => status::run(location, common),
        Args::Withdraw(location) => run::withdraw(location, common),
    }
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Reads a history.
fn interactions(file: &Path) -> Result<Vec<(String, Option<i64>)>> {
    read_history(&folder::read_text(file)?).with_context(|| file.display().to_string())
}

fn import(device: &mut Device, file: &Path, common: &Common) -> Result<()> {
    let read = interactions(file)?;
    if read.is_empty() {
        return usage(format!("{} has no interactions", file.display()));
    }
    let imported = device.import(read.iter().map(|(id, time)| (id.as_str(), *time)))?;
    let ImportSummary { added, repeated, unknown, adapted } = imported;
    let total = device.history().len();
    let document = json!({
        "added": added, "repeated": repeated, "unknown": unknown, "adapted": adapted, "interactions": total,
    });
    output::answer(common, &document, || {
        let mut text = format!("{} added; the history has {} interactions now\n", grouped(added), grouped(total));
        let items = [
            (repeated, "items that were in it already"),
            (unknown, "items that are not in the catalog; they are used once they are"),
        ];
        for (count, what) in items.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "{} with {what}", grouped(count));
        }
        if adapted {
            text.push_str("the private model adapted to them; nothing left the device\n");
        }
        text
    })
}

fn import_clicks(device: &mut Device, args: &ClickLog, common: &Common) -> Result<()> {
    let (Some(file), Some(items)) = (&args.clicks, device.items().cloned()) else {
        return Err(DeviceError::NoCatalog.into());
    };
    let (reading, report) = clicks::read(file, args, &items)?;
    let imported = device.import_clicks(reading)?;
    let ClickImport { interests, unknown, pages, replaced } = imported;
    let document = json!({
        "clicks": report, "interests": interests, "unknown": unknown, "pages": pages, "replaced": replaced,
    });
    output::answer(common, &document, || {
        let mut text = format!(
            "{} interests from {} of {} clicks; they replace {} interactions of the history\n",
            grouped(interests),
            grouped(report.used),
            grouped(report.read),
            grouped(replaced)
        );
        for (why, count) in dropped(&report) {
            let _ = writeln!(text, "{} clicks {why} left out", grouped(count));
        }
        if unknown > 0 {
            let _ =
                writeln!(text, "{} interests are not in the catalog; they are used once they are", grouped(unknown));
        }
        let _ = writeln!(text, "{} pages are remembered; they stay on this device", grouped(pages));
        text
    })
}

/// Reasons beyond these add little.
const REASONS: usize = 3;

fn recommend(device: &Device, k: usize, explain: bool, common: &Common) -> Result<()> {
    let list = if explain { device.explain(k, REASONS)? } else { device.recommend(k)? };
    if common.json {
        let item = |item: &sottovoce_device::RecommendedItem| {
            let mut entry = json!({"item": item.item, "title": item.title, "score": item.score});
            if explain {
                let reason = |said: &Explanation| {
                    let mut reason = json!({"text": said.text, "share": said.share});
                    if let Some(item) = &said.item {
                        reason["item"] = json!(item);
                    }
                    reason
                };
                entry["reasons"] = item.reasons.iter().map(reason).collect();
            }
            entry
        };
        let items: Vec<_> = list.items.iter().map(item).collect();
        let mut document = json!({"model": list.model, "version": list.version, "items": items});
        if explain {
            document["reasons"] = json!({"kind": list.reasons.name(), "text": list.reasons.sentence(&list.model)});
        }
        return output::print_json(&document);
    }
    let mut text = format!("For you, by {} (version {} of the shared model):\n", list.model, list.version);
    for (index, item) in list.items.iter().enumerate() {
        let _ = writeln!(text, "{:3}. {}  ({:.4})", index + 1, named(&item.item, item.title.as_deref()), item.score);
        for said in &item.reasons {
            let _ = writeln!(text, "       {} ({:.0} %)", said.text, said.share * 100.0);
        }
    }
    if list.items.is_empty() {
        text.push_str("there is nothing to recommend: every item is in your history\n");
    } else if explain {
        let none = list.items.iter().all(|item| item.reasons.is_empty());
        let _ = match list.reasons.has_reasons() && none {
            true => writeln!(text, "Nothing in your history speaks for these items."),
            false => writeln!(text, "{}", list.reasons.sentence(&list.model)),
        };
        if !none {
            text.push_str("Reasons are computed here and stay here; they may name items that you hide or withhold.\n");
        }
    }
    output::print(&text)
}

/// An item by its title, if it has one.
fn named(id: &str, title: Option<&str>) -> String {
    title.map_or_else(|| id.to_owned(), |title| format!("{title} [{id}]"))
}

/// The id of the item that a word means: an id, or a title that one item has.
fn item(items: &Items, word: &str) -> Result<String> {
    let name = |&row: &u32| named(items.id(row as usize), items.title(row as usize));
    let list = |rows: &[u32]| rows.iter().map(name).collect::<Vec<_>>().join(", ");
    match items.lookup(word) {
        Lookup::Found(row) => Ok(items.id(row as usize).to_owned()),
        Lookup::Ambiguous(rows) => {
            usage(format!("several items are called `{word}`; give the id of one of them: {}", list(&rows)))
        }
        Lookup::Unknown(similar) if similar.is_empty() => {
            usage(format!("the catalog has no item with the id or title `{word}`"))
        }
        Lookup::Unknown(similar) => usage(format!(
            "the catalog has no item with the id or title `{word}`; did you mean one of these: {}?",
            list(&similar)
        )),
    }
}

/// Invalid arguments are usage errors; the rest are failures.
fn as_usage(error: DeviceError) -> anyhow::Error {
    match error {
        DeviceError::Policy(_)
        | DeviceError::EpsilonBudget(_)
        | DeviceError::TooLong { what: "identities", .. }
        | DeviceError::UnknownItem(_)
        | DeviceError::Name(_)
        | DeviceError::Enrolled(_) => Usage(error.to_string()).into(),
        other => other.into(),
    }
}
