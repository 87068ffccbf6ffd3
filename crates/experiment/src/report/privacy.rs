//! Privacy: what the server of a federated row could reconstruct.

use super::unless_empty;
use crate::results::{DataResults, Results, Row};
use sottovoce_evaluate::report;
use sottovoce_evaluate::report::{Cell, Column, Section, Table};

/// For data sets with a federated row whose uploads were attacked.
pub(super) fn section(results: &Results) -> Option<Section> {
    let audited = results.data.iter().filter(|data| data.rows.iter().any(is_audited));
    let section = audited.map(table).fold(Section::new("Privacy"), Section::table);
    let text = "During training, an honest-but-curious server reconstructed the histories of a sample of a hundred users from what \
                it saw (single uploads or, where they were sealed, sums), by all attacks of `sottovoce audit` combined. The popularity baseline ranks items by popularity and \
                needs no uploads: only what goes beyond it was learnt from users.";
    unless_empty(section).map(|section| section.text(text))
}

fn is_audited(row: &Row) -> bool {
    row.figures.contains_key("leak_auc")
}

fn table(data: &DataResults) -> Table {
    let columns = [
        ("leak_auc", "AUC", "0.5: no better than chance; 1: every history."),
        ("leak_guess_auc", "AUC, popularity", "Of the popularity baseline."),
        ("leak_precision", "precision", "Among as many items as the history has."),
        ("leak_guess_precision", "precision, popularity", "Of the popularity baseline."),
        ("leak_exposed", "exposed", "Share of users for whom most of that list is right."),
    ];
    let mut table = Table::new(format!("Histories reconstructed from uploads on {}", data.label), "Model");
    for (name, title, help) in columns {
        table = table.column(Column::new(name, title).digits(3).help(help));
    }
    for row in data.rows.iter().filter(|row| is_audited(row)) {
        let cell = |name: &str| Cell::maybe(row.figures.get(name).map(|spread| spread.mean));
        table = table
            .row(columns.iter().map(|(name, ..)| cell(name)).fold(report::Row::new(&row.label), report::Row::cell));
    }
    table
}
