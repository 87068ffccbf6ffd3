//! Findings as tables and plots.

use crate::findings::{Finding, Findings};
use sottovoce_evaluate::report::plot::{Axis, Point, Series, Style};
use sottovoce_evaluate::report::{Cell, Column, Plot, Row, Table};

/// Findings with a name, such as `pi = 0.5`, and how accurate the model was.
pub struct Named<'a> {
    /// What they are of.
    pub label: String,
    /// The value that was varied, if it is a number.
    pub value: Option<f64>,
    /// What was found.
    pub findings: &'a Findings,
    /// Accuracy of the recommendations, by a measure that the caller names; higher is better.
    pub accuracy: Option<f64>,
    /// The privacy loss that differential privacy bounds, if there is any.
    pub epsilon: Option<f64>,
}

/// One line an attack, beside what guessing the popular finds.
pub fn attacks_table(findings: &Findings) -> Table {
    let columns = [
        Column::new("auc", "AUC").digits(3).help("0.5: nothing; 1: all of everybody's histories."),
        Column::new("guess_auc", "AUC of guessing").digits(3).help("By guessing what is popular."),
        Column::new("gain", "gain").digits(3).help("AUC over guessing, with its 95 % range over people."),
        Column::new("personal", "personal").digits(3).help(
            "AUC over the same attack with somebody else's uploads: what it tells of this person alone.",
        ),
        Column::new("precision", "precision").digits(3).help("Among as many items as the history has."),
        Column::new("guess_precision", "of guessing").digits(3).help("By guessing what is popular."),
        Column::new("recall", "recall").digits(3).help("Among twice as many items as the history has."),
        Column::new("exposed", "exposed")
            .digits(3)
            .help("Share of people of whom most of that list is right."),
    ];
    let table = Table::new(caption(findings), "Attack");
    let table = columns.into_iter().fold(table, Table::column);
    findings.attacks.iter().fold(table, |table, finding| table.row(attack_row(finding)))
}

fn caption(findings: &Findings) -> String {
    let people = findings.attacks.iter().map(|finding| finding.people).max().unwrap_or(0);
    let what = if findings.view == "sums" { "sums of rounds" } else { "single uploads" };
    format!(
        "What the server could rebuild of {people} people's histories from {what} ({} rounds)",
        findings.rounds
    )
}

fn attack_row(finding: &Finding) -> Row {
    let Finding { auc_range, gain, personal, .. } = finding;
    Row::new(finding.name)
        .detail(finding.what)
        .cell(Cell::number(finding.auc).interval(auc_range.low, auc_range.high))
        .cell(Cell::number(finding.guess_auc))
        .cell(Cell::number(gain.mean).interval(gain.low, gain.high))
        .cell(Cell::number(personal.mean).interval(personal.low, personal.high))
        .cell(Cell::number(finding.precision))
        .cell(Cell::number(finding.guess_precision))
        .cell(Cell::number(finding.recall))
        .cell(Cell::number(finding.exposed))
}

/// One line a variant: what it leaks by each attack, its accuracy and epsilon.
pub fn sweep_table(what: &str, accuracy: &str, variants: &[Named<'_>]) -> Table {
    let Some(first) = variants.first() else { return Table::new(what, "Setting") };
    let mut table = Table::new(what, "Setting");
    for finding in &first.findings.attacks {
        table = table.column(Column::new(finding.name, finding.name).digits(3).help(finding.what));
    }
    table = table
        .column(Column::new("guess", "guessing").digits(3).help("AUC of guessing what is popular."))
        .column(Column::new("accuracy", accuracy).higher().digits(4));
    if variants.iter().any(|variant| variant.epsilon.is_some()) {
        table = table.column(Column::new("epsilon", "epsilon").digits(2));
    }
    for variant in variants {
        let mut row = Row::new(variant.label.clone());
        for finding in &first.findings.attacks {
            row = row.cell(Cell::maybe(variant.findings.of(finding.name).map(|found| found.auc)));
        }
        row = row.cell(Cell::maybe(variant.findings.attacks.first().map(|found| found.guess_auc)));
        row = row.cell(Cell::maybe(variant.accuracy));
        if variants.iter().any(|variant| variant.epsilon.is_some()) {
            row = row.cell(Cell::maybe(variant.epsilon));
        }
        table = table.row(row);
    }
    table
}

fn auc_axis() -> Axis {
    Axis::new("AUC of rebuilt histories")
}

/// AUC of each attack against a setting; `None` where the setting is no number.
pub fn sweep_plot(setting: &str, variants: &[Named<'_>]) -> Option<Plot> {
    let first = variants.first()?;
    let points = |name: &str| -> Option<Vec<Point>> {
        let point = |variant: &Named<'_>| {
            let found = variant.findings.of(name)?;
            let range = found.auc_range;
            Some(Point::new(variant.value?, found.auc).bounds(range.low, range.high))
        };
        variants.iter().map(point).collect()
    };
    let mut series = Vec::new();
    for finding in &first.findings.attacks {
        series.push(Series::of(finding.name, points(finding.name)?));
    }
    let guess = |variant: &Named<'_>| Some((variant.value?, variant.findings.attacks.first()?.guess_auc));
    let guess: Option<Vec<(f64, f64)>> = variants.iter().map(guess).collect();
    series.push(Series::new("guessing the popular", guess?).style(Style::Reference));
    let title = format!("What leaks, against {setting}");
    Some(Plot::lines(title, Axis::new(setting), auc_axis(), series).reference(0.5, "nothing"))
}

/// What leaks against accuracy, one point a variant.
pub fn price_plot(accuracy: &str, variants: &[Named<'_>]) -> Option<Plot> {
    let point = |variant: &Named<'_>| {
        Some(Point::new(variant.findings.combined()?.auc, variant.accuracy?).label(variant.label.clone()))
    };
    let points: Option<Vec<Point>> = variants.iter().map(point).collect();
    let title = "Accuracy against what leaks by all attacks together";
    Some(Plot::scatter(title, auc_axis(), Axis::new(accuracy), vec![Series::of("variants", points?)]))
}

/// AUC of one attack, or of all, against rounds, a line a variant.
pub fn rounds_plot(attack: Option<&str>, variants: &[Named<'_>]) -> Option<Plot> {
    let mut series = Vec::new();
    for variant in variants {
        let over_rounds = &variant.findings.over_rounds;
        let names: Vec<&str> = over_rounds.first()?.auc.iter().map(|(name, _)| *name).collect();
        for name in names.into_iter().filter(|name| attack.is_none_or(|attack| attack == *name)) {
            let value = |checkpoint: &crate::Checkpoint| {
                checkpoint
                    .auc
                    .iter()
                    .find(|(each, _)| *each == name)
                    .map(|&(_, auc)| (checkpoint.rounds as f64, auc))
            };
            let label = match attack {
                Some(_) => variant.label.clone(),
                None => name.to_owned(),
            };
            series.push(Series::new(label, over_rounds.iter().filter_map(value)));
        }
    }
    if series.is_empty() {
        return None;
    }
    let title = match attack {
        Some(attack) => format!("The attack {attack} over rounds"),
        None => "Attacks over rounds".to_owned(),
    };
    Some(Plot::lines(title, Axis::new("rounds").log(), auc_axis(), series).reference(0.5, "nothing"))
}
