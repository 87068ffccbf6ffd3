//! The short head and the long tail of a catalog.

use sottovoce_core::Histories;

/// Training interactions that the short head holds at least: 4 / 5.
const HEAD_SHARE: (u64, u64) = (4, 5);

/// How often each item occurs in training, and which are the short head.
///
/// The head is the most popular items, most popular first (ties by ascending item), until they hold 80 % of the
/// training interactions; the item that crosses is in. The rest is the long tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Popularity {
    /// Training interactions by item.
    pub(crate) counts: Vec<u32>,
    head: Vec<bool>,
    head_size: usize,
}

impl Popularity {
    /// Counts the interactions of a training part.
    pub(crate) fn of(train: &Histories) -> Self {
        let counts = train.popularity();
        let mut order: Vec<u32> = (0..counts.len() as u32).collect();
        order.sort_by_key(|&item| std::cmp::Reverse(counts[item as usize]));
        let (mut head, mut head_size) = (vec![false; counts.len()], 0);
        let (mut held, total) = (0, train.interactions() as u64);
        while held * HEAD_SHARE.1 < total * HEAD_SHARE.0 {
            let item = order[head_size] as usize;
            head[item] = true;
            held += u64::from(counts[item]);
            head_size += 1;
        }
        Self { counts, head, head_size }
    }

    /// Whether an item is in the short head.
    pub(crate) fn is_head(&self, item: u32) -> bool {
        self.head[item as usize]
    }

    /// Number of items in the short head and in the long tail, by group.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        [self.head_size as u64, (self.counts.len() - self.head_size) as u64]
    }

    /// Group of an item: [`HEAD`] or [`TAIL`].
    pub(crate) fn group(&self, item: u32) -> usize {
        usize::from(!self.is_head(item))
    }
}

pub(crate) const HEAD: usize = 0;
pub(crate) const TAIL: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_includes_the_item_that_crosses_80_percent() {
        // 10 interactions: item 3 has 5, items 0 and 2 have 2, item 1 has 1, item 4 none. 5 + 2 are 70 %, + 2 are 90 %.
        let lists = [vec![3, 3, 3, 3, 3], vec![2, 2, 0, 0, 1]];
        let all = Popularity::of(&Histories::from_lists(&lists, 5).unwrap());
        assert_eq!((0..5).map(|item| all.is_head(item)).collect::<Vec<_>>(), [true, false, true, true, false]);
        assert_eq!(all.sizes(), [3, 2]);
        // Exactly 80 % is enough.
        let all = Popularity::of(&Histories::from_lists(&[vec![0, 1, 1, 1, 1]], 2).unwrap());
        assert_eq!((all.head_size, all.is_head(1)), (1, true));
        assert_eq!(Popularity::of(&Histories::from_lists(&[[]], 2).unwrap()).head_size, 0);
    }
}
