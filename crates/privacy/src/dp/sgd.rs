//! DP-SGD: the step of a model that trains by gradient, with each example's share bounded and the sum noised.
//!
//! M. Abadi et al., "Deep Learning with Differential Privacy", CCS 2016. On a device an example is one interaction; user-level
//! privacy comes from clipping and noising the update as a whole.

use super::DpError;
use super::clip::{Clip, norm};
use super::error::check;
use super::noise::{DiscreteGaussian, Noise};
use crate::Generator;

/// Grid units in one clipping bound: fine enough that truncation is far below any noise.
const GRID: f64 = (1u64 << 24) as f64;

/// Gathers one step's gradients on a grid of integers, each clipped, and gives their noised sum.
#[derive(Debug, Clone)]
pub struct PerExample {
    clip: Clip,
    noise: DiscreteGaussian,
    sum: Vec<i64>,
    examples: usize,
}

impl PerExample {
    /// For gradients of `width` values, clipped to `clip` each; the sum gets noise of standard deviation `clip * multiplier`.
    ///
    /// # Errors
    /// If the bound or the multiplier is out of range.
    pub fn new(width: usize, clip: Clip, multiplier: f64) -> Result<Self, DpError> {
        check("the noise multiplier", multiplier, "from 0.001 to 1000", |v| (0.001..=1000.0).contains(&v))?;
        Ok(Self { clip, noise: DiscreteGaussian::new(multiplier * GRID)?, sum: vec![0; width], examples: 0 })
    }

    /// Adds one example's gradient, clipped; its norm before.
    ///
    /// # Errors
    /// If its width is another or a value is not finite.
    pub fn add(&mut self, gradient: &[f32]) -> Result<f64, DpError> {
        if gradient.len() != self.sum.len() {
            return Err(DpError::Length {
                what: "the gradient",
                found: gradient.len(),
                expected: self.sum.len(),
            });
        }
        let clipped = self.clip.judge(norm([gradient])?);
        let scale = clipped.factor * GRID / self.clip.bound();
        for (sum, &value) in self.sum.iter_mut().zip(gradient) {
            *sum += (f64::from(value) * scale) as i64;
        }
        self.examples += 1;
        Ok(clipped.norm)
    }

    /// Writes the noised sum of the step's gradients and starts the next step; how many examples there were. Divide by the
    /// *expected* number where examples are sampled.
    ///
    /// # Errors
    /// If `into` has another width.
    pub fn finish(&mut self, generator: &mut Generator, into: &mut [f32]) -> Result<usize, DpError> {
        if into.len() != self.sum.len() {
            return Err(DpError::Length { what: "the result", found: into.len(), expected: self.sum.len() });
        }
        self.noise.add_to(generator, &mut self.sum);
        let unit = self.clip.bound() / GRID;
        for (value, sum) in into.iter_mut().zip(&mut self.sum) {
            *value = (*sum as f64 * unit) as f32;
            *sum = 0;
        }
        Ok(std::mem::take(&mut self.examples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(multiplier: f64) -> PerExample {
        PerExample::new(3, Clip::to(0.5).unwrap(), multiplier).unwrap()
    }

    #[test]
    fn every_example_counts_up_to_the_bound() {
        let mut step = step(0.001);
        assert!((step.add(&[3.0, 0.0, 4.0]).unwrap() - 5.0).abs() < 1e-12);
        step.add(&[0.0, -0.1, 0.0]).unwrap();
        let mut sum = [0.0; 3];
        assert_eq!(step.finish(&mut Generator::new([1; 32]), &mut sum).unwrap(), 2);
        for (found, expected) in sum.iter().zip([0.3, -0.1, 0.4]) {
            assert!((found - expected).abs() < 0.004, "{sum:?}");
        }
        // The next step starts empty.
        assert_eq!(step.finish(&mut Generator::new([2; 32]), &mut sum).unwrap(), 0);
        assert!(sum.iter().all(|v| v.abs() < 0.004));
    }

    #[test]
    fn the_sum_has_its_noise() {
        let mut step = step(2.0);
        let (mut generator, mut sum, mut squares) = (Generator::new([3; 32]), [0.0; 3], 0.0);
        for _ in 0..2000 {
            step.finish(&mut generator, &mut sum).unwrap();
            squares += sum.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
        }
        // Standard deviation 2 * 0.5.
        assert!((squares / 6000.0 - 1.0).abs() < 0.1, "{squares}");
    }

    #[test]
    fn other_widths_and_odd_numbers_are_refused() {
        let mut step = step(1.0);
        assert!(step.add(&[1.0]).unwrap_err().to_string().contains("gradient has 1 values, but 3"));
        assert!(step.add(&[1.0, f32::INFINITY, 0.0]).is_err());
        assert!(step.finish(&mut Generator::new([1; 32]), &mut [0.0; 2]).is_err());
        assert!(PerExample::new(3, Clip::to(1.0).unwrap(), 0.0).is_err());
    }
}
