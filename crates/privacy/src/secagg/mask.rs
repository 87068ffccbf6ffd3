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

/// Writes words, the last one behind them, with all masks as little-endian bytes: a few KiB after the other, each with
/// all keystreams, so that nothing as long as the words is needed but `out`.
pub(super) fn write_masked(keys: &[([u8; 32], bool)], words: &[u32], last: u32, out: &mut [u8]) {
    let core = |(key, subtract): &([u8; 32], bool)| (Core::new(&(*key).into(), &[0; 12].into()), *subtract);
    let mut cores: Vec<(Core, bool)> = keys.iter().map(core).collect();
    let mut stream = [Block::<Core>::default(); BLOCKS];
    let mut part = Vec::with_capacity(WORDS);
    for (index, out) in out.chunks_mut(4 * WORDS).enumerate() {
        let wanted = out.len() / 4;
        part.clear();
        part.extend(words.iter().skip(index * WORDS).take(wanted));
        part.resize(wanted, last);
        let blocks = &mut stream[..wanted.div_ceil(16)];
        for (core, subtract) in &mut cores {
            core.write_keystream_blocks(blocks);
            simd_dispatch(Addition { stream: blocks, subtract: *subtract, words: &mut part });
        }
        let bytes = out.as_chunks_mut::<4>().0;
        bytes.iter_mut().zip(&part).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
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
    fn written_in_parts_masks_are_the_same() {
        let keys = [([5; 32], false), ([6; 32], true), ([7; 32], true)];
        for length in [0, 1, 17, WORDS - 1, WORDS, 3 * WORDS + 5] {
            let words: Vec<u32> = (0..length as u32).map(|word| word.wrapping_mul(0x9E37_79B9)).collect();
            let mut expected: Vec<u32> = words.iter().copied().chain([77]).collect();
            keys.iter().for_each(|(key, subtract)| add_keystream(key, *subtract, &mut expected));
            let mut found = vec![0; 4 * (length + 1)];
            write_masked(&keys, &words, 77, &mut found);
            assert_eq!(found, expected.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
        }
    }

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
