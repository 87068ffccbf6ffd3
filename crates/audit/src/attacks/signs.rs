//! The pairing of signs and magnitudes: in a triple the item had moves towards the person, and the other away.

use crate::{Evidence, Surface};

pub(super) fn scores(surface: &Surface, evidence: &Evidence) -> Vec<f32> {
    surface.to_items(evidence.towards.clone())
}
