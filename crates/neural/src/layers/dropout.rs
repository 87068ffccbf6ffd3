//! Dropout.
//!
//! ```text
//! y = x m,  dx = dy m,  with m = 0 with probability p and 1 / (1 - p) otherwise, drawn anew for each value and step
//! ```
//! Srivastava et al. 2014, in the form that needs nothing at inference.

use crate::error::{Result, expect_len, setting};
use crate::{Real, Space};
use sottovoce_core::Rng;

/// Sets values to zero at random while training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    probability: f64,
}

impl Dropout {
    /// Drops values with this probability.
    ///
    /// # Errors
    /// If it is not within [0, 1).
    pub fn new(probability: f64) -> Result<Self> {
        if (0.0..1.0).contains(&probability) {
            Ok(Self { probability })
        } else {
            Err(setting(format!("dropout of {probability}: a probability within [0, 1) is expected")))
        }
    }

    /// Drops some of x in place and returns what the rest was multiplied with.
    ///
    /// # Errors
    /// If the arena has not as many values left as x.
    pub fn forward<'a, R: Real>(&self, x: &mut [R], rng: &mut Rng, space: &mut Space<'a, R>) -> Result<&'a mut [R]> {
        let mask = space.take(x.len())?;
        mask.fill(R::ONE);
        self.apply(mask, rng);
        self.backward(mask, x)?;
        Ok(mask)
    }

    /// Drops some of x in place.
    pub(crate) fn apply<R: Real>(&self, x: &mut [R], rng: &mut Rng) {
        let threshold = (self.probability * 4_294_967_296.0) as u64;
        let kept = R::of(1.0 / (1.0 - self.probability));
        // Two values a draw: 32 bits decide each.
        for pair in x.chunks_mut(2) {
            let bits = rng.next_u64();
            for (value, bits) in pair.iter_mut().zip([bits >> 32, bits & 0xFFFF_FFFF]) {
                *value *= if bits < threshold { R::ZERO } else { kept };
            }
        }
    }

    /// Replaces dy by dx, given what forward returned.
    ///
    /// # Errors
    /// If the two differ in length.
    pub fn backward<R: Real>(&self, mask: &[R], gradient: &mut [R]) -> Result<()> {
        expect_len("gradient of dropout", gradient.len(), mask.len())?;
        for (gradient, &factor) in gradient.iter_mut().zip(mask) {
            *gradient *= factor;
        }
        Ok(())
    }
}
