//! `recommend`: the top items of a user, with explanations where the model has them.

use crate::args::{Common, Recommend};
use crate::model_dir::{self, Stored};
use crate::output::{self, Usage};
use anyhow::Result;
use serde::Serialize;
use sottovoce_models::settings::nearest;
use sottovoce_models::{Because, Reason};
use std::fmt::Write;

/// Reasons shown for an item.
const REASONS: usize = 3;

#[derive(Serialize)]
struct List<'a> {
    user: &'a str,
    model: &'a str,
    items: Vec<Entry<'a>>,
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
    share: f64,
}

/// `sottovoce recommend`.
pub(crate) fn run(args: &Recommend, common: &Common) -> Result<()> {
    let stored = model_dir::read(&args.model_dir)?;
    let Some(user) = stored.users.position(&args.user) else {
        return Err(unknown_user(args, &stored).into());
    };
    let items = best(&stored, user, args.k);
    let list = List {
        user: &args.user,
        model: &stored.about.model,
        items: items.into_iter().map(|(item, score)| entry(args, &stored, user, item, score)).collect(),
    };
    if common.json { output::print_json(&list) } else { show(args, &list) }
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

fn entry<'a>(args: &Recommend, stored: &'a Stored, user: usize, item: usize, score: f32) -> Entry<'a> {
    let reasons = args.explain.then(|| explain(stored, &stored.recommender.reasons(user, item as u32)));
    Entry { item: &stored.catalog.ids[item], title: stored.catalog.title(item), score, reasons }
}

/// The strongest reasons, each with its share of all positive ones.
fn explain(stored: &Stored, reasons: &[Reason]) -> Vec<ShownReason> {
    let total: f64 = reasons.iter().map(|reason| f64::from(reason.weight.max(0.0))).sum();
    let mut strongest: Vec<_> = reasons.iter().filter(|reason| reason.weight > 0.0).collect();
    strongest.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    strongest
        .into_iter()
        .take(REASONS)
        .map(|reason| ShownReason { text: in_words(stored, reason), share: f64::from(reason.weight) / total })
        .collect()
}

fn in_words(stored: &Stored, reason: &Reason) -> String {
    match reason.because {
        Because::Had(item) => {
            let item = item as usize;
            format!("because of {}", stored.catalog.title(item).unwrap_or(&stored.catalog.ids[item]))
        }
        Because::Popular { people } => format!("{people} users have it"),
        Because::Neighbours { people } => format!("{people} users with similar histories have it"),
        Because::Fact(feature) => {
            let facts = stored.catalog.facts.as_ref();
            facts.map_or_else(String::new, |facts| facts.name(feature as usize))
        }
    }
}

fn show(args: &Recommend, list: &List<'_>) -> Result<()> {
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
    } else if args.explain && list.items.iter().all(|entry| entry.reasons.as_ref().is_some_and(Vec::is_empty)) {
        let _ = writeln!(text, "{} scores by latent factors and has no explanations.", list.model);
    }
    output::print(&text)
}
