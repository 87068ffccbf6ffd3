//! Which items stand for what somebody does not have, and what that tells about what they have.

/// Where a device draws the negatives of its triples from.
///
/// A negative's row leaves the device. Where negatives are drawn from everything but the history, as in the papers, a row that
/// never leaves belongs to an item that its owner has: the complement of what was sent gives the history away, whatever the
/// owner's pi, and the surer the more rounds go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Negatives {
    /// From the whole catalog, whether the owner has the item, hides it or neither: which rows leave as negatives then says
    /// nothing about the owner. Where the row of an item had was drawn and is to stay at home, only what was drawn leaves.
    #[default]
    Decoys,
    /// From a fixed part of the catalog, each device's own, without what the owner has: what never leaves is most of the catalog.
    Pool,
    /// From all that the owner does not have.
    Papers,
}

impl Negatives {
    /// Names for settings; the first is the default.
    pub const NAMES: &'static [&'static str] = &["decoys", "pool", "papers"];

    /// By name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Decoys, Self::Pool, Self::Papers].into_iter().find(|each| each.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A device's fixed part of the catalog: items are in it or not by a hash of a number of the device's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    seed: u64,
}

/// One item in so many is in a pool.
const ONE_IN: u64 = 5;

/// Draws after which an item outside the pool is taken: a small catalog may have none left in it.
pub(crate) const PATIENCE: u32 = 1000;

impl Pool {
    /// Of a number that the device keeps.
    pub(crate) fn of(kept: f32) -> Self {
        Self { seed: u64::from(kept.to_bits()) }
    }

    pub(crate) fn has(self, item: u32) -> bool {
        let mut z = (self.seed << 32 | u64::from(item)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).is_multiple_of(ONE_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_fifth_of_the_catalog_and_each_devices_own() {
        let (one, other) = (Pool::of(0.25), Pool::of(0.26));
        let count = |of: &dyn Fn(u32) -> bool| (0..10_000).filter(|&item| of(item)).count();
        assert!(count(&|item| one.has(item)).abs_diff(2000) < 150);
        assert!(count(&|item| one.has(item) && other.has(item)).abs_diff(400) < 100);
    }

    #[test]
    fn names_lead_back() {
        assert!(
            Negatives::NAMES.iter().all(|name| Negatives::named(name).is_some_and(|n| n.name() == *name))
        );
        assert_eq!(Negatives::named("none"), None);
    }
}
