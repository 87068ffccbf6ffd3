//! The cryptographic random rng.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

/// A cryptographically secure generator: ChaCha20 from 32 secret bytes. The same seed gives the same numbers, for tests
/// and the simulator; a deployed device or server seeds it from the operating system.
///
/// ```
/// use sottovoce_privacy::SecureRng;
/// let mut rng = SecureRng::new([7; 32]);
/// let mut again = SecureRng::new([7; 32]);
/// assert_eq!(rng.next_u64(), again.next_u64());
/// assert_ne!(rng.stream("masks", 1).next_u64(), rng.stream("masks", 2).next_u64());
/// ```
pub struct SecureRng {
    seed: [u8; 32],
    source: ChaCha20Rng,
}

impl Drop for SecureRng {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

impl SecureRng {
    /// From 32 secret bytes.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, source: ChaCha20Rng::from_seed(seed) }
    }

    /// Derived from an ordinary random stream, for the simulator and for devices that are compared with it. The seed of
    /// that stream determines all that this draws.
    pub fn simulated(rng: &sottovoce_core::Rng, label: &str, index: u64) -> Self {
        let mut stream = rng.stream(label, index);
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&stream.next_u64().to_le_bytes());
        }
        Self::new(seed)
    }

    /// An independent generator named by a label and a number; does not advance this one.
    #[must_use]
    pub fn stream(&self, label: &str, index: u64) -> Self {
        let length = (label.len() as u64).to_le_bytes();
        let parts = [&self.seed[..], &length, label.as_bytes(), &index.to_le_bytes()];
        Self::new(parts.into_iter().fold(Sha256::new(), Digest::chain_update).finalize().into())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.source.next_u64()
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        self.source.next_u32()
    }

    /// Random bytes.
    pub fn fill(&mut self, into: &mut [u8]) {
        self.source.fill_bytes(into);
    }

    /// 32 random bytes, for a key or another generator.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        seed
    }
}

/// Without the seed.
impl std::fmt::Debug for SecureRng {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SecureRng(..)")
    }
}
