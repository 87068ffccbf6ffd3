//! Bytes in and out: every read is bounded and names its field.

/// Why bytes are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end too early.
    #[error("{field} at byte {at}: {needed} bytes needed, {left} left")]
    Truncated {
        /// What was to be read.
        field: &'static str,
        /// Where it begins.
        at: usize,
        /// How many bytes it needs.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// A number that cannot be.
    #[error("{field} before byte {at}: {found}, but it must be {expected}")]
    Value {
        /// Which number.
        field: &'static str,
        /// Where it ends.
        at: usize,
        /// What was found.
        found: u64,
        /// What would do.
        expected: &'static str,
    },
    /// More bytes than the message has.
    #[error("{0} bytes after the message's end")]
    Trailing(usize),
}

/// A position in untrusted bytes.
pub struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    pub(crate) fn left(&self) -> usize {
        self.all.len() - self.at
    }

    pub(crate) fn bytes(&mut self, field: &'static str, needed: usize) -> Result<&'a [u8], Malformed> {
        let (at, left) = (self.at, self.left());
        if needed > left {
            return Err(Malformed::Truncated { field, at, needed, left });
        }
        self.at += needed;
        Ok(&self.all[at..self.at])
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(field, N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.wrong(field, other.into(), "0 or 1")),
        }
    }

    /// A number of entries of `size` bytes each that must still lie ahead; so nothing is allocated for what is not there.
    pub(crate) fn count(
        &mut self,
        field: &'static str,
        most: usize,
        size: usize,
    ) -> Result<usize, Malformed> {
        let count = self.u32(field)? as usize;
        if count > most {
            return Err(self.wrong(field, count as u64, "within the limit"));
        }
        let (at, needed, left) = (self.at, count.saturating_mul(size), self.left());
        if needed > left { Err(Malformed::Truncated { field, at, needed, left }) } else { Ok(count) }
    }

    pub(crate) fn wrong(&self, field: &'static str, found: u64, expected: &'static str) -> Malformed {
        Malformed::Value { field, at: self.at, found, expected }
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.left() == 0 { Ok(()) } else { Err(Malformed::Trailing(self.left())) }
    }
}
