//! Reading tables of vectors: word2vec text and binary, fastText `.vec`, GloVe.

use super::WordVectors;
use crate::error::{Result, TextError};
use rustc_hash::FxHashSet;
use std::io::{BufRead, Cursor, Read};

/// The format in which a table was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorFormat {
    /// A line with the number of words and of values, then lines of text: word2vec's text format, fastText's `.vec`.
    Word2VecText,
    /// The same first line, then words and little-endian floats: word2vec's binary format.
    Word2VecBinary,
    /// Lines of text without a first line: GloVe.
    Glove,
}

/// What was found in a file and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadReport {
    /// The format found.
    pub format: VectorFormat,
    /// Words that had come before; the first vector counts.
    pub duplicates: usize,
    /// Lines with nothing on them.
    pub empty_lines: usize,
}

/// Bytes of a line at most: far more than the longest vector takes.
const MAX_LINE: u64 = 1 << 20;

/// Bytes of a word of a binary file at most.
const MAX_WORD: u64 = 4096;

impl WordVectors {
    /// Reads a table in any [`VectorFormat`], which is found out from the first lines. A word may contain spaces, as
    /// some of GloVe's do: the last values of a line are the vector.
    ///
    /// # Errors
    /// If reading fails; if a line has another number of values than the first, or a value that is no finite number; if
    /// there are fewer or more words than the first line says; if a word is not UTF-8. Errors name line and column.
    pub fn read(reader: impl BufRead) -> Result<(Self, ReadReport)> {
        let mut reader = Lines { reader, number: 0 };
        let Some(first) = reader.next()? else {
            return Err(input("line", 1, "the file is empty; it should have a line for each word"));
        };
        let Some((count, dim)) = header(&first) else {
            return read_text(reader, first, None);
        };
        if dim == 0 || dim > Self::MAX_DIM {
            let text = format!("vectors of {dim} values; they must have from 1 to {}", Self::MAX_DIM);
            return Err(input("line", 1, text));
        }
        // The beginning of the first vector shows whether it is text.
        let mut start = Vec::new();
        reader.reader.by_ref().take(MAX_WORD + 4 * dim as u64).read_until(b'\n', &mut start)?;
        let is_text = is_text(&start);
        let rest = Cursor::new(start).chain(reader.reader);
        if !is_text {
            return read_binary(rest, count, dim);
        }
        let mut reader = Lines { reader: rest, number: 1 };
        let first = reader.next()?.ok_or_else(|| too_few(2, count, 0))?;
        read_text(reader, first, Some((count, dim)))
    }
}

fn input(place: &'static str, number: u64, reason: impl Into<String>) -> TextError {
    TextError::Input(place, number, reason.into())
}

fn too_few(line: u64, promised: u64, found: usize) -> TextError {
    let reason = format!("the file ends after {found} words, but its first line says {promised}; is it complete?");
    input("line", line, reason)
}

/// Whether no byte is one that only binary files have. (Of the four bytes of a usual float one is a control character
/// or the beginning of a longer one in most cases, so that a whole vector of text alone is hardly ever one of floats.)
fn is_text(bytes: &[u8]) -> bool {
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        // Cut off within a character.
        Err(error) => error.error_len().is_none() && bytes.len() as u64 >= MAX_WORD,
    };
    valid && !bytes.iter().any(|&byte| byte < b' ' && !matches!(byte, b'\t' | b'\r' | b'\n'))
}

/// The two numbers of a first line, unless it is a word with its vector.
fn header(line: &str) -> Option<(u64, usize)> {
    let mut fields = line.split_whitespace();
    let numbers = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then_some(numbers)
}

/// Lines of a file, with their numbers.
struct Lines<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        self.number += 1;
        let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read as u64 == MAX_LINE {
            return Err(input(
                "line",
                self.number,
                format!("longer than {MAX_LINE} bytes; this is no file of vectors"),
            ));
        }
        let line = String::from_utf8(line)
            .map_err(|_| input("line", self.number, "not UTF-8; convert the file, for example with iconv"))?;
        Ok((read > 0).then_some(line))
    }
}

/// Words and vectors found so far.
struct Found {
    seen: FxHashSet<Box<str>>,
    words: Vec<Box<str>>,
    values: Vec<f32>,
    report: ReadReport,
    /// Words read, duplicates included.
    read: usize,
}

impl Found {
    fn new(format: VectorFormat) -> Self {
        let report = ReadReport { format, duplicates: 0, empty_lines: 0 };
        Self { seen: FxHashSet::default(), words: Vec::new(), values: Vec::new(), report, read: 0 }
    }

    /// Takes a word whose vector was just appended to the values.
    fn take(&mut self, word: &str, dim: usize) {
        self.read += 1;
        if self.seen.insert(word.into()) {
            self.words.push(word.into());
        } else {
            self.values.truncate(self.values.len() - dim);
            self.report.duplicates += 1;
        }
    }

    fn finish(self, dim: usize) -> Result<(WordVectors, ReadReport)> {
        Ok((WordVectors::new(&self.words, self.values, dim)?, self.report))
    }
}

fn read_text(
    mut reader: Lines<impl BufRead>,
    first: String,
    header: Option<(u64, usize)>,
) -> Result<(WordVectors, ReadReport)> {
    let mut found = Found::new(if header.is_some() { VectorFormat::Word2VecText } else { VectorFormat::Glove });
    let (dim, whence) = match header {
        Some((_, dim)) => (dim, "line 1 says"),
        None => (first.split_whitespace().count().saturating_sub(1), "line 1 has"),
    };
    if dim == 0 || dim > WordVectors::MAX_DIM {
        let reason = format!("a word and 1 to {} values expected, {dim} values found", WordVectors::MAX_DIM);
        return Err(input("line", reader.number, reason));
    }
    let mut line = Some(first);
    while let Some(text) = line {
        if text.trim().is_empty() {
            found.report.empty_lines += 1;
        } else {
            let word = parse_line(&text, dim, &mut found.values).map_err(|problem| {
                let reason = match problem {
                    LineProblem::Columns(values) => format!("{values} values, but {whence} {dim}"),
                    LineProblem::Value(column, text) => {
                        format!("column {column}: `{text}` is not a finite number that fits 32 bits")
                    }
                };
                input("line", reader.number, reason)
            })?;
            found.take(word, dim);
            if let Some((count, _)) = header.filter(|&(count, _)| found.read as u64 > count) {
                return Err(input("line", reader.number, format!("more words than the {count} that line 1 says")));
            }
        }
        line = reader.next()?;
    }
    match header {
        Some((count, _)) if (found.read as u64) < count => Err(too_few(reader.number, count, found.read)),
        _ => found.finish(dim),
    }
}

enum LineProblem {
    /// So many values.
    Columns(usize),
    /// The column and its text.
    Value(usize, String),
}

/// Appends the values of a line, and returns its word.
fn parse_line<'a>(line: &'a str, dim: usize, values: &mut Vec<f32>) -> Result<&'a str, LineProblem> {
    let line = line.trim();
    let is_number = |field: &str| field.parse::<f32>().is_ok();
    let mut word = line;
    for missing in (0..dim).rev() {
        let Some((before, _)) = word.rsplit_once(char::is_whitespace) else {
            return Err(LineProblem::Columns(dim - missing - 1));
        };
        word = before.trim_end();
    }
    // Beyond the first field, a word may go on with anything but a number: that would be one value too many.
    let surplus = word.split_whitespace().skip(1).filter(|field| is_number(field)).count();
    if surplus > 0 {
        return Err(LineProblem::Columns(dim + surplus));
    }
    let first_column = word.split_whitespace().count() + 1;
    for (at, field) in line[word.len()..].split_whitespace().enumerate() {
        match field.parse::<f32>() {
            Ok(value) if value.is_finite() => values.push(value),
            _ => return Err(LineProblem::Value(first_column + at, field.to_owned())),
        }
    }
    Ok(word)
}

fn read_binary(mut reader: impl BufRead, count: u64, dim: usize) -> Result<(WordVectors, ReadReport)> {
    let mut found = Found::new(VectorFormat::Word2VecBinary);
    let (mut word, mut bytes) = (Vec::new(), vec![0; 4 * dim]);
    for number in 1..=count {
        let problem = |reason: String| input("word", number, reason);
        let cut = |_| problem(format!("the file ends here, but its first line says {count} words; is it complete?"));
        word.clear();
        reader.by_ref().take(MAX_WORD).read_until(b' ', &mut word)?;
        if word.pop() != Some(b' ') {
            return Err(match word.len() as u64 + 1 {
                MAX_WORD => problem(format!("longer than {MAX_WORD} bytes; this is no file of vectors")),
                _ => cut(std::io::ErrorKind::UnexpectedEof.into()),
            });
        }
        reader.read_exact(&mut bytes).map_err(cut)?;
        // Some programs end each vector by a new line.
        let text = std::str::from_utf8(&word).map_err(|_| problem("not UTF-8".to_owned()))?.trim_start_matches('\n');
        if text.is_empty() {
            return Err(problem("empty".to_owned()));
        }
        for (at, value) in bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).enumerate() {
            if !value.is_finite() {
                return Err(problem(format!("`{text}`, value {}: not a finite number", at + 1)));
            }
            found.values.push(value);
        }
        found.take(text, dim);
    }
    let mut rest = Vec::new();
    reader.take(2).read_to_end(&mut rest)?;
    if !matches!(&*rest, b"" | b"\n") {
        return Err(input("word", count + 1, format!("more words than the {count} that the first line says")));
    }
    found.finish(dim)
}
