//! A table from words to vectors.

mod read;

use crate::encoder::Encoder;
use crate::error::{Result, TextError, expect_range};
use crate::tokens::{Token, for_each_token, is_unspaced, normalise};
pub use read::{ReadReport, VectorFormat};
use rustc_hash::{FxHashMap, FxHashSet};
use sottovoce_core::{Names, math};
use std::io::Write;

/// Words and their vectors: read from a file, or trained by [`Word2Vec`](crate::Word2Vec).
///
/// As an [`Encoder`] it gives the mean of the vectors of a title's known words, weighted by idf if
/// [asked for](Self::weight_by_idf). Words are looked up as [`words`](crate::words) gives them; tables with capitals
/// work too (`paris` finds `Paris` if there is no `paris`). In scripts without spaces the longest known words count.
///
/// ```
/// use sottovoce_text::{Encoder, WordVectors};
/// let (vectors, report) = WordVectors::read("2 3\nking 1 0 0.5\nqueen 0.9 0.1 0.5\n".as_bytes())?;
/// assert_eq!((vectors.len(), vectors.dim(), report.duplicates), (2, 3, 0));
/// assert_eq!(vectors.vector("King and king"), [1.0, 0.0, 0.5]);
/// assert_eq!(vectors.neighbours("king", 1)[0].0, "queen");
/// # Ok::<(), sottovoce_text::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WordVectors {
    words: Names,
    dim: usize,
    values: Vec<f32>,
    index: FxHashMap<Box<str>, u32>,
    /// Words by their normal form where that is another one, which is not in the table.
    folded: FxHashMap<Box<str>, u32>,
    /// Weight of each word in a mean; empty if all are equal.
    weights: Vec<f32>,
    /// Characters of the longest word of a script without spaces.
    longest_unspaced: usize,
}

impl WordVectors {
    /// Values of a vector at most.
    pub const MAX_DIM: usize = 4096;

    /// A table of these words, whose vectors of `dim` values follow each other in `values`.
    ///
    /// # Errors
    /// If there is no word, a word is empty or comes twice, or values are not finite or not as many as words times
    /// `dim`.
    pub fn new<W: AsRef<str>>(words: &[W], values: Vec<f32>, dim: usize) -> Result<Self> {
        expect_range("dim", dim, 1, Self::MAX_DIM)?;
        let refuse = |reason: String| Err(TextError::Table(reason));
        if words.is_empty() {
            return refuse("a table of vectors needs at least one word".to_owned());
        }
        if words.len().checked_mul(dim) != Some(values.len()) {
            return refuse(format!("{} words of {dim} values each, but {} values", words.len(), values.len()));
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return refuse(format!("value {} of `{}` is not finite", at % dim + 1, words[at / dim].as_ref()));
        }
        let mut index = FxHashMap::default();
        for (number, word) in words.iter().map(AsRef::as_ref).enumerate() {
            if word.is_empty() {
                return refuse(format!("word {} is empty", number + 1));
            }
            if index.insert(Box::from(word), number as u32).is_some() {
                return refuse(format!("the word `{word}` comes twice"));
            }
        }
        let (mut folded, mut longest_unspaced) = (FxHashMap::default(), 0);
        for (number, word) in words.iter().map(AsRef::as_ref).enumerate() {
            let normal = normalise(word);
            if normal.starts_with(is_unspaced) {
                longest_unspaced = longest_unspaced.max(normal.chars().count());
            }
            if normal != word && !index.contains_key(&*normal) {
                folded.entry(normal.into()).or_insert(number as u32);
            }
        }
        let words = words.iter().map(AsRef::as_ref).collect();
        Ok(Self { words, dim, values, index, folded, weights: Vec::new(), longest_unspaced })
    }

    /// Number of words, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Values of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All words and their vectors, in the table's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[f32])> {
        self.words.iter().zip(self.values.chunks_exact(self.dim))
    }

    /// The vector of exactly this word.
    pub fn get(&self, word: &str) -> Option<&[f32]> {
        self.index.get(word).map(|&row| self.row(row))
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.dim..][..self.dim]
    }

    /// The `k` words nearest to a vector by cosine, the nearest first; ties in the table's order.
    ///
    /// # Panics
    /// If the vector has not [`dim`](Self::dim) values.
    pub fn nearest(&self, vector: &[f32], k: usize) -> Vec<(&str, f32)> {
        self.nearest_except(vector, k, None)
    }

    /// The `k` words nearest to another by cosine, without itself; empty if it is unknown.
    pub fn neighbours(&self, word: &str, k: usize) -> Vec<(&str, f32)> {
        let row = self.index.get(word).copied();
        row.map_or_else(Vec::new, |row| self.nearest_except(self.row(row), k, Some(row)))
    }

    fn nearest_except(&self, vector: &[f32], k: usize, except: Option<u32>) -> Vec<(&str, f32)> {
        assert_eq!(vector.len(), self.dim, "values of a vector");
        let length = |vector: &[f32]| math::dot(vector, vector).sqrt();
        let own = length(vector);
        let cosine = |row: u32| {
            let row = self.row(row);
            let product = math::dot(vector, row);
            if product == 0.0 { 0.0 } else { product / (own * length(row)) }
        };
        let rows = (0..self.len() as u32).filter(|&row| Some(row) != except);
        let mut all: Vec<(u32, f32)> = rows.map(|row| (row, cosine(row))).collect();
        let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if k < all.len() {
            all.select_nth_unstable_by(k, order);
            all.truncate(k);
        }
        all.sort_unstable_by(order);
        all.iter().map(|&(row, cosine)| (&self.words[row as usize], cosine)).collect()
    }

    /// Weighs the words of a title by their inverse document frequency in these titles,
    /// ln((1 + titles) / (1 + df)) + 1.
    pub fn weight_by_idf<T: AsRef<str>>(&mut self, titles: impl IntoIterator<Item = T>) {
        let mut frequencies = vec![0u64; self.len()];
        let (mut titles_seen, mut rows) = (0u64, FxHashSet::default());
        for title in titles {
            titles_seen += 1;
            rows.clear();
            self.for_each_known(title.as_ref(), |row| {
                rows.insert(row);
            });
            rows.iter().for_each(|&row| frequencies[row as usize] += 1);
        }
        let idf = |&df: &u64| (math::ln((1.0 + titles_seen as f64) / (1.0 + df as f64)) + 1.0) as f32;
        self.weights = frequencies.iter().map(idf).collect();
    }

    /// Writes the mean of the vectors of exactly these words, such as a page's entities; returns how many are known.
    /// If none is, the mean is the zero vector.
    ///
    /// # Panics
    /// If `into` has not [`dim`](Self::dim) values.
    pub fn mean<W: AsRef<str>>(&self, words: impl IntoIterator<Item = W>, into: &mut [f32]) -> usize {
        let mut mean = Mean::new(self, into);
        for word in words {
            if let Some(&row) = self.index.get(word.as_ref()) {
                mean.add(row);
            }
        }
        mean.finish()
    }

    /// Calls back for each known word of a title.
    fn for_each_known(&self, text: &str, mut take: impl FnMut(u32)) {
        let find = |word: &str| self.index.get(word).or_else(|| self.folded.get(word)).copied();
        for_each_token(&normalise(text), |token| match token {
            Token::Word(word) => {
                find(word).map(&mut take);
            }
            Token::Unspaced(run) => self.for_each_longest(run, find, &mut take),
        });
    }

    /// The longest known word from each character on, if it does not lie within the one before: the usual words of a
    /// dictionary, and all pairs of characters where those are the words.
    fn for_each_longest(&self, run: &str, find: impl Fn(&str) -> Option<u32>, mut take: impl FnMut(u32)) {
        let mut covered = 0;
        for (start, _) in run.char_indices() {
            let ends: Vec<usize> = run[start..]
                .char_indices()
                .take(self.longest_unspaced)
                .map(|(at, c)| start + at + c.len_utf8())
                .collect();
            let longest = ends.iter().rev().find_map(|&end| find(&run[start..end]).map(|row| (row, end)));
            if let Some((row, end)) = longest.filter(|&(_, end)| end > covered) {
                covered = end;
                take(row);
            }
        }
    }

    /// Writes the table in the text format of word2vec: a line with the number of words and of values, then a line a
    /// word. Values are written so that they are read back as the same bits.
    ///
    /// # Errors
    /// If writing fails, or if a word contains white space, which the format has no way to tell from the next value.
    pub fn write(&self, mut writer: impl Write) -> Result<()> {
        if let Some(word) = self.words.iter().find(|word| word.contains(char::is_whitespace)) {
            return Err(TextError::Table(format!(
                "the word `{}` contains white space, which separates values; join its parts by `_`",
                word.escape_debug()
            )));
        }
        writeln!(writer, "{} {}", self.len(), self.dim)?;
        for (word, vector) in self.iter() {
            write!(writer, "{word}")?;
            for value in vector {
                write!(writer, " {value}")?;
            }
            writeln!(writer)?;
        }
        Ok(writer.flush()?)
    }
}

impl Encoder for WordVectors {
    fn dim(&self) -> usize {
        self.dim
    }

    fn encode(&self, text: &str, into: &mut [f32]) {
        let mut mean = Mean::new(self, into);
        self.for_each_known(text, |row| mean.add(row));
        mean.finish();
    }
}

/// A weighted mean in the making.
struct Mean<'a> {
    table: &'a WordVectors,
    sum: &'a mut [f32],
    weight: f32,
    words: usize,
}

impl<'a> Mean<'a> {
    fn new(table: &'a WordVectors, sum: &'a mut [f32]) -> Self {
        assert_eq!(sum.len(), table.dim, "values of a vector");
        sum.fill(0.0);
        Self { table, sum, weight: 0.0, words: 0 }
    }

    fn add(&mut self, row: u32) {
        let weight = self.table.weights.get(row as usize).copied().unwrap_or(1.0);
        math::add_scaled(self.sum, weight, self.table.row(row));
        self.weight += weight;
        self.words += 1;
    }

    fn finish(self) -> usize {
        let scale = if self.words == 0 { 0.0 } else { 1.0 / self.weight };
        self.sum.iter_mut().for_each(|value| *value *= scale);
        self.words
    }
}

#[cfg(test)]
mod tests;
