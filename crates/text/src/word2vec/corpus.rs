//! Sentences of words, or pages of entities.

use crate::error::{Result, TextError};
use rustc_hash::FxHashMap;
use std::io::BufRead;

/// Sentences to train on: titles as [words](crate::words), or pages as lists of entities. Each different word is stored
/// once, each occurrence takes 4 bytes.
///
/// ```
/// use sottovoce_text::Corpus;
/// let mut corpus = Corpus::new();
/// corpus.push(["Denmark", "Parliament of Denmark"]);
/// corpus.push(["Denmark"]);
/// assert_eq!((corpus.sentences(), corpus.tokens(), corpus.distinct()), (2, 3, 2));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    index: FxHashMap<Box<str>, u32>,
    tokens: Vec<u32>,
    /// Where each sentence ends.
    ends: Vec<usize>,
    empty: usize,
}

impl Corpus {
    /// A corpus without sentences.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a sentence. Empty words are left out and counted.
    ///
    /// # Panics
    /// If there are 2^32 different words.
    pub fn push<W: AsRef<str>>(&mut self, sentence: impl IntoIterator<Item = W>) {
        for word in sentence {
            let word = word.as_ref();
            if word.is_empty() {
                self.empty += 1;
                continue;
            }
            let id = match self.index.get(word) {
                Some(&id) => id,
                None => {
                    let id = u32::try_from(self.index.len()).unwrap_or_else(|_| panic!("a corpus has 2^32 words"));
                    self.index.insert(word.into(), id);
                    id
                }
            };
            self.tokens.push(id);
        }
        self.ends.push(self.tokens.len());
    }

    /// Reads one sentence a line, words separated by white space, as they are (not normalised).
    ///
    /// # Errors
    /// If reading fails or a line is not UTF-8.
    pub fn read(reader: impl BufRead) -> Result<Self> {
        let mut corpus = Self::new();
        for (number, line) in reader.lines().enumerate() {
            let line = line.map_err(|error| TextError::Input("line", number as u64 + 1, error.to_string()))?;
            corpus.push(line.split_whitespace());
        }
        Ok(corpus)
    }

    /// Number of sentences.
    pub fn sentences(&self) -> usize {
        self.ends.len()
    }

    /// Number of words, repeats included.
    pub fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Number of different words.
    pub fn distinct(&self) -> usize {
        self.index.len()
    }

    /// Empty words that were left out.
    pub fn empty(&self) -> usize {
        self.empty
    }

    /// The corpus with words that occur at least `min_count` times, the most frequent first; ties in the order of text.
    pub(super) fn prune(&self, min_count: u32) -> Result<Pruned> {
        let mut counts = vec![0u64; self.index.len()];
        for &token in &self.tokens {
            counts[token as usize] += 1;
        }
        let frequent = |id: u32| counts[id as usize] >= u64::from(min_count);
        let mut order: Vec<(&str, u32)> = self.index.iter().map(|(word, &id)| (&**word, id)).collect();
        order.sort_unstable_by(|(a, x), (b, y)| counts[*y as usize].cmp(&counts[*x as usize]).then(a.cmp(b)));
        let Some(&(first, most)) = order.first() else {
            return Err(TextError::Corpus("the corpus has no word".to_owned()));
        };
        if !frequent(most) {
            let count = counts[most as usize];
            return Err(TextError::Corpus(format!(
                "no word occurs {min_count} times: the most frequent, `{first}`, occurs {count}; lower min_count"
            )));
        }
        order.retain(|&(_, id)| frequent(id));
        const RARE: u32 = u32::MAX;
        let mut new_ids = vec![RARE; self.index.len()];
        for (new, &(_, old)) in order.iter().enumerate() {
            new_ids[old as usize] = new as u32;
        }
        let (mut tokens, mut ends, mut start) = (Vec::new(), Vec::with_capacity(self.ends.len()), 0);
        for &end in &self.ends {
            let kept = self.tokens[start..end].iter().map(|&old| new_ids[old as usize]).filter(|&id| id != RARE);
            tokens.extend(kept);
            ends.push(tokens.len());
            start = end;
        }
        Ok(Pruned {
            words: order.iter().map(|&(word, _)| word.to_owned()).collect(),
            counts: order.iter().map(|&(_, id)| counts[id as usize]).collect(),
            tokens,
            ends,
        })
    }
}

/// A corpus without its rare words.
pub(super) struct Pruned {
    pub(super) words: Vec<String>,
    pub(super) counts: Vec<u64>,
    pub(super) tokens: Vec<u32>,
    pub(super) ends: Vec<usize>,
}
