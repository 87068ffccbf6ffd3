//! Attacks on single uploads.

use crate::evidence::Evidence;
use crate::exposed_table::ExposedTable;
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

/// Signs and magnitudes: in a triple, the row of the positive moves along the user's vector and that of the negative
/// against it.
pub(super) fn signs(table: &ExposedTable, evidence: &Evidence) -> Vec<f32> {
    table.to_items(evidence.positive_sums.clone())
}

/// How often a row is updated: triples draw positives from few items and negatives from many.
pub(super) fn frequency(table: &ExposedTable, evidence: &Evidence) -> Vec<f32> {
    let uploads = evidence.uploads.max(1) as f32;
    table.to_items(evidence.updates.iter().map(|&count| count as f32 / uploads).collect())
}

/// Where negatives are drawn from what the user does not have, items that are never updated as a negative are theirs.
/// Needs no update of the user's items, so that it works at pi = 0 too, and improves with every round.
pub(super) fn complement(table: &ExposedTable, evidence: &Evidence) -> Vec<f32> {
    let uploads = evidence.uploads.max(1) as f32;
    table.to_items(evidence.negative_updates.iter().map(|&count| -(count as f32) / uploads).collect())
}

/// Inversion of the user's vector (Chai, Wang, Chen, Yang: Secure Federated Matrix Factorization. IEEE Intelligent
/// Systems 2021, on FedMF's gradients): the rows of one upload are multiples of it. With the shared model it gives the
/// user's scores. Needs no update of the user's items.
pub(super) fn inversion(table: &ExposedTable, evidence: &Evidence, shared: &Parameters) -> Vec<f32> {
    if table.is_of_features() {
        return table.to_items(evidence.feature_scores.clone());
    }
    let Some(shared) = table.of(shared) else { return Vec::new() };
    if evidence.user_vector.is_empty() {
        return vec![0.0; shared.shape().rows as usize];
    }
    let score = |row: &[f32]| {
        let bias = if table.bias { row[row.len() - 1] } else { 0.0 };
        math::dot(&evidence.user_vector, &row[..evidence.user_vector.len()]) + bias
    };
    shared.values().chunks_exact(shared.shape().cols as usize).map(score).collect()
}
