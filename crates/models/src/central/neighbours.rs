//! The most similar rows of a sparse matrix of who has what.
//!
//! For rows a and b with n_a and n_b entries and c in common:
//! ```text
//! cosine   c / (sqrt(n_a n_b) + shrinkage)
//! jaccard  c / (n_a + n_b - c + shrinkage)
//! ```
//! Shrinkage makes similarities that rest on few common entries smaller.

use crate::settings::{Setting, Settings};
use crate::stored;
use crate::{ModelError, Tensor};
use rayon::prelude::*;
use sottovoce_core::{Histories, HistoriesBuilder};

/// The settings of neighbourhood models, with these defaults.
pub(crate) fn settings(k: i64, shrinkage: f64) -> Vec<Setting> {
    vec![
        Setting::integer("k", k, 1..=10_000, "Number of neighbours").on_log_scale(),
        Setting::choice("similarity", &["cosine", "jaccard"], "How alike two rows are"),
        Setting::real(
            "shrinkage",
            shrinkage,
            0.0..=1000.0,
            "Added to the denominator: distrust of rows with few entries",
        ),
    ]
}

/// How alike two rows are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Similarity {
    jaccard: bool,
    shrinkage: f32,
}

impl Similarity {
    /// From settings made by [`settings`].
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            jaccard: settings.word("similarity") == "jaccard",
            shrinkage: settings.real("shrinkage") as f32,
        }
    }

    /// Of rows with `a` and `b` entries, `common` (at least one) of them in common.
    fn of(self, common: u32, a: usize, b: usize) -> f32 {
        let together = if self.jaccard {
            (a + b - common as usize) as f32
        } else {
            ((a as f64 * b as f64) as f32).sqrt()
        };
        common as f32 / (together + self.shrinkage)
    }
}

/// For each row its most similar others, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Neighbours {
    offsets: Vec<usize>,
    rows: Vec<u32>,
    similarities: Vec<f32>,
}

impl Neighbours {
    /// The `k` rows of `matrix` most similar to each, among those with an entry in common; equals by index.
    ///
    /// `matrix` must have no repeats in a row, and `by_column` be its transpose.
    pub(crate) fn nearest(
        matrix: &Histories,
        by_column: &Histories,
        k: usize,
        similarity: Similarity,
    ) -> Self {
        let lists: Vec<Vec<(u32, f32)>> = (0..matrix.users())
            .into_par_iter()
            .map_init(
                || Scratch { common: vec![0; matrix.users()], met: Vec::new() },
                |scratch, row| scratch.nearest(matrix, by_column, row, k, similarity),
            )
            .collect();
        Self::from_lists(&lists)
    }

    fn from_lists(lists: &[Vec<(u32, f32)>]) -> Self {
        let mut all = Self { offsets: vec![0], ..Self::default() };
        for list in lists {
            all.rows.extend(list.iter().map(|&(row, _)| row));
            all.similarities.extend(list.iter().map(|&(_, similarity)| similarity));
            all.offsets.push(all.rows.len());
        }
        all
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// A row's neighbours and their similarities.
    pub(crate) fn of(&self, row: usize) -> impl Iterator<Item = (u32, f32)> + '_ {
        let range = self.offsets[row]..self.offsets[row + 1];
        self.rows[range.clone()].iter().copied().zip(self.similarities[range].iter().copied())
    }

    /// For each row those that have it as a neighbour, by index.
    pub(crate) fn reversed(&self) -> Neighbours {
        let mut lists = vec![Vec::new(); self.len()];
        for row in 0..self.len() {
            for (neighbour, similarity) in self.of(row) {
                lists[neighbour as usize].push((row as u32, similarity));
            }
        }
        Self::from_lists(&lists)
    }

    /// As stored: how many neighbours each row has, then all neighbours and similarities.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        let counts = self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
        vec![
            stored::indices("counts", [self.len()], counts),
            stored::indices("neighbours", [self.rows.len()], self.rows.clone()),
            stored::floats("similarities", [self.rows.len()], self.similarities.clone()),
        ]
    }

    /// Reads what [`tensors`](Self::tensors) gave, for this many rows.
    pub(crate) fn restore(tensors: &[Tensor], rows: usize) -> Result<Self, ModelError> {
        let counts = stored::take_indices(tensors, "counts", &[rows])?;
        let length = stored::length(tensors, "neighbours")?;
        let neighbours = stored::take_indices(tensors, "neighbours", &[length])?;
        let similarities = stored::take_floats(tensors, "similarities", &[length])?;
        let mut offsets = vec![0];
        offsets.extend(counts.iter().scan(0, |sum, &count| {
            *sum += count as usize;
            Some(*sum)
        }));
        if offsets.last() != Some(&length) {
            return Err(ModelError::Restore(format!("counts do not add up to {length} neighbours")));
        }
        if let Some(wrong) = neighbours.iter().find(|&&row| row as usize >= rows) {
            return Err(ModelError::Restore(format!("neighbour {wrong} of {rows} rows")));
        }
        Ok(Self { offsets, rows: neighbours.to_vec(), similarities: similarities.to_vec() })
    }
}

/// Working memory of one thread.
struct Scratch {
    /// Entries in common with each row; all zero between rows.
    common: Vec<u32>,
    /// Rows with an entry in common.
    met: Vec<u32>,
}

impl Scratch {
    fn nearest(
        &mut self,
        matrix: &Histories,
        by_column: &Histories,
        row: usize,
        k: usize,
        similarity: Similarity,
    ) -> Vec<(u32, f32)> {
        for &column in matrix.of(row) {
            for &other in by_column.of(column as usize) {
                let common = &mut self.common[other as usize];
                if *common == 0 {
                    self.met.push(other);
                }
                *common += 1;
            }
        }
        let mut list = Vec::with_capacity(self.met.len());
        for other in self.met.drain(..) {
            let common = std::mem::take(&mut self.common[other as usize]);
            if other as usize != row {
                let (a, b) = (matrix.of(row).len(), matrix.of(other as usize).len());
                list.push((other, similarity.of(common, a, b)));
            }
        }
        keep_best(&mut list, k);
        list
    }
}

/// Leaves the `k` best, best first, equals by index.
fn keep_best(list: &mut Vec<(u32, f32)>, k: usize) {
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if list.len() > k {
        list.select_nth_unstable_by(k - 1, order);
        list.truncate(k);
    }
    list.sort_unstable_by(order);
    list.shrink_to_fit();
}

/// Each user's items ascending, each once.
pub(crate) fn distinct(train: &Histories) -> Histories {
    let mut builder = HistoriesBuilder::new(train.catalog_size(), false, false);
    for items in train.sorted().iter() {
        for once in items.chunk_by(|a, b| a == b) {
            // An item of the catalog always is taken.
            let _ = builder.push(once[0], 0.0, 0);
        }
        builder.end_user();
    }
    builder.finish()
}

/// Histories of no one, for a model before it has learnt.
pub(crate) fn nobody() -> Histories {
    HistoriesBuilder::new(0, false, false).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// All pairs, by sets.
    fn brute_force(lists: &[Vec<u32>], k: usize, similarity: Similarity) -> Vec<Vec<(u32, f32)>> {
        let sets: Vec<BTreeSet<u32>> = lists.iter().map(|list| list.iter().copied().collect()).collect();
        let nearest = |a: usize| {
            let mut all: Vec<(u32, f32)> = (0..sets.len())
                .filter(|&b| b != a && !sets[a].is_disjoint(&sets[b]))
                .map(|b| {
                    let common = sets[a].intersection(&sets[b]).count() as f32;
                    let union = sets[a].union(&sets[b]).count() as f32;
                    let cosine = ((sets[a].len() * sets[b].len()) as f32).sqrt();
                    let below = if similarity.jaccard { union } else { cosine };
                    (b as u32, common / (below + similarity.shrinkage))
                })
                .collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(k);
            all
        };
        (0..sets.len()).map(nearest).collect()
    }

    proptest! {
        #[test]
        fn nearest_rows_are_those_of_brute_force(
            lists in prop::collection::vec(prop::collection::vec(0u32..12, 0..9), 1..15),
            k in 1usize..6, jaccard: bool, shrinkage in prop::sample::select(vec![0.0f32, 3.5]),
        ) {
            let similarity = Similarity { jaccard, shrinkage };
            let matrix = distinct(&Histories::from_lists(&lists, 12).unwrap());
            let found = Neighbours::nearest(&matrix, &matrix.transposed(), k, similarity);
            for (row, expected) in brute_force(&lists, k, similarity).into_iter().enumerate() {
                prop_assert_eq!(found.of(row).collect::<Vec<_>>(), expected);
            }
            let mut back: Vec<(u32, u32)> = Vec::new();
            for row in 0..found.len() {
                back.extend(found.reversed().of(row).map(|(other, _)| (other, row as u32)));
            }
            back.sort_unstable();
            let mut there: Vec<(u32, u32)> =
                (0..found.len()).flat_map(|row| found.of(row).map(move |(other, _)| (row as u32, other))).collect();
            there.sort_unstable();
            prop_assert_eq!(back, there);
        }
    }

    #[test]
    fn stored_neighbours_that_cannot_be_are_refused() {
        let matrix = Histories::from_lists(&[vec![0, 1], vec![1], vec![0]], 2).unwrap();
        let similarity = Similarity { jaccard: false, shrinkage: 0.0 };
        let neighbours = Neighbours::nearest(&matrix, &matrix.transposed(), 2, similarity);
        let tensors = neighbours.tensors();
        assert_eq!(Neighbours::restore(&tensors, 3).unwrap(), neighbours);
        assert!(Neighbours::restore(&tensors, 2).is_err());
        let mut wrong = tensors.clone();
        wrong[0] = stored::indices("counts", [3], vec![1, 1, 1]);
        assert!(Neighbours::restore(&wrong, 3).unwrap_err().to_string().contains("do not add up"));
        wrong = tensors;
        wrong[1] = stored::indices("neighbours", [4], vec![0, 1, 2, 3]);
        assert!(Neighbours::restore(&wrong, 3).unwrap_err().to_string().contains("neighbour 3 of 3"));
    }
}
