//! Accuracy by the length of users' histories.

use super::metric_title;
use crate::file::Experiment;
use crate::results::DataResults;
use sottovoce_evaluate::quantile_groups;
use sottovoce_evaluate::report::{Cell, Column, Row, Table};

/// Groups of users, from those with the shortest histories to those with the longest.
const GROUPS: usize = 4;

/// The metric of selection by length of the training history; `None` if it has no values by user.
pub(super) fn table(experiment: &Experiment, data: &DataResults) -> Option<Table> {
    let metric = experiment.selection.metric;
    let title = metric_title(metric);
    let evaluated: Vec<_> =
        data.rows.iter().filter_map(|row| Some((row, row.per_user(metric.key, metric.cutoff)?))).collect();
    let (_, (users, _)) = evaluated.first()?;
    let length = |user: &u32| data.card.activity.get(*user as usize).map(|&length| f64::from(length));
    let lengths: Vec<f64> = users.iter().map(length).collect::<Option<_>>()?;
    let groups = quantile_groups(&lengths, GROUPS);
    if groups.len() < 2 {
        return None;
    }
    let mut table = Table::new(format!("{title} by history length on {}", data.label), "Model");
    for (number, group) in groups.iter().enumerate() {
        let (first, last) = (lengths[group[0]], lengths[group[group.len() - 1]]);
        let heading = if first == last { format!("{first}") } else { format!("{first} to {last}") };
        let help = format!("{title} of the {} users with {heading} interactions in the training part.", group.len());
        table = table.column(Column::new(format!("group_{}", number + 1), heading).help(help).higher().digits(4));
    }
    for (row, (own, values)) in &evaluated {
        if own != users {
            continue;
        }
        let mean = |group: &Vec<usize>| group.iter().map(|&user| values[user]).sum::<f64>() / group.len() as f64;
        let cells = groups.iter().map(|group| Cell::number(mean(group)));
        table = table.row(cells.fold(Row::new(&row.label), Row::cell));
    }
    Some(table.note("Columns are quarters of the users by their number of training interactions."))
}
