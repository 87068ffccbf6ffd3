//! Convergence: rounds until a federated model is nearly as good as it gets.

use super::{Experiment, Results, line, metric_title, rows};
use crate::results::Row;
use sottovoce_evaluate::report::{self, Cell, Column, Direction, Format, Section, Table};

/// Shares of the final value.
const SHARES: [f64; 3] = [0.90, 0.95, 0.99];

/// A model's mean curve over the seeds: rounds and value at each evaluated epoch.
fn mean_curve(row: &Row) -> Vec<(f64, f64)> {
    let Some(first) = row.finals.iter().find(|each| !each.run.curve.is_empty()) else { return Vec::new() };
    let at = |epoch: usize| {
        let points = row.finals.iter().filter_map(|each| each.run.curve.iter().find(|point| point.epoch == epoch));
        let pairs: Vec<(f64, f64)> = points.filter_map(|point| Some((point.rounds? as f64, point.value?))).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
        (!pairs.is_empty()).then(|| (mean(|pair| pair.0), mean(|pair| pair.1)))
    };
    first.run.curve.iter().filter_map(|point| at(point.epoch)).collect()
}

/// Rounds after which a curve has first reached each share of where it ends.
fn rounds_to(curve: &[(f64, f64)]) -> Option<(f64, [Option<f64>; 3])> {
    let &(_, last) = curve.last()?;
    let reached = |share: f64| curve.iter().find(|(_, value)| *value >= share * last).map(|point| point.0);
    Some((last, SHARES.map(reached)))
}

/// The table, for experiments with learning curves of federated models on the test part.
pub(super) fn section(experiment: &Experiment, results: &Results) -> Option<Section> {
    let metric = experiment.selection.metric;
    if metric.key.direction() != Direction::HigherBetter {
        return None;
    }
    let title = metric_title(metric);
    let mut table = Table::new(format!("Rounds to a share of the final {title}"), "Model")
        .column(Column::new("final", format!("Final {title}")).digits(4).higher());
    for share in SHARES {
        let name = format!("{:.0} %", 100.0 * share);
        let column = Column::new(format!("rounds_{:.0}", 100.0 * share), name).lower();
        table = table.column(column.format(Format::Integer));
    }
    let mut any = false;
    for (data, row) in rows(results) {
        let Some((last, rounds)) = rounds_to(&mean_curve(row)) else { continue };
        any = true;
        let cells = [Some(last)].into_iter().chain(rounds).map(Cell::maybe);
        table = table.row(cells.fold(line(results, data, row), report::Row::cell));
    }
    let note = "The mean curve over the seeds on the test part: rounds up to the first evaluation that reaches the share of the last one.";
    any.then(|| Section::new("Convergence").table(table.note(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_rounds_to_the_first_evaluation_that_reaches_a_share() {
        let curve = [(10.0, 0.5), (20.0, 0.93), (30.0, 0.91), (40.0, 0.96), (50.0, 1.0)];
        assert_eq!(rounds_to(&curve), Some((1.0, [Some(20.0), Some(40.0), Some(50.0)])));
        assert_eq!(rounds_to(&[]), None);
    }
}
