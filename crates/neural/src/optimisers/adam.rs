//! Adam (Kingma and Ba 2015).
//!
//! ```text
//! m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2
//! p = p - learning rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
//! ```
//! Moments below 1e-30 are set to 0, which makes no difference beside eps: where gradients are 0, moments would
//! otherwise decay into denormal numbers, with which processors are a hundred times slower.
//!
//! For gradients by rows, only the moments of touched rows move ("lazy Adam"): a step costs what was touched.

use super::{check_table, parts};
use crate::error::{Result, expect_len, setting};
use crate::kernels::kernel;
use crate::{Real, RowGradients, Slot};
use sottovoce_core::math;
use std::ops::Range;

/// Steps scaled by running moments of the gradient.
#[derive(Clone, Debug)]
pub struct Adam<R> {
    /// Learning rate.
    pub learning_rate: f64,
    betas: [f64; 2],
    epsilon: f64,
    steps: u64,
    first: Vec<R>,
    second: Vec<R>,
}

impl<R: Real> Adam<R> {
    /// The usual constants (0.9, 0.999, 1e-8), for so many parameters.
    pub fn new(learning_rate: f64, parameters: usize) -> Self {
        let zeros = vec![R::ZERO; parameters];
        Self { learning_rate, betas: [0.9, 0.999], epsilon: 1e-8, steps: 0, first: zeros.clone(), second: zeros }
    }

    /// Other constants.
    ///
    /// # Errors
    /// If a beta is not within [0, 1) or epsilon is not above 0.
    pub fn with_constants(mut self, betas: [f64; 2], epsilon: f64) -> Result<Self> {
        if !betas.iter().all(|beta| (0.0..1.0).contains(beta)) || epsilon.is_nan() || epsilon <= 0.0 {
            return Err(setting(format!(
                "Adam with betas {betas:?} and epsilon {epsilon}: betas within [0, 1) and an epsilon above 0 are expected"
            )));
        }
        (self.betas, self.epsilon) = (betas, epsilon);
        Ok(self)
    }

    /// Forgets the moments: for the next device.
    pub fn reset(&mut self) {
        self.steps = 0;
        self.first.fill(R::ZERO);
        self.second.fill(R::ZERO);
    }

    /// Steps with all parameters.
    ///
    /// # Errors
    /// If lengths differ.
    pub fn step(&mut self, parameters: &mut [R], gradients: &mut [R]) -> Result<()> {
        expect_len("gradients", gradients.len(), parameters.len())?;
        expect_len("parameters", parameters.len(), self.first.len())?;
        self.next_step();
        self.step_part(0..parameters.len(), parameters, gradients)
    }

    /// Begins a step that is made of parts: [`step_part`](Self::step_part) and [`step_rows`](Self::step_rows).
    pub fn next_step(&mut self) {
        self.steps += 1;
    }

    /// A part of a step that was begun.
    ///
    /// # Errors
    /// If lengths differ, the part is not within them, or no step was begun.
    pub fn step_part(&mut self, part: Range<usize>, parameters: &mut [R], gradients: &mut [R]) -> Result<()> {
        let constants = self.constants()?;
        expect_len("parameters", parameters.len(), self.first.len())?;
        let (parameters, gradients) = parts(part.clone(), parameters, gradients)?;
        let (first, second) = (&mut self.first[part.clone()], &mut self.second[part]);
        adam_step(parameters, gradients, first, second, constants);
        gradients.fill(R::ZERO);
        Ok(())
    }

    /// The touched rows of a table in a step that was begun; clears them.
    ///
    /// # Errors
    /// If lengths differ or no step was begun.
    pub fn step_rows(&mut self, table: Slot, parameters: &mut [R], rows: &mut RowGradients<R>) -> Result<()> {
        let constants = self.constants()?;
        expect_len("parameters", parameters.len(), self.first.len())?;
        let width = rows.width();
        let parameters = table.of_mut(parameters)?;
        check_table(parameters.len(), rows)?;
        let (first, second) = (table.of_mut(&mut self.first)?, table.of_mut(&mut self.second)?);
        for (row, gradients) in rows.iter() {
            let part = row * width..(row + 1) * width;
            let (first, second) = (&mut first[part.clone()], &mut second[part.clone()]);
            adam_step(&mut parameters[part], gradients, first, second, constants);
        }
        rows.clear();
        Ok(())
    }

    fn constants(&self) -> Result<Constants<R>> {
        if self.steps == 0 {
            return Err(setting("Adam: a part of a step before next_step"));
        }
        let unbiased = self.betas.map(|beta| 1.0 - math::pow(beta, self.steps as f64));
        Ok(Constants {
            keep: self.betas.map(R::of),
            take: self.betas.map(|beta| R::of(1.0 - beta)),
            rate: R::of(self.learning_rate / unbiased[0]),
            scale: R::of(1.0 / unbiased[1].sqrt()),
            epsilon: R::of(self.epsilon),
        })
    }
}

/// 0 instead of what is nearer to 0 than the least; not a number stays so.
#[inline(always)]
fn flushed<R: Real>(x: R, least: R) -> R {
    if R::abs(x) < least { R::ZERO } else { x }
}

#[derive(Clone, Copy)]
struct Constants<R> {
    keep: [R; 2],
    take: [R; 2],
    /// learning rate / (1 - b1^t).
    rate: R,
    /// 1 / sqrt(1 - b2^t).
    scale: R,
    epsilon: R,
}

kernel! {
    fn adam_step<'s, R>(
        parameters: &'s mut [R], gradients: &'s [R], first: &'s mut [R], second: &'s mut [R], constants: Constants<R>,
    ) {
        let Constants { keep, take, rate, scale, epsilon } = constants;
        let least = R::of(1e-30);
        let moments = first.iter_mut().zip(second);
        for ((p, &g), (m, v)) in parameters.iter_mut().zip(gradients).zip(moments) {
            *m = flushed(keep[0] * *m + take[0] * g, least);
            *v = flushed(keep[1] * *v + take[1] * g * g, least);
            *p -= rate * *m / (R::sqrt(*v) * scale + epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_flushed_before_they_become_denormal() {
        let (mut adam, mut parameters) = (Adam::<f32>::new(0.01, 2), [1.0, 2.0]);
        adam.step(&mut parameters, &mut [1e-3, 0.0]).unwrap();
        for _ in 0..1000 {
            adam.step(&mut parameters, &mut [0.0, 0.0]).unwrap();
            let moments = adam.first.iter().chain(&adam.second);
            assert!(moments.clone().all(|moment| *moment == 0.0 || moment.is_normal()));
        }
        assert_eq!((adam.first[0], parameters[1]), (0.0, 2.0));
        adam.step(&mut parameters, &mut [f32::NAN, 0.0]).unwrap();
        assert!(parameters[0].is_nan());
    }
}
