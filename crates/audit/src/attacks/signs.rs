//! The pairing of signs and magnitudes: in a triple the item had moves towards the person, and the other away.

use crate::{Evidence, ExposedTable};

pub(super) fn scores(table: &ExposedTable, evidence: &Evidence) -> Vec<f32> {
    table.to_items(evidence.towards.clone())
}
