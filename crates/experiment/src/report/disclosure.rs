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

/// How much of a row's training the server can see, the least first; the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exposure {
    /// Sums of many updates.
    Sealed,
    /// Every update.
    Open,
    /// Every history.
    Histories,
}

impl Exposure {
    /// Of a row.
    pub(super) fn of(row: &Row) -> Self {
        let sealed = matches!(row.settings.get("seal"), Some(Value::Word(seal)) if seal != "none");
        match (is_federated(row), sealed) {
            (false, _) => Self::Histories,
            (true, true) => Self::Sealed,
            (true, false) => Self::Open,
        }
    }

    /// As the heading of a group of rows.
    fn heading(self) -> &'static str {
        match self {
            Self::Sealed => "Histories stay on devices, updates are sealed: the server sees sums only",
            Self::Open => "Histories stay on devices, updates are open: the server sees each one",
            Self::Histories => "All histories in one place",
        }
    }
}

/// For data sets with a federated row.
pub(super) fn section(experiment: &Experiment, results: &Results) -> Option<Section> {
    let federated = results.data.iter().filter(|data| data.rows.iter().any(is_federated));
    let section = federated.map(|data| table(experiment, data)).fold(Section::new("Disclosure"), Section::table);
    let text = "A centralised model needs every history in one place. In a federated one, histories and user embeddings \
                stay on the devices, and updates leave as their owners' disclosure policies allow. That alone does not \
                keep histories secret: **rebuilt** says how well a curious server tells the items of a person's history \
                from others by what it sees, as AUC (0.5: no better than chance, 1: every history). Whoever knows which \
                items are popular reaches the AUC under **by popularity** without seeing any update.";
    unless_empty(section).map(|section| section.text(text))
}

fn table(experiment: &Experiment, data: &DataResults) -> Table {
    let metric = experiment.selection.metric;
    let has = |name: &str| data.rows.iter().any(|row| row.figures.contains_key(name));
    let (audited, private) = (has("leak_auc"), has("epsilon"));
    let mut table = Table::new(format!("{CAPTION} on {}", data.label), "Model")
        .column(Column::new(metric.key.name(), metric_title(metric)).digits(4).direction(metric.key.direction()));
    if audited {
        table = table
            .column(
                Column::new("leak_auc", "Rebuilt")
                    .digits(3)
                    .help("AUC of a curious server's guess of histories from what it sees."),
            )
            .column(
                Column::new("leak_guess_auc", "by popularity").digits(3).help("AUC of a guess by popularity alone."),
            );
    }
    if private {
        let help = "Differential privacy: how much one person's whole history can change what is published, at most.";
        let server =
            "The same against the server: without amplification by sampling. Empty: nothing bounds what it sees.";
        table = table
            .column(Column::new("epsilon", "ε").digits(1).help(help))
            .column(Column::new("epsilon_server", "ε, server").digits(1).help(server));
    }
    let bytes = |key: &str, title: &str| Column::new(key, title).format(Format::Bytes);
    table = table
        .column(Column::new("leaves", "Leaves the device").format(Format::Text))
        .column(bytes("up", "Sent up").help("Bytes a device sends in all of training, as encoded."))
        .column(bytes("down", "Sent down").help("Bytes a device receives in all of training, as encoded."))
        .note("Means per user. With fixed disclosure, uploads are computed from one subset of the history that is drawn once; with a subset drawn in every round, the disclosed share of the history grows over the rounds.");
    let mut rows: Vec<&Row> = data.rows.iter().collect();
    rows.sort_by_key(|row| Exposure::of(row));
    let several = rows.iter().any(|row| Exposure::of(row) == Exposure::Sealed);
    for row in rows {
        let share = |name: &str| is_federated(row).then(|| per_user(data, row, name));
        let figure = |name: &str| Cell::maybe(row.figures.get(name).map(|spread| spread.mean));
        let value = row.metric(metric.key, metric.cutoff).map(|spread| spread.mean);
        let mut cells = vec![Cell::maybe(value)];
        cells.extend(["leak_auc", "leak_guess_auc"].into_iter().filter(|_| audited).map(figure));
        cells.extend(["epsilon", "epsilon_server"].into_iter().filter(|_| private).map(figure));
        cells.push(Cell::text(leaves(row)));
        cells.extend(["bytes_up", "bytes_down"].map(|name| Cell::maybe(share(name))));
        let line = report::Row::new(&row.label);
        let line = if several { line.group(Exposure::of(row).heading()) } else { line };
        table = table.row(cells.into_iter().fold(line, report::Row::cell));
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
        (Some(pi), false) => format!("updates from {:.0} % of the history", pi * 100.0),
    }
}

/// The federated row that a report leads with: of those that protect most, the best. Rows with noise are for those who
/// need a bound; they lead only where there is nothing else.
fn leading<'a>(ranked: &[(&'a Row, f64)]) -> Option<(&'a Row, f64)> {
    let federated = ranked.iter().filter(|(row, _)| is_federated(row));
    federated.min_by_key(|(row, _)| (Exposure::of(row), row.figures.contains_key("epsilon"))).copied()
}

/// What is left of accuracy where noise bounds what anybody learns, by epsilon.
fn with_noise(ranked: &[(&Row, f64)], metric: &str) -> Option<String> {
    let epsilon = |row: &Row| row.figures.get("epsilon").map(|spread| spread.mean);
    let mut noisy: Vec<_> = ranked.iter().filter_map(|&(row, value)| Some((epsilon(row)?, value, row))).collect();
    noisy.sort_by(|a, b| a.0.total_cmp(&b.0));
    let each = noisy.iter().map(|(_, value, row)| format!("{value:.4} with **{}**", row.label));
    let each = each.collect::<Vec<_>>().join(", ");
    (!noisy.is_empty()).then(|| format!("With differential privacy, {metric} is {each}."))
}

/// Accuracy, leak and traffic of the leading federated row, for experiments that have one.
pub(super) fn key_figures(experiment: &Experiment, data: &DataResults) -> Vec<KeyFigure> {
    let metric = experiment.selection.metric;
    let ranked = super::ranked(data, metric);
    let Some((row, value)) = leading(&ranked) else { return Vec::new() };
    let sealed = if Exposure::of(row) == Exposure::Sealed { "federated and sealed" } else { "federated" };
    let sent = |name: &str| Format::Bytes.show(per_user(data, row, name));
    let mut figures =
        vec![KeyFigure::new(format!("best {}, {sealed}", metric_title(metric)), format!("{value:.4}"), &row.label)];
    figures.extend(leak(row).map(|(auc, by_popularity)| {
        let detail = format!("AUC of the server's guess; by popularity alone {by_popularity:.2}");
        KeyFigure::new("histories rebuilt", format!("{auc:.2}"), detail)
    }));
    figures.push(KeyFigure::new("a device sends", sent("bytes_up"), format!("and receives {}", sent("bytes_down"))));
    figures
}

/// AUC of what the server could rebuild, and of popularity.
fn leak(row: &Row) -> Option<(f64, f64)> {
    let figure = |name: &str| row.figures.get(name).map(|spread| spread.mean);
    Some((figure("leak_auc")?, figure("leak_guess_auc")?))
}

/// Bytes per user.
fn per_user(data: &DataResults, row: &Row, name: &str) -> f64 {
    row.figures.get(name).map_or(0.0, |bytes| bytes.mean / data.card.card.users.max(1) as f64)
}

/// How near the leading federated row comes to the best centralised one, what the server could rebuild from it, and
/// from open updates; in sentences.
pub(super) fn summary(experiment: &Experiment, data: &DataResults) -> Vec<String> {
    let metric = experiment.selection.metric;
    let ranked = super::ranked(data, metric);
    let (Some((row, value)), Some(&(central, other))) =
        (leading(&ranked), ranked.iter().find(|(row, _)| !is_federated(row)))
    else {
        return Vec::new();
    };
    let sealed = match Exposure::of(row) {
        Exposure::Sealed => " and updates sealed, so that the server sees sums only",
        _ => "",
    };
    let sent = |name: &str| Format::Bytes.show(per_user(data, row, name));
    let mut sentences = vec![format!(
        "With every history left on its device{sealed}, **{}** reaches {:.0} % of the {} of **{}**, which sees all \
         histories ({value:.4} and {other:.4} on {}); a device sent {} and received {} in all of training.",
        row.label,
        100.0 * value / other,
        metric_title(metric),
        central.label,
        data.label,
        sent("bytes_up"),
        sent("bytes_down"),
    )];
    sentences.extend(leak(row).map(|(auc, by_popularity)| {
        format!(
            "From what it sees of **{}**, a curious server rebuilds histories with an AUC of {auc:.3}; whoever knows \
             which items are popular, and nothing else, has {by_popularity:.3}.",
            row.label
        )
    }));
    sentences.extend(with_noise(&ranked, &metric_title(metric)));
    let open = ranked.iter().filter(|(row, _)| Exposure::of(row) == Exposure::Open);
    let worst = open.filter_map(|(row, value)| Some((row, value, leak(row)?.0)));
    let worst = worst.max_by(|a, b| a.2.total_cmp(&b.2)).filter(|(worst, ..)| worst.label != row.label);
    sentences.extend(worst.map(|(worst, value, auc)| {
        format!(
            "With open updates, **{}** ({value:.4}) lets the server rebuild them with an AUC of {auc:.3}: leaving \
             histories on devices does not by itself keep them secret.",
            worst.label
        )
    }));
    sentences
}
