//! Who is served well: the metric of choice by how much is known of a user.

use super::{main_metric, metric_title};
use crate::file::Experiment;
use crate::results::DataResults;
use sottovoce_evaluate::quantile_groups;
use sottovoce_evaluate::report::{Cell, Column, Row, Table};

/// Groups of users, from those with the shortest histories to those with the longest.
const GROUPS: usize = 4;

/// The metric of choice by length of the training history; `None` if users have no values of it.
pub(super) fn table(experiment: &Experiment, data: &DataResults) -> Option<Table> {
    let metric = main_metric(experiment);
    let title = metric_title(metric);
    let judged: Vec<_> =
        data.rows.iter().filter_map(|row| Some((row, row.per_user(metric.key, metric.cutoff)?))).collect();
    let (_, (users, _)) = judged.first()?;
    let length = |user: &u32| data.card.activity.get(*user as usize).map(|&length| f64::from(length));
    let lengths: Vec<f64> = users.iter().map(length).collect::<Option<_>>()?;
    let groups = quantile_groups(&lengths, GROUPS);
    if groups.len() < 2 {
        return None;
    }
    let mut table = Table::new(format!("{title} by length of the history on {}", data.label), "Model");
    for (number, group) in groups.iter().enumerate() {
        let (first, last) = (lengths[group[0]], lengths[group[group.len() - 1]]);
        let heading = if first == last { format!("{first}") } else { format!("{first} to {last}") };
        let help =
            format!("{title} of the {} users with {heading} interactions in the training part.", group.len());
        table =
            table.column(Column::new(format!("group_{}", number + 1), heading).help(help).higher().digits(4));
    }
    for (row, (own, values)) in &judged {
        if own != users {
            continue;
        }
        let mean =
            |group: &Vec<usize>| group.iter().map(|&place| values[place]).sum::<f64>() / group.len() as f64;
        let cells = groups.iter().map(|group| Cell::number(mean(group)));
        table = table.row(cells.fold(Row::new(&row.label), Row::cell));
    }
    Some(table.note("Columns are quarters of the users by the number of interactions they were learnt from."))
}
