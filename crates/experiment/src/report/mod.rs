//! The report of an experiment: a summary in sentences, then tables, plots, data cards and the configuration.

mod activity;
mod classifier;
mod convergence;
mod disclosure;
mod feature_retention;
mod plots;
mod privacy;
mod significance;
mod sweep;
mod sweep_plots;
mod tables;

use crate::file::Experiment;
use crate::metric::MetricAt;
use crate::results::{DataResults, Results, Row};
use significance::Differences;
use sottovoce_evaluate::report::{self, Format, KeyFigure, Report, Section, Table};
use sottovoce_evaluate::significance::Comparison;
use sottovoce_evaluate::{Better, Metric};

/// Differences with a corrected p below this are called significant.
const SIGNIFICANT: f64 = 0.05;

/// Composes the report of an experiment. `text` is the experiment file as it was read; `provenance` are facts about the
/// run that results do not have (command line, duration, machine).
pub fn compose(experiment: &Experiment, text: &str, results: &Results, provenance: &[(String, String)]) -> Report {
    let mut report = match experiment.classification() {
        Some(task) => classifier::report(task, results),
        None => recommenders(experiment, results),
    };
    if let Some(question) = &results.question {
        report = report.sentence(format!("The question was: {question}"));
    }
    if let Some(notes) = &results.notes {
        report = report.section(Section::new("LoadReport").text(notes.clone()));
    }
    let cards = results.data.iter().map(|data| data.card.card.clone());
    report = cards
        .fold(report, Report::data_card)
        .configuration(&experiment.file, text)
        .provenance("version", format!("sottovoce {}", env!("CARGO_PKG_VERSION")))
        .provenance("seeds", list(results.seeds.iter()))
        .provenance("experiment fingerprint", &results.fingerprint);
    provenance.iter().fold(report, |report, (name, value)| report.provenance(name, value))
}

/// The table that says most in least space: what leaves a device, rounds to the last target, or accuracy.
pub fn headline(report: &Report) -> Option<&Table> {
    let starting = |start: &str| report.tables().filter(|table| table.caption.starts_with(start)).last();
    let first = || report.tables().next();
    report
        .tables()
        .find(|table| table.caption.starts_with(disclosure::CAPTION))
        .or_else(|| starting(classifier::CAPTION))
        .or_else(first)
}

fn recommenders(experiment: &Experiment, results: &Results) -> Report {
    let (shown, which) = sweep::condensed(experiment, results, sweep::MOST_ROWS);
    let differences: Vec<Differences> = shown.data.iter().map(|data| Differences::of(experiment, data)).collect();
    let mut report = Report::new(&results.title).subtitle("experiment");
    for ((data, all), differences) in shown.data.iter().zip(&results.data).zip(&differences) {
        let sentences = [
            disclosure::summary(experiment, data),
            Some(summary(experiment, data, differences)),
            sweep_plots::summary(experiment, all),
        ];
        report = sentences.into_iter().flatten().fold(report, Report::sentence);
    }
    report = key_figures(experiment, &shown).into_iter().fold(report, Report::figure);
    let (brief, _) = sweep::condensed(experiment, results, 0);
    let main = main_sections(experiment, &shown, &brief, &differences, &which);
    let sweeps = sweep_plots::sections(experiment, results);
    // Where something is federated, what leaves the device and what it is worth come first.
    let mut parts: Vec<Section> = match disclosure::section(experiment, &shown) {
        Some(first) => [first].into_iter().chain(privacy::section(&shown)).chain(sweeps).chain(main).collect(),
        None => main.into_iter().chain(sweeps).collect(),
    };
    parts.extend(closing_sections(experiment, results, &shown));
    parts.into_iter().fold(report, Report::section)
}

/// A section, unless nothing is in it.
fn unless_empty(section: Section) -> Option<Section> {
    (!section.blocks.is_empty()).then_some(section)
}

/// All rows, with their data sets.
fn rows(results: &Results) -> impl Iterator<Item = (&DataResults, &Row)> {
    results.data.iter().flat_map(|data| data.rows.iter().map(move |row| (data, row)))
}

/// The line of a row in a table of all data sets, grouped by data set where there are several.
fn line(results: &Results, data: &DataResults, row: &Row) -> report::Row {
    let line = report::Row::new(&row.label);
    if results.data.len() > 1 { line.group(&data.label) } else { line }
}

/// The results, a data set at a time. `shown` has the rows of tables, `brief` those of crowded plots.
fn main_sections(
    experiment: &Experiment,
    shown: &Results,
    brief: &Results,
    differences: &[Differences],
    which: &str,
) -> Vec<Section> {
    let mut sections = Vec::new();
    for ((data, brief), differences) in shown.data.iter().zip(&brief.data).zip(differences) {
        let title = match shown.data.len() {
            1 => "Results".to_owned(),
            _ => format!("Results on {}", data.label),
        };
        let section = Section::new(title).text(how_evaluated(experiment, shown) + which);
        sections.push(data_section(section, experiment, data, brief, differences));
    }
    sections
}

/// Plots of the file and details; `shown` has one row a sweep where there are many.
fn closing_sections(experiment: &Experiment, results: &Results, shown: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    let rest = [
        plots::of_file(experiment, results),
        feature_retention::section(experiment, shown),
        tables::other_cutoffs(experiment, shown),
        convergence::section(experiment, shown),
        plots::learning(experiment, shown),
        failures(results),
    ];
    sections.extend(rest.into_iter().flatten());
    sections.extend([tuning(experiment, results, shown), tables::cost(results)]);
    sections
}

/// Rows without a result, and selected settings whose final training failed.
fn failures(results: &Results) -> Option<Section> {
    let mut section = Section::new("Failures");
    for (_, row) in rows(results) {
        for one in &row.passed_over {
            let settings = list(one.settings.iter().map(|(key, value)| format!("{key} = {value}")));
            section = section.note(format!(
                "**{}**: {settings} was best on the validation part, but its final training failed ({}); the next best was taken.",
                row.label, one.reason
            ));
        }
        if let Some(reason) = row.failed() {
            section = section.note(format!("**{}** has no result: {reason}", row.label));
        }
    }
    unless_empty(section)
}

fn data_section(
    section: Section,
    experiment: &Experiment,
    data: &DataResults,
    brief: &DataResults,
    differences: &Differences,
) -> Section {
    let cutoff = experiment.main_cutoff();
    let mut section =
        section.table(tables::accuracy(experiment, data, cutoff, differences)).plot(plots::bars(experiment, data));
    if let Some(plot) = plots::users(experiment, data) {
        section = section.plot(plot);
    }
    if let Some(table) = activity::table(experiment, data) {
        section = section.table(table);
    }
    section = section.table(tables::beyond(experiment, data, cutoff));
    for plot in plots::popularity(brief) {
        section = section.plot(plot);
    }
    if let Some(plot) = plots::bias(brief) {
        section = section.plot(plot);
    }
    if let Some(table) = tables::differences(data, differences) {
        section = section.table(table);
    }
    section
}

fn how_evaluated(experiment: &Experiment, results: &Results) -> String {
    let selection = &experiment.selection;
    let ranked = &results.candidates;
    let seeds = match results.seeds.len() {
        1 => "one seed".to_owned(),
        n => format!("{n} seeds (mean ± standard deviation)"),
    };
    let refit = if selection.refit { "training and validation part together" } else { "the training part" };
    let mut text =
        format!("Ranked: {ranked}. Each row was trained with {seeds} on {refit} and evaluated on the test part.");
    if rows(results).any(|(_, row)| !row.tried.is_empty()) {
        text += &format!(" Settings were selected by {} on the validation part.", metric_title(selection.metric));
    }
    text
}

fn tuning(experiment: &Experiment, results: &Results, shown: &Results) -> Section {
    let section = Section::new("Settings").table(tables::settings(results));
    let plots = plots::searches(experiment, shown);
    plots.into_iter().fold(section, Section::plot)
}

/// The rows that have a value, best first; the earlier of equals.
fn ranked(data: &DataResults, metric: MetricAt) -> Vec<(&Row, f64)> {
    let value = |row: &Row| row.metric(metric.key, metric.cutoff).map(|spread| spread.mean);
    let mut rows: Vec<_> = data.rows.iter().filter_map(|row| Some((row, value(row)?))).collect();
    rows.sort_by(|a, b| metric.objective(b.1).total_cmp(&metric.objective(a.1)));
    rows
}

/// The result on one data set in a sentence.
fn summary(experiment: &Experiment, data: &DataResults, differences: &Differences) -> String {
    let metric = experiment.selection.metric;
    let ranked = ranked(data, metric);
    let (name, set) = (metric_title(metric), &data.label);
    match ranked.as_slice() {
        [] => format!("No model has a result on {set}."),
        [(only, value)] => format!("**{}** reaches {name} of {value:.4} on {set}.", only.label),
        [(best, first), (next, second), ..] => {
            let ahead = ahead_of(*first, *second, metric.key.better());
            let sure = differences
                .between(&best.label, &next.label)
                .map_or_else(String::new, |found| format!("; {}", certainty(found)));
            format!(
                "**{}** ranks best on {set}: {name} of {first:.4}, {ahead} **{}** ({second:.4}){sure}.",
                best.label, next.label
            )
        }
    }
}

fn ahead_of(first: f64, second: f64, better: Better) -> String {
    let share = 100.0 * (first - second).abs() / second.abs();
    match better {
        _ if !share.is_finite() => "ahead of".to_owned(),
        Better::Higher => format!("{share:.1}% above"),
        Better::Lower => format!("{share:.1}% below"),
    }
}

fn certainty(found: &Comparison) -> String {
    let p = found.student.p_holm;
    match p {
        p if p < 0.001 => "the difference is significant (paired t-test, Holm, p < 0.001)".to_owned(),
        p if p < SIGNIFICANT => format!("the difference is significant (paired t-test, Holm, p = {p:.3})"),
        _ => format!("the difference is not significant (paired t-test, Holm, p = {p:.2})"),
    }
}

fn key_figures(experiment: &Experiment, results: &Results) -> Vec<KeyFigure> {
    let metric = experiment.selection.metric;
    let best = results.data.iter().filter_map(|data| {
        let (row, value) = *ranked(data, metric).first()?;
        let label = format!("best {} on {}", metric_title(metric), data.label);
        Some(KeyFigure::new(label, format!("{value:.4}"), &row.label))
    });
    let mut figures: Vec<KeyFigure> = best.take(4).collect();
    if let [data] = results.data.as_slice() {
        figures.extend(single_set(experiment, data));
    }
    figures
}

/// With one data set there is room for the gain of the best row and its item coverage.
fn single_set(experiment: &Experiment, data: &DataResults) -> Vec<KeyFigure> {
    let metric = experiment.selection.metric;
    let ranking = ranked(data, metric);
    let Some(&(best, value)) = ranking.first() else { return Vec::new() };
    let mut figures = disclosure::key_figures(experiment, data);
    if !figures.is_empty() {
        return figures;
    }
    let baseline = experiment.compare.as_ref().and_then(|label| ranking.iter().find(|(row, _)| row.label == *label));
    if let Some((row, before)) = baseline.filter(|(row, _)| row.label != best.label) {
        let label = format!("against {}", row.label);
        let times = format!("{:.2} ×", value / before);
        figures.push(KeyFigure::new(label, times, format!("{} of {before:.4}", metric_title(metric))));
    }
    if let Some(share) = best.metric(Metric::ItemCoverageShare, metric.cutoff) {
        let detail = format!("by {}, in the top {} of any user", best.label, metric.cutoff);
        figures.push(KeyFigure::new("items recommended", format!("{:.0} %", share.mean * 100.0), detail));
    }
    let users = Format::Integer.show(data.card.card.users as f64);
    figures.push(KeyFigure::new("users evaluated", users, data.label.clone()));
    figures
}

/// As people write it: nDCG@10.
fn metric_title(metric: MetricAt) -> String {
    format!("{}@{}", key_title(metric.key), metric.cutoff)
}

fn key_title(key: Metric) -> &'static str {
    match key {
        Metric::Precision => "Precision",
        Metric::Recall => "Recall",
        Metric::Ndcg => "nDCG",
        Metric::HitRate => "Hit rate",
        Metric::Map => "MAP",
        Metric::Mrr => "MRR",
        Metric::F1 => "F1",
        Metric::Auc => "AUC",
        Metric::ItemCoverage => "Items",
        Metric::ItemCoverageShare => "Coverage",
        Metric::Gini => "1 − Gini",
        Metric::ShannonEntropy => "Entropy",
        Metric::Aclt => "ACLT",
        Metric::PopReo => "PopREO",
        Metric::PopRsp => "PopRSP",
    }
}

fn list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
