//! Fields of the stored state, one after the other: numbers of 8 bytes little-endian, texts and blocks with their length.

/// Appends fields.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn block(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.number(texts.len() as u64);
        texts.for_each(|text| self.block(text.as_bytes()));
    }

    pub(crate) fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// What was read is not what was written; says which field.
pub(crate) type Read<T> = Result<T, &'static str>;

/// Takes fields.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize, field: &'static str) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(field)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        self.take(N, field)?.try_into().map_err(|_| field)
    }

    pub(crate) fn byte(&mut self, field: &'static str) -> Read<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Read<bool> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(field),
        }
    }

    pub(crate) fn number(&mut self, field: &'static str) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A number of things of at least one byte each, so that no more are allocated for than there can be.
    pub(crate) fn count(&mut self, field: &'static str) -> Read<usize> {
        let count = usize::try_from(self.number(field)?).map_err(|_| field)?;
        if count <= self.0.len() { Ok(count) } else { Err(field) }
    }

    pub(crate) fn block(&mut self, field: &'static str) -> Read<&'a [u8]> {
        let length = self.count(field)?;
        self.take(length, field)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Read<&'a str> {
        std::str::from_utf8(self.block(field)?).map_err(|_| field)
    }

    pub(crate) fn texts<C: FromIterator<&'a str>>(&mut self, field: &'static str) -> Read<C> {
        let count = self.count(field)?;
        (0..count).map(|_| self.text(field)).collect()
    }

    pub(crate) fn optional<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<Option<T>> {
        if self.flag(field)? { read(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn end(&self, field: &'static str) -> Read<()> {
        if self.0.is_empty() { Ok(()) } else { Err(field) }
    }
}
