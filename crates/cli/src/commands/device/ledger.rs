//! `device ledger`.

use super::{as_usage, item as find, named};
use crate::args::Common;
use crate::output::{self, grouped};
use anyhow::Result;
use serde_json::{Value as Json, json};
use sottovoce_data::format_date;
use sottovoce_device::{ACCOUNT_DELTA, Device, DisclosedItem};
use sottovoce_privacy::{NOISE, SEALS};
use sottovoce_protocol::LedgerEntry;
use std::fmt::Write;

/// Rounds and items listed; `--json` lists all.
const SHOWN: usize = 10;

/// `sottovoce device ledger`.
pub(crate) fn show(device: &Device, item: Option<&str>, common: &Common) -> Result<()> {
    if let Some(item) = item {
        let id = match device.items() {
            Some(items) => find(items, item)?,
            None => item.to_owned(),
        };
        let left = device.disclosures_of(&id).map_err(as_usage)?;
        return output::answer(common, &of_item(&left), || about(&left));
    }
    // Before the first round there is nothing to list, and perhaps no catalog.
    let items = device.disclosed_items().unwrap_or_default();
    let rounds: Vec<LedgerEntry> = device.ledger().entries().collect();
    let totals = device.ledger().totals();
    let seen = Seen::of(&rounds);
    let (epsilon, unbounded) = device.account();
    let document = json!({
        "seen_singly": seen.singly, "seen_in_sums": seen.in_sums, "server_could_guess": seen.could_guess(device, &items),
        "updates": totals.updates, "rows": totals.rows, "bytes": totals.bytes,
        "epsilon": {"server": epsilon, "delta": ACCOUNT_DELTA, "updates_without_bound": unbounded},
        "rounds": rounds.iter().map(of_round).collect::<Vec<_>>(),
        "items": items.iter().map(of_item).collect::<Vec<_>>(),
    });
    output::answer(common, &document, || page(device, &rounds, &items))
}

fn of_round(told: &LedgerEntry) -> Json {
    let rows: u64 = told.tables.iter().map(|table| table.rows).sum();
    json!({
        "round": told.round.0, "when": told.when, "bytes": told.bytes, "rows": rows, "samples": told.samples,
        "tables": told.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), "layers": told.layers,
        "figures": told.criteria.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>(),
    })
}

fn of_item(item: &DisclosedItem) -> Json {
    json!({
        "item": item.item, "title": item.title, "yours": item.in_history, "shown": item.disclosed, "times": item.disclosures.times,
        "last_round": item.disclosures.last.map(|(round, _)| round.0), "last_when": item.disclosures.last.map(|(_, when)| when),
    })
}

fn moment(when: u64) -> String {
    i64::try_from(when).ok().and_then(format_date).unwrap_or_else(|| when.to_string())
}

fn about(item: &DisclosedItem) -> String {
    let yours = match (item.in_history, item.disclosed) {
        (true, true) => "you have it, and uploads are computed from it",
        (true, false) => "you have it, but it is not used for uploads",
        (false, _) => "you do not have it",
    };
    let mut text = format!("{} ({yours})\n", named(&item.item, item.title.as_deref()));
    match (item.disclosures.times, item.disclosures.last) {
        (0, _) => text.push_str("  its row never left this device\n"),
        (times, None) => {
            let _ = writeln!(text, "  its row left {}", self::times(times));
        }
        (times, Some((round, when))) => {
            let _ = writeln!(text, "  its row left {}, last in {round} on {}", self::times(times), moment(when));
        }
    }
    text
}

fn times(count: u64) -> String {
    format!("{count} {}", if count == 1 { "time" } else { "times" })
}

/// What was spent against the server.
fn account(device: &Device) -> String {
    let (epsilon, unbounded) = device.account();
    let bounded = format!("epsilon {epsilon:.3} at delta {ACCOUNT_DELTA:e}");
    match (epsilon > 0.0, unbounded) {
        (false, 0) => String::new(),
        (false, _) => "No noise of devices bounds what they say to the server.\n".to_owned(),
        (true, 0) => format!("By this device's own account they say to the server: {bounded}.\n"),
        (true, unbounded) => {
            format!(
                "{unbounded} of them without noise that bounds what they say to the server; the others {bounded}.\n"
            )
        }
    }
}

fn page(device: &Device, rounds: &[LedgerEntry], items: &[DisclosedItem]) -> String {
    let totals = device.ledger().totals();
    if totals.updates == 0 {
        return "Nothing has left this device yet.\n".to_owned();
    }
    let [updates, rows, bytes] = [totals.updates, totals.rows, totals.bytes].map(grouped);
    let one_or_more = if totals.updates == 1 { "update" } else { "updates" };
    let mut text = format!("{updates} {one_or_more} left this device: {rows} rows in {bytes} bytes.\n");
    text.push_str(&account(device));
    let _ = writeln!(
        text,
        "\nLast rounds:\n  {:>8}  {:20} {:>8} {:>10}  criteria and layers",
        "round", "when", "rows", "bytes"
    );
    for told in rounds.iter().rev().take(SHOWN) {
        let rows: u64 = told.tables.iter().map(|table| table.rows).sum();
        let figures = told.criteria.iter().map(|(name, value)| format!("{name} {value:.3}"));
        // Reports to audiences are named by them.
        let audiences = told.tables.iter().map(|table| &table.name).filter(|name| name.starts_with("audience "));
        let figures: Vec<String> = figures.chain(audiences.chain(&told.layers).cloned()).collect();
        let (when, rows, bytes, figures) = (moment(told.when), grouped(rows), grouped(told.bytes), figures.join(", "));
        let _ = writeln!(text, "  {:>8}  {when:20} {rows:>8} {bytes:>10}  {figures}", told.round.0);
    }
    let kinds = [
        ("Of the items used for uploads", (true, true)),
        ("Of items in your history that are not used, drawn as if they were not in it", (true, false)),
        ("Of items not in your history", (false, false)),
    ];
    for (title, kind) in kinds {
        let mut of: Vec<&DisclosedItem> =
            items.iter().filter(|item| (item.in_history, item.disclosed) == kind).collect();
        if of.is_empty() {
            continue;
        }
        of.sort_by_key(|item| std::cmp::Reverse(item.disclosures.times));
        let _ = writeln!(text, "\n{title}, {} have left; most often:", grouped(of.len()));
        for item in of.iter().take(SHOWN) {
            let name = named(&item.item, item.title.as_deref());
            let _ = writeln!(text, "  {:>12}  {name}", times(item.disclosures.times));
        }
    }
    if rounds.iter().any(|told| told.layers.iter().any(|layer| layer == NOISE)) {
        text.push_str("\nWith noise added by devices, all rows left.\n");
    }
    let _ = writeln!(text, "\nWhat a server could guess: {}", Seen::of(rounds).could_guess(device, items));
    text
}

/// How the server saw the updates that it trained on.
struct Seen {
    /// Updates that it saw one by one.
    singly: usize,
    /// Updates that it saw only in sums with those of other devices.
    in_sums: usize,
}

impl Seen {
    fn of(rounds: &[LedgerEntry]) -> Self {
        let sealed = |told: &LedgerEntry| told.layers.iter().any(|layer| SEALS.contains(&layer.as_str()));
        // Reports to audiences are no updates.
        let updates =
            || rounds.iter().filter(|told| !told.tables.iter().any(|table| table.name.starts_with("audience ")));
        Self {
            singly: updates().filter(|told| !sealed(told)).count(),
            in_sums: updates().filter(|told| sealed(told)).count(),
        }
    }

    /// In plain words: no figure of an audit holds for every federation.
    fn could_guess(&self, device: &Device, items: &[DisclosedItem]) -> String {
        // What was seen singly is computed from what open rounds disclose.
        let shown = if self.singly > 0 { device.open_disclosure() } else { device.fixed_disclosure() };
        let from = match shown.map(|rows| rows.len()) {
            Some(0) => "By today's policy they depend on none of your items.".to_owned(),
            Some(shown) => format!(
                "They are computed from {} of your items by today's policy: those are the ones at risk, and what can be \
                 inferred from them.",
                grouped(shown)
            ),
            None => {
                "They are computed from all your items that are not hidden, so all of these are at risk.".to_owned()
            }
        };
        match (self.singly, self.in_sums) {
            (0, 0) => "nothing, since it has no update.".to_owned(),
            (0, sums) => format!(
                "it saw {} updates only in sums with those of other devices. Sums hide single people, but very many sums, \
                 or sums of few people, do not hide them wholly. {from}",
                grouped(sums)
            ),
            (singly, _) => format!(
                "it saw {} updates one by one, and nothing prevents it from guessing your history from them. {} {from} \
                 `sottovoce device policy --pi X` and --hide change what they are computed from; --require \
                 secure-aggregation declines rounds in which single updates are seen.",
                grouped(singly),
                match items {
                    [] =>
                        "None of their rows belongs to an item, but all of them depend on your history, and nothing \
                           bounds what can be told from that.",
                    _ =>
                        "Rows of items that you have change otherwise than rows of those that you do not have, so \
                          analysing the updates can give away nearly every item they are computed from.",
                }
            ),
        }
    }
}
