//! Stochastic gradient descent, with momentum (Polyak 1964; PyTorch's form).
//!
//! ```text
//! v = momentum v + g        p = p - learning rate * v
//! ```

use super::{check_table, parts};
use crate::error::{Result, expect_len, setting};
use crate::kernels::kernel;
use crate::{Real, RowGradients, Slot};
use std::ops::Range;

/// Plain steps, or steps with momentum.
#[derive(Clone, Debug)]
pub struct Sgd<R> {
    /// Learning rate.
    pub learning_rate: f64,
    momentum: f64,
    /// v; empty without momentum.
    velocity: Vec<R>,
}

impl<R: Real> Sgd<R> {
    /// Plain steps; keeps no state.
    pub fn new(learning_rate: f64) -> Self {
        Self { learning_rate, momentum: 0.0, velocity: Vec::new() }
    }

    /// Steps with momentum for so many parameters.
    ///
    /// # Errors
    /// If the momentum is not within [0, 1).
    pub fn with_momentum(learning_rate: f64, momentum: f64, parameters: usize) -> Result<Self> {
        if !(0.0..1.0).contains(&momentum) {
            return Err(setting(format!("momentum of {momentum}: a value within [0, 1) is expected")));
        }
        Ok(Self { learning_rate, momentum, velocity: vec![R::ZERO; parameters] })
    }

    /// Forgets the velocity: for the next device.
    pub fn reset(&mut self) {
        self.velocity.fill(R::ZERO);
    }

    /// Steps with all parameters.
    ///
    /// # Errors
    /// If lengths differ.
    pub fn step(&mut self, parameters: &mut [R], gradients: &mut [R]) -> Result<()> {
        self.step_part(0..parameters.len(), parameters, gradients)
    }

    /// Steps with a part of the parameters, where the rest has gradients by rows or stays as it is.
    ///
    /// # Errors
    /// If lengths differ, or the part is not within them.
    pub fn step_part(&mut self, part: Range<usize>, parameters: &mut [R], gradients: &mut [R]) -> Result<()> {
        let (rate, momentum, len) = (R::of(self.learning_rate), R::of(self.momentum), parameters.len());
        let (parameters, gradients) = parts(part.clone(), parameters, gradients)?;
        if self.velocity.is_empty() {
            plain_step(parameters, gradients, rate);
        } else {
            expect_len("parameters", len, self.velocity.len())?;
            let velocity = &mut self.velocity[part];
            momentum_step(parameters, gradients, velocity, rate, momentum);
        }
        Ok(())
    }

    /// Steps with the touched rows of a table, and clears them.
    ///
    /// # Errors
    /// If the table has another size, or there is momentum: it would move rows that were not touched.
    pub fn step_rows(&mut self, table: Slot, parameters: &mut [R], rows: &mut RowGradients<R>) -> Result<()> {
        if !self.velocity.is_empty() {
            return Err(setting("momentum moves all rows: add the rows to the flat buffer, or step without it"));
        }
        let table = table.of_mut(parameters)?;
        check_table(table.len(), rows)?;
        let (width, rate) = (rows.width(), R::of(self.learning_rate));
        for (row, gradient) in rows.iter() {
            for (value, &g) in table[row * width..][..width].iter_mut().zip(gradient) {
                *value -= rate * g;
            }
        }
        rows.clear();
        Ok(())
    }
}

kernel! {
    fn plain_step<'s, R>(parameters: &'s mut [R], gradients: &'s mut [R], rate: R) {
        for (parameter, gradient) in parameters.iter_mut().zip(gradients) {
            *parameter -= rate * *gradient;
            *gradient = R::ZERO;
        }
    }
}

kernel! {
    fn momentum_step<'s, R>(
        parameters: &'s mut [R], gradients: &'s mut [R], velocity: &'s mut [R], rate: R, momentum: R,
    ) {
        let both = parameters.iter_mut().zip(gradients);
        for ((parameter, gradient), velocity) in both.zip(velocity) {
            *velocity = momentum * *velocity + *gradient;
            *parameter -= rate * *velocity;
            *gradient = R::ZERO;
        }
    }
}
