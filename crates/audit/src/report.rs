//! Findings as tables and plots.

use crate::findings::{Checkpoint, Finding, Findings};
use sottovoce_evaluate::report::plot::{Axis, Point, Series, Style};
use sottovoce_evaluate::report::{Cell, Column, Plot, Row, Table};

/// Findings of one setting, such as `pi = 0.5`, and the model's accuracy with it.
pub struct Named<'a> {
    /// The setting.
    pub label: String,
    /// The setting's value, if it is a number.
    pub value: Option<f64>,
    /// The findings.
    pub findings: &'a Findings,
    /// Accuracy of the recommendations, by a metric that the caller names; higher is better.
    pub accuracy: Option<f64>,
    /// The bounds of differential privacy, against who reads the model and against the server, if there are any.
    pub epsilon: (Option<f64>, Option<f64>),
}

const BASELINE: &str =
    "Of ranking items by popularity; beside all attacks combined, of popularity with what all uploads have in common.";

/// One row per attack, beside the popularity baseline.
pub fn attacks_table(findings: &Findings) -> Table {
    let columns = [
        ("auc", "AUC", "0.5: nothing; 1: all histories."),
        ("guess_auc", "baseline AUC", BASELINE),
        ("gain", "gain", "AUC over the baseline, with its 95 % confidence interval over users."),
        (
            "personal",
            "personal",
            "AUC over the same attack with another user's uploads: what is about this user alone.",
        ),
        ("precision", "precision", "Among as many items as the history has."),
        ("guess_precision", "baseline precision", BASELINE),
        ("recall", "recall", "Among twice as many items as the history has."),
        ("exposed", "exposed", "Fraction of users with a precision above one half."),
    ];
    let columns = columns.map(|(key, title, help)| Column::new(key, title).digits(3).help(help));
    let table = columns.into_iter().fold(Table::new(caption(findings), "Attack"), Table::column);
    findings.attacks.iter().fold(table, |table, finding| table.row(attack_row(finding)))
}

fn caption(findings: &Findings) -> String {
    let people = findings.attacks.iter().map(|finding| finding.people).max().unwrap_or(0);
    let from = if findings.view == "sums" { "sums of rounds" } else { "single uploads" };
    let rounds = findings.rounds;
    format!("What the server can reconstruct of {people} users' histories from {from} ({rounds} rounds)")
}

fn attack_row(finding: &Finding) -> Row {
    let Finding { auc_range, gain, personal, .. } = finding;
    let cells = [
        Cell::number(finding.auc).interval(auc_range.low, auc_range.high),
        Cell::number(finding.guess_auc),
        Cell::number(gain.mean).interval(gain.low, gain.high),
        Cell::number(personal.mean).interval(personal.low, personal.high),
        Cell::number(finding.precision),
        Cell::number(finding.guess_precision),
        Cell::number(finding.recall),
        Cell::number(finding.exposed),
    ];
    cells.into_iter().fold(Row::new(finding.name).detail(finding.what), Row::cell)
}

/// One row per variant: the AUC of each attack, the model's accuracy, and epsilon.
pub fn sweep_table(what: &str, accuracy: &str, variants: &[Named<'_>]) -> Table {
    let mut table = Table::new(what, "Setting");
    let Some(first) = variants.first() else { return table };
    let attacks = &first.findings.attacks;
    for finding in attacks {
        table = table.column(Column::new(finding.name, finding.name).digits(3).help(finding.what));
    }
    table = table
        .column(Column::new("guess", "baseline").digits(3).help("AUC of ranking items by popularity."))
        .column(Column::new("accuracy", accuracy).higher().digits(4));
    let has_epsilon = variants.iter().any(|variant| variant.epsilon.0.is_some());
    if has_epsilon {
        let help = "Without amplification by sampling, with the noise that came; none: no bound.";
        table = table
            .column(Column::new("epsilon", "epsilon").digits(2).help("Against who reads the model."))
            .column(Column::new("epsilon_server", "against the server").digits(2).help(help));
    }
    for Named { label, findings, accuracy, epsilon, .. } in variants {
        let mut cells: Vec<_> =
            attacks.iter().map(|finding| findings.of(finding.name).map(|found| found.auc)).collect();
        cells.extend([findings.attacks.first().map(|found| found.guess_auc), *accuracy]);
        cells.extend(has_epsilon.then_some([epsilon.0, epsilon.1]).into_iter().flatten());
        table = table.row(cells.into_iter().map(Cell::maybe).fold(Row::new(label.clone()), Row::cell));
    }
    table
}

fn auc_axis() -> Axis {
    Axis::new("AUC of reconstructed histories")
}

/// AUC of each attack against a setting; `None` if the setting is not a number.
pub fn sweep_plot(setting: &str, variants: &[Named<'_>]) -> Option<Plot> {
    let points = |name: &str| -> Option<Vec<Point>> {
        let point = |variant: &Named<'_>| {
            let found = variant.findings.of(name)?;
            let range = found.auc_range;
            Some(Point::new(variant.value?, found.auc).bounds(range.low, range.high))
        };
        variants.iter().map(point).collect()
    };
    let attacks = variants.first()?.findings.attacks.iter();
    let series = attacks.map(|finding| Some(Series::of(finding.name, points(finding.name)?)));
    let mut series = series.collect::<Option<Vec<_>>>()?;
    let baseline = |variant: &Named<'_>| Some((variant.value?, variant.findings.attacks.first()?.guess_auc));
    let baseline: Option<Vec<(f64, f64)>> = variants.iter().map(baseline).collect();
    series.push(Series::new("popularity baseline", baseline?).style(Style::Reference));
    let title = format!("What attacks reveal, against {setting}");
    Some(Plot::lines(title, Axis::new(setting), auc_axis(), series).reference(0.5, "nothing"))
}

/// The model's accuracy against what the combined attack reveals, one point per variant.
pub fn price_plot(accuracy: &str, variants: &[Named<'_>]) -> Option<Plot> {
    let point = |variant: &Named<'_>| {
        Some(Point::new(variant.findings.combined()?.auc, variant.accuracy?).label(variant.label.clone()))
    };
    let points: Option<Vec<Point>> = variants.iter().map(point).collect();
    let title = "Accuracy against what all attacks combined reveal";
    Some(Plot::scatter(title, auc_axis(), Axis::new(accuracy), vec![Series::of("variants", points?)]))
}

/// AUC of one attack, or of all, over rounds, one line per variant.
pub fn rounds_plot(attack: Option<&str>, variants: &[Named<'_>]) -> Option<Plot> {
    let mut series = Vec::new();
    for Named { label, findings, .. } in variants {
        let attacks = findings.over_rounds.first()?.auc.iter().map(|(name, _)| *name).enumerate();
        for (index, name) in attacks.filter(|(_, name)| attack.is_none_or(|attack| attack == *name)) {
            let point = |checkpoint: &Checkpoint| (checkpoint.rounds as f64, checkpoint.auc[index].1);
            let label = if attack.is_some() { label.clone() } else { name.to_owned() };
            series.push(Series::new(label, findings.over_rounds.iter().map(point)));
        }
    }
    let title = match attack {
        Some(attack) => format!("The attack {attack} over rounds"),
        None => "Attacks over rounds".to_owned(),
    };
    let plot = || Plot::lines(title, Axis::new("rounds").log(), auc_axis(), series.clone()).reference(0.5, "nothing");
    (!series.is_empty()).then(plot)
}
