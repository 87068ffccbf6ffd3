//! Adding and removing masks: ChaCha20 keystreams, as little-endian words modulo 2^32.

use chacha20::cipher::{Block, KeyIvInit, StreamCipherCore};
use chacha20::variants::Ietf;
use chacha20::{ChaChaCore, R20};
use sha2::{Digest, Sha256};
use sottovoce_core::{SimdKernel, simd_dispatch};

type Core = ChaChaCore<R20, Ietf>;

/// Blocks at a time: 8 KiB, which fits the first-level cache beside the words it is added to.
const BLOCKS: usize = 128;
const WORDS: usize = BLOCKS * 16;

/// Adds the keystream of a key to words, or subtracts it. A key must be used for one mask only.
pub fn add_keystream(key: &[u8; 32], subtract: bool, words: &mut [u32]) {
    let mut core = Core::new(&(*key).into(), &[0; 12].into());
    let mut stream = [Block::<Core>::default(); BLOCKS];
    for part in words.chunks_mut(WORDS) {
        let blocks = &mut stream[..part.len().div_ceil(16)];
        core.write_keystream_blocks(blocks);
        simd_dispatch(Addition { stream: blocks, subtract, words: part });
    }
}

struct Addition<'a> {
    stream: &'a [Block<Core>],
    subtract: bool,
    words: &'a mut [u32],
}

impl SimdKernel for Addition<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        if self.subtract {
            each(self.words, self.stream, u32::wrapping_sub);
        } else {
            each(self.words, self.stream, u32::wrapping_add);
        }
    }
}

#[inline(always)]
fn each(words: &mut [u32], stream: &[Block<Core>], change: impl Fn(u32, u32) -> u32) {
    for (part, block) in words.chunks_mut(16).zip(stream) {
        for (word, bytes) in part.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = change(*word, u32::from_le_bytes(*bytes));
        }
    }
}

/// Adds words to words, modulo 2^32.
pub(crate) fn add_words(sum: &mut [u32], words: &[u32]) {
    for (total, word) in sum.iter_mut().zip(words) {
        *total = total.wrapping_add(*word);
    }
}

/// SHA-256 of words.
pub(crate) fn digest(words: &[u32]) -> [u8; 32] {
    let (mut hash, mut bytes) = (Sha256::new(), Vec::with_capacity(4 * WORDS));
    for part in words.chunks(WORDS) {
        bytes.clear();
        bytes.extend(part.iter().flat_map(|word| word.to_le_bytes()));
        hash.update(&bytes);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha20;
    use chacha20::cipher::StreamCipher;

    #[test]
    fn masks_are_chacha20_keystreams_and_cancel() {
        for length in [0, 1, 15, 16, 17, WORDS - 1, WORDS, WORDS + 5, 3 * WORDS] {
            let mut bytes = vec![0; 4 * length];
            ChaCha20::new(&[5; 32].into(), &[0; 12].into()).apply_keystream(&mut bytes);
            let expected: Vec<u32> =
                bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word).wrapping_add(9)).collect();
            let mut words = vec![9; length];
            add_keystream(&[5; 32], false, &mut words);
            assert_eq!(words, expected);
            add_keystream(&[5; 32], true, &mut words);
            assert_eq!(words, vec![9; length]);
        }
    }
}
