//! Data cards.

use crate::report::date::day;
use crate::report::markup::{escape, inline, unless_empty};
use crate::report::model::DataCard;
use crate::report::number::{Format, significant};

/// What a reader must know of one data set.
pub(super) fn card(card: &DataCard) -> String {
    let count = |n: u64| Format::Integer.show(n as f64);
    let mut out = format!("<article class=\"card\">\n<h3>{}</h3>\n", escape(&card.name));
    out += &unless_empty(&card.source, |text| format!("<p class=\"source\">{}</p>\n", inline(text)));
    let density = card.density().map_or("–".into(), |d| significant(d * 100.0) + "%");
    let sizes = [
        ("users", count(card.users)),
        ("items", count(card.items)),
        ("interactions", count(card.interactions)),
        ("density", density),
    ];
    let sizes = sizes.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
    out += &format!("<dl class=\"sizes\">{}</dl>\n", sizes.collect::<String>());
    out += &parts(&card.parts);
    let facts = facts(card);
    if !facts.is_empty() {
        let facts = facts.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n"));
        out += &format!("<dl class=\"facts\">\n{}</dl>\n", facts.collect::<String>());
    }
    out + "</article>\n"
}

/// The remaining facts, already escaped.
fn facts(card: &DataCard) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    if let Some((first, last)) = card.span {
        out.push(("time span".into(), format!("<time>{}</time> to <time>{}</time>", day(first), day(last))));
    }
    if !card.filters.is_empty() {
        let filters: Vec<String> = card.filters.iter().map(|f| inline(f)).collect();
        out.push(("filters".into(), filters.join("<br>")));
    }
    if !card.split.is_empty() {
        out.push(("split".into(), inline(&card.split)));
    }
    out.extend(card.facts.iter().map(|(name, value)| (escape(name), inline(value))));
    if !card.fingerprint.is_empty() {
        out.push(("fingerprint".into(), format!("<code class=\"print\">{}</code>", escape(&card.fingerprint))));
    }
    out
}

/// The parts of the split as one bar, with their counts.
fn parts(parts: &[(String, u64)]) -> String {
    let total: u64 = parts.iter().map(|(_, n)| n).sum();
    if total == 0 {
        return String::new();
    }
    let share = |n: u64| n as f64 / total as f64 * 100.0;
    let bar =
        parts.iter().map(|(_, n)| format!("<span style=\"flex-grow:{}\"></span>", significant(share(*n).max(0.5))));
    let names = parts.iter().map(|(name, n)| {
        let (count, share) = (Format::Integer.show(*n as f64), significant(share(*n)));
        format!("<li>{} <b>{count}</b> <small>{share}%</small></li>", escape(name))
    });
    let (bar, names): (String, String) = (bar.collect(), names.collect());
    format!("<div class=\"parts\" aria-hidden=\"true\">{bar}</div>\n<ul class=\"parts-key\">{names}</ul>\n")
}
