//! The frequency of updates: triples draw from few items had and from many others.

use crate::{Evidence, Surface};

pub(super) fn scores(surface: &Surface, evidence: &Evidence) -> Vec<f32> {
    let uploads = evidence.uploads.max(1) as f32;
    surface.to_items(evidence.sent.iter().map(|&sent| sent as f32 / uploads).collect())
}
