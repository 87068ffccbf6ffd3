//! From courses to a report: the tables and curves of the thesis's chapter 5.

use super::file::network_name;
use super::results::{Results, Row};
use super::{Course, Ending, Study};
use sottovoce_evaluate::report::plot::{Axis, Point, Series, Style, Unit};
use sottovoce_evaluate::report::{
    Cell, Column, Format, KeyFigure, Mark, Plot, Report, Row as Line, Section, Table,
};

/// Composes the report of a study; `text` is the file as it was read, `provenance` facts of the run.
pub fn compose(study: &Study, text: &str, results: &Results, provenance: &[(String, String)]) -> Report {
    let mut report = Report::new(&results.title).subtitle("study of aggregation");
    report = verdicts(study, results).into_iter().fold(report, Report::sentence);
    if let Some(question) = &study.question {
        report = report.sentence(format!("The question was: {question}"));
    }
    report = figures(results).into_iter().fold(report, Report::figure);
    let mut rounds = Section::new("Rounds").text(how(study, results));
    for target in 0..results.targets.len() {
        rounds = rounds.table(rounds_table(results, target));
    }
    report = report.section(rounds);
    report = report.section(Section::new("Accuracy").plot(curves(results)).table(accuracies(results)));
    if let Some(table) = confusions(results) {
        report = report.section(Section::new("Which images").table(table));
    }
    if !results.tried.is_empty() {
        report = report.section(Section::new("Learning rate").table(rates(results)));
    }
    if let Some(notes) = &study.notes {
        report = report.section(Section::new("Notes").text(notes.clone()));
    }
    let seeds: Vec<String> = results.seeds.iter().map(ToString::to_string).collect();
    report = report
        .data_card(results.data.clone())
        .configuration(&study.file, text)
        .provenance("version", format!("sottovoce {}", env!("CARGO_PKG_VERSION")))
        .provenance("seeds", seeds.join(", "));
    provenance.iter().fold(report, |report, (name, value)| report.provenance(name, value))
}

fn how(study: &Study, results: &Results) -> String {
    let training = &study.training;
    let batch = match training.batch {
        0 => "all of a device's images in one step".to_owned(),
        batch => format!("{batch} images a step"),
    };
    format!(
        "{} devices, {:.0} % of them asked into a round; network `{}` with {} parameters; {} local epochs, {batch}, \
         learning rate {}; at most {} rounds. A device has reached a target when its share of right answers on its own \
         test images, with the shared model after that round, is at least the target. The line of the baseline gives \
         the first round after which that share of devices had; the others how many rounds sooner they got there.",
        results.devices,
        100.0 * training.share,
        network_name(training.network),
        Format::Integer.show(results.parameters as f64),
        training.epochs,
        results.rate,
        results.rounds
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The rounds of a row to a target, one a share of devices.
fn rounds_of(results: &Results, row: &Row, target: usize) -> Vec<(f64, bool)> {
    let of = |&share: &f64| row.round_of(target, share, results.devices, results.rounds);
    results.shares.iter().map(of).collect()
}

fn rounds_table(results: &Results, target: usize) -> Table {
    let goal = percent(results.targets[target]);
    let mut table = Table::new(format!("Rounds until devices reach {goal}"), "Aggregation");
    for &share in &results.shares {
        let column = Column::new(format!("devices_{:.0}", 100.0 * share), percent(share)).higher();
        table = table.column(column.format(Format::Digits(u8::from(results.seeds.len() > 1))));
    }
    table = table
        .column(Column::new("mean", "mean").higher().digits(2).help("Mean gain over the shares of devices."));
    let Some((baseline, others)) = results.rows.split_first() else { return table };
    let first = rounds_of(results, baseline, target);
    let late = || Mark::new("°", "not reached in all rounds: counted with their number");
    let marked = |cell: Cell, reached: bool| if reached { cell } else { cell.mark(late()) };
    let cells = first.iter().map(|&(rounds, reached)| marked(Cell::number(rounds), reached));
    table = table.row(cells.fold(Line::new(&baseline.label).detail("rounds").reference(), Line::cell));
    for row in others {
        let own = rounds_of(results, row, target);
        let gains: Vec<f64> = first.iter().zip(&own).map(|(first, own)| first.0 - own.0).collect();
        let cells = gains.iter().zip(&own).map(|(&gain, own)| marked(Cell::number(gain), own.1));
        let line = cells.fold(Line::new(&row.label), Line::cell);
        table = table.row(line.cell(Cell::number(gains.iter().sum::<f64>() / gains.len().max(1) as f64)));
    }
    table.note("The baseline's line has rounds, the others what they gain over it: positive is sooner.")
}

/// The mean gain of a row over the baseline, over all targets and shares.
fn gain(results: &Results, row: &Row) -> Option<f64> {
    let baseline = results.rows.first()?;
    let all: Vec<f64> = (0..results.targets.len())
        .flat_map(|target| {
            let (first, own) = (rounds_of(results, baseline, target), rounds_of(results, row, target));
            first.into_iter().zip(own).map(|(first, own)| first.0 - own.0).collect::<Vec<_>>()
        })
        .collect();
    Some(all.iter().sum::<f64>() / all.len().max(1) as f64)
}

fn verdicts(study: &Study, results: &Results) -> Vec<String> {
    let Some((baseline, others)) = results.rows.split_first() else { return Vec::new() };
    let mut sentences = Vec::new();
    let gains = others.iter().filter_map(|row| Some((row, gain(results, row)?)));
    if let Some((best, gained)) = gains.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let words = match gained {
            gained if gained > 0.0 => format!("gets there {gained:.1} rounds sooner"),
            gained => format!("is nearest, {:.1} rounds later", -gained),
        };
        sentences.push(format!(
            "Over all targets and shares of devices, **{}** {words} than **{}** on the mean.",
            best.label, baseline.label
        ));
    }
    if let Some(accuracy) = study.stop_at {
        let reached: Vec<String> = baseline
            .courses
            .iter()
            .map(|course| {
                course
                    .round_of_accuracy(accuracy)
                    .map_or("never".to_owned(), |round| format!("round {round}"))
            })
            .collect();
        sentences.push(format!(
            "**{}** reaches a test accuracy of {} in {}.",
            baseline.label,
            percent(accuracy),
            reached.join(", ")
        ));
    }
    let best = results.rows.iter().map(|row| (row, row.mean(|course| course.best.accuracy)));
    if let Some((row, accuracy)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) {
        sentences.push(format!("The best accuracy is {:.2} %, with **{}**.", 100.0 * accuracy, row.label));
    }
    sentences
}

fn figures(results: &Results) -> Vec<KeyFigure> {
    let Some(baseline) = results.rows.first() else { return Vec::new() };
    let accuracy = baseline.mean(|course| course.best.accuracy);
    let rounds = baseline.mean(|course| course.rounds() as f64);
    vec![
        KeyFigure::new("accuracy of the baseline", format!("{:.2} %", 100.0 * accuracy), &baseline.label),
        KeyFigure::new("rounds", format!("{rounds:.0}"), format!("of at most {}", results.rounds)),
        KeyFigure::new("devices", Format::Integer.show(results.devices as f64), results.data.name.clone()),
        KeyFigure::new(
            "parameters",
            Format::Integer.show(results.parameters as f64),
            "sent whole, each round",
        ),
    ]
}

/// Figure 5.1: accuracy by round, the mean over seeds as far as all of them went.
fn curves(results: &Results) -> Plot {
    let series = results.rows.iter().enumerate().map(|(n, row)| {
        let rounds = row.courses.iter().map(Course::rounds).min().unwrap_or(0);
        let point = |round: usize| Point::new((round + 1) as f64, row.mean(|course| course.accuracy[round]));
        let series = Series::of(&row.label, (0..rounds).map(point).collect());
        if n == 0 { series.style(Style::Reference) } else { series }
    });
    let mut plot = Plot::lines(
        "Accuracy by round",
        Axis::new("round"),
        Axis::new("accuracy").unit(Unit::Percent),
        series.collect(),
    );
    plot.caption =
        "The mean of devices' accuracies on their own test images, weighted by their number.".to_owned();
    plot.full_width = true;
    plot
}

fn accuracies(results: &Results) -> Table {
    let mut table = Table::new("Accuracy and cost", "Aggregation")
        .column(Column::new("best", "best accuracy").higher().digits(4))
        .column(Column::new("best_round", "in round").digits(0))
        .column(Column::new("last", "last accuracy").higher().digits(4))
        .column(Column::new("rounds", "rounds done").digits(0))
        .column(Column::new("megabytes", "MB sent by devices").digits(0))
        .column(Column::new("seconds", "seconds").digits(0).help("Wall clock; others may run beside it."));
    for row in &results.rows {
        let last = row.mean(|course| course.accuracy.last().copied().unwrap_or(0.0));
        let values = [
            row.mean(|course| course.best.accuracy),
            row.mean(|course| course.best.round as f64),
            last,
            row.mean(|course| course.rounds() as f64),
            row.mean(|course| course.bytes_up as f64 / 1e6),
            row.mean(|course| course.seconds),
        ];
        let diverged = row.courses.iter().any(|course| matches!(course.ending, Ending::Diverged(_)));
        let line = Line::new(&row.label).numbers(values);
        table = table.row(if diverged { line.detail("diverged") } else { line });
    }
    table
}

/// Tables 5.2, 5.4 and 5.6: images that the best rounds of the baseline and of another took for what they are; all seeds together.
fn confusions(results: &Results) -> Option<Table> {
    let (baseline, others) = results.rows.split_first().filter(|(_, others)| !others.is_empty())?;
    let images = results.data.parts.last().map_or(0, |(_, images)| *images as usize);
    let column = |key: &str, title: &str| Column::new(key, title).digits(0);
    let mut table = Table::new("Test images by the best round of each", "Aggregation")
        .column(column("both_wrong", "both wrong"))
        .column(column("gained", format!("only {} wrong", baseline.label).as_str()))
        .column(column("lost", "only this wrong"))
        .column(column("both_right", "both right"));
    for row in others {
        let mut counts = [[0u64; 2]; 2];
        for (first, own) in baseline.courses.iter().zip(&row.courses) {
            let pairs = first.best.images().zip(own.best.images()).take(images);
            pairs.for_each(|(first, own)| counts[usize::from(first)][usize::from(own)] += 1);
        }
        let [[both_wrong, gained], [lost, both_right]] = counts;
        table = table
            .row(Line::new(&row.label).numbers([both_wrong, gained, lost, both_right].map(|n| n as f64)));
    }
    Some(table)
}

fn rates(results: &Results) -> Table {
    let mut table = Table::new("Learning rates tried with the baseline", "Rate")
        .column(Column::new("round", "round of half the devices").lower().digits(0))
        .column(Column::new("accuracy", "best accuracy").higher().digits(4))
        .column(Column::new("rounds", "rounds done").digits(0));
    for tried in &results.tried {
        let line = Line::new(tried.rate.to_string())
            .cell(Cell::maybe(tried.round.map(|round| round as f64)))
            .numbers([tried.accuracy, tried.rounds as f64]);
        table = table.row(if tried.rate == results.rate { line.highlight() } else { line });
    }
    table.note("Chosen: the rate with which half of the devices first reach the last target, or else the most accurate.")
}
