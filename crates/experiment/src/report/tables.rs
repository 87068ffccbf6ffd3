//! The tables of the report.

use super::significance::Differences;
use super::sweep::{Family, symbol};
use super::{about, line, list, metric_title, rows};
use crate::file::Experiment;
use crate::results::{DataResults, Results, Row, Spread};
use sottovoce_evaluate::report::{Cell, Column, Format, Section, Table};
use sottovoce_evaluate::significance::bootstrap_mean;
use sottovoce_evaluate::{Metric, report};
use sottovoce_models::settings::Value;
use std::collections::BTreeMap;

const ACCURACY: [Metric; 8] = [
    Metric::Ndcg,
    Metric::Precision,
    Metric::Recall,
    Metric::F1,
    Metric::HitRate,
    Metric::Map,
    Metric::Mrr,
    Metric::Auc,
];
/// All others, in the order of tables.
const BEYOND: &[Metric] = Metric::ALL.split_at(ACCURACY.len()).1;

/// Most categories that the table of bias has columns for.
const MOST_CATEGORIES: usize = 18;

/// Resamples of the confidence intervals.
const RESAMPLES: usize = 1000;

/// Accuracy at one cutoff, with tests and intervals of the metric of selection.
pub(super) fn accuracy(experiment: &Experiment, data: &DataResults, cutoff: usize, differences: &Differences) -> Table {
    let caption = format!("Accuracy of the top {cutoff} on {}", data.label);
    let metric = experiment.selection.metric;
    let table = metrics(experiment, caption, &ACCURACY, cutoff, &[data], |row, key| {
        let mut cell = cell(row.metric(key, cutoff));
        let tested = differences.metric;
        if (key, cutoff) == (tested.key, tested.cutoff) {
            if let Some((_, values)) = row.per_user(key, cutoff)
                && let Some(range) = bootstrap_mean(&values, 0.95, RESAMPLES, experiment.seeds[0])
            {
                cell = cell.interval(range.low, range.high);
            }
            if let Some(mark) = differences.mark(&row.label) {
                cell = cell.mark(mark);
            }
        }
        cell
    });
    table.note(format!(
        "Means over users with test items. 95% bootstrap intervals over users for {}.",
        metric_title(metric)
    ))
}

/// How well hidden interests are found, in experiments on clicks.
pub(super) fn hidden_interests(data: &DataResults) -> Option<Table> {
    let columns = [
        ("hit@1", "HIT@1", "Share of people whose hidden interest ranks first."),
        ("hit@4", "HIT@4", "Share of people whose hidden interest is among the first four."),
        ("precision@0.6", "Precision@0.6", "Of the categories scored above 0.6, the share that is the hidden one."),
        ("recall@0.6", "Recall@0.6", "Share of people whose hidden interest scores above 0.6."),
        (
            "average_precision",
            "AP",
            "Average precision: area under the curve of precision over recall, at all thresholds.",
        ),
    ];
    let mut table = Table::new(format!("Hidden interests found on {}", data.label), "Model");
    for (key, title, help) in columns {
        table = table.column(Column::new(key, title).digits(3).help(help));
    }
    let distance = Column::new("taxonomy_distance", "Taxonomy distance").digits(3).lower();
    table = table.column(distance.help("Mean steps in the taxonomy from the hidden interest to what ranks above it."));
    let keys = columns.map(|(key, ..)| key).into_iter().chain(["taxonomy_distance"]);
    let with_figures = data.rows.iter().filter(|row| row.figures.contains_key("taxonomy_distance"));
    let rows: Vec<report::Row> = with_figures
        .map(|row| {
            let cells = keys.clone().map(|key| cell(row.figures.get(key).copied()));
            cells.fold(report::Row::new(&row.label), report::Row::cell)
        })
        .collect();
    (!rows.is_empty()).then(|| rows.into_iter().fold(table, Table::row))
}

/// What people with a common interest would be suggested by each model.
pub(super) fn suggestions(data: &DataResults) -> Option<Table> {
    let caption = format!("Suggestions for somebody with a single interest on {}", data.label);
    let mut table = Table::new(caption, "Model")
        .note("By interest, the most common first: what is suggested besides it, best first, with scores. First seed.")
        .column(Column::new("suggested", "Suggested").format(Format::Text));
    let interests = data.rows.iter().find(|row| !row.suggestions.is_empty())?.suggestions.iter();
    for interest in interests.map(|suggestions| &suggestions.interest) {
        for row in &data.rows {
            let Some(found) = row.suggestions.iter().find(|found| found.interest == *interest) else { continue };
            let others = found.suggested.iter().filter(|(name, _)| name != interest);
            let words: Vec<String> = others.map(|(name, score)| format!("{name} {score:.2}")).collect();
            table = table.row(report::Row::new(&row.label).group(interest).cell(Cell::text(words.join(", "))));
        }
    }
    Some(table)
}

/// Metrics beyond accuracy at one cutoff.
pub(super) fn beyond(experiment: &Experiment, data: &DataResults, cutoff: usize) -> Table {
    let caption = format!("Diversity and popularity bias of the top {cutoff} on {}", data.label);
    metrics(experiment, caption, BEYOND, cutoff, &[data], |row, key| cell(row.metric(key, cutoff)))
}

/// Source bias of the training part, and bias disparity of each row, by category.
pub(super) fn bias(data: &DataResults, cutoff: usize) -> Option<Table> {
    let rows: Vec<&Row> = data.rows.iter().filter(|row| !row.bias_disparity.is_empty()).collect();
    let source = &data.card.source_bias;
    if rows.is_empty() || source.is_empty() {
        return None;
    }
    let share = |name: &String| data.card.categories.get(name).copied().unwrap_or(0.0);
    let mut shown: Vec<&String> = source.keys().collect();
    shown.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| a.cmp(b)));
    shown.truncate(MOST_CATEGORIES);
    shown.sort_unstable();
    let mut table = Table::new(format!("Bias by category of the top {cutoff} on {}", data.label), "");
    table = shown.iter().map(|name| Column::new(name.as_str(), name.as_str()).digits(3)).fold(table, Table::column);
    let line = |label: &str, values: &BTreeMap<String, f64>| {
        let cells = shown.iter().map(|name| Cell::maybe(values.get(*name).copied()));
        cells.fold(report::Row::new(label), report::Row::cell)
    };
    table = table.row(line("Training part (B_T)", source));
    table = rows.iter().fold(table, |table, row| table.row(line(&row.label, &row.bias_disparity)));
    let left_out = match source.len() - shown.len() {
        0 => String::new(),
        n => format!(" The {n} categories with fewest training interactions are left out."),
    };
    Some(table.note(format!(
        "B_T: a category's share of the training interactions over its share of the catalog; above 1, people choose it more \
         often. Models: bias disparity (B_R - B_T) / B_T, how much more the category is recommended than chosen.{left_out}"
    )))
}

/// All metrics at the other cutoffs.
pub(super) fn other_cutoffs(experiment: &Experiment, results: &Results) -> Option<Section> {
    let others = &experiment.protocol.cutoffs[1..];
    let data: Vec<&DataResults> = results.data.iter().collect();
    let keys = [&ACCURACY, BEYOND].concat();
    let table = |&cutoff: &usize| {
        let caption = format!("Top {cutoff}");
        metrics(experiment, caption, &keys, cutoff, &data, |row, key| cell(row.metric(key, cutoff)))
    };
    let section = Section::new("Other list lengths");
    (!others.is_empty()).then(|| others.iter().map(table).fold(section, Section::table))
}

/// Every row of the sweeps: accuracy, coverage and traffic.
pub(super) fn sweep(experiment: &Experiment, data: &DataResults, families: &[Family<'_>]) -> Table {
    let cutoff = experiment.main_cutoff();
    let keys = [Metric::Ndcg, Metric::Precision, Metric::Recall, Metric::F1, Metric::ItemCoverage, Metric::Gini];
    let figures: Vec<Column> = traffic_columns()
        .into_iter()
        .filter(|column| families.iter().flat_map(|f| &f.rows).any(|(_, row)| row.figures.contains_key(&column.key)))
        .collect();
    let named = families.first().map_or("", |family| family.key);
    let mut table = Table::new(format!("Top {cutoff} over {} on {}", symbol(named), data.label), symbol(named));
    table =
        keys.iter().map(|key| column(*key)).chain(figures.iter().cloned()).fold(table, Table::column).best_in_group();
    for (family, (value, row)) in families.iter().flat_map(|f| f.rows.iter().map(move |row| (f, row))) {
        let mut line = report::Row::new(value.to_string()).group(&family.name);
        line = keys.iter().map(|key| cell(row.metric(*key, cutoff))).fold(line, report::Row::cell);
        let figure = |column: &Column| Cell::maybe(row.figures.get(&column.key).map(|spread| spread.mean));
        table = table.row(figures.iter().map(figure).fold(line, report::Row::cell));
    }
    table.note("TCC counts vectors, as in the papers; bytes are as encoded, over all devices and all of training.")
}

fn traffic_columns() -> [Column; 4] {
    [
        Column::new("epochs", "Epochs").format(Format::Integer),
        Column::new("tcc", "TCC").format(Format::Si).help("Vectors sent both ways in all of training."),
        Column::new("bytes_down", "Down").format(Format::Bytes).help("Bytes sent to devices in all of training."),
        Column::new("bytes_up", "Up").format(Format::Bytes).help("Bytes sent by devices in all of training."),
    ]
}

/// A table of metrics: rows of the data sets, columns that any row has a value of.
fn metrics(
    experiment: &Experiment,
    caption: String,
    keys: &[Metric],
    cutoff: usize,
    data: &[&DataResults],
    cell: impl Fn(&Row, Metric) -> Cell,
) -> Table {
    let rows = || data.iter().flat_map(|data| data.rows.iter().map(move |row| (*data, row)));
    let keys: Vec<Metric> =
        keys.iter().copied().filter(|key| rows().any(|(_, row)| row.metric(*key, cutoff).is_some())).collect();
    let mut table = Table::new(caption, "Model").best_in_group();
    if let Some(label) = experiment.protocol.candidates.label() {
        table = table.label(label);
    }
    table = keys.iter().map(|key| column(*key)).fold(table, Table::column);
    for (set, row) in rows() {
        let mut line = report::Row::new(&row.label).detail(varied(row));
        if data.len() > 1 {
            line = line.group(&set.label);
        }
        line = keys.iter().map(|key| cell(row, *key)).fold(line, report::Row::cell);
        table = table.row(line);
    }
    table
}

/// A mean, with its deviation where there is one.
pub(super) fn cell(spread: Option<Spread>) -> Cell {
    match spread {
        // Models without randomness give the same with every seed: "± 0" would only be noise.
        Some(Spread { mean, sd, n }) if n > 1 && sd > 0.0 => Cell::number(mean).spread(sd),
        spread => Cell::maybe(spread.map(|spread| spread.mean)),
    }
}

/// The settings of a row that were tuned or swept, but for those in its label.
fn varied(row: &Row) -> String {
    let tuned = row.chosen.map(|at| &row.tried[at].settings);
    let in_label = |key: &&String| row.family.contains(&format!("{{{key}}}"));
    let keys = tuned.into_iter().flat_map(BTreeMap::keys);
    let keys = keys.chain(row.swept.keys().filter(|key| !in_label(key)));
    list(keys.filter_map(|key| Some(format!("{key} {}", row.settings.get(key)?))))
}

fn column(key: Metric) -> Column {
    let (title, format, help) = about(key);
    Column::new(key.name(), title).help(help).direction(key.direction()).format(format)
}

/// The significance tests behind the marks.
pub(super) fn differences(data: &DataResults, differences: &Differences) -> Option<Table> {
    let first = differences.found.first()?;
    let metric = metric_title(differences.metric);
    let caption = format!("{metric} against {} on {}", first.reference, data.label);
    let column =
        |(key, title, format, help): (&str, &str, Format, &str)| Column::new(key, title).format(format).help(help);
    let columns = [
        ("difference", "Difference", Format::Digits(4), "Mean over users, row minus reference."),
        ("d", "Cohen's d", Format::Digits(2), "Effect size of the paired values."),
        ("t", "t", Format::Digits(2), "Paired Student t."),
        ("p", "p", Format::Text, "Of the paired t-test, two-sided."),
        ("p_holm", "p (Holm)", Format::Text, ""),
        ("p_bonferroni", "p (Bonferroni)", Format::Text, ""),
        ("wilcoxon_p_holm", "Wilcoxon p (Holm)", Format::Text, "Of the signed-rank test, two-sided."),
    ];
    let mut table = columns.into_iter().map(column).fold(Table::new(caption, "Model"), Table::column);
    table = table.note(format!("{} users; p corrected over the comparisons of this table.", first.users));
    for one in &differences.found {
        let line = report::Row::new(&one.model).numbers([one.difference, one.d, one.t]);
        let p = [one.student.p, one.student.p_holm, one.student.p_bonferroni, one.wilcoxon.p_holm];
        table = table.row(p.iter().map(|p| Cell::text(probability(*p))).fold(line, report::Row::cell));
    }
    Some(table)
}

fn probability(p: f64) -> String {
    match p {
        p if p.is_nan() => "–".to_owned(),
        p if p < 1e-300 => "< 1e-300".to_owned(),
        p if p < 0.001 => format!("{p:.1e}"),
        p => format!("{p:.3}"),
    }
}

/// The settings each row was evaluated with.
pub(super) fn settings(results: &Results) -> Table {
    let tried = Column::new("tried", "Tried").format(Format::Integer);
    let validation = Column::new("validation", "On validation").digits(4);
    let mut table = Table::new("Settings", "Model")
        .column(tried.help("Settings evaluated on the validation part."))
        .column(validation.help("The metric of selection of the selected setting on the validation part."))
        .column(Column::new("settings", "Setting").format(Format::Text));
    for (data, row) in rows(results) {
        let value = row.chosen.and_then(|at| row.tried[at].value);
        let tried = (!row.tried.is_empty()).then_some(row.tried.len() as f64);
        let line = line(results, data, row).cell(Cell::maybe(tried)).cell(Cell::maybe(value));
        table = table.row(line.cell(Cell::text(written(&row.settings))));
    }
    table
}

fn written(settings: &BTreeMap<String, Value>) -> String {
    if settings.is_empty() {
        "–".to_owned()
    } else {
        list(settings.iter().map(|(key, value)| format!("{key} = {value}")))
    }
}

/// Time and memory.
pub(super) fn cost(results: &Results) -> Section {
    let memory = Column::new("peak_rss_bytes", "Memory").format(Format::Bytes);
    let mut table = Table::new("Cost of one final trial", "Model")
        .best_in_group()
        .column(Column::new("epochs", "Epochs").format(Format::Si))
        .column(Column::new("triples", "Triples").format(Format::Si).help("Training steps over all epochs."))
        .column(Column::new("train_seconds", "Training").lower().format(Format::Seconds))
        .column(Column::new("evaluate_seconds", "Evaluation").lower().format(Format::Seconds))
        .column(memory.help("Peak memory of the process at the end of the trial."))
        .note("Times are wall-clock means over the seeds; trials that ran in parallel share the cores.");
    for (data, row) in rows(results) {
        let figure = |name: &str| row.figures.get(name).map(|spread| spread.mean);
        let memory = row.finals.iter().map(|each| each.run.cost.peak_rss_bytes).max().filter(|bytes| *bytes > 0);
        let figures = ["epochs", "triples", "train_seconds", "evaluate_seconds"].map(figure);
        let cells = figures.into_iter().chain([memory.map(|bytes| bytes as f64)]).map(Cell::maybe);
        table = table.row(cells.fold(line(results, data, row), report::Row::cell));
    }
    Section::new("Cost").table(table)
}
