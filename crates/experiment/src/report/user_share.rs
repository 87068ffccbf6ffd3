//! Learning curves over the share of the users that is trained on: data sets that differ in their sample of users only.

use super::{metric_title, tables, unless_empty};
use crate::file::{DataSet, Experiment, InteractionData};
use crate::results::{DataResults, Results};
use sottovoce_data::Cleaning;
use sottovoce_evaluate::report::plot::{Axis, Point, Series, Unit};
use sottovoce_evaluate::report::{Cell, Column, Plot, Row, Section, Table};

/// One data set with its samples, the smallest first.
struct Samples<'a> {
    whole: InteractionData,
    by_share: Vec<(f64, &'a DataResults)>,
}

/// The metric of selection against the share of users, where there are several shares of one data set.
pub(super) fn section(experiment: &Experiment, results: &Results) -> Option<Section> {
    let groups = samples(results);
    let section = groups.iter().fold(Section::new("Shares of the users"), |section, samples| {
        section.plot(plot(experiment, samples)).table(table(experiment, samples))
    });
    unless_empty(section)
}

fn samples(results: &Results) -> Vec<Samples<'_>> {
    let mut groups: Vec<Samples<'_>> = Vec::new();
    for data in &results.data {
        let DataSet::Interactions(set) = &data.data else { continue };
        let share = set.cleaning.user_sample.map_or(1.0, |sample| sample.share);
        let cleaning = Cleaning { user_sample: None, ..set.cleaning.clone() };
        let whole = InteractionData { label: set.source.clone(), cleaning, ..set.clone() };
        match groups.iter_mut().find(|samples| samples.whole == whole) {
            Some(samples) => samples.by_share.push((share, data)),
            None => groups.push(Samples { whole, by_share: vec![(share, data)] }),
        }
    }
    groups.retain(|samples| samples.by_share.len() > 1);
    groups.iter_mut().for_each(|samples| samples.by_share.sort_by(|a, b| a.0.total_cmp(&b.0)));
    groups
}

/// The labels of all rows, in the order of the file.
fn labels<'a>(samples: &Samples<'a>) -> Vec<&'a str> {
    let mut labels: Vec<&str> = Vec::new();
    for row in samples.by_share.iter().flat_map(|(_, data)| &data.rows) {
        if !labels.contains(&row.label.as_str()) {
            labels.push(&row.label);
        }
    }
    labels
}

fn plot(experiment: &Experiment, samples: &Samples<'_>) -> Plot {
    let metric = experiment.selection.metric;
    let title = metric_title(metric);
    let curve = |label: &&str| {
        let point = |(share, data): &(f64, &DataResults)| {
            let row = data.rows.iter().find(|row| row.label == **label)?;
            let spread = row.metric(metric.key, metric.cutoff)?;
            let point = Point::new(*share, spread.mean);
            Some(if spread.n > 1 { point.bounds(spread.mean - spread.sd, spread.mean + spread.sd) } else { point })
        };
        Series::of(*label, samples.by_share.iter().filter_map(point).collect())
    };
    let series = labels(samples).iter().map(curve).filter(|series| !series.points.is_empty()).collect();
    let axis = Axis::new("share of the users").unit(Unit::Percent);
    Plot::lines(format!("{title} by share of the users of {}", samples.whole.source), axis, Axis::new(title), series)
        .caption("Random samples of the users, each part of the next larger one.")
}

fn table(experiment: &Experiment, samples: &Samples<'_>) -> Table {
    let metric = experiment.selection.metric;
    let caption = format!("{} by share of the users of {}", metric_title(metric), samples.whole.source);
    let mut table = Table::new(caption, "Model");
    for (share, data) in &samples.by_share {
        let column = Column::new(share.to_string(), format!("{} %", (share * 1e6).round() / 1e4));
        table = table
            .column(column.digits(4).direction(metric.key.direction()).help(format!("{} users", data.card.card.users)));
    }
    for label in labels(samples) {
        let cell = |data: &DataResults| {
            let row = data.rows.iter().find(|row| row.label == label);
            row.map_or(Cell::maybe(None), |row| tables::cell(row.metric(metric.key, metric.cutoff)))
        };
        table = table.row(samples.by_share.iter().map(|(_, data)| cell(data)).fold(Row::new(label), Row::cell));
    }
    table
}
