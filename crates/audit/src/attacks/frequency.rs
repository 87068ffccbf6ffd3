//! The frequency of updates: triples draw from few items had and from many others.

use crate::{Evidence, ExposedTable};

pub(super) fn scores(table: &ExposedTable, evidence: &Evidence) -> Vec<f32> {
    let uploads = evidence.uploads.max(1) as f32;
    table.to_items(evidence.sent.iter().map(|&sent| sent as f32 / uploads).collect())
}
