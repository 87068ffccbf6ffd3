//! Exact sampling of discrete noise.
//!
//! C. Canonne, G. Kamath, T. Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020: the discrete
//! Gaussian has the Rényi divergences of the continuous one of the same sigma, or less, and can be drawn with integers
//! alone. The accountant treats it as the continuous one also under subsampling; from sigma = 2 grid units on the two
//! differ by less than e^-78, and a useful grid for updates has thousands of units in a sigma. The scale is rounded
//! *up* to 15 significant bits, so that all fractions fit machine words: never less noise than was asked for, and at
//! most 0.013 % more. The discrete Laplace distribution of b grid units keeps the pure epsilon of the continuous one;
//! at the same epsilon its delta is larger by at most 1 / (8 b^2) a use, which on such a grid is negligible.

use super::DpError;
use super::bernoulli::{below, bernoulli, bernoulli_exp, bernoulli_exp_int, bernoulli_inv_e};
use super::error::check;
use crate::SecureRng;

/// Significant bits of a scale.
const BITS: i32 = 15;
const SMALLEST: f64 = 1.0 / 1024.0;
const LARGEST: f64 = (1u64 << 40) as f64;
const SCALE: &str = "from 2^-10 to 2^40 grid units";

/// `mantissa * 2^exponent` with a mantissa of at most 15 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    mantissa: u64,
    exponent: i32,
}

impl Scale {
    /// The smallest such number that is not below `value`.
    fn at_least(what: &'static str, value: f64) -> Result<Self, DpError> {
        check(what, value, SCALE, |v| (SMALLEST..=LARGEST).contains(&v))?;
        // Multiplying by a power of two is exact.
        let exponent = libm::ilogb(value) - (BITS - 1);
        let mantissa = libm::scalbn(value, -exponent).ceil() as u64;
        Ok(Self { mantissa, exponent })
    }
}

/// Adds independent noise to integers.
pub trait Noise {
    /// One draw.
    fn sample(&self, rng: &mut SecureRng) -> i64;

    /// Adds an independent draw to each value, wrapping as sums modulo a power of two do.
    fn add_to(&self, rng: &mut SecureRng, values: &mut [i64]) {
        for value in values {
            *value = value.wrapping_add(self.sample(rng));
        }
    }
}

/// The discrete Laplace distribution: P(x) is proportional to e^(-|x| / scale).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscreteLaplace {
    /// scale = above / under
    above: u64,
    under: u64,
}

impl DiscreteLaplace {
    /// With a scale in grid units.
    ///
    /// # Errors
    /// If the scale is not from 2^-10 to 2^40.
    pub fn new(scale: f64) -> Result<Self, DpError> {
        let Scale { mantissa, exponent } = Scale::at_least("the scale of Laplace noise", scale)?;
        let (above, under) = if exponent >= 0 { (mantissa << exponent, 1) } else { (mantissa, 1 << -exponent) };
        Ok(Self { above, under })
    }
}

impl Noise for DiscreteLaplace {
    fn sample(&self, rng: &mut SecureRng) -> i64 {
        loop {
            let size = geometric(rng, self.above) / self.under;
            let negative = rng.next_u32() & 1 == 1;
            // Zero has one sign only, or it would be twice as likely.
            if !(negative && size == 0) {
                return signed(size, negative);
            }
        }
    }
}

/// An integer x >= 0 with probability proportional to e^(-x / scale): a remainder below `scale` and a geometric
/// number of whole scales (Algorithm 2 of the paper).
fn geometric(rng: &mut SecureRng, scale: u64) -> u64 {
    loop {
        let rest = below(rng, scale);
        if !bernoulli_exp(rng, u128::from(rest), u128::from(scale)) {
            continue;
        }
        let mut whole = 0u64;
        while bernoulli_inv_e(rng) {
            whole += 1;
        }
        // Further out has probability e^-(2^20): rejected so that nothing can overflow.
        if whole < 1 << 20 {
            return whole * scale + rest;
        }
    }
}

fn signed(size: u64, negative: bool) -> i64 {
    if negative { -(size as i64) } else { size as i64 }
}

/// The discrete Gaussian distribution: P(x) is proportional to e^(-x^2 / (2 sigma^2)).
///
/// A draw x from the discrete Laplace distribution of scale t is accepted with probability e^-((|x| - sigma^2 / t)^2 /
/// (2 sigma^2)) (Algorithm 3 of the paper). With everything multiplied out to integers that is e^-((z / w)^2 / 2), z
/// = | |x| `slope` - `middle` |.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscreteGaussian {
    /// t
    proposal: u64,
    slope: u128,
    middle: u128,
    /// w
    unit: u128,
}

impl DiscreteGaussian {
    /// With a standard deviation in grid units.
    ///
    /// # Errors
    /// If sigma is not from 2^-10 to 2^40.
    pub fn new(sigma: f64) -> Result<Self, DpError> {
        let sigma = Scale::at_least("the sigma of Gaussian noise", sigma)?;
        let n = u128::from(sigma.mantissa);
        let shift = sigma.exponent.unsigned_abs();
        let (proposal, slope, middle, unit) = if sigma.exponent >= 0 {
            let t = n + 1;
            (t << shift, t, (n * n) << shift, (n * t) << shift)
        } else {
            let t = (n >> shift) + 1;
            (t, t << (2 * shift), n * n, (n * t) << shift)
        };
        Ok(Self { proposal: proposal as u64, slope, middle, unit })
    }

    /// True with probability e^-((z / w)^2 / 2); with z = i w + j that is i^2 / 2 + i (j / w) + (j / w)^2 / 2.
    fn accepts(&self, rng: &mut SecureRng, size: u64) -> bool {
        let z = (u128::from(size) * self.slope).abs_diff(self.middle);
        let (i, j) = (z / self.unit, z % self.unit);
        bernoulli_exp_int(rng, i * i / 2)
            && (i % 2 == 0 || bernoulli_exp(rng, 1, 2))
            && (0..i).all(|_| bernoulli_exp(rng, j, self.unit))
            && self.accepts_rest(rng, j)
    }

    /// True with probability e^-((j / w)^2 / 2): as [`bernoulli_exp`], with each probability a product.
    fn accepts_rest(&self, rng: &mut SecureRng, j: u128) -> bool {
        let mut k: u128 = 1;
        while bernoulli(rng, j, self.unit) && bernoulli(rng, j, self.unit) && bernoulli(rng, 1, 2 * k) {
            k += 1;
        }
        k % 2 == 1
    }
}

impl Noise for DiscreteGaussian {
    fn sample(&self, rng: &mut SecureRng) -> i64 {
        loop {
            let size = geometric(rng, self.proposal);
            let negative = rng.next_u32() & 1 == 1;
            if !(negative && size == 0) && self.accepts(rng, size) {
                return signed(size, negative);
            }
        }
    }
}

/// Noise of either distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discrete {
    /// Gaussian.
    Gaussian(DiscreteGaussian),
    /// Laplace.
    Laplace(DiscreteLaplace),
}

impl Noise for Discrete {
    fn sample(&self, rng: &mut SecureRng) -> i64 {
        match self {
            Self::Gaussian(noise) => noise.sample(rng),
            Self::Laplace(noise) => noise.sample(rng),
        }
    }
}

#[cfg(test)]
mod tests;
