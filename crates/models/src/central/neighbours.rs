//! The most similar rows of a sparse binary matrix.
//!
//! For rows a and b with n_a and n_b entries and c in common:
//! ```text
//! cosine   c / (sqrt(n_a n_b) + shrinkage)
//! jaccard  c / (n_a + n_b - c + shrinkage)
//! ```
//! Shrinkage lowers similarities that rest on few entries.

use crate::{ModelError, Tensor, choices, config, stored};
use rayon::prelude::*;
use sottovoce_core::Histories;

choices! {
    /// A similarity of two rows.
    pub enum Similarity {
        /// By the cosine between them.
        Cosine => "cosine",
        /// By the fraction of their entries that they have in common.
        Jaccard => "jaccard",
    }
}

config! {
    /// Settings of neighbourhood models.
    #[derive(Copy, PartialEq)]
    pub struct NeighbourConfig {
        /// Number of neighbours
        pub k: usize = 100, in 1..=10_000 => [log];
        /// Similarity of two rows
        pub similarity: Similarity = Similarity::Cosine;
        /// Added to the denominator, which lowers the similarity of rows with few entries
        pub shrinkage: f64 = 20.0, in 0.0..=1000.0;
    }
}

impl NeighbourConfig {
    /// The similarity of rows with `a` and `b` entries, `common` (more than 0) of them in common: numbers, or noisy
    /// sums of weights.
    pub(crate) fn similarity_of(&self, common: f64, a: f64, b: f64) -> f32 {
        let together = match self.similarity {
            Similarity::Jaccard => (a + b - common).max(common) as f32,
            Similarity::Cosine => ((a * b) as f32).sqrt(),
        };
        common as f32 / (together + self.shrinkage as f32)
    }
}

/// For each row its most similar others, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Neighbours {
    offsets: Vec<usize>,
    rows: Vec<u32>,
    similarities: Vec<f32>,
}

impl Neighbours {
    /// The `k` rows of `matrix` most similar to each, among those with an entry in common; ties by index.
    ///
    /// Rows of `matrix` must have no duplicates; `by_column` is its transpose.
    pub(super) fn nearest(matrix: &Histories, by_column: &Histories, config: &NeighbourConfig) -> Self {
        let lists: Vec<Vec<(u32, f32)>> = (0..matrix.users())
            .into_par_iter()
            .map_init(
                || Scratch { common: vec![0; matrix.users()], candidates: Vec::new() },
                |scratch, row| scratch.nearest(matrix, by_column, row, config),
            )
            .collect();
        Self::from_lists(&lists)
    }

    /// These lists, best first.
    pub(super) fn from_lists(lists: &[Vec<(u32, f32)>]) -> Self {
        let mut all = Self { offsets: vec![0], ..Self::default() };
        for list in lists {
            all.rows.extend(list.iter().map(|&(row, _)| row));
            all.similarities.extend(list.iter().map(|&(_, similarity)| similarity));
            all.offsets.push(all.rows.len());
        }
        all
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// A row's neighbours and their similarities.
    pub(super) fn of(&self, row: usize) -> impl Iterator<Item = (u32, f32)> + '_ {
        let range = self.offsets[row]..self.offsets[row + 1];
        self.rows[range.clone()].iter().copied().zip(self.similarities[range].iter().copied())
    }

    /// For each row the rows that have it as a neighbour, by index.
    pub(super) fn reversed(&self) -> Neighbours {
        let mut lists = vec![Vec::new(); self.len()];
        for row in 0..self.len() {
            for (neighbour, similarity) in self.of(row) {
                lists[neighbour as usize].push((row as u32, similarity));
            }
        }
        Self::from_lists(&lists)
    }

    /// As stored: how many neighbours each row has, then all neighbours and similarities.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let counts = self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
        vec![
            stored::indices("counts", [self.len()], counts),
            stored::indices("neighbours", [self.rows.len()], self.rows.clone()),
            stored::floats("similarities", [self.rows.len()], self.similarities.clone()),
        ]
    }

    /// Reads what [`tensors`](Self::tensors) wrote, for this many rows.
    pub(super) fn restore(tensors: &[Tensor], rows: usize) -> Result<Self, ModelError> {
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
    candidates: Vec<u32>,
}

impl Scratch {
    fn nearest(
        &mut self,
        matrix: &Histories,
        by_column: &Histories,
        row: usize,
        config: &NeighbourConfig,
    ) -> Vec<(u32, f32)> {
        for &column in matrix.of(row) {
            for &other in by_column.of(column as usize) {
                let common = &mut self.common[other as usize];
                if *common == 0 {
                    self.candidates.push(other);
                }
                *common += 1;
            }
        }
        let mut list = Vec::with_capacity(self.candidates.len());
        for other in self.candidates.drain(..) {
            let common = std::mem::take(&mut self.common[other as usize]);
            if other as usize != row {
                let (a, b) = (matrix.of(row).len() as f64, matrix.of(other as usize).len() as f64);
                list.push((other, config.similarity_of(f64::from(common), a, b)));
            }
        }
        retain_best(&mut list, config.k);
        list
    }
}

/// Leaves the `k` most similar, best first, ties by index.
pub(crate) fn retain_best(list: &mut Vec<(u32, f32)>, k: usize) {
    let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if list.len() > k {
        list.select_nth_unstable_by(k - 1, order);
        list.truncate(k);
    }
    list.sort_unstable_by(order);
    list.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// All pairs, by sets.
    fn brute_force(lists: &[Vec<u32>], config: &NeighbourConfig) -> Vec<Vec<(u32, f32)>> {
        let sets: Vec<BTreeSet<u32>> = lists.iter().map(|list| list.iter().copied().collect()).collect();
        let nearest = |a: usize| {
            let mut all: Vec<(u32, f32)> = (0..sets.len())
                .filter(|&b| b != a && !sets[a].is_disjoint(&sets[b]))
                .map(|b| {
                    let common = sets[a].intersection(&sets[b]).count() as f32;
                    let union = sets[a].union(&sets[b]).count() as f32;
                    let cosine = ((sets[a].len() * sets[b].len()) as f32).sqrt();
                    let denominator = if config.similarity == Similarity::Jaccard { union } else { cosine };
                    (b as u32, common / (denominator + config.shrinkage as f32))
                })
                .collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(config.k);
            all
        };
        (0..sets.len()).map(nearest).collect()
    }

    proptest! {
        #[test]
        fn nearest_rows_equal_brute_force(
            lists in prop::collection::vec(prop::collection::vec(0u32..12, 0..9), 1..15),
            k in 1usize..6, jaccard: bool, shrinkage in prop::sample::select(vec![0.0, 3.5]),
        ) {
            let similarity = if jaccard { Similarity::Jaccard } else { Similarity::Cosine };
            let config = NeighbourConfig { k, similarity, shrinkage };
            let matrix = Histories::from_lists(&lists, 12).unwrap().deduplicated();
            let found = Neighbours::nearest(&matrix, &matrix.transposed(), &config);
            for (row, expected) in brute_force(&lists, &config).into_iter().enumerate() {
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
    fn rejects_inconsistent_stored_neighbours() {
        let matrix = Histories::from_lists(&[vec![0, 1], vec![1], vec![0]], 2).unwrap();
        let config = NeighbourConfig { k: 2, shrinkage: 0.0, ..NeighbourConfig::default() };
        let neighbours = Neighbours::nearest(&matrix, &matrix.transposed(), &config);
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
