//! Membership: of items that somebody is known to have, which were trained on?

use sottovoce_core::math;

/// Scores of the items by the shared model alone, for whoever knows them all: items that were trained on together lie
/// together.
pub(crate) fn by_model(vectors: &[Vec<f32>], known: &[u32]) -> Vec<f32> {
    let width = vectors.first().map_or(0, Vec::len);
    let of = |item: u32| &vectors[item as usize][..];
    let mut centre = vec![0.0; width];
    known.iter().for_each(|&item| math::add(&mut centre, of(item)));
    known.iter().map(|&item| math::dot(of(item), &centre) - math::dot(of(item), of(item))).collect()
}
