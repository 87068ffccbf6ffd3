//! Comparing shared keys without revealing them.

use crate::SecureRng;
use crate::tokens::to_hex;

/// A digest of a key, by which devices check that they have the federation's; it reveals nothing else of the key.
pub fn key_digest(key: &[u8; 32]) -> String {
    to_hex(&SecureRng::new(*key).stream("digest", 0).seed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_different_keys_differ() {
        assert_eq!(key_digest(&[1; 32]).len(), 64);
        assert_ne!(key_digest(&[1; 32]), key_digest(&[2; 32]));
    }
}
