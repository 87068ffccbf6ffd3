//! Parts of the corpus, one after the other, or side by side on replicas of the vectors.

use super::kernels::{self, Block, LANES, Table};
use super::train::{Fixed, Scratch, Tables, TrainPart};
use rayon::prelude::*;
use sottovoce_core::{Rng, SimdKernel, simd_dispatch};
use std::ops::Range;

/// Words of a part of the corpus at least.
const PART: usize = 10_000;

/// With replicas, words of a part at least for each word of the vocabulary. Merging costs a pass over all vectors,
/// which is then a small part of the time.
const PART_PER_WORD: usize = 4;

/// Rows that are merged at once.
const MERGED_ROWS: usize = 512;

/// All epochs; returns the number of predictions.
pub(super) fn train(fixed: &Fixed, tables: &mut Tables, rng: &Rng) -> u64 {
    let replicas = fixed.config.replicas;
    let words = if replicas == 1 { PART } else { PART.max(PART_PER_WORD * fixed.corpus.words.len()) };
    let parts = parts(&fixed.corpus.ends, words);
    let mut copies: Vec<Replica> = match replicas {
        1 => Vec::new(),
        _ => (0..replicas).map(|_| Replica { tables: tables.clone(), scratch: Scratch::new(fixed) }).collect(),
    };
    let mut scratch = Scratch::new(fixed);
    let mut predictions = 0;
    for epoch in 0..fixed.config.epochs {
        let rng = rng.stream("epoch", epoch as u64);
        let train = |tables: &mut Tables, scratch: &mut Scratch, part: usize| {
            let rng = rng.stream("part", part as u64);
            simd_dispatch(TrainPart { fixed, tables, scratch, rng, epoch, sentences: parts[part].clone() })
        };
        for first in (0..parts.len()).step_by(replicas) {
            if replicas == 1 {
                predictions += train(tables, &mut scratch, first);
                continue;
            }
            let round: Vec<usize> = (first..parts.len()).take(replicas).collect();
            let work = copies.par_iter_mut().zip(round);
            predictions += work.map(|(copy, part)| train(&mut copy.tables, &mut copy.scratch, part)).sum::<u64>();
            merge(&mut tables.input, copies.iter_mut().map(|copy| &mut copy.tables.input));
            merge(&mut tables.output, copies.iter_mut().map(|copy| &mut copy.tables.output));
        }
    }
    predictions
}

/// A copy of the vectors that is trained on its own parts of the corpus.
struct Replica {
    tables: Tables,
    scratch: Scratch,
}

/// Ranges of sentences with about so many words each.
fn parts(ends: &[usize], words: usize) -> Vec<Range<usize>> {
    let (mut parts, mut first, mut start) = (Vec::new(), 0, 0);
    for (sentence, &end) in ends.iter().enumerate() {
        if end - start >= words || sentence + 1 == ends.len() {
            parts.push(first..sentence + 1);
            (first, start) = (sentence + 1, end);
        }
    }
    parts
}

/// Moves each row by the mean of its changes in those replicas that changed it, and gives the result to all of them. So
/// a rare word, which only one replica met, moves as far as without replicas.
fn merge<'a>(table: &mut Table, copies: impl Iterator<Item = &'a mut Table>) {
    let (width, size) = (table.width, MERGED_ROWS * table.width);
    let mut copies: Vec<_> = copies.map(|copy| copy.blocks.chunks_mut(size)).collect();
    let mut pieces: Vec<MergeRows> = Vec::new();
    for base in table.blocks.chunks_mut(size) {
        pieces.push(MergeRows { width, base, copies: copies.iter_mut().filter_map(Iterator::next).collect() });
    }
    pieces.into_par_iter().for_each(simd_dispatch);
}

struct MergeRows<'a> {
    width: usize,
    base: &'a mut [Block],
    copies: Vec<&'a mut [Block]>,
}

impl SimdKernel for MergeRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let mut sum = vec![[0.0; LANES]; self.width];
        for start in (0..self.base.len()).step_by(self.width) {
            let row = start..start + self.width;
            let base = &mut self.base[row.clone()];
            let mut changed = 0;
            sum.fill([0.0; LANES]);
            for copy in &self.copies {
                let copy = &copy[row.clone()];
                if copy != base {
                    changed += 1;
                    kernels::add_scaled(&mut sum, [1.0, -1.0], [copy, base]);
                }
            }
            if changed > 0 {
                kernels::add_scaled(base, [1.0 / changed as f32], [&sum]);
                for copy in &mut self.copies {
                    copy[row.clone()].copy_from_slice(base);
                }
            }
        }
    }
}
