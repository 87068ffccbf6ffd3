//! Training of word vectors.

use super::work::Workbench;
use super::{Figure, median};
use crate::measure::cpu_seconds;
use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use sottovoce_core::Rng;
use sottovoce_text::{Corpus, Word2Vec, Word2VecConfig};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// Words of the corpus, different words and topics.
const WORDS: usize = 2_000_000;
const VOCABULARY: usize = 50_000;
const TOPICS: usize = 200;
const EPOCHS: usize = 3;
const WINDOW: usize = 5;

/// CBOW with a window and order-free on one thread, and what a second thread adds.
pub(super) fn word2vec(bench: &Workbench) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir().context("creating a scratch folder")?;
    let file = folder.path().join("corpus.txt");
    let text = corpus(&mut Rng::new(bench.seed).stream("corpus", 0));
    std::fs::write(&file, &text).with_context(|| format!("writing {}", file.display()))?;
    let corpus = Corpus::read(text.as_bytes())?;
    let mut figures = Vec::new();
    for (window, what) in [(Some(WINDOW), "window 5"), (None, "order-free")] {
        figures.push(speed(bench, &corpus, &file, window, what)?);
    }
    figures.push(threads(bench, &corpus)?);
    Ok(figures)
}

fn trainer(window: Option<usize>, replicas: usize, seed: u64) -> Result<Word2Vec> {
    let config = Word2VecConfig { window, replicas, seed, min_count: 5, epochs: EPOCHS, ..Word2VecConfig::default() };
    Ok(Word2Vec::new(config)?)
}

fn speed(bench: &Workbench, corpus: &Corpus, file: &Path, window: Option<usize>, what: &str) -> Result<Figure> {
    let trainer = trainer(window, 1, bench.seed)?;
    let (mut ours, mut peers, mut name) = (Vec::new(), Vec::new(), String::new());
    let options = [("window", window.unwrap_or(0)), ("epochs", EPOCHS), ("threads", 1)];
    for _ in 0..bench.repeats {
        let before = cpu_seconds();
        let (_, stats) = trainer.train(corpus)?;
        ours.push((stats.tokens * EPOCHS) as f64 / 1e6 / (cpu_seconds() - before));
        if let Some(answer) = bench.ask_about("gensim-word2vec", Some(file), &options)? {
            peers.push(answer.words_per_cpu_s / 1e6);
            name = answer.peer;
        }
    }
    let value = median(ours);
    let theirs = (!peers.is_empty()).then(|| median(peers));
    let peer = theirs.map(|theirs| super::Peer { name, value: theirs, ratio: value / theirs });
    let what = format!("CBOW, dim 100, {what}, {EPOCHS} epochs");
    Ok(Figure::new("word2vec", what, value, "million words per CPU-second").bound("at least 1 x").peer(peer))
}

/// How many times as fast two replicas on two threads are as one, by the clock on the wall.
fn threads(bench: &Workbench, corpus: &Corpus) -> Result<Figure> {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().context("starting threads")?;
    let mut seconds = [const { Vec::new() }; 2];
    for _ in 0..bench.repeats {
        for (replicas, seconds) in [1, 2].into_iter().zip(&mut seconds) {
            let trainer = trainer(Some(WINDOW), replicas, bench.seed)?;
            let started = Instant::now();
            pool.install(|| trainer.train(corpus))?;
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    let [one, two] = seconds.map(median);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let what = format!("two replicas, two threads against one ({cores} cores)");
    Ok(Figure::new("word2vec", what, one / two, "times as fast by the clock"))
}

/// Sentences of 8 to 24 words, whose frequencies follow Zipf's law. Seven words in ten are of the sentence's topic.
fn corpus(rng: &mut Rng) -> String {
    let topic_of: Vec<usize> = (0..VOCABULARY).map(|_| rng.index(TOPICS)).collect();
    let mut topics = vec![Zipf::default(); TOPICS];
    let mut all = Zipf::default();
    for (word, &topic) in topic_of.iter().enumerate() {
        all.push(word);
        topics[topic].push(word);
    }
    let (mut text, mut words) = (String::new(), 0);
    while words < WORDS {
        let (topic, length) = (&topics[rng.index(TOPICS)], 8 + rng.index(17));
        for _ in 0..length {
            let word = if rng.chance(0.7) { topic.draw(rng) } else { all.draw(rng) };
            let _ = write!(text, "w{word}_{} ", topic_of[word]);
        }
        text.push('\n');
        words += length;
    }
    text
}

/// Some of the words, each drawn in proportion to 1 / rank.
#[derive(Clone, Default)]
struct Zipf {
    words: Vec<usize>,
    cumulated: Vec<f64>,
}

impl Zipf {
    fn push(&mut self, word: usize) {
        self.cumulated.push(self.cumulated.last().unwrap_or(&0.0) + 1.0 / (word + 1) as f64);
        self.words.push(word);
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.unit() * self.cumulated.last().unwrap_or(&0.0);
        self.words[self.cumulated.partition_point(|&sum| sum <= at).min(self.words.len() - 1)]
    }
}
