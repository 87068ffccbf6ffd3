//! Training of word vectors: CBOW with negative sampling.

mod corpus;
mod kernels;
mod noise;
mod replicas;
mod train;

use crate::error::{Result, TextError, expect_range};
use crate::word_vectors::WordVectors;
pub use corpus::Corpus;
use kernels::{LANES, Table};
use noise::Noise;
use sottovoce_core::{Rng, math};
use train::{Fixed, Tables};

/// Settings of [`Word2Vec`]. Defaults are those for entities of pages: order-free, and only what occurs 50 times.
#[derive(Clone, Debug, PartialEq)]
pub struct Word2VecConfig {
    /// Values of a vector, 1 to 4,096.
    pub dim: usize,
    /// Words that occur less often are left out.
    pub min_count: u32,
    /// Words to each side that a word is predicted from, at most: the number is drawn anew for each word. `None`: all
    /// other words of the sentence, whose order then does not matter; words repeated in it count once.
    pub window: Option<usize>,
    /// Random words that are told from each true one, 1 to 100.
    pub negatives: usize,
    /// Passes over the corpus, 1 to 10,000.
    pub epochs: usize,
    /// Learning rate at the start, above 0 and up to 1.
    pub learning_rate: f32,
    /// Learning rate at the end, to which it falls linearly.
    pub min_learning_rate: f32,
    /// Words that are more than this fraction of the corpus are left out at random, more often the more frequent they
    /// are; 0 keeps all.
    pub subsample: f64,
    /// Seed of the first vectors and of all draws.
    pub seed: u64,
    /// Copies of the vectors that are trained side by side and merged again and again, 1 to 64. One is exact. More can
    /// use as many threads; measure before you do (docs/performance.md). The result depends on this number, but never
    /// on the number of threads.
    pub replicas: usize,
}

impl Default for Word2VecConfig {
    fn default() -> Self {
        Self {
            dim: 100,
            min_count: 50,
            window: None,
            negatives: 5,
            epochs: 5,
            learning_rate: 0.025,
            min_learning_rate: 1e-4,
            subsample: 1e-3,
            seed: 0,
            replicas: 1,
        }
    }
}

impl Word2VecConfig {
    fn check(&self) -> Result<()> {
        expect_range("dim", self.dim, 1, WordVectors::MAX_DIM)?;
        expect_range("min_count", self.min_count, 1, u32::MAX)?;
        expect_range("window", self.window.unwrap_or(1), 1, usize::MAX)?;
        expect_range("negatives", self.negatives, 1, 100)?;
        expect_range("epochs", self.epochs, 1, 10_000)?;
        expect_range("learning_rate", self.learning_rate, f32::MIN_POSITIVE, 1.0)?;
        expect_range("min_learning_rate", self.min_learning_rate, 0.0, self.learning_rate)?;
        expect_range("subsample", self.subsample, 0.0, 1.0)?;
        expect_range("replicas", self.replicas, 1, 64)
    }

    /// The learning rate when so much of an epoch is done.
    fn learning_rate_at(&self, epoch: usize, done: f64) -> f32 {
        let progress = ((epoch as f64 + done) / self.epochs as f64) as f32;
        self.learning_rate - (self.learning_rate - self.min_learning_rate) * progress
    }
}

/// Trains word vectors by CBOW with negative sampling (Mikolov et al. 2013): each word is predicted from the mean of
/// its context's vectors, against random words.
///
/// **As in gensim 4** (`Word2Vec(sg=0, cbow_mean=1)`): vectors start uniform within 0.5 / dim, output vectors at 0;
/// noise words in proportion to count^0.75; a noise word equal to the true one is skipped; the reach of a window is
/// drawn from 1 to `window` for each word; frequent words are left out by the same formula; the error is added to each
/// word of the context undivided; the learning rate falls linearly. `window: None` is gensim's `shrink_windows=False`
/// with a window as long as the longest sentence.
///
/// **Other than gensim**: the sigmoid is computed, not looked up, and errors of scores beyond +-6 count too. All random
/// words of a step are scored before one is moved. The learning rate falls at each sentence, not at each batch of
/// 10,000 words. Sentences beyond 10,000 words are not cut off. Without a window, words repeated in a sentence count
/// once, and a sentence costs time linear in its length, not quadratic. Threads work on replicas that are merged in a
/// fixed order, instead of on one table without locks; the same seed gives the same bytes. Random numbers are others,
/// so that vectors are not equal to gensim's; neighbours agree as well as those of two seeds of gensim do
/// (docs/performance.md).
///
/// ```
/// use sottovoce_text::{Corpus, Word2Vec, Word2VecConfig, words};
/// let mut corpus = Corpus::new();
/// for title in ["Fresh bread", "Bread with butter"].iter().cycle().take(200) {
///     corpus.push(words(title));
/// }
/// let config = Word2VecConfig { window: Some(5), dim: 20, ..Word2VecConfig::default() };
/// let (vectors, stats) = Word2Vec::new(config)?.train(&corpus)?;
/// assert_eq!((vectors.len(), stats.tokens), (4, 500));
/// # Ok::<(), sottovoce_text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Word2Vec {
    config: Word2VecConfig,
}

/// What was trained on, and what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word2VecStats {
    /// Different words that occur often enough to have a vector.
    pub words: usize,
    /// Different words left out because they are rare.
    pub rare_words: usize,
    /// Their occurrences.
    pub rare_tokens: usize,
    /// Occurrences of words with a vector.
    pub tokens: usize,
    /// Predictions in all epochs. Fewer than occurrences times epochs: frequent words are left out at random, words
    /// alone in a sentence have no context, and without a window repeats in a sentence count once.
    pub predictions: u64,
}

impl Word2Vec {
    /// A trainer.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(config: Word2VecConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { config })
    }

    /// Trains on a corpus, with the threads of the current rayon pool if there are several replicas. The same corpus
    /// and settings give the same bytes on any number of threads and on any machine.
    ///
    /// # Errors
    /// If no word occurs often enough, or if values grow without bound because the learning rate is too high.
    pub fn train(&self, corpus: &Corpus) -> Result<(WordVectors, Word2VecStats)> {
        let config = &self.config;
        let pruned = corpus.prune(config.min_count)?;
        let rng = Rng::new(config.seed).stream("word2vec", 0);
        let fixed = Fixed {
            config,
            noise: Noise::new(&pruned.counts),
            keep: keep_probabilities(&pruned.counts, config.subsample),
            corpus: &pruned,
        };
        let mut tables = Tables {
            input: first_vectors(pruned.words.len(), config.dim, &mut rng.stream("init", 0)),
            output: Table::new(pruned.words.len(), config.dim),
        };
        let predictions = replicas::train(&fixed, &mut tables, &rng);
        let rows = (0..pruned.words.len() as u32).map(|row| tables.input.row(row).as_flattened());
        let values: Vec<f32> = rows.flat_map(|row| &row[..config.dim]).copied().collect();
        if !math::all_finite(&values) {
            return Err(TextError::Corpus("training diverged: lower learning_rate".to_owned()));
        }
        let stats = Word2VecStats {
            words: pruned.words.len(),
            rare_words: corpus.distinct() - pruned.words.len(),
            rare_tokens: corpus.tokens() - pruned.tokens.len(),
            tokens: pruned.tokens.len(),
            predictions,
        };
        Ok((WordVectors::new(&pruned.words, values, config.dim)?, stats))
    }
}

/// Uniform within 0.5 / dim.
fn first_vectors(rows: usize, dim: usize, rng: &mut Rng) -> Table {
    let mut table = Table::new(rows, dim);
    for row in table.blocks.chunks_mut(dim.div_ceil(LANES)) {
        for value in &mut row.as_flattened_mut()[..dim] {
            *value = ((rng.unit() - 0.5) / dim as f64) as f32;
        }
    }
    table
}

/// With t words at the threshold, an occurrence of a word of n is kept with probability sqrt(t / n) + t / n.
fn keep_probabilities(counts: &[u64], subsample: f64) -> Vec<u32> {
    let threshold = subsample * counts.iter().sum::<u64>() as f64;
    let keep = |&count: &u64| {
        let ratio = if subsample > 0.0 { threshold / count as f64 } else { 1.0 };
        // Saturates: all are kept.
        ((ratio.sqrt() + ratio) * 4_294_967_296.0) as u32
    };
    counts.iter().map(keep).collect()
}

#[cfg(test)]
mod tests;
