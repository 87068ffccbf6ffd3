//! From results to a report: sentences first, then tables, plots, data cards and the configuration.

mod activity;
mod along;
mod exposure;
mod kept;
mod leak;
mod pace;
mod plots;
mod sweep;
mod tables;
mod tests_of_difference;

use crate::file::Experiment;
use crate::metric::MetricAt;
use crate::results::{DataResults, Results, Row};
use sottovoce_evaluate::report::{Format, KeyFigure, Report, Section};
use sottovoce_evaluate::significance::Comparison;
use sottovoce_evaluate::{Better, Metric};
use tests_of_difference::Differences;

pub use exposure::WHO_SEES_WHAT;

/// Differences with a corrected p below this are called significant.
const SIGNIFICANT: f64 = 0.05;

/// Composes the report of an experiment. `text` is the experiment file as it was read; `provenance` are facts of the
/// run that results do not know (command line, duration, machine).
pub fn compose(
    experiment: &Experiment,
    text: &str,
    results: &Results,
    provenance: &[(String, String)],
) -> Report {
    let (shown, which) = sweep::condensed(experiment, results, sweep::MOST_ROWS);
    let differences: Vec<Differences> =
        shown.data.iter().map(|data| Differences::of(experiment, data)).collect();
    let mut report = Report::new(&results.title).subtitle("experiment");
    for ((data, all), differences) in shown.data.iter().zip(&results.data).zip(&differences) {
        let sentences = [
            exposure::verdict(experiment, data),
            Some(verdict(experiment, data, differences)),
            along::verdict(experiment, all),
        ];
        report = sentences.into_iter().flatten().fold(report, Report::sentence);
    }
    if let Some(question) = &results.question {
        report = report.sentence(format!("The question was: {question}"));
    }
    for figure in key_figures(experiment, &shown) {
        report = report.figure(figure);
    }
    let (brief, _) = sweep::condensed(experiment, results, 0);
    let leading = leading_sections(experiment, &shown, &brief, &differences, &which);
    let along = along::sections(experiment, results);
    // Where something is federated, who sees what and what is given up for it are the news.
    let mut parts: Vec<Section> = match exposure::section(experiment, &shown) {
        Some(exposure) => {
            [exposure].into_iter().chain(leak::section(&shown)).chain(along).chain(leading).collect()
        }
        None => leading.into_iter().chain(along).collect(),
    };
    parts.extend(closing_sections(experiment, results, &shown));
    report = parts.into_iter().fold(report, Report::section);
    for data in &results.data {
        report = report.data_card(data.card.card.clone());
    }
    report = report.configuration(&experiment.file, text);
    report = report
        .provenance("version", format!("sottovoce {}", env!("CARGO_PKG_VERSION")))
        .provenance("seeds", list(results.seeds.iter()))
        .provenance("experiment fingerprint", &results.fingerprint);
    provenance.iter().fold(report, |report, (name, value)| report.provenance(name, value))
}

/// What was found, a data set at a time. `shown` has the rows of tables, `brief` those of crowded plots.
fn leading_sections(
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
        let section = Section::new(title).text(how_judged(experiment, shown) + which);
        sections.push(data_section(section, experiment, data, brief, differences));
    }
    sections
}

/// What the file asks for, and how the results came about; `shown` has one row a sweep where there are many.
fn closing_sections(experiment: &Experiment, results: &Results, shown: &Results) -> Vec<Section> {
    let mut sections = Vec::new();
    let rest = [
        plots::wanted(experiment, results),
        kept::section(experiment, shown),
        tables::other_cutoffs(experiment, shown),
        pace::section(experiment, shown),
        plots::learning(experiment, shown),
        failures(results),
    ];
    sections.extend(rest.into_iter().flatten());
    sections.extend([tuning(experiment, results, shown), tables::cost(results)]);
    if let Some(notes) = &results.notes {
        sections.push(Section::new("Notes").text(notes.clone()));
    }
    sections
}

/// Rows without a result, and choices that were given up.
fn failures(results: &Results) -> Option<Section> {
    let mut section = Section::new("What failed");
    for row in results.data.iter().flat_map(|data| &data.rows) {
        for one in &row.passed_over {
            let settings = list(one.settings.iter().map(|(key, value)| format!("{key} = {value}")));
            section = section.note(format!(
                "**{}**: {settings} was best on the validation part, but trained on both parts it failed ({}); the next best was taken.",
                row.label, one.reason
            ));
        }
        if let Some(reason) = row.failed() {
            section = section.note(format!("**{}** has no result: {reason}", row.label));
        }
    }
    (!section.blocks.is_empty()).then_some(section)
}

fn data_section(
    section: Section,
    experiment: &Experiment,
    data: &DataResults,
    brief: &DataResults,
    differences: &Differences,
) -> Section {
    let cutoff = experiment.main_cutoff();
    let mut section = section
        .table(tables::accuracy(experiment, data, cutoff, differences))
        .plot(plots::bars(experiment, data));
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

fn how_judged(experiment: &Experiment, results: &Results) -> String {
    let choice = &experiment.choice;
    let ranked = &results.candidates;
    let seeds = match results.seeds.len() {
        1 => "one seed".to_owned(),
        n => format!("{n} seeds (mean ± standard deviation)"),
    };
    let refit = if choice.refit { "training and validation part together" } else { "the training part" };
    let mut text = format!(
        "Ranked: {ranked}. Each row was trained with {seeds} on {refit} and judged on the test part."
    );
    if results.data.iter().flat_map(|data| &data.rows).any(|row| !row.tried.is_empty()) {
        text += &format!(" Settings were chosen by {} on the validation part.", metric_title(choice.metric));
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
    rows.sort_by(|a, b| metric.worth(b.1).total_cmp(&metric.worth(a.1)));
    rows
}

/// The result on one data set in a sentence.
fn verdict(experiment: &Experiment, data: &DataResults, differences: &Differences) -> String {
    let metric = main_metric(experiment);
    let ranked = ranked(data, metric);
    let (name, place) = (metric_title(metric), &data.label);
    match ranked.as_slice() {
        [] => format!("No model has a result on {place}."),
        [(only, value)] => format!("**{}** reaches {name} of {value:.4} on {place}.", only.label),
        [(best, first), (next, second), ..] => {
            let ahead = ahead_of(*first, *second, metric.key.better());
            let sure = differences
                .between(&best.label, &next.label)
                .map_or_else(String::new, |found| format!("; {}", certainty(found)));
            format!(
                "**{}** ranks best on {place}: {name} of {first:.4}, {ahead} **{}** ({second:.4}){sure}.",
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
        _ => format!("the difference may be chance (paired t-test, Holm, p = {p:.2})"),
    }
}

fn key_figures(experiment: &Experiment, results: &Results) -> Vec<KeyFigure> {
    let metric = main_metric(experiment);
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

/// With one data set there is room to say what the best row gains, and at what price in variety.
fn single_set(experiment: &Experiment, data: &DataResults) -> Vec<KeyFigure> {
    let metric = main_metric(experiment);
    let ranking = ranked(data, metric);
    let Some(&(best, value)) = ranking.first() else { return Vec::new() };
    let mut figures = exposure::key_figures(experiment, data);
    if !figures.is_empty() {
        return figures;
    }
    let baseline =
        experiment.compare.as_ref().and_then(|label| ranking.iter().find(|(row, _)| row.label == *label));
    if let Some((row, before)) = baseline.filter(|(row, _)| row.label != best.label) {
        let label = format!("against {}", row.label);
        let times = format!("{:.2} ×", value / before);
        figures.push(KeyFigure::new(label, times, format!("{} of {before:.4}", metric_title(metric))));
    }
    if let Some(share) = best.metric(Metric::ItemCoverageShare, metric.cutoff) {
        let detail = format!("by {}, in somebody's first {}", best.label, metric.cutoff);
        figures.push(KeyFigure::new("items recommended", format!("{:.0} %", share.mean * 100.0), detail));
    }
    let people = Format::Integer.show(data.card.card.users as f64);
    figures.push(KeyFigure::new("people judged", people, data.label.clone()));
    figures
}

/// The metric that rows are ranked by: that of the choice.
fn main_metric(experiment: &Experiment) -> MetricAt {
    experiment.choice.metric
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
