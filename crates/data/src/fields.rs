//! A line split into fields.

/// What separates fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    /// One byte; with the comma and the semicolon, fields may be quoted.
    Byte(u8),
    /// `::`, as in the older MovieLens sets.
    Colons,
    /// Any run of spaces and tabs; those around the line do not count.
    Blanks,
}

impl Delimiter {
    /// All, in the order in which they are tried.
    pub(crate) const ALL: [Delimiter; 6] = [
        Delimiter::Byte(b'\t'),
        Delimiter::Colons,
        Delimiter::Byte(b','),
        Delimiter::Byte(b';'),
        Delimiter::Byte(b'|'),
        Delimiter::Blanks,
    ];

    fn quotes(self) -> bool {
        matches!(self, Delimiter::Byte(b',' | b';'))
    }
}

/// The fields of one line; kept between lines so that its memory is used again.
#[derive(Default)]
pub(crate) struct Fields {
    ends: Vec<(u32, u32)>,
    /// Fields without their quotes, if the line has quotes.
    unquoted: Vec<u8>,
    in_unquoted: bool,
}

/// A quoted field without its closing quote, or with text behind it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadQuotes;

impl Fields {
    /// Splits a line.
    #[inline]
    pub(crate) fn split(&mut self, line: &[u8], delimiter: Delimiter) -> Result<(), BadQuotes> {
        self.ends.clear();
        self.in_unquoted = false;
        match delimiter {
            Delimiter::Byte(byte) => {
                if delimiter.quotes() && memchr::memchr(b'"', line).is_some() {
                    return self.split_quoted(line, byte);
                }
                self.split_bytes(line, byte);
            }
            Delimiter::Colons => self.split_colons(line),
            Delimiter::Blanks => self.split_blanks(line),
        }
        Ok(())
    }

    #[inline]
    fn split_bytes(&mut self, line: &[u8], delimiter: u8) {
        let mut start = 0;
        for (at, &byte) in line.iter().enumerate() {
            if byte == delimiter {
                self.ends.push((start as u32, at as u32));
                start = at + 1;
            }
        }
        self.ends.push((start as u32, line.len() as u32));
    }

    #[inline]
    fn split_colons(&mut self, line: &[u8]) {
        let (mut start, mut at) = (0, 0);
        while at + 1 < line.len() {
            if line[at] == b':' && line[at + 1] == b':' {
                self.ends.push((start as u32, at as u32));
                start = at + 2;
                at = start;
            } else {
                at += 1;
            }
        }
        self.ends.push((start as u32, line.len() as u32));
    }

    fn split_blanks(&mut self, line: &[u8]) {
        let mut start = None;
        for (at, &byte) in line.iter().enumerate() {
            match (byte == b' ' || byte == b'\t', start) {
                (true, Some(from)) => {
                    self.ends.push((from as u32, at as u32));
                    start = None;
                }
                (false, None) => start = Some(at),
                _ => {}
            }
        }
        if let Some(from) = start {
            self.ends.push((from as u32, line.len() as u32));
        }
    }

    /// RFC 4180: a field that begins with a quote ends with one, and two quotes within stand for one.
    fn split_quoted(&mut self, line: &[u8], delimiter: u8) -> Result<(), BadQuotes> {
        self.unquoted.clear();
        self.in_unquoted = true;
        let mut rest = line;
        loop {
            let start = self.unquoted.len() as u32;
            let after = match rest.strip_prefix(b"\"") {
                Some(quoted) => self.take_quoted(quoted)?,
                None => {
                    let end = memchr::memchr(delimiter, rest).unwrap_or(rest.len());
                    self.unquoted.extend_from_slice(&rest[..end]);
                    &rest[end..]
                }
            };
            self.ends.push((start, self.unquoted.len() as u32));
            match after.split_first() {
                None => return Ok(()),
                Some((&byte, next)) if byte == delimiter => rest = next,
                Some(_) => return Err(BadQuotes),
            }
        }
    }

    /// Copies a quoted field whose opening quote is gone; returns what follows the closing one.
    fn take_quoted<'l>(&mut self, mut rest: &'l [u8]) -> Result<&'l [u8], BadQuotes> {
        loop {
            let end = memchr::memchr(b'"', rest).ok_or(BadQuotes)?;
            self.unquoted.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix(b"\"") {
                Some(more) => {
                    self.unquoted.push(b'"');
                    rest = more;
                }
                None => return Ok(rest),
            }
        }
    }

    /// How many fields the line has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field of the line that was split last; empty past the end.
    #[inline]
    pub(crate) fn get<'a>(&'a self, line: &'a [u8], index: usize) -> &'a [u8] {
        let text = if self.in_unquoted { &self.unquoted } else { line };
        self.ends.get(index).map_or(&[], |&(start, end)| &text[start as usize..end as usize])
    }

    /// All fields as text.
    pub(crate) fn texts(&self, line: &[u8]) -> Vec<String> {
        (0..self.len()).map(|index| crate::text::decode(self.get(line, index)).0.into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str, delimiter: Delimiter) -> Result<Vec<String>, BadQuotes> {
        let mut fields = Fields::default();
        fields.split(line.as_bytes(), delimiter)?;
        Ok(fields.texts(line.as_bytes()))
    }

    #[test]
    fn splits_at_every_delimiter() {
        assert_eq!(split("1::a:b::::3", Delimiter::Colons).unwrap(), ["1", "a:b", "", "3"]);
        assert_eq!(split("a:::b", Delimiter::Colons).unwrap(), ["a", ":b"]);
        assert_eq!(split("  1  22\t3 ", Delimiter::Blanks).unwrap(), ["1", "22", "3"]);
        assert_eq!(split("a\t\"b\t", Delimiter::Byte(b'\t')).unwrap(), ["a", "\"b", ""]);
        assert_eq!(split("", Delimiter::Byte(b',')).unwrap(), [""]);
    }

    #[test]
    fn quotes_protect_delimiters_and_quotes() {
        let comma = Delimiter::Byte(b',');
        assert_eq!(split("7,\"Postino, Il (1994)\",x", comma).unwrap(), ["7", "Postino, Il (1994)", "x"]);
        assert_eq!(split("\"say \"\"hi\"\"\",", comma).unwrap(), ["say \"hi\"", ""]);
        assert_eq!(split("6\" nails,2", comma).unwrap(), ["6\" nails", "2"]);
        assert_eq!(split("\"open,2", comma), Err(BadQuotes));
        assert_eq!(split("\"a\"b,2", comma), Err(BadQuotes));
    }
}
