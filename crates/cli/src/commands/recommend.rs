//! `recommend`: the top items of a user, with explanations where the model has them.

use crate::args::{Common, Recommend};
use crate::model_dir::{self, Stored};
use crate::output::{self, Usage};
use anyhow::Result;
use serde::Serialize;
use sottovoce_models::settings::nearest;
use sottovoce_models::{Because, Reason, ReasonKind, strongest};
use std::borrow::Cow;
use std::fmt::Write;

/// Reasons shown for an item.
const REASONS: usize = 3;

#[derive(Serialize)]
struct List<'a> {
    user: &'a str,
    model: &'a str,
    /// What reasons are, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasons: Option<ShownKind>,
    items: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct ShownKind {
    kind: &'static str,
    text: String,
    #[serde(skip)]
    exist: bool,
}

#[derive(Serialize)]
struct Entry<'a> {
    item: &'a str,
    title: Option<&'a str>,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasons: Option<Vec<ShownReason>>,
}

#[derive(Serialize)]
struct ShownReason {
    text: String,
    /// The item of the history, if the reason is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    share: f64,
}

/// `sottovoce recommend`.
pub(crate) fn run(args: &Recommend, common: &Common) -> Result<()> {
    let stored = model_dir::read(&args.model_dir)?;
    let Some(user) = stored.users.position(&args.user) else {
        return Err(unknown_user(args, &stored).into());
    };
    let items = best(&stored, user, args.k);
    let reasons = args.explain.then(|| reasons(&stored, user, &items));
    let (kind, mut reasons) = reasons.map_or((None, Vec::new()), |(kind, reasons)| (Some(kind), reasons));
    reasons.reverse();
    let entry = |(item, score): (usize, f32)| Entry {
        item: &stored.catalog.ids[item],
        title: stored.catalog.title(item),
        score,
        reasons: reasons.pop(),
    };
    let list = List {
        user: &args.user,
        model: &stored.about.model,
        reasons: kind.map(|kind| shown_kind(kind, &stored.about.model)),
        items: items.into_iter().map(entry).collect(),
    };
    if common.json { output::print_json(&list) } else { show(&list) }
}

fn unknown_user(args: &Recommend, stored: &Stored) -> Usage {
    let hint =
        nearest(&args.user, stored.users.iter()).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
    Usage(format!(
        "{} has no user `{}`{hint}; it has {} users",
        args.model_dir.display(),
        args.user,
        stored.users.len()
    ))
}

fn best(stored: &Stored, user: usize, k: usize) -> Vec<(usize, f32)> {
    let mut scores = vec![0.0; stored.catalog.len()];
    stored.recommender.score(user, &mut scores);
    let mut seen = vec![false; scores.len()];
    for &item in stored.train.of(user) {
        seen[item as usize] = true;
    }
    let mut ranked: Vec<_> = scores.into_iter().enumerate().filter(|(item, _)| !seen[*item]).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(k);
    ranked
}

fn shown_kind(kind: ReasonKind, model: &str) -> ShownKind {
    ShownKind { kind: kind.name(), text: kind.sentence(model), exist: kind.has_reasons() }
}

/// What the model's reasons are, and the strongest ones for each of some items.
fn reasons(stored: &Stored, user: usize, items: &[(usize, f32)]) -> (ReasonKind, Vec<Vec<ShownReason>>) {
    let indices: Vec<u32> = items.iter().map(|(item, _)| *item as u32).collect();
    let reasons = stored.recommender.reasons(user, &indices);
    (stored.recommender.reason_kind(), reasons.iter().map(|reasons| shown(stored, reasons)).collect())
}

fn shown(stored: &Stored, reasons: &[Reason]) -> Vec<ShownReason> {
    let title =
        |item: u32| Cow::from(stored.catalog.title(item as usize).unwrap_or(&stored.catalog.ids[item as usize]));
    let feature = |fact: u32| stored.catalog.facts.as_ref().map_or_else(String::new, |facts| facts.name(fact as usize));
    let shown = |(because, share): (Because, f64)| {
        let item =
            if let Because::Had(item) = because { Some(stored.catalog.ids[item as usize].to_owned()) } else { None };
        Some(ShownReason { text: because.in_words(title, feature)?, item, share })
    };
    strongest(reasons, REASONS).into_iter().filter_map(shown).collect()
}

fn show(list: &List<'_>) -> Result<()> {
    let mut text = format!("For {}, by {}:\n", list.user, list.model);
    for (rank, entry) in (1..).zip(&list.items) {
        let name = entry.title.map_or_else(|| entry.item.to_owned(), |title| format!("{title} [{}]", entry.item));
        let _ = writeln!(text, "{rank:3}. {name}  ({:.4})", entry.score);
        for reason in entry.reasons.iter().flatten() {
            let _ = writeln!(text, "       {} ({:.0} %)", reason.text, reason.share * 100.0);
        }
    }
    if list.items.is_empty() {
        text.push_str("nothing to recommend: every item is in the history\n");
    } else if let Some(kind) = &list.reasons {
        let none = list.items.iter().all(|entry| entry.reasons.as_ref().is_some_and(Vec::is_empty));
        let _ = match kind.exist && none {
            true => writeln!(text, "Nothing in the history of {} speaks for these items.", list.user),
            false => writeln!(text, "{}", kind.text),
        };
    }
    output::print(&text)
}
