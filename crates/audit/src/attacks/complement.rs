//! The complement: where negatives are drawn from what somebody does not have, whatever never comes as a negative they
//! have. It needs no row of an item had, so that it works at pi = 0, too; and it gets better with every round.

use crate::{Evidence, ExposedTable};

pub(super) fn scores(table: &ExposedTable, evidence: &Evidence) -> Vec<f32> {
    let uploads = evidence.uploads.max(1) as f32;
    table.to_items(evidence.away.iter().map(|&away| -(away as f32) / uploads).collect())
}
