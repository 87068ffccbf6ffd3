//! LibraryThing's `reviews.txt`: lines of `reviews[(...)] = {'user': 'van', 'work': '3206', 'stars': 4.5, ...}`.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::Result;
use crate::lines::read_lines;
use crate::load_report::ColumnReport;
use crate::number::{expect_rating, expect_time};
use std::io::Read;

/// Reads a whole file; lines that are no assignment (the file's first) are comments.
pub(crate) fn read<R: Read>(source: R, builder: &mut DatasetBuilder, file: &str) -> Result<()> {
    builder.begin(file, true, true)?;
    builder.report.columns = Some(ColumnReport::fixed("user", "work", Some("stars"), Some("unixtime")));
    builder.report.lines += read_lines(source, file, builder, |_, line, builder| {
        if line.trim_ascii().is_empty() {
            builder.report.blank += 1;
        } else if builder.len() == 0 && memchr::memmem::find(line, b"] = {").is_none() {
            builder.report.comments += 1;
        } else {
            return review(line, builder);
        }
        Ok(())
    })?;
    Ok(())
}

fn review(line: &[u8], builder: &mut DatasetBuilder) -> Result<(), RowError> {
    let (text, _) = crate::text::decode(line);
    let start = text.find("] = {").map_or(0, |place| place + 4);
    let pairs = Parser { rest: &text[start..] }
        .dictionary()
        .ok_or_else(|| RowError::bad("review", "a Python dictionary", line))?;
    let field = |name: &'static str| pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    let rating = expect_rating("stars", field("stars").as_bytes())?;
    let time = expect_time("unixtime", field("unixtime").as_bytes())?;
    builder.push(field("user").as_bytes(), field("work").as_bytes(), rating, time).map(|_| ())
}

/// Reads as much of Python's literals as reviews use: a dictionary of strings, numbers and flat lists.
struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn dictionary(mut self) -> Option<Vec<(String, String)>> {
        self.take('{')?;
        let mut pairs = Vec::new();
        while self.take('}').is_none() {
            let key = self.value()?;
            self.take(':')?;
            pairs.push((key, self.value()?));
            if self.take(',').is_none() && !self.rest.trim_start().starts_with('}') {
                return None;
            }
        }
        Some(pairs)
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(wanted)?;
        Some(())
    }

    fn value(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let prefixed = self.rest.strip_prefix('u').filter(|rest| rest.starts_with(['\'', '"']));
        self.rest = prefixed.unwrap_or(self.rest);
        match self.rest.chars().next()? {
            quote @ ('\'' | '"') => self.string(quote),
            '[' => self.list(),
            _ => {
                let end = self.rest.find([',', '}', ']', ':'])?;
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Some(word.trim().to_owned())
            }
        }
    }

    /// Skips a flat list; no field that is read is one.
    fn list(&mut self) -> Option<String> {
        self.take('[')?;
        while self.take(']').is_none() {
            let before = self.rest.len();
            if self.take(',').is_none() {
                self.value()?;
            }
            if self.rest.len() == before {
                return None;
            }
        }
        Some(String::new())
    }

    fn string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        letters.next();
        while let Some((place, letter)) = letters.next() {
            match letter {
                _ if letter == quote => {
                    self.rest = &self.rest[place + 1..];
                    return Some(text);
                }
                '\\' => text.push(escaped(&mut letters)?),
                _ => text.push(letter),
            }
        }
        None
    }
}

/// The character behind a backslash.
fn escaped(letters: &mut std::str::CharIndices<'_>) -> Option<char> {
    let (_, letter) = letters.next()?;
    let digits = match letter {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + letters.next()?.1.to_digit(16)?;
    }
    char::from_u32(code)
}
