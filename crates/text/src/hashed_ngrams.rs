//! Titles by their words and parts of words, without a dictionary.

use crate::encoder::{Encoder, scale_to_unit};
use crate::error::{Result, TextError, expect_range};
use crate::tokens::{Token, for_each_token, normalise};
use sottovoce_core::{SimdKernel, math, simd_dispatch};

/// Settings of [`HashedNgrams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NgramConfig {
    /// Values of a vector, 1 to 4,096.
    pub dim: usize,
    /// Buckets in which document frequencies are counted, 1 to 4,194,304: one byte each on a device.
    pub buckets: usize,
    /// Characters of the shortest n-gram of a word, boundaries included, 1 to 16.
    pub min_ngram: usize,
    /// Characters of the longest, at least as many, up to 16.
    pub max_ngram: usize,
    /// Seed of the random projection. Encoders compare vectors only with vectors of the same seed.
    pub seed: u64,
}

impl Default for NgramConfig {
    fn default() -> Self {
        Self { dim: 64, buckets: 1 << 16, min_ngram: 3, max_ngram: 5, seed: 0 }
    }
}

impl NgramConfig {
    const MAX_DIM: usize = 4096;
    const MAX_BUCKETS: usize = 1 << 22;
    const MAX_NGRAM: usize = 16;

    fn check(&self) -> Result<()> {
        expect_range("dim", self.dim, 1, Self::MAX_DIM)?;
        expect_range("buckets", self.buckets, 1, Self::MAX_BUCKETS)?;
        expect_range("min_ngram", self.min_ngram, 1, Self::MAX_NGRAM)?;
        expect_range("max_ngram", self.max_ngram, self.min_ngram, Self::MAX_NGRAM)
    }
}

/// The built-in encoder: words and character n-grams, weighted by TF-IDF, projected at random, of length 1.
///
/// - **Terms.** Each word, and the n-grams of `<word>` with its boundaries marked, as in fastText. So `voter` and
///   `voters` are near each other without a dictionary. Scripts without spaces give n-grams of 1 to 3 characters.
/// - **Weights.** Term frequency times inverse document frequency, ln((1 + documents) / (1 + df)) + 1, in steps of 0.1.
///   Frequencies are counted by bucket of the term's hash. All n-grams of a word together weigh as much as the word.
///   Without a corpus ([`new`](Self::new)) all idf are 1.
/// - **Projection.** Term t adds its weight times a vector of random signs to the sum. The signs are a hash of t and
///   the seed: they are computed, not stored. Cosines are kept up to an error of about 1 / sqrt(dim) (Achlioptas 2003).
///
/// The whole state is one byte per bucket, 64 KiB by default, so that a server can send it to devices.
///
/// ```
/// use sottovoce_text::{Encoder, HashedNgrams, NgramConfig};
/// let titles = ["Voters choose a parliament", "A new voter", "A cake without sugar"];
/// let encoder = HashedNgrams::fit(NgramConfig { dim: 512, ..NgramConfig::default() }, titles)?;
/// let cosine = |a, b| -> f32 { encoder.vector(a).iter().zip(encoder.vector(b)).map(|(a, b)| a * b).sum() };
/// assert!(cosine("voters", "voter") > cosine("voters", "sugar") + 0.1);
/// # Ok::<(), sottovoce_text::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedNgrams {
    config: NgramConfig,
    documents: u32,
    /// Of each bucket (idf - 1) in steps of 1 / [`STEPS`]; empty without a corpus.
    levels: Vec<u8>,
}

/// Steps of an idf per unit. The largest idf, of 2^32 documents, is level 222 of a byte.
const STEPS: f64 = 10.0;

/// Characters of the longest n-gram of a script without spaces, where two characters are a typical word.
const UNSPACED_NGRAM: usize = 3;

/// A term of a title: its hash and its weight before idf.
type Term = (u64, f32);

impl HashedNgrams {
    /// An encoder that has seen no corpus: all terms weigh the same.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(config: NgramConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { config, documents: 0, levels: Vec::new() })
    }

    /// An encoder with the document frequencies of these titles. Their order does not matter.
    ///
    /// # Errors
    /// If a setting is out of range, or there are 2^32 titles or more.
    pub fn fit<T: AsRef<str>>(config: NgramConfig, titles: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut encoder = Self::new(config)?;
        // Of each bucket: in how many titles it was seen, and the last of them.
        let mut seen = vec![(0u32, 0u32); config.buckets];
        let mut terms = Vec::new();
        for title in titles {
            let title_number = encoder.documents.checked_add(1);
            encoder.documents =
                title_number.ok_or_else(|| TextError::Setting("a corpus has 2^32 - 1 titles at most".to_owned()))?;
            encoder.terms(title.as_ref(), &mut terms);
            for &(hash, _) in &terms {
                let (frequency, last) = &mut seen[bucket(hash, config.buckets)];
                if *last != encoder.documents {
                    (*frequency, *last) = (*frequency + 1, encoder.documents);
                }
            }
        }
        if encoder.documents > 0 {
            encoder.levels = seen.iter().map(|&(frequency, _)| level(encoder.documents, frequency)).collect();
        }
        Ok(encoder)
    }

    /// The settings.
    pub fn config(&self) -> &NgramConfig {
        &self.config
    }

    /// The same encoder with vectors of another length: document frequencies do not depend on it.
    ///
    /// # Errors
    /// If the length is out of range.
    pub fn with_dim(&self, dim: usize) -> Result<Self> {
        let config = NgramConfig { dim, ..self.config };
        config.check()?;
        Ok(Self { config, ..self.clone() })
    }

    /// Titles of the corpus whose document frequencies the encoder knows; 0 if it has seen none.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    fn terms(&self, text: &str, into: &mut Vec<Term>) {
        into.clear();
        let (mut marked, mut ends) = (String::new(), Vec::new());
        for_each_token(&normalise(text), |token| match token {
            Token::Word(word) => {
                into.push((finish(hash(WORD, word.as_bytes())), 1.0));
                marked.clear();
                marked.extend(["<", word, ">"]);
                let first = into.len();
                push_ngrams(&marked, self.config.min_ngram, self.config.max_ngram, &mut ends, into);
                let weight = 1.0 / ((into.len() - first).max(1) as f32).sqrt();
                into[first..].iter_mut().for_each(|term| term.1 = weight);
            }
            Token::Unspaced(run) => {
                let first = into.len();
                push_ngrams(run, 1, UNSPACED_NGRAM, &mut ends, into);
                let weight = 1.0 / (UNSPACED_NGRAM as f32).sqrt();
                into[first..].iter_mut().for_each(|term| term.1 = weight);
            }
        });
    }

    fn idf(&self, hash: u64) -> f32 {
        if self.levels.is_empty() {
            return 1.0;
        }
        1.0 + f32::from(self.levels[bucket(hash, self.levels.len())]) * (1.0 / STEPS as f32)
    }
}

impl Encoder for HashedNgrams {
    fn dim(&self) -> usize {
        self.config.dim
    }

    fn encode(&self, text: &str, into: &mut [f32]) {
        assert_eq!(into.len(), self.config.dim, "values of a vector");
        into.fill(0.0);
        let mut terms = Vec::new();
        self.terms(text, &mut terms);
        for (hash, weight) in &mut terms {
            *weight *= self.idf(*hash);
        }
        simd_dispatch(Project { terms: &terms, seed: self.config.seed, into });
        scale_to_unit(into);
    }
}

/// Adds the signs of all terms, scaled by their weights.
struct Project<'a> {
    terms: &'a [Term],
    seed: u64,
    into: &'a mut [f32],
}

impl SimdKernel for Project<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 32;
        let (blocks, rest) = self.into.as_chunks_mut::<BLOCK>();
        for (number, block) in blocks.iter_mut().enumerate() {
            let mut sum = [0.0f32; BLOCK];
            for &(hash, weight) in self.terms {
                add_signs(&mut sum, signs(hash, self.seed, number), weight);
            }
            *block = sum;
        }
        let mut sum = [0.0f32; BLOCK];
        if !rest.is_empty() {
            for &(hash, weight) in self.terms {
                add_signs(&mut sum, signs(hash, self.seed, blocks.len()), weight);
            }
        }
        rest.copy_from_slice(&sum[..rest.len()]);
    }
}

/// The signs of a term for one block of values.
#[inline(always)]
fn signs(hash: u64, seed: u64, block: usize) -> u32 {
    let key = seed.wrapping_add((block as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (finish(hash ^ finish(key)) >> 32) as u32
}

#[inline(always)]
fn add_signs<const N: usize>(sum: &mut [f32; N], signs: u32, weight: f32) {
    for (lane, value) in sum.iter_mut().enumerate() {
        *value += f32::from_bits(weight.to_bits() ^ ((signs << lane) & 0x8000_0000));
    }
}

/// All n-grams of these lengths, with weights to be filled in. A word shorter than the shortest n-gram has none.
fn push_ngrams(text: &str, min: usize, max: usize, ends: &mut Vec<usize>, into: &mut Vec<Term>) {
    ends.clear();
    ends.extend(text.char_indices().skip(1).map(|(at, _)| at).chain([text.len()]));
    let bytes = text.as_bytes();
    let mut start = 0;
    for first in 0..ends.len() {
        let (mut state, mut from) = (NGRAM, start);
        for (length, &end) in (1..=max).zip(&ends[first..]) {
            state = hash(state, &bytes[from..end]);
            from = end;
            if length >= min {
                into.push((finish(state), 0.0));
            }
        }
        start = ends[first];
    }
}

/// What words and n-grams begin their hash with (FNV-1a's offset, and another), so that `ab` the word is not `ab` the
/// n-gram.
const WORD: u64 = 0xCBF2_9CE4_8422_2325;
const NGRAM: u64 = 0x6C62_272E_07BB_0142;

/// FNV-1a, which can be continued byte by byte.
fn hash(mut state: u64, bytes: &[u8]) -> u64 {
    for &byte in bytes {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    state
}

/// SplitMix64's finaliser: FNV's upper bits alone depend little on the last bytes.
#[inline(always)]
fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn bucket(hash: u64, buckets: usize) -> usize {
    (((hash >> 32) * buckets as u64) >> 32) as usize
}

fn level(documents: u32, frequency: u32) -> u8 {
    let ratio = (1.0 + f64::from(documents)) / (1.0 + f64::from(frequency));
    (STEPS * math::ln(ratio)).round() as u8
}

/// First bytes of the binary form.
const MAGIC: &[u8; 4] = b"SVNG";
const VERSION: u8 = 1;
const HEADER: usize = 4 + 1 + 2 + 1 + 1 + 8 + 4 + 4;

/// The binary form, for sending an encoder to devices. All integers are little-endian.
///
/// | bytes | field |
/// |---|---|
/// | 4 | `SVNG` |
/// | 1 | version, 1 |
/// | 2 | dim |
/// | 1 + 1 | shortest and longest n-gram |
/// | 8 | seed |
/// | 4 | documents |
/// | 4 | buckets |
/// | buckets, or none if documents is 0 | (idf - 1) times 10, rounded |
impl HashedNgrams {
    /// The encoder as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let config = &self.config;
        let mut bytes = Vec::with_capacity(HEADER + self.levels.len());
        bytes.extend(MAGIC);
        bytes.push(VERSION);
        // The constructor checked that these fit.
        bytes.extend((config.dim as u16).to_le_bytes());
        bytes.extend([config.min_ngram as u8, config.max_ngram as u8]);
        bytes.extend(config.seed.to_le_bytes());
        bytes.extend(self.documents.to_le_bytes());
        bytes.extend((config.buckets as u32).to_le_bytes());
        bytes.extend(&self.levels);
        bytes
    }

    /// Reads an encoder from bytes that nobody vouches for. Allocates no more than there are bytes.
    ///
    /// # Errors
    /// If these are not the bytes of an encoder of this version, with settings in range and weights that its number of
    /// documents allows.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refuse = |reason: String| Err(TextError::Encoding(reason));
        let Some((header, levels)) = bytes.split_first_chunk::<HEADER>() else {
            return refuse(format!("{} bytes found, the header alone has {HEADER}", bytes.len()));
        };
        if &header[..4] != MAGIC {
            return refuse(format!("begins with {:?}, not with `SVNG`", String::from_utf8_lossy(&header[..4])));
        }
        if header[4] != VERSION {
            return refuse(format!("version {}; this program reads version {VERSION}; upgrade the older", header[4]));
        }
        let number = |from: usize, length: usize| {
            header[from..from + length].iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte))
        };
        let config = NgramConfig {
            dim: number(5, 2) as usize,
            min_ngram: usize::from(header[7]),
            max_ngram: usize::from(header[8]),
            seed: number(9, 8),
            buckets: number(21, 4) as usize,
        };
        config.check().map_err(|error| TextError::Encoding(error.to_string()))?;
        let documents = number(17, 4) as u32;
        let expected = if documents == 0 { 0 } else { config.buckets };
        if levels.len() != expected {
            return refuse(format!("{expected} bytes of weights expected after the header, {} found", levels.len()));
        }
        let highest = level(documents, 0);
        if let Some(at) = levels.iter().position(|&level| level > highest) {
            return refuse(format!("weight {} of bucket {at} is above {highest}, an unseen term's", levels[at]));
        }
        Ok(Self { config, documents, levels: levels.to_vec() })
    }
}

mod catalog;
#[cfg(test)]
mod tests;
