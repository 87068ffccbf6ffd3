//! Inversion of the person's vector (Chai, Wang, Chen, Yang: Secure Federated Matrix Factorization. IEEE Intelligent Systems
//! 2021, of FedMF's gradients): rows of one upload are multiples of it. What its owner likes follows from it and the shared
//! model, which the server has. It needs no row of an item had.

use crate::{Evidence, Surface};
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

pub(super) fn scores(surface: &Surface, evidence: &Evidence, shared: &Parameters) -> Vec<f32> {
    if surface.is_of_features() {
        return surface.to_items(evidence.worth.clone());
    }
    let Some(table) = shared.tables().first() else { return Vec::new() };
    if evidence.vector.is_empty() {
        return vec![0.0; table.shape().rows as usize];
    }
    let score = |row: &[f32]| {
        let bias = if surface.has_bias() { row[row.len() - 1] } else { 0.0 };
        math::dot(&evidence.vector, &row[..evidence.vector.len()]) + bias
    };
    table.values().chunks_exact(table.shape().cols as usize).map(score).collect()
}
