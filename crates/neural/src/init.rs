//! Initial values of parameters.

use crate::Real;
use sottovoce_core::Rng;

/// How a tensor is filled before training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// The same value everywhere.
    Constant(f64),
    /// Uniform between minus and plus this.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
}

impl Init {
    /// All 0.
    pub const ZEROS: Self = Self::Constant(0.0);
    /// All 1.
    pub const ONES: Self = Self::Constant(1.0);

    /// Uniform within 1 / sqrt(fan_in): what PyTorch's linear, convolutional and recurrent layers start from.
    pub fn fan_in(inputs: usize) -> Self {
        Self::Uniform(1.0 / (inputs.max(1) as f64).sqrt())
    }

    /// Uniform within sqrt(6 / (fan_in + fan_out)): Glorot and Bengio 2010, for tanh and sigmoid.
    pub fn glorot(inputs: usize, outputs: usize) -> Self {
        Self::Uniform((6.0 / (inputs.saturating_add(outputs)).max(1) as f64).sqrt())
    }

    /// Normal with deviation sqrt(2 / fan_in): He et al. 2015, for ReLU.
    pub fn he(inputs: usize) -> Self {
        Self::Normal((2.0 / inputs.max(1) as f64).sqrt())
    }

    /// Fills values from a stream. Draws are made in double precision, so that f32 and f64 models start alike.
    pub fn fill<R: Real>(self, values: &mut [R], rng: &mut Rng) {
        for value in values {
            *value = R::of(match self {
                Self::Constant(constant) => constant,
                Self::Uniform(bound) => bound * (2.0 * rng.unit() - 1.0),
                Self::Normal(deviation) => deviation * rng.normal(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(init: Init) -> (f64, f64) {
        let mut values = vec![0.0f64; 100_000];
        init.fill(&mut values, &mut Rng::new(4));
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n)
    }

    #[test]
    fn initialisers_have_the_right_moments() {
        for (init, variance) in [
            (Init::Uniform(0.3), 0.03),
            (Init::fan_in(25), 0.04 / 3.0),
            (Init::glorot(10, 20), 0.2 / 3.0),
            (Init::Normal(0.5), 0.25),
            (Init::he(8), 0.25),
        ] {
            let (mean, found) = moments(init);
            assert!(mean.abs() < 0.01 && (found / variance - 1.0).abs() < 0.03, "{init:?} {mean} {found}");
        }
        assert_eq!(moments(Init::Constant(2.0)), (2.0, 0.0));
    }
}
