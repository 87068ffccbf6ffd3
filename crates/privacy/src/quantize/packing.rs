//! Several integers in a word, where sums are known to be small.
//!
//! A word is the sum of its integers times powers of two, modulo 2^32, so that adding words adds the integers, and
//! masks are added as to any word. Negative integers borrow from the next one; reading from the lowest on gives it back.

/// How many bits a sum has in the words that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// A word.
    #[default]
    Words,
    /// So many, its sign among them. The grid is coarse: values are rounded up or down at random.
    Sums(u32),
    /// So many, and all updates are of zeros and ones.
    Ones(u32),
}

impl Packing {
    /// For so many updates of ones: the bits of that number, if at least two sums fit a word.
    pub fn ones(devices: u32) -> Self {
        let bits = (u32::BITS - devices.leading_zeros()).max(1);
        if bits > 16 { Self::Words } else { Self::Ones(bits) }
    }

    /// Bits of a sum.
    pub fn bits(self) -> u32 {
        match self {
            Self::Words => 32,
            Self::Sums(bits) | Self::Ones(bits) => bits,
        }
    }

    /// Sums in a word.
    pub(super) fn per_word(self) -> usize {
        (32 / self.bits()) as usize
    }

    /// The word of an integer, and by how many bits it is shifted there.
    pub(super) fn place(self, position: usize) -> (usize, u32) {
        let per_word = self.per_word();
        (position / per_word, self.bits() * (position % per_word) as u32)
    }

    /// The integers, so many, of a sum of words.
    pub(super) fn unpacked(self, words: &[u32], length: usize) -> Vec<i64> {
        let bits = self.bits();
        let mut all = Vec::with_capacity(words.len() * self.per_word());
        for &word in words {
            let mut rest = word;
            for _ in 0..self.per_word() {
                let unused = 32 - bits;
                let low = rest << unused;
                let integer = match self {
                    Self::Ones(_) => i64::from(low >> unused),
                    _ => i64::from(low as i32 >> unused),
                };
                all.push(integer);
                rest = rest.wrapping_sub(integer as u32).checked_shr(bits).unwrap_or(0);
            }
        }
        all.truncate(length);
        all
    }
}
