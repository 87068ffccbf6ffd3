//! What leaves a device, and how many bytes: federated rows next to centralised ones.

use super::{metric_title, unless_empty};
use crate::file::Experiment;
use crate::results::{DataResults, Results, Row};
use sottovoce_evaluate::report;
use sottovoce_evaluate::report::{Cell, Column, Format, KeyFigure, Section, Table};
use sottovoce_models::settings::Value;

/// The start of the captions of these tables.
pub(super) const CAPTION: &str = "What leaves a device";

/// Whether a row was trained in a federation: bytes were sent to devices, though devices may have sent nothing.
pub(super) fn is_federated(row: &Row) -> bool {
    row.figures.get("bytes_down").is_some_and(|bytes| bytes.mean > 0.0)
}

/// For data sets with a federated row.
pub(super) fn section(experiment: &Experiment, results: &Results) -> Option<Section> {
    let federated = results.data.iter().filter(|data| data.rows.iter().any(is_federated));
    let section = federated.map(|data| table(experiment, data)).fold(Section::new("Disclosure"), Section::table);
    let text = "A centralised model needs every history in one place. In a federated one, histories and user embeddings stay \
                on the devices; what leaves a device passes its owner's disclosure policy first.";
    unless_empty(section).map(|section| section.text(text))
}

fn table(experiment: &Experiment, data: &DataResults) -> Table {
    let metric = experiment.selection.metric;
    let accuracy = Column::new(metric.key.name(), metric_title(metric)).digits(4).direction(metric.key.direction());
    let bytes = |key: &str, title: &str| Column::new(key, title).format(Format::Bytes);
    let mut table = Table::new(format!("{CAPTION} on {}", data.label), "Model")
        .column(Column::new("leaves", "Leaves the device").format(Format::Text))
        .column(accuracy)
        .column(bytes("up", "Sent up").help("Bytes a device sends in all of training, as encoded."))
        .column(bytes("down", "Sent down").help("Bytes a device receives in all of training, as encoded."))
        .note("Means per user. With fixed disclosure, uploads are computed from one subset of the history that is drawn once; with a subset drawn in every round, the disclosed share of the history grows over the rounds.");
    for row in &data.rows {
        let share = |name: &str| is_federated(row).then(|| per_user(data, row, name));
        let value = row.metric(metric.key, metric.cutoff).map(|spread| spread.mean);
        table = table.row(
            report::Row::new(&row.label)
                .cell(Cell::text(leaves(row)))
                .cell(Cell::maybe(value))
                .cell(Cell::maybe(share("bytes_up")))
                .cell(Cell::maybe(share("bytes_down"))),
        );
    }
    table
}

fn leaves(row: &Row) -> String {
    if !is_federated(row) {
        return "the whole history".to_owned();
    }
    let is_drawn_anew = row.settings.get("disclosure") == Some(&Value::Word("per-round".to_owned()));
    match (row.settings.get("pi").and_then(Value::number), is_drawn_anew) {
        (None, _) => "updates of the shared model".to_owned(),
        (Some(0.0), true) => "updates, never with rows of liked items".to_owned(),
        (Some(pi), true) => format!("updates, with rows of liked items at {:.0} % a round", pi * 100.0),
        (Some(0.0), false) => "nothing".to_owned(),
        (Some(pi), false) => format!("updates computed from {:.0} % of the history", pi * 100.0),
    }
}

/// Accuracy and traffic of the best federated row, for experiments that have one.
pub(super) fn key_figures(experiment: &Experiment, data: &DataResults) -> Vec<KeyFigure> {
    let metric = experiment.selection.metric;
    let ranked = super::ranked(data, metric);
    let Some(&(row, value)) = ranked.iter().find(|(row, _)| is_federated(row)) else { return Vec::new() };
    let label = format!("best federated {}", metric_title(metric));
    let sent = |name: &str| Format::Bytes.show(per_user(data, row, name));
    let training = "in all of training".to_owned();
    vec![
        KeyFigure::new(label, format!("{value:.4}"), &row.label),
        KeyFigure::new("a device sends", sent("bytes_up"), training.clone()),
        KeyFigure::new("a device receives", sent("bytes_down"), training),
    ]
}

/// Bytes per user.
fn per_user(data: &DataResults, row: &Row, name: &str) -> f64 {
    row.figures.get(name).map_or(0.0, |bytes| bytes.mean / data.card.card.users.max(1) as f64)
}

/// How near the best federated row comes to the best centralised one, in a sentence.
pub(super) fn summary(experiment: &Experiment, data: &DataResults) -> Option<String> {
    let metric = experiment.selection.metric;
    let ranked = super::ranked(data, metric);
    let (federated, value) = *ranked.iter().find(|(row, _)| is_federated(row))?;
    let (central, other) = *ranked.iter().find(|(row, _)| !is_federated(row))?;
    let sent = |name: &str| Format::Bytes.show(per_user(data, federated, name));
    Some(format!(
        "With every history left on its device, **{}** reaches {:.0} % of the {} of **{}**, which sees them all ({value:.4} and \
         {other:.4} on {}); a device sent {} and received {} in all of training.",
        federated.label,
        100.0 * value / other,
        metric_title(metric),
        central.label,
        data.label,
        sent("bytes_up"),
        sent("bytes_down"),
    ))
}
