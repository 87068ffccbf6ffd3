//! The private model: the selected features, their weights, and a vector of each.
//!
//! A mark of the facts and one of the history it was chosen for, then a slot a feature: its number plus 1, its weight
//! and its vector. Slots ascend by feature, and empty ones, all 0, come last. Numbers up to 2^24 are exact in an f32.

use crate::features::MAX_FEATURES;
use sottovoce_core::Facts;

/// Values before the first slot.
const HEAD: usize = 2;

/// Values of a private model with so many slots.
pub(super) fn width(slots: usize, factors: usize) -> usize {
    HEAD + slots * (2 + factors)
}

/// A feature that was chosen.
pub(super) struct Slot<'a> {
    pub(super) feature: u32,
    /// k_uf.
    pub(super) weight: f32,
    /// p_f.
    pub(super) vector: &'a [f32],
}

/// The slots in use. Numbers past `features`, which no choice left, end them.
#[inline(always)]
pub(super) fn slots(private: &[f32], factors: usize, features: usize) -> impl Iterator<Item = Slot<'_>> {
    private[HEAD..].chunks_exact(2 + factors).map_while(move |slot| {
        let feature = (slot[0] as usize).checked_sub(1).filter(|&feature| feature < features)?;
        Some(Slot { feature: feature as u32, weight: slot[1], vector: &slot[2..] })
    })
}

/// The vector of one slot.
#[inline(always)]
pub(super) fn vector(private: &[f32], factors: usize, slot: usize) -> &[f32] {
    &private[HEAD + slot * (2 + factors) + 2..][..factors]
}

/// The vector of one slot, to be changed.
#[inline(always)]
pub(super) fn vector_mut(private: &mut [f32], factors: usize, slot: usize) -> &mut [f32] {
    &mut private[HEAD + slot * (2 + factors) + 2..][..factors]
}

/// Marks of facts and of a history, to see when they have changed.
pub(super) fn marks(facts: &Facts, history: &[u32]) -> [f32; 2] {
    let sizes = [facts.items() as u32, facts.features() as u32, facts.len() as u32];
    [mark(&sizes), mark(history)]
}

/// 24 bits of FNV-1a, never 0.
fn mark(numbers: &[u32]) -> f32 {
    let hash = numbers
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &number| (hash ^ u64::from(number)).wrapping_mul(0x0100_0000_01b3));
    let folded = (hash ^ (hash >> 32)) as u32 & 0xff_ffff;
    folded.max(1) as f32
}

/// Whether the slots are for these marks.
pub(super) fn is_for(private: &[f32], marks: [f32; 2]) -> bool {
    private[..HEAD] == marks
}

/// Stores a selection: ascending features and weights. The vectors of features that stay selected are kept, as long as
/// the facts are the same; `fresh` makes those of new ones.
pub(super) fn put(
    private: &mut [f32],
    factors: usize,
    marks: [f32; 2],
    chosen: &[(u32, f32)],
    mut fresh: impl FnMut(&mut [f32]),
) {
    let before = if private[0] == marks[0] { private.to_vec() } else { vec![0.0; private.len()] };
    let mut old_slots = slots(&before, factors, MAX_FEATURES).peekable();
    private[..HEAD].copy_from_slice(&marks);
    let mut into = private[HEAD..].chunks_exact_mut(2 + factors);
    for (&(feature, weight), slot) in chosen.iter().zip(&mut into) {
        while old_slots.next_if(|old| old.feature < feature).is_some() {}
        (slot[0], slot[1]) = ((feature + 1) as f32, weight);
        match old_slots.next_if(|old| old.feature == feature) {
            Some(old) => slot[2..].copy_from_slice(old.vector),
            None => fresh(&mut slot[2..]),
        }
    }
    into.for_each(|slot| slot.fill(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_choice_keeps_the_vectors_of_features_that_stay() {
        let mut private = vec![0.0; width(3, 2)];
        let mut next = 0.0;
        let mut fresh = |vector: &mut [f32]| {
            next += 1.0;
            vector.fill(next);
        };
        put(&mut private, 2, [5.0, 1.0], &[(0, 0.5), (7, 0.25), (9, 1.0)], &mut fresh);
        put(&mut private, 2, [5.0, 2.0], &[(7, 0.75), (8, 0.5)], &mut fresh);
        let seen = |private: &[f32]| {
            slots(private, 2, 10).map(|slot| (slot.feature, slot.weight, slot.vector[1])).collect::<Vec<_>>()
        };
        assert_eq!(seen(&private), [(7, 0.75, 2.0), (8, 0.5, 4.0)]);
        assert!(is_for(&private, [5.0, 2.0]) && !is_for(&private, [5.0, 1.0]));
        // Other facts number features anew.
        put(&mut private, 2, [6.0, 2.0], &[(7, 0.75)], &mut fresh);
        assert_eq!(seen(&private), [(7, 0.75, 5.0)]);
    }

    #[test]
    fn marks_tell_histories_apart_and_are_exact() {
        let facts = Facts::of_lists(&[("a", 1)], &[vec![0], vec![]]);
        let one = marks(&facts, &[0]);
        assert_ne!(one, marks(&facts, &[1]));
        assert_ne!(one, marks(&facts, &[]));
        assert!(one.iter().all(|mark| *mark >= 1.0 && mark.fract() == 0.0));
    }
}
