use super::*;
use crate::{Encoder, TextError};

/// Sentences of words of one of several clusters each.
fn planted(clusters: usize, size: usize, sentences: usize, seed: u64) -> Corpus {
    let mut rng = Rng::new(seed);
    let mut corpus = Corpus::new();
    for _ in 0..sentences {
        let cluster = rng.index(clusters);
        corpus.push((0..6).map(|_| format!("{cluster}_{}", rng.index(size))).collect::<Vec<_>>());
    }
    corpus
}

fn config() -> Word2VecConfig {
    // So small a corpus has no word that is too frequent.
    Word2VecConfig {
        dim: 8,
        min_count: 5,
        epochs: 10,
        subsample: 0.0,
        learning_rate: 0.05,
        ..Word2VecConfig::default()
    }
}

fn train(config: Word2VecConfig, corpus: &Corpus) -> (WordVectors, Word2VecStats) {
    Word2Vec::new(config).unwrap().train(corpus).unwrap()
}

#[test]
fn nearest_neighbours_are_of_the_same_cluster() {
    let corpus = planted(4, 40, 3000, 1);
    for (window, replicas) in [(Some(3), 1), (None, 1), (Some(3), 3), (None, 3)] {
        let (vectors, _) = train(Word2VecConfig { window, replicas, dim: 16, epochs: 5, ..config() }, &corpus);
        assert_eq!(vectors.len(), 160);
        for (word, _) in vectors.iter() {
            let (cluster, _) = word.split_once('_').unwrap();
            for (neighbour, cosine) in vectors.neighbours(word, 39) {
                let same = neighbour.split_once('_').unwrap().0 == cluster;
                assert!(same, "{window:?} {replicas}: {word} {neighbour} {cosine}");
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit_and_replicas_do() {
    let corpus = planted(5, 100, 4000, 2);
    let of_threads = |replicas: usize, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| train(Word2VecConfig { replicas, epochs: 2, dim: 4, ..config() }, &corpus))
    };
    let exact = of_threads(1, 1);
    assert_eq!(of_threads(1, 3), exact);
    let merged = of_threads(3, 1);
    for threads in [2, 5] {
        assert_eq!(of_threads(3, threads), merged, "{threads}");
    }
    assert_ne!(exact.0, merged.0);
}

/// The plain algorithm in double precision: each step adds its error to every word of the context at once.
fn plain_whole(sentence: &[u32], input: &mut [Vec<f64>], output: &mut [Vec<f64>], negatives: &[Vec<u32>], rate: f64) {
    let dim = input[0].len();
    for (at, &word) in sentence.iter().enumerate() {
        let others: Vec<u32> = (0..sentence.len()).filter(|&n| n != at).map(|n| sentence[n]).collect();
        let mut hidden = vec![0.0; dim];
        for &other in &others {
            (0..dim).for_each(|d| hidden[d] += input[other as usize][d] / others.len() as f64);
        }
        let targets = [word].into_iter().chain(negatives[at].iter().copied().filter(|&target| target != word));
        let steps: Vec<(u32, f64)> = targets
            .enumerate()
            .map(|(n, target)| {
                let score: f64 = (0..dim).map(|d| hidden[d] * output[target as usize][d]).sum();
                let label = if n == 0 { 1.0 } else { 0.0 };
                (target, rate * (label - 1.0 / (1.0 + (-score).exp())))
            })
            .collect();
        let mut error = vec![0.0; dim];
        for &(target, gradient) in &steps {
            (0..dim).for_each(|d| error[d] += gradient * output[target as usize][d]);
        }
        for &(target, gradient) in &steps {
            (0..dim).for_each(|d| output[target as usize][d] += gradient * hidden[d]);
        }
        for &other in &others {
            (0..dim).for_each(|d| input[other as usize][d] += error[d]);
        }
    }
}

#[test]
fn order_free_training_equals_the_plain_algorithm_on_words_without_repeats() {
    use train::{Scratch, TrainPart};
    let sentences = [vec!["a", "b", "a", "c", "a", "d", "e", "b"], vec!["c", "d"], vec!["e", "e", "f"]];
    let mut corpus = Corpus::new();
    sentences.iter().for_each(|sentence| corpus.push(sentence));
    let config = Word2VecConfig { dim: 10, min_count: 1, learning_rate: 0.5, min_learning_rate: 0.5, ..config() };
    let pruned = corpus.prune(1).unwrap();
    let fixed = Fixed {
        config: &config,
        noise: Noise::new(&pruned.counts),
        keep: keep_probabilities(&pruned.counts, 0.0),
        corpus: &pruned,
    };
    let mut tables = Tables { input: Table::new(pruned.words.len(), 10), output: Table::new(pruned.words.len(), 10) };
    let mut rng = Rng::new(3);
    for table in [&mut tables.input, &mut tables.output] {
        for row in 0..pruned.words.len() as u32 {
            rng.fill_normal(1.0, &mut table.row_mut(row).as_flattened_mut()[..10]);
        }
    }
    let exact = |table: &Table| -> Vec<Vec<f64>> {
        let rows = (0..pruned.words.len() as u32).map(|row| &table.row(row).as_flattened()[..10]);
        rows.map(|row| row.iter().map(|&value| f64::from(value)).collect()).collect()
    };
    let (mut input, mut output) = (exact(&tables.input), exact(&tables.output));
    let (rng, mut draws, mut start) = (Rng::new(4), Rng::new(4), 0);
    for &end in &pruned.ends {
        let mut sentence = Vec::new();
        for &word in &pruned.tokens[start..end] {
            if !sentence.contains(&word) {
                sentence.push(word);
            }
        }
        let negatives: Vec<Vec<u32>> =
            (0..sentence.len()).map(|_| (0..5).map(|_| fixed.noise.draw(&mut draws)).collect()).collect();
        plain_whole(&sentence, &mut input, &mut output, &negatives, 0.5);
        start = end;
    }
    let scratch = &mut Scratch::new(&fixed);
    let predicted = sottovoce_core::SimdKernel::run(TrainPart {
        fixed: &fixed,
        tables: &mut tables,
        scratch,
        rng,
        epoch: 0,
        sentences: 0..3,
    });
    assert_eq!(predicted, 9);
    for (found, expected) in [(exact(&tables.input), input), (exact(&tables.output), output)] {
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}

#[test]
fn order_free_training_takes_a_very_long_sentence() {
    let mut corpus = Corpus::new();
    corpus.push((0..60_000).map(|n| format!("{}", n % 20_000)));
    let (vectors, stats) = train(Word2VecConfig { epochs: 1, dim: 8, min_count: 1, ..config() }, &corpus);
    assert_eq!((vectors.len(), stats.predictions), (20_000, 20_000));
}

#[test]
fn divergence_is_reported() {
    let mut corpus = Corpus::new();
    corpus.push((0..600).map(|n| format!("{}", n % 2)));
    let config = Word2VecConfig { window: Some(500), learning_rate: 1.0, epochs: 1, dim: 8, ..config() };
    let error = Word2Vec::new(config).unwrap().train(&corpus).unwrap_err();
    assert_eq!(error.to_string(), "training diverged: lower learning_rate");
}

#[test]
fn what_is_left_out_is_counted() {
    let mut corpus = Corpus::new();
    corpus.push(["a", "b", "", "a", "b", "rare"]);
    corpus.push(["a", "scarce", "scarce"]);
    corpus.push(["b", "a"]);
    let (vectors, stats) = train(Word2VecConfig { min_count: 3, epochs: 2, ..config() }, &corpus);
    let words: Vec<&str> = vectors.iter().map(|(word, _)| word).collect();
    assert_eq!(words, ["a", "b"]);
    // The second sentence is down to one word; the first has each of its words twice.
    let expected = Word2VecStats { words: 2, rare_words: 2, rare_tokens: 3, tokens: 7, predictions: 8 };
    assert_eq!((stats, corpus.empty()), (expected, 1));
}

#[test]
fn frequent_words_are_left_out_at_random() {
    let counts = [1_000_000, 1_000, 1];
    let keep = keep_probabilities(&counts, 1e-3);
    // 1,001 of 1,001,001 words are at the threshold: sqrt(0.001) + 0.001.
    let share = f64::from(keep[0]) / 4_294_967_296.0;
    assert!((share - 0.032_64).abs() < 1e-4, "{share}");
    assert_eq!(keep[1..], [u32::MAX; 2]);
    assert_eq!(keep_probabilities(&counts, 0.0), [u32::MAX; 3]);
    let corpus = planted(2, 20, 2000, 3);
    let (_, all) = train(Word2VecConfig { epochs: 1, window: Some(2), ..config() }, &corpus);
    let (_, sampled) = train(Word2VecConfig { epochs: 1, window: Some(2), subsample: 1e-3, ..config() }, &corpus);
    assert_eq!(all.predictions, 12_000);
    let kept = sampled.predictions as f64 / 12_000.0;
    // Each of the 40 words is a fortieth of the corpus and kept with probability sqrt(0.04) + 0.04; at least one of the
    // five others must be kept too.
    let expected = 0.24 * (1.0 - 0.76f64.powi(5));
    assert!((kept - expected).abs() < 0.02, "{kept} {expected}");
}

#[test]
fn settings_and_corpora_that_make_no_sense_are_refused() {
    let refused = |config| Word2Vec::new(config).unwrap_err().to_string();
    assert_eq!(refused(Word2VecConfig { dim: 0, ..config() }), "dim is 0; it must be from 1 to 4096");
    assert_eq!(
        refused(Word2VecConfig { window: Some(0), ..config() }),
        format!("window is 0; it must be from 1 to {}", usize::MAX)
    );
    assert_eq!(
        refused(Word2VecConfig { learning_rate: f32::NAN, ..config() }),
        "learning_rate is NaN; it must be from 0.000000000000000000000000000000000000011754944 to 1"
    );
    let refused = |corpus: &Corpus| Word2Vec::new(config()).unwrap().train(corpus).unwrap_err();
    assert!(matches!(refused(&Corpus::new()), TextError::Corpus(_)));
    let mut small = Corpus::new();
    small.push(["x", "x", "y"]);
    let expected = "no word occurs 5 times: the most frequent, `x`, occurs 2; lower min_count";
    assert_eq!(refused(&small).to_string(), expected);
}

#[test]
fn the_learning_rate_falls_linearly() {
    let config = Word2VecConfig { learning_rate: 0.5, min_learning_rate: 0.1, epochs: 4, ..config() };
    assert_eq!(config.learning_rate_at(0, 0.0), 0.5);
    assert!((config.learning_rate_at(2, 0.0) - 0.3).abs() < 1e-6);
    assert!((config.learning_rate_at(3, 1.0) - 0.1).abs() < 1e-6);
}

#[test]
fn vectors_never_change() {
    let (vectors, _) = train(Word2VecConfig { dim: 3, epochs: 1, ..config() }, &planted(2, 3, 50, 9));
    let bits: Vec<u32> =
        vectors.vector("0_1 1_2").iter().chain(vectors.iter().next().unwrap().1).map(|v| v.to_bits()).collect();
    assert_eq!(bits, FIXED, "the same seed must give the same bytes");
}
const FIXED: [u32; 6] = [1016951270, 1015356356, 1034732586, 1039854830, 3188246866, 1033200539];

#[test]
fn a_corpus_is_read_by_lines() {
    let corpus = Corpus::read("one two\n\n  two\tthree \n".as_bytes()).unwrap();
    assert_eq!((corpus.sentences(), corpus.tokens(), corpus.distinct()), (3, 4, 3));
    let error = Corpus::read(&b"good\n\xFF\n"[..]).unwrap_err().to_string();
    assert!(error.starts_with("line 2: "), "{error}");
}
