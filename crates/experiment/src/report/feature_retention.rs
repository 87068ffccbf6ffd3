//! Feature retention, for data sets with item features.

use super::unless_empty;
use crate::feature_retention::{FIRST, FeatureWeight, IN_BOTH, name};
use crate::file::Experiment;
use crate::results::{DataResults, Results, Row};
use sottovoce_evaluate::report;
use sottovoce_evaluate::report::plot::{Axis, Bars, Unit};
use sottovoce_evaluate::report::{Cell, Column, Format, Plot, Section, Table};

/// How many features a plot shows.
const SHOWN: usize = 20;

/// A table for each data set with features, and the most informative features of one row: the one that others are compared
/// with, or the first.
pub(super) fn section(experiment: &Experiment, results: &Results) -> Option<Section> {
    let mut section = Section::new("Feature retention").text(
        "A feature is as informative as it separates a user's items from as many others (information gain), computed for \
         histories and for recommendations.",
    );
    for data in results.data.iter().filter(|data| data.rows.iter().any(has_figures)) {
        section = section.table(table(data));
        let compared = |row: &&Row| Some(&row.label) == experiment.compare.as_ref();
        let shown = || data.rows.iter().filter(|row| !row.cloud.is_empty());
        if let Some(row) = shown().find(compared).or_else(|| shown().next()) {
            section = informative(data, row).into_iter().fold(section, Section::plot);
        }
    }
    unless_empty(section)
}

fn has_figures(row: &Row) -> bool {
    row.figures.contains_key(&name(FIRST[0], 2))
}

fn table(data: &DataResults) -> Table {
    let mut table = Table::new(format!("Features of histories retained by recommendations on {}", data.label), "Model")
        .note("Share of a user's most informative features that some recommended item has: first quartile, median and third quartile over users, in per cent.");
    for first in FIRST.into_iter().rev() {
        let title = if first == usize::MAX { "all".to_owned() } else { format!("top {first}") };
        table = table.column(Column::new(name(first, 0), title).format(Format::Text));
    }
    table = table.column(Column::new(IN_BOTH, "top 100 of all").format(Format::Percent(0)).help(
        "Share of the 100 most informative features of all histories that are among the 100 of all recommendations.",
    ));
    for row in data.rows.iter().filter(|row| has_figures(row)) {
        let figure = |name: &str| row.figures.get(name).map(|spread| spread.mean);
        let quartiles = |first: usize| {
            let value = |quartile| figure(&name(first, quartile)).unwrap_or(f64::NAN) * 100.0;
            format!("{:.1} · {:.1} · {:.1}", value(1), value(2), value(3))
        };
        let cells = FIRST.into_iter().rev().map(|first| Cell::text(quartiles(first)));
        let filled = cells.fold(report::Row::new(&row.label), report::Row::cell);
        table = table.row(filled.cell(Cell::maybe(figure(IN_BOTH))));
    }
    table
}

/// The most informative features of histories and of recommendations, each with its weight in both.
fn informative(data: &DataResults, row: &Row) -> Vec<Plot> {
    let plot = |title: String, mut cloud: Vec<&FeatureWeight>| {
        cloud.truncate(SHOWN);
        let before = Bars::new("in histories", cloud.iter().map(|one| one.before));
        let after = Bars::new("in recommendations", cloud.iter().map(|one| one.after));
        let names = cloud.iter().map(|one| one.feature.clone());
        let axis = Axis::new("share of all information gain").unit(Unit::Percent);
        Plot::bars(title, axis, names, vec![before, after]).full_width()
    };
    let before: Vec<_> = row.cloud.iter().collect();
    let mut after = before.clone();
    after.sort_by(|a, b| b.after.total_cmp(&a.after));
    let on = format!("{} on {}", row.label, data.label);
    vec![
        plot(format!("Most informative features of histories: {on}"), before),
        plot(format!("Most informative features of recommendations: {on}"), after)
            .caption("Shares of the information gain of all features, summed over users. First seed."),
    ]
}
