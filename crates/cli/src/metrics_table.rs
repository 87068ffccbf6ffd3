//! Tables of metrics.

use crate::output;
use sottovoce_core::Names;
use sottovoce_evaluate::{Evaluation, Metric, Metrics};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A row a metric, a column a cutoff.
pub(crate) fn by_cutoff(at: &BTreeMap<usize, Metrics>, candidates: &str) -> String {
    let label = format!("({candidates})");
    let wide = label.len().max(22);
    let mut text = format!("{label:wide$}");
    for cutoff in at.keys() {
        let _ = write!(text, " {:>9}", format!("@{cutoff}"));
    }
    text.push('\n');
    for key in Metric::ALL {
        if at.values().all(|metrics| metrics.get(key).is_none()) {
            continue;
        }
        let _ = write!(text, "{key:wide$}");
        for metrics in at.values() {
            let _ = write!(text, " {:>9}", shown(key, metrics.get(key)));
        }
        text.push('\n');
    }
    text
}

fn shown(key: Metric, value: Option<f64>) -> String {
    match (key, value) {
        (_, None) => "-".to_owned(),
        (Metric::ItemCoverage | Metric::UsersWithHit, Some(value)) => output::grouped(value as u128),
        (_, Some(value)) => format!("{value:.4}"),
    }
}

/// A row a category: the source bias of the training part, and the bias disparity at each cutoff.
pub(crate) fn bias(source: &BTreeMap<String, Option<f64>>, at: &BTreeMap<usize, Metrics>) -> String {
    let wide = source.keys().map(|name| name.chars().count()).max().unwrap_or(0).max(22);
    let mut text = format!("\n{:wide$} {:>9}", "category", "B_T");
    for cutoff in at.keys() {
        let _ = write!(text, " {:>9}", format!("BD@{cutoff}"));
    }
    text.push('\n');
    let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
    for (category, bias) in source {
        let _ = write!(text, "{category:wide$} {:>9}", cell(*bias));
        for metrics in at.values() {
            let _ = write!(text, " {:>9}", cell(metrics.bias_disparity.get(category).copied().flatten()));
        }
        text.push('\n');
    }
    text
}

/// A line a user with test items, a column a metric and cutoff; tab-separated.
pub(crate) fn by_user(evaluation: &Evaluation, users: &Names) -> String {
    let per_user = &evaluation.per_user;
    let mut columns = Vec::new();
    let mut text = String::from("user");
    for &cutoff in evaluation.at.keys() {
        for key in Metric::PER_USER {
            if let Some(column) = per_user.column(key, cutoff) {
                let _ = write!(text, "\t{key}@{cutoff}");
                columns.push(column);
            }
        }
    }
    for (row, &user) in per_user.users.iter().enumerate() {
        let _ = write!(text, "\n{}", &users[user as usize]);
        for column in &columns {
            let _ = write!(text, "\t{}", column[row]);
        }
    }
    text.push('\n');
    text
}
