//! Which model it is that a device was given.

use sottovoce_protocol::Parameters;

/// BLAKE3 of a shared model's values: all tables' f32, little-endian, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(blake3::Hash);

impl Digest {
    /// The digest of a model.
    pub fn of(parameters: &Parameters) -> Self {
        let mut hasher = blake3::Hasher::new();
        parameters.le_bytes(|bytes| {
            hasher.update(bytes);
        });
        Self(hasher.finalize())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// From 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text.trim()).ok().map(Self)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.to_hex().fmt(f)
    }
}
