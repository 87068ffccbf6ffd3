//! The report on classifiers: the tables and curves of the thesis's chapter 5.

use super::{list, rows};
use crate::classifier::{AccuracyCurve, Classification, StopReason, name_of};
use crate::results::{Results, Row};
use sottovoce_evaluate::report::plot::{Axis, Point, Series, Style, Unit};
use sottovoce_evaluate::report::{Cell, Column, Format, KeyFigure, Mark, Plot, Report, Row as Line, Section, Table};
use sottovoce_models::settings::Value;

/// The start of the captions of the tables of rounds.
pub(super) const CAPTION: &str = "Rounds until devices reach";

pub(super) fn report(task: &Classification, results: &Results) -> Report {
    let comparison = Comparison::of(task, results);
    let mut report = Report::new(&results.about.title).subtitle("comparison of aggregations");
    report = comparison.summary().into_iter().fold(report, Report::sentence);
    report = comparison.key_figures().into_iter().fold(report, Report::figure);
    let tables = (0..task.targets.len()).map(|target| comparison.rounds_table(target));
    let rounds = tables.fold(Section::new("Rounds").text(comparison.setup()), Section::table);
    let accuracy = Section::new("Accuracy").plot(comparison.curves()).table(comparison.accuracies());
    let tables = [("Test images", comparison.confusions()), ("Learning rate", comparison.learning_rates())];
    let more = tables.into_iter().filter_map(|(title, table)| Some(Section::new(title).table(table?)));
    [rounds, accuracy].into_iter().chain(more).fold(report, Report::section)
}

/// The rows of a comparison, the baseline first.
struct Comparison<'a> {
    task: &'a Classification,
    results: &'a Results,
    devices: usize,
    rows: Vec<Aggregated<'a>>,
}

/// The trainings of one aggregation, one a seed.
struct Aggregated<'a> {
    row: &'a Row,
    curves: Vec<&'a AccuracyCurve>,
}

impl Aggregated<'_> {
    /// The mean round in which this fraction of devices reached a target, and whether all seeds got there; those that
    /// did not count with the maximum.
    fn round_of(&self, target: usize, fraction: f64, devices: usize, most: usize) -> (f64, bool) {
        let rounds = || self.curves.iter().map(|curve| curve.round_of(target, fraction, devices));
        let sum: usize = rounds().map(|round| round.unwrap_or(most)).sum();
        (sum as f64 / self.curves.len().max(1) as f64, rounds().all(|round| round.is_some()))
    }

    /// The mean over seeds.
    fn mean(&self, of: impl Fn(&AccuracyCurve) -> f64) -> f64 {
        self.curves.iter().map(|curve| of(curve)).sum::<f64>() / self.curves.len().max(1) as f64
    }
}

fn percent(fraction: f64) -> String {
    format!("{:.0} %", 100.0 * fraction)
}

impl<'a> Comparison<'a> {
    fn of(task: &'a Classification, results: &'a Results) -> Self {
        let curves = |row: &'a Row| row.finals.iter().filter_map(|each| each.run.accuracy_curve.as_ref()).collect();
        let rows = rows(results).map(|(_, row)| Aggregated { row, curves: curves(row) }).collect();
        let devices = results.data.first().map_or(0, |data| data.card.card.users as usize);
        Self { task, results, devices, rows }
    }

    /// The learning rate of all rows.
    fn learning_rate(&self) -> Option<&Value> {
        self.rows.first()?.row.settings.get("learning_rate")
    }

    fn parameters(&self) -> String {
        let figure = self.rows.first().and_then(|first| first.row.figures.get("parameters"));
        Format::Integer.show(figure.map_or(0.0, |figure| figure.mean))
    }

    fn setup(&self) -> String {
        let task = self.task;
        let batch = match task.batch {
            0 => "all of a device's images in one step".to_owned(),
            batch => format!("{batch} images a step"),
        };
        format!(
            "{} devices, {:.0} % of them in a round's cohort; network `{}` with {} parameters; {} local epochs, {batch}, \
             learning rate {}; at most {} rounds. A device has reached a target when the accuracy of the shared model on its \
             own test images is at least the target. The row of the baseline gives the first round after which that fraction \
             of devices had reached it; the others how many rounds earlier they did.",
            self.devices,
            100.0 * task.client_fraction,
            name_of(task.network),
            self.parameters(),
            task.epochs,
            self.learning_rate().map_or_else(String::new, ToString::to_string),
            task.rounds
        )
    }

    /// The rounds of a row to a target, one a fraction of devices.
    fn rounds_of(&self, row: &Aggregated<'_>, target: usize) -> Vec<(f64, bool)> {
        let of = |&fraction: &f64| row.round_of(target, fraction, self.devices, self.task.rounds);
        self.task.devices.iter().map(of).collect()
    }

    fn rounds_table(&self, target: usize) -> Table {
        let goal = percent(self.task.targets[target]);
        let mut table = Table::new(format!("{CAPTION} {goal}"), "Aggregation");
        for &fraction in &self.task.devices {
            let column = Column::new(format!("devices_{:.0}", 100.0 * fraction), percent(fraction)).higher();
            table = table.column(column.format(Format::Digits(u8::from(self.results.seeds.len() > 1))));
        }
        let mean = Column::new("mean", "mean").higher().digits(2);
        table = table.column(mean.help("Mean gain over the fractions of devices."));
        let Some((baseline, others)) = self.rows.split_first() else { return table };
        let first = self.rounds_of(baseline, target);
        let late = || Mark::new("°", "not reached by all seeds: counted with the maximum number of rounds");
        let marked = |cell: Cell, reached: bool| if reached { cell } else { cell.mark(late()) };
        let cells = first.iter().map(|&(rounds, reached)| marked(Cell::number(rounds), reached));
        let line = Line::new(&baseline.row.label).detail("rounds").reference();
        table = table.row(cells.fold(line, Line::cell));
        for row in others {
            let gains = self.gains(baseline, row, target);
            let own = self.rounds_of(row, target);
            let cells = gains.iter().zip(own).map(|(&gain, own)| marked(Cell::number(gain), own.1));
            let line = cells.fold(Line::new(&row.row.label), Line::cell);
            table = table.row(line.cell(Cell::number(gains.iter().sum::<f64>() / gains.len().max(1) as f64)));
        }
        table.note("The baseline's row has rounds, the others have rounds gained over it: positive is earlier.")
    }

    /// The gains of a row over the baseline to a target, one a fraction of devices.
    fn gains(&self, baseline: &Aggregated<'_>, row: &Aggregated<'_>, target: usize) -> Vec<f64> {
        let (first, own) = (self.rounds_of(baseline, target), self.rounds_of(row, target));
        first.into_iter().zip(own).map(|(first, own)| first.0 - own.0).collect()
    }

    /// The mean gain of a row over the baseline, over all targets and fractions.
    fn gain(&self, baseline: &Aggregated<'_>, row: &Aggregated<'_>) -> f64 {
        let targets = 0..self.task.targets.len();
        let all: Vec<f64> = targets.flat_map(|target| self.gains(baseline, row, target)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }

    fn summary(&self) -> Vec<String> {
        let Some((baseline, others)) = self.rows.split_first() else { return Vec::new() };
        let (mut sentences, name) = (Vec::new(), &baseline.row.label);
        let gains = others.iter().map(|row| (row, self.gain(baseline, row)));
        if let Some((best, gained)) = gains.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let words = match gained {
                gained if gained > 0.0 => format!("reaches them {gained:.1} rounds earlier"),
                gained => format!("is nearest, {:.1} rounds later", -gained),
            };
            sentences.push(format!(
                "On average over all targets and fractions of devices, **{}** {words} than **{name}**.",
                best.row.label
            ));
        }
        if let Some(accuracy) = self.task.stop_at {
            let reached = baseline.curves.iter().map(|curve| curve.round_of_accuracy(accuracy));
            let rounds = reached.map(|round| round.map_or("never".to_owned(), |round| format!("round {round}")));
            let (goal, rounds) = (percent(accuracy), list(rounds));
            sentences.push(format!("**{name}** reaches a test accuracy of {goal} in {rounds}."));
        }
        let best = self.rows.iter().map(|row| (row, row.mean(|curve| curve.best.accuracy)));
        if let Some((row, accuracy)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let (accuracy, label) = (100.0 * accuracy, &row.row.label);
            sentences.push(format!("The best accuracy is {accuracy:.2} %, with **{label}**."));
        }
        sentences
    }

    fn key_figures(&self) -> Vec<KeyFigure> {
        let Some(baseline) = self.rows.first() else { return Vec::new() };
        let accuracy = format!("{:.2} %", 100.0 * baseline.mean(|curve| curve.best.accuracy));
        let rounds = format!("{:.0}", baseline.mean(|curve| curve.rounds() as f64));
        let data = self.results.data.first().map(|data| data.label.clone()).unwrap_or_default();
        vec![
            KeyFigure::new("accuracy of the baseline", accuracy, &baseline.row.label),
            KeyFigure::new("rounds", rounds, format!("of at most {}", self.task.rounds)),
            KeyFigure::new("devices", Format::Integer.show(self.devices as f64), data),
            KeyFigure::new("parameters", self.parameters(), "sent whole, each round"),
        ]
    }

    /// Figure 5.1: accuracy by round, the mean over seeds as far as all of them went.
    fn curves(&self) -> Plot {
        let series = self.rows.iter().enumerate().map(|(n, row)| {
            let rounds = row.curves.iter().map(|curve| curve.rounds()).min().unwrap_or(0);
            let point = |round: usize| Point::new((round + 1) as f64, row.mean(|curve| curve.accuracy[round]));
            let series = Series::of(&row.row.label, (0..rounds).map(point).collect());
            if n == 0 { series.style(Style::Reference) } else { series }
        });
        let accuracy = Axis::new("accuracy").unit(Unit::Percent);
        Plot::lines("Accuracy by round", Axis::new("round"), accuracy, series.collect())
            .caption("Accuracy of the shared model over the test images of all devices.")
            .full_width()
    }

    fn accuracies(&self) -> Table {
        let mut table = Table::new("Accuracy and cost", "Aggregation")
            .column(Column::new("best", "best accuracy").higher().digits(4))
            .column(Column::new("best_round", "in round").digits(0))
            .column(Column::new("last", "last accuracy").higher().digits(4))
            .column(Column::new("rounds", "rounds done").digits(0))
            .column(Column::new("megabytes", "MB sent by devices").digits(0))
            .column(Column::new("seconds", "seconds").digits(0).help("Wall clock; trials may run in parallel."));
        for row in &self.rows {
            let seconds = row.row.figures.get("train_seconds").map_or(0.0, |spread| spread.mean);
            let values = [
                row.mean(|curve| curve.best.accuracy),
                row.mean(|curve| curve.best.round as f64),
                row.mean(|curve| curve.accuracy.last().copied().unwrap_or(0.0)),
                row.mean(|curve| curve.rounds() as f64),
                row.mean(|curve| curve.bytes_up as f64 / 1e6),
                seconds,
            ];
            let diverged = row.curves.iter().any(|curve| matches!(curve.ending, StopReason::Diverged(_)));
            let line = Line::new(&row.row.label).numbers(values);
            table = table.row(if diverged { line.detail("diverged") } else { line });
        }
        table
    }

    /// Tables 5.2, 5.4 and 5.6: test images that the best rounds of the baseline and of another classified correctly;
    /// all seeds together.
    fn confusions(&self) -> Option<Table> {
        let (baseline, others) = self.rows.split_first().filter(|(_, others)| !others.is_empty())?;
        let parts = &self.results.data.first()?.card.card.parts;
        let images = parts.last().map_or(0, |(_, images)| *images as usize);
        let column = |key: &str, title: &str| Column::new(key, title).digits(0);
        let mut table = Table::new("Test images by the best round of each", "Aggregation")
            .column(column("both_wrong", "both wrong"))
            .column(column("gained", &format!("only {} wrong", baseline.row.label)))
            .column(column("lost", "only this wrong"))
            .column(column("both_right", "both right"));
        for row in others {
            let mut counts = [[0u64; 2]; 2];
            for (first, own) in baseline.curves.iter().zip(&row.curves) {
                let pairs = first.best.images().zip(own.best.images()).take(images);
                pairs.for_each(|(first, own)| counts[usize::from(first)][usize::from(own)] += 1);
            }
            let counts = counts.as_flattened().iter().map(|&count| count as f64);
            table = table.row(Line::new(&row.row.label).numbers(counts));
        }
        Some(table)
    }

    /// The learning rates tried with the baseline, if there were several.
    fn learning_rates(&self) -> Option<Table> {
        let tried = &self.rows.first()?.row.tried;
        let mut table = Table::new("Learning rates tried with the baseline", "Rate")
            .column(Column::new("round", "round of half the devices").lower().digits(0))
            .column(Column::new("accuracy", "best accuracy").higher().digits(4))
            .column(Column::new("rounds", "rounds done").digits(0));
        let last = self.task.targets.len().saturating_sub(1);
        for one in tried {
            let (rate, curve) = (one.settings.get("learning_rate")?, one.run.accuracy_curve.as_ref()?);
            let round = curve.round_of(last, 0.5, self.devices).map(|round| round as f64);
            let line = Line::new(rate.to_string()).cell(Cell::maybe(round));
            let line = line.numbers([curve.best.accuracy, curve.rounds() as f64]);
            table = table.row(if Some(rate) == self.learning_rate() { line.highlight() } else { line });
        }
        let note =
            "Selected: the rate with which half of the devices first reach the last target, or else the most accurate.";
        (!tried.is_empty()).then(|| table.note(note))
    }
}
