//! The training loop: one part of the corpus on one pair of tables.

use super::Word2VecConfig;
use super::corpus::Pruned;
use super::kernels::{self, Block, LANES, Table};
use super::noise::Noise;
use sottovoce_core::math::sigmoid;
use sottovoce_core::{Rng, SimdKernel};
use std::ops::Range;

/// Rows that are multiplied at once.
const GROUP: usize = 3;

/// What training changes: vectors of words as context, and as predicted words.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) input: Table,
    pub(super) output: Table,
}

/// What training does not change.
pub(super) struct Fixed<'a> {
    pub(super) config: &'a Word2VecConfig,
    pub(super) corpus: &'a Pruned,
    pub(super) noise: Noise,
    /// Of each word: of 2^32 occurrences so many are trained on.
    pub(super) keep: Vec<u32>,
}

/// Buffers of a worker.
pub(super) struct Scratch {
    sentence: Vec<u32>,
    /// Whether each word was in the sentence already; false between sentences.
    seen: Vec<bool>,
    hidden: Vec<Block>,
    error: Vec<Block>,
    total: Vec<Block>,
    moved: Vec<Block>,
    targets: Vec<u32>,
    gradients: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(fixed: &Fixed) -> Self {
        let row = vec![[0.0; LANES]; fixed.config.dim.div_ceil(LANES)];
        let targets = (fixed.config.negatives + 1).next_multiple_of(GROUP);
        Self {
            sentence: Vec::new(),
            seen: vec![false; fixed.corpus.words.len()],
            hidden: row.clone(),
            error: row.clone(),
            total: row.clone(),
            moved: row,
            targets: vec![0; targets],
            gradients: vec![0.0; targets],
        }
    }
}

/// Trains on some sentences once; returns how many words were predicted.
pub(super) struct TrainPart<'a> {
    pub(super) fixed: &'a Fixed<'a>,
    pub(super) tables: &'a mut Tables,
    pub(super) scratch: &'a mut Scratch,
    pub(super) rng: Rng,
    pub(super) epoch: usize,
    pub(super) sentences: Range<usize>,
}

impl SimdKernel for TrainPart<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(mut self) -> u64 {
        let corpus = self.fixed.corpus;
        let mut predicted = 0;
        for sentence in self.sentences.clone() {
            let start = if sentence == 0 { 0 } else { corpus.ends[sentence - 1] };
            let rate = self.fixed.config.learning_rate_at(self.epoch, start as f64 / corpus.tokens.len() as f64);
            self.sample(&corpus.tokens[start..corpus.ends[sentence]]);
            // A word alone has no context to be predicted from.
            if self.scratch.sentence.len() < 2 {
                continue;
            }
            match self.fixed.config.window {
                Some(window) => self.windows(window, rate),
                None => self.whole(rate),
            }
            predicted += self.scratch.sentence.len() as u64;
        }
        predicted
    }
}

impl TrainPart<'_> {
    /// Leaves out occurrences of frequent words at random.
    #[inline(always)]
    fn sample(&mut self, tokens: &[u32]) {
        self.scratch.sentence.clear();
        for &token in tokens {
            let keep = self.fixed.keep[token as usize];
            if keep == u32::MAX || self.rng.next_u32() < keep {
                self.scratch.sentence.push(token);
            }
        }
    }

    /// Predicts each word from those around it.
    #[inline(always)]
    fn windows(&mut self, window: usize, rate: f32) {
        for at in 0..self.scratch.sentence.len() {
            let reach = 1 + self.rng.index(window);
            let scratch = &mut *self.scratch;
            let last = (at + 1).saturating_add(reach).min(scratch.sentence.len());
            let (before, after) = (at.saturating_sub(reach)..at, at + 1..last);
            scratch.hidden.fill([0.0; LANES]);
            for context in [before.clone(), after.clone()] {
                for &word in &scratch.sentence[context] {
                    kernels::add(&mut scratch.hidden, [self.tables.input.row(word)]);
                }
            }
            kernels::scale(&mut scratch.hidden, 1.0 / (before.len() + after.len()) as f32);
            self.predict(self.scratch.sentence[at], rate);
            for context in [before, after] {
                for &word in &self.scratch.sentence[context] {
                    kernels::add(self.tables.input.row_mut(word), [&self.scratch.error]);
                }
            }
        }
    }

    /// Predicts each word from all others of the sentence, in time linear in its length. Repeated words count once:
    /// a step moves each vector of the context, and would move those of repeated words so many times as far.
    ///
    /// A step adds its error e to the vectors of all other words. Instead, `moved` sums up all errors and the table
    /// gets -e for the word itself: each vector is its row of the table plus `moved`. So the sum of all n vectors,
    /// `total`, grows by (n - 1) e.
    #[inline(always)]
    fn whole(&mut self, rate: f32) {
        let scratch = &mut *self.scratch;
        scratch.sentence.retain(|&word| !std::mem::replace(&mut scratch.seen[word as usize], true));
        scratch.sentence.iter().for_each(|&word| scratch.seen[word as usize] = false);
        let others = scratch.sentence.len().saturating_sub(1) as f32;
        if others == 0.0 {
            scratch.sentence.clear();
        }
        scratch.total.fill([0.0; LANES]);
        scratch.moved.fill([0.0; LANES]);
        for &word in &scratch.sentence {
            kernels::add(&mut scratch.total, [self.tables.input.row(word)]);
        }
        for at in 0..self.scratch.sentence.len() {
            let scratch = &mut *self.scratch;
            let word = scratch.sentence[at];
            scratch.hidden.copy_from_slice(&scratch.total);
            kernels::add_scaled(&mut scratch.hidden, [-1.0; 2], [self.tables.input.row(word), &scratch.moved]);
            kernels::scale(&mut scratch.hidden, 1.0 / others);
            self.predict(word, rate);
            let scratch = &mut *self.scratch;
            kernels::add_scaled(self.tables.input.row_mut(word), [-1.0], [&scratch.error]);
            kernels::add(&mut scratch.moved, [&scratch.error]);
            kernels::add_scaled(&mut scratch.total, [others], [&scratch.error]);
        }
        for &word in &self.scratch.sentence {
            kernels::add(self.tables.input.row_mut(word), [&self.scratch.moved]);
        }
    }

    /// One step of negative sampling: from `hidden` to `error`, which the context's vectors are to be moved by.
    #[inline(always)]
    fn predict(&mut self, word: u32, rate: f32) {
        let Scratch { hidden, error, targets, gradients, .. } = &mut *self.scratch;
        let output = &mut self.tables.output;
        targets[0] = word;
        for target in &mut targets[1..] {
            *target = self.fixed.noise.draw(&mut self.rng);
        }
        let (groups, _) = targets.as_chunks::<GROUP>();
        let (scores, _) = gradients.as_chunks_mut::<GROUP>();
        for (group, scores) in groups.iter().zip(scores) {
            *scores = kernels::dots(hidden, group.map(|target| output.row(target)));
        }
        for gradient in gradients.iter_mut() {
            *gradient = -rate * sigmoid(*gradient);
        }
        gradients[0] += rate;
        // A word is not its own negative, and the last group may have more than was asked for.
        for (at, (gradient, &target)) in gradients.iter_mut().zip(&*targets).enumerate().skip(1) {
            if target == word || at > self.fixed.config.negatives {
                *gradient = 0.0;
            }
        }
        error.fill([0.0; LANES]);
        let (scores, _) = gradients.as_chunks::<GROUP>();
        for (group, gradients) in groups.iter().zip(scores) {
            kernels::add_scaled(error, *gradients, group.map(|target| output.row(target)));
        }
        for (&target, &gradient) in targets.iter().zip(&*gradients) {
            kernels::add_scaled(output.row_mut(target), [gradient], [hidden]);
        }
    }
}
