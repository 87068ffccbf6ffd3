//! A random projection of a network's parameters: an embedding that nobody has to learn.
//!
//! Each value of the embedding is a sum of all parameters with random signs, which keeps angles between differences of
//! networks to within 1 / sqrt(dim) (Achlioptas 2003). Signs follow from a counter, so that nothing is stored.

use super::normalise;

/// Projects networks with so many parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    parameters: usize,
    dim: usize,
}

impl Projection {
    /// The same signs on every machine.
    pub fn new(parameters: usize, dim: usize) -> Self {
        Self { parameters, dim: dim.min(64) }
    }

    /// The direction in which a network differs from the mean of all: a vector of length 1, or zeros if it does not.
    pub fn embed(&self, network: &[f32], mean: &[f32]) -> Vec<f32> {
        let mut embedding = vec![0.0f32; self.dim];
        for (index, (value, mean)) in network.iter().zip(mean).take(self.parameters).enumerate() {
            let (apart, signs) = (value - mean, mixed(index as u64));
            for (n, sum) in embedding.iter_mut().enumerate() {
                *sum += if signs >> n & 1 == 1 { apart } else { -apart };
            }
        }
        normalise(&mut embedding);
        embedding
    }
}

/// 64 random signs (SplitMix64).
fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
