//! Lines of a file, read in blocks; the text is never held as a whole.

use crate::builder::{DatasetBuilder, RowError};
use crate::error::{DataError, Result};
use std::io::{self, Read};

const BLOCK: usize = 256 << 10;
/// A longer line means that the file is not lines of text.
const LONGEST: usize = 16 << 20;

/// Lines without their line break (LF or CRLF); a byte-order mark at the start is dropped.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    finished: bool,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self::in_blocks(source, BLOCK)
    }

    /// With another block than the usual one: a smaller one for a few lines.
    pub(crate) fn in_blocks(source: R, block: usize) -> Self {
        Self { source, buffer: vec![0; block], start: 0, end: 0, finished: false, number: 0 }
    }

    /// Number of the line that was given last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut searched = self.start;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..self.end]) {
                let (from, to) = (self.start, searched + found);
                self.start = to + 1;
                return Ok(Some(self.line(from, to)));
            }
            if self.finished {
                let (from, to) = (self.start, self.end);
                self.start = to;
                return Ok((from < to).then(|| self.line(from, to)));
            }
            searched = self.fill()?;
        }
    }

    #[inline]
    fn line(&mut self, from: usize, to: usize) -> &[u8] {
        self.number += 1;
        let line = &self.buffer[from..to];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line }
    }

    /// Moves the open line to the front and reads on; returns where the new bytes begin.
    #[cold]
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            if self.end >= LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 16 MiB"));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let old = self.end;
        let read = loop {
            match self.source.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.finished = read == 0;
        self.end += read;
        Ok(old)
    }
}

/// Reads all lines of a file; bad ones are handled by the builder. Returns how many there are.
pub(crate) fn read_lines<R: Read>(
    source: R,
    file: &str,
    builder: &mut DatasetBuilder,
    mut read: impl FnMut(u64, &[u8], &mut DatasetBuilder) -> Result<(), RowError>,
) -> Result<u64> {
    let mut lines = Lines::new(source);
    let mut number = 0;
    while let Some(line) = lines.next().map_err(|error| DataError::io(file, error))? {
        number += 1;
        let row = read(number, line, builder);
        builder.check(number, row)?;
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its bytes in small pieces.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn all(text: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(Trickle(text, piece));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(line.to_vec());
        }
        found
    }

    #[test]
    fn handles_line_breaks_byte_order_marks_and_long_lines() {
        assert_eq!(all(b"\xef\xbb\xbfa\r\n\nb", 2), [b"a".to_vec(), vec![], b"b".to_vec()]);
        let long = vec![b'x'; 3 * BLOCK];
        assert_eq!(all(&long, 100_000), [long]);
        let endless = Lines::new(io::repeat(b'x')).next().unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::InvalidData);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_read_sizes(text in "[ab\n]{0,60}", piece in 1usize..9) {
            let expected: Vec<_> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            prop_assert_eq!(all(text.as_bytes(), piece), expected);
        }
    }
}
