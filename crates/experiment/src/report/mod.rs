//! The report of an experiment: a summary in sentences, then tables, plots, data cards and the configuration.

mod activity;
mod classifier;
mod convergence;
mod disclosure;
mod feature_retention;
mod footprint;
mod plots;
mod privacy;
mod significance;
mod sweep;
mod sweep_plots;
mod tables;
mod user_share;

use crate::file::Experiment;
use crate::metric::MetricAt;
use crate::results::{DataResults, Results, Row};
use significance::Differences;
use sottovoce_evaluate::Metric;
use sottovoce_evaluate::report::{self, Direction, Format, KeyFigure, Report, Section, Table};
use sottovoce_evaluate::significance::Comparison;

/// Differences with a corrected p below this are called significant.
const SIGNIFICANT: f64 = 0.05;

/// Composes the report of an experiment. `text` is the experiment file as it was read; `provenance` are facts about the
/// run that results do not have (command line, duration, machine).
pub fn compose(experiment: &Experiment, text: &str, results: &Results, provenance: &[(String, String)]) -> Report {
    let mut report = match experiment.classification() {
        Some(task) => classifier::report(task, results),
        None => recommenders(experiment, results),
    };
    if let Some(question) = &results.about.question {
        report = report.sentence(format!("The question was: {question}"));
    }
    if let Some(notes) = &results.about.notes {
        report = report.section(Section::new("Notes").text(notes.clone()));
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
    let mut report = Report::new(&results.about.title).subtitle("experiment");
    for ((data, all), differences) in shown.data.iter().zip(&results.data).zip(&differences) {
        let sentences = disclosure::summary(experiment, data).into_iter();
        let sentences = sentences.chain([summary(experiment, data, differences)]);
        report = sentences.chain(sweep_plots::summary(experiment, all)).fold(report, Report::sentence);
    }
    report = key_figures(experiment, &shown).into_iter().fold(report, Report::figure);
    let (brief, _) = sweep::condensed(experiment, results, 0);
    let text = how_evaluated(experiment, &shown) + &which;
    let on = |data: &DataResults| if shown.data.len() > 1 { format!(" on {}", data.label) } else { String::new() };
    let each = shown.data.iter().zip(&brief.data).zip(&differences).map(|((data, brief), differences)| {
        let section = Section::new(format!("Results{}", on(data))).text(&text);
        data_section(section, experiment, data, brief, differences)
    });
    let sweeps = sweep_plots::sections(experiment, results);
    // Where something is federated, what leaves the device and what it is worth come first.
    let mut parts: Vec<Section> = match disclosure::section(experiment, &shown) {
        Some(first) => [first].into_iter().chain(privacy::section(&shown)).chain(sweeps).chain(each).collect(),
        None => each.chain(sweeps).collect(),
    };
    let details = [
        user_share::section(experiment, &shown),
        plots::of_file(experiment, results),
        feature_retention::section(experiment, &shown),
        tables::other_cutoffs(experiment, &shown),
        convergence::section(experiment, &shown),
        plots::learning(experiment, &shown),
        plots::clusters(&shown),
        footprint::section(&shown),
        failures(results),
    ];
    let settings = Section::new("Settings").table(tables::settings(results));
    parts.extend(details.into_iter().flatten());
    parts.push(plots::searches(experiment, &shown).into_iter().fold(settings, Section::plot));
    parts.push(tables::cost(results));
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

/// The results on one data set; `brief` has the rows of crowded plots.
fn data_section(
    section: Section,
    experiment: &Experiment,
    data: &DataResults,
    brief: &DataResults,
    differences: &Differences,
) -> Section {
    let cutoff = experiment.main_cutoff();
    let accuracy = tables::accuracy(experiment, data, cutoff, differences);
    let section = tables::hidden_interests(data).into_iter().fold(section, Section::table);
    let section = tables::suggestions(data).into_iter().fold(section, Section::table);
    let section = section.table(accuracy).plot(plots::bars(experiment, data));
    let section = plots::users(experiment, data).into_iter().fold(section, Section::plot);
    let section = activity::table(experiment, data).into_iter().fold(section, Section::table);
    let section = section.table(tables::beyond(experiment, data, cutoff));
    let section = tables::bias(data, cutoff).into_iter().fold(section, Section::table);
    let section = plots::popularity(brief).into_iter().chain(plots::bias(brief)).fold(section, Section::plot);
    tables::differences(data, differences).into_iter().fold(section, Section::table)
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
            let ahead = ahead_of(*first, *second, metric.key.direction());
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

fn ahead_of(first: f64, second: f64, better: Direction) -> String {
    let share = 100.0 * (first - second).abs() / second.abs();
    match better {
        _ if !share.is_finite() => "ahead of".to_owned(),
        Direction::LowerBetter => format!("{share:.1}% below"),
        _ => format!("{share:.1}% above"),
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
    format!("{}@{}", about(metric.key).0, metric.cutoff)
}

/// A metric for the reader: its title, format and meaning.
fn about(key: Metric) -> (&'static str, Format, &'static str) {
    let (two, three, four) = (Format::Digits(2), Format::Digits(3), Format::Digits(4));
    match key {
        Metric::Precision => ("Precision", four, "Share of the recommended items that are in the test part."),
        Metric::Recall => ("Recall", four, "Share of a user's test items that are in the list."),
        Metric::Ndcg => {
            ("nDCG", four, "Discounted gain of the list over that of the ideal list; hits near the top count more.")
        }
        Metric::HitRate => ("Hit rate", four, "Share of users with a test item in the list."),
        Metric::Map => ("MAP", four, "Mean of the precision at each hit."),
        Metric::Mrr => ("MRR", four, "Mean reciprocal rank of the first hit."),
        Metric::F1 => ("F1", four, "Harmonic mean of mean precision and mean recall."),
        Metric::Auc => ("AUC", four, "Chance that a test item ranks above another unrated item."),
        Metric::Correctness => {
            ("Correctness", four, "Precision in which an empty place of a list counts as an average place (c@1).")
        }
        Metric::UserCoverage => {
            ("User coverage", Format::Percent(1), "Share of users with at least one recommendation.")
        }
        Metric::UsersWithHit => ("Users with a hit", Format::Integer, "Number of users with a test item in the list."),
        Metric::ItemCoverage => ("Items", Format::Integer, "Number of distinct items recommended to any user."),
        Metric::ItemCoverageShare => {
            ("Coverage", Format::Percent(1), "Share of the catalog that is recommended to any user.")
        }
        Metric::Gini => ("1 − Gini", four, "Evenness of recommendations over the whole catalog; 1 is even."),
        Metric::ShannonEntropy => ("Entropy", two, "Entropy of the recommendation counts, in bits."),
        Metric::Aclt => ("ACLT", two, "Mean number of long-tail items in a list."),
        Metric::PopReo => {
            let help =
                "Ranking-based equal opportunity: deviation of recall between popular and long-tail items; 0 is equal.";
            ("PopREO", three, help)
        }
        Metric::PopRsp => {
            let help = "Ranking-based statistical parity: deviation of exposure between popular and long-tail items; 0 is equal.";
            ("PopRSP", three, help)
        }
    }
}

fn list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
