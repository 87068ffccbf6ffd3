//! Encoding of stored state: fields one after the other, numbers as 8 bytes little-endian, texts and blocks with their
//! length.

/// Appends fields to a buffer.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// A byte.
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A number.
    pub fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes with their length.
    pub fn block(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Texts with their number.
    pub fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.number(texts.len() as u64);
        texts.for_each(|text| self.block(text.as_bytes()));
    }

    /// A value that may be missing.
    pub fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// A field, or the name of the one that cannot be read.
pub type Read<T> = Result<T, &'static str>;

/// Reads fields from a buffer.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize, field: &'static str) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(field)?;
        self.0 = rest;
        Ok(taken)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        self.take(N, field)?.try_into().map_err(|_| field)
    }

    /// A byte.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn byte(&mut self, field: &'static str) -> Read<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    /// Whether a flag is set.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn flag(&mut self, field: &'static str) -> Read<bool> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(field),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn number(&mut self, field: &'static str) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A number of things of at least one byte each, so that no more are allocated for than there can be.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn count(&mut self, field: &'static str) -> Read<usize> {
        let count = usize::try_from(self.number(field)?).map_err(|_| field)?;
        if count <= self.0.len() { Ok(count) } else { Err(field) }
    }

    /// Bytes with their length.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn block(&mut self, field: &'static str) -> Read<&'a [u8]> {
        let length = self.count(field)?;
        self.take(length, field)
    }

    /// A text.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn text(&mut self, field: &'static str) -> Read<&'a str> {
        std::str::from_utf8(self.block(field)?).map_err(|_| field)
    }

    /// Texts with their number.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn texts<C: FromIterator<&'a str>>(&mut self, field: &'static str) -> Read<C> {
        let count = self.count(field)?;
        (0..count).map(|_| self.text(field)).collect()
    }

    /// A value that may be missing.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn optional<T>(&mut self, field: &'static str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        if self.flag(field)? { read(self).map(Some) } else { Ok(None) }
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// If there are too few bytes, or wrong ones; names the field.
    pub fn end(&self, field: &'static str) -> Read<()> {
        if self.0.is_empty() { Ok(()) } else { Err(field) }
    }
}
