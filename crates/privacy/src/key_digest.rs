//! Recognising a shared key without saying it.

use crate::Generator;

/// A digest of a key, by which devices see that they have the federation's; it says nothing else of the key.
pub fn key_digest(key: &[u8; 32]) -> String {
    let digest = Generator::new(*key).stream("digest", 0).seed();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_keys_apart() {
        assert_eq!(key_digest(&[1; 32]).len(), 64);
        assert_ne!(key_digest(&[1; 32]), key_digest(&[2; 32]));
    }
}
