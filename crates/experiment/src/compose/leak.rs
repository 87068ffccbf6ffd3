//! What the server of a federated row could learn of people.

use crate::results::{DataResults, Results, Row};
use sottovoce_evaluate::report;
use sottovoce_evaluate::report::{Cell, Column, Section, Table};

/// For data sets with a federated row whose uploads were looked at.
pub(super) fn section(results: &Results) -> Option<Section> {
    let told = results.data.iter().filter(|data| data.rows.iter().any(is_audited));
    let section = told.map(table).fold(Section::new("What the server could learn"), Section::table);
    let text = "While these models were trained, an attacker in the server's place looked at what a sample of a hundred people \
                sent, one upload at a time, and rebuilt their histories by all attacks of `sottovoce audit` together. Guessing \
                the popular items needs no upload at all: only what goes beyond it was learnt from people.";
    (!section.blocks.is_empty()).then(|| section.text(text))
}

fn is_audited(row: &Row) -> bool {
    row.figures.contains_key("leak_auc")
}

fn table(data: &DataResults) -> Table {
    let columns = [
        ("leak_auc", "AUC", "0.5: nothing; 1: all of everybody's histories."),
        ("leak_guess_auc", "AUC of guessing", "By guessing what is popular."),
        ("leak_precision", "precision", "Among as many items as the history has."),
        ("leak_guess_precision", "of guessing", "By guessing what is popular."),
        ("leak_exposed", "exposed", "Share of people of whom most of that list is right."),
    ];
    let mut table = Table::new(format!("Histories rebuilt from uploads on {}", data.label), "Model");
    for (name, title, help) in columns {
        table = table.column(Column::new(name, title).digits(3).help(help));
    }
    for row in data.rows.iter().filter(|row| is_audited(row)) {
        let cell = |name: &str| Cell::maybe(row.figures.get(name).map(|spread| spread.mean));
        table = table.row(
            columns.iter().map(|(name, ..)| cell(name)).fold(report::Row::new(&row.label), report::Row::cell),
        );
    }
    table
}
