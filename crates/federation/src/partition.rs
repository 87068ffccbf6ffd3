//! How a cohort is divided into parts whose sums are merged in order.
//!
//! Sums of floating-point numbers depend on the order of addition. So that they are the same on any number of threads,
//! in the simulator and on a server, a cohort is divided by its size and the model's alone.

use sottovoce_protocol::{Keyed, Layout};
use std::ops::Range;

/// Devices that a part of the cohort has at least where updates are rows: smaller parts cost more than they gain.
const LEAST_PART: usize = 32;
/// Parts a cohort is divided into: adding each to the others costs a pass over the shared model.
const FEW_PARTS: usize = 12;
/// Devices of a part for which that cost does not matter, so that there may be more parts for more cores.
const LARGE_PART: usize = 4096;
/// Parts at most.
const MOST_PARTS: usize = 64;
/// Bytes that the parts' sums may take together.
const MOST_BYTES: usize = 512 << 20;

/// A cohort in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    parts: usize,
    cohort: usize,
}

impl Partition {
    /// Of so many devices that send updates of this layout.
    pub(crate) fn new(layout: &Layout, cohort: usize) -> Self {
        let bytes: usize = layout.shapes().iter().map(|shape| 4 * shape.values()).sum();
        let affordable = (MOST_BYTES / bytes.max(1)).clamp(1, MOST_PARTS);
        // A device that trains a dense model works far longer than it takes to add the model up.
        let dense = layout.shapes().iter().any(|shape| shape.keyed == Keyed::Dense);
        let least = if dense { 1 } else { LEAST_PART };
        let parts = (cohort / least).min(FEW_PARTS).max(cohort / LARGE_PART).clamp(1, affordable);
        Self { parts, cohort }
    }

    /// How many parts.
    pub(crate) fn parts(self) -> usize {
        self.parts
    }

    /// The indices in the cohort of a part.
    pub(crate) fn part(self, part: usize) -> Range<usize> {
        self.start(part)..self.start(part + 1)
    }

    /// Where a part begins. Parts get smaller, from half as large again as their mean to half of it: they are worked
    /// off in order, so that the last ones end at about the same time on all cores.
    fn start(self, part: usize) -> usize {
        let Self { parts, cohort } = self;
        (cohort as u128 * (part * (3 * parts - part)) as u128 / (2 * parts * parts) as u128) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_cohort_and_get_smaller() {
        for (parts, cohort) in [(1, 5), (3, 96), (12, 5954), (64, 1_000_000_007)] {
            let partition = Partition { parts, cohort };
            let all: Vec<Range<usize>> = (0..parts).map(|part| partition.part(part)).collect();
            assert_eq!((all[0].start, all[parts - 1].end), (0, cohort));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sizes: Vec<usize> = all.iter().map(Range::len).collect();
            assert!(sizes.windows(2).all(|pair| pair[0] + 1 >= pair[1]) && sizes[parts - 1] > 0, "{sizes:?}");
        }
    }
}
