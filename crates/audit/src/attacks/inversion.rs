//! Inversion of the person's vector (Chai, Wang, Chen, Yang: Secure Federated Matrix Factorization. IEEE Intelligent Systems
//! 2021, of FedMF's gradients): rows of one upload are multiples of it. What its owner likes follows from it and the shared
//! model, which the server has. It needs no row of an item had.

use crate::{Evidence, ExposedTable};
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

pub(super) fn scores(table: &ExposedTable, evidence: &Evidence, shared: &Parameters) -> Vec<f32> {
    if table.is_of_features() {
        return table.to_items(evidence.worth.clone());
    }
    let Some(shared) = table.of(shared) else { return Vec::new() };
    if evidence.vector.is_empty() {
        return vec![0.0; shared.shape().rows as usize];
    }
    let score = |row: &[f32]| {
        let bias = if table.has_bias() { row[row.len() - 1] } else { 0.0 };
        math::dot(&evidence.vector, &row[..evidence.vector.len()]) + bias
    };
    shared.values().chunks_exact(shared.shape().cols as usize).map(score).collect()
}
