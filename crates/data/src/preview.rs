//! The first lines of a file, from which its format is detected.

use crate::fields::{Delimiter, Fields};
use crate::files::Head;
use crate::lines::Lines;

/// How many lines are examined.
const LINES: usize = 200;

/// The first lines with something in them, without comments at the top.
pub(crate) struct Preview {
    pub(crate) lines: Vec<Vec<u8>>,
}

impl Preview {
    pub(crate) fn of(head: &Head) -> Self {
        let mut lines = Lines::in_blocks(&head.bytes[..], 16 << 10);
        let mut found: Vec<Vec<u8>> = Vec::new();
        // Reading from memory cannot fail, but for lines over 16 MiB, which a head does not have.
        while let Ok(Some(line)) = lines.next() {
            let comment = found.is_empty() && is_comment(line);
            if !line.is_empty() && !comment {
                found.push(line.to_vec());
            }
            if found.len() > LINES {
                break;
            }
        }
        let cut_short = !head.whole && head.bytes.last() != Some(&b'\n') && found.len() <= LINES;
        if cut_short && found.len() > 1 {
            found.pop();
        }
        Self { lines: found }
    }

    /// The first line split into fields.
    pub(crate) fn first(&self, delimiter: Delimiter) -> Vec<String> {
        self.lines.first().map(|line| split(line, delimiter)).unwrap_or_default()
    }

    /// All lines split into fields.
    pub(crate) fn rows(&self, delimiter: Delimiter) -> Vec<Vec<String>> {
        self.lines.iter().map(|line| split(line, delimiter)).collect()
    }

    /// The delimiter that splits every line into the same number of fields, two or more.
    ///
    /// Failing that, the one that does so for most lines with the first line's number, so that a bad line is
    /// reported as such and not as an unknown format.
    pub(crate) fn delimiter(&self) -> Option<Delimiter> {
        let mut best = None;
        for delimiter in Delimiter::ALL {
            let width = self.first(delimiter).len();
            if width < 2 {
                continue;
            }
            let fitting = self.lines.iter().filter(|line| split(line, delimiter).len() == width).count();
            if fitting == self.lines.len() {
                return Some(delimiter);
            }
            if fitting * 2 > self.lines.len() && best.is_none_or(|(most, _)| fitting > most) {
                best = Some((fitting, delimiter));
            }
        }
        best.map(|(_, delimiter)| delimiter)
    }
}

/// Comments are at the top of a file and begin with `#` or `%`.
pub(crate) fn is_comment(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'#' | b'%'))
}

fn split(line: &[u8], delimiter: Delimiter) -> Vec<String> {
    let mut fields = Fields::default();
    match fields.split(line, delimiter) {
        Ok(()) => fields.texts(line),
        Err(_) => Vec::new(),
    }
}
