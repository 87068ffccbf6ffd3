//! Which items stand for what a user does not have, and what that reveals.

crate::choices! {
    /// Where a device draws the negatives of its triples from.
    ///
    /// A negative's row leaves the device. In the papers negatives are drawn from everything but the history. A row
    /// that never leaves then belongs to an item that the user has: the complement of what was sent reveals the
    /// history, whatever the user's pi, and the more surely the more rounds there are.
    #[derive(Default)]
    pub enum Negatives {
        /// From the whole catalog, whether the user has the item, hides it or neither: which rows leave as negatives
        /// then says nothing about the user. Where the row of a user's own item was drawn and is withheld, a decoy
        /// leaves.
        #[default]
        Decoys => "decoys",
        /// From a fixed subset of the catalog, each device's own, without the user's items: what never leaves is most
        /// of the catalog.
        Pool => "pool",
        /// From all items that the user does not have.
        Papers => "papers",
    }
}

/// A device's fixed subset of the catalog: a hash of the device's own number decides which items are in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    seed: u64,
}

/// One item in this many is in a pool.
const ONE_IN: u64 = 5;

/// Draws after which an item outside the pool is taken: a small catalog may have none left in it.
pub(crate) const MAX_DRAWS: u32 = 1000;

impl Pool {
    /// From a number that the device stores.
    pub(crate) fn of(stored: f32) -> Self {
        Self { seed: u64::from(stored.to_bits()) }
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
    fn pools_are_a_fifth_of_the_catalog_and_differ_by_device() {
        let (one, other) = (Pool::of(0.25), Pool::of(0.26));
        let count = |of: &dyn Fn(u32) -> bool| (0..10_000).filter(|&item| of(item)).count();
        assert!(count(&|item| one.has(item)).abs_diff(2000) < 150);
        assert!(count(&|item| one.has(item) && other.has(item)).abs_diff(400) < 100);
    }
}
