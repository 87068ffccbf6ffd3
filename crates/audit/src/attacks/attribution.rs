//! Attribution: whoever was in a round is taken to have sent what the round's mean is.

use crate::sums::Sums;
use sottovoce_core::math;

/// What the person is taken to have sent.
pub(super) fn sent(sums: &Sums, person: u32) -> Vec<f32> {
    let mut mean = vec![0.0; sums.values()];
    for round in sums.rounds().filter(|round| round.present.binary_search(&person).is_ok()) {
        math::add_scaled(&mut mean, 1.0 / round.present.len() as f32, &round.values);
    }
    mean
}
