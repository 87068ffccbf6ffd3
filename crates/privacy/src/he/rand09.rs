//! Adapter to the traits of rand 0.9, which `fhe` uses.

use crate::SecureRng;
use rand_core_09::{CryptoRng, RngCore};

pub(crate) struct Rand09<'a>(pub(crate) &'a mut SecureRng);

impl RngCore for Rand09<'_> {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, into: &mut [u8]) {
        self.0.fill(into);
    }
}

impl CryptoRng for Rand09<'_> {}
