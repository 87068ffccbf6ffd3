//! The plain recurrent layer (Elman 1990).
//!
//! ```text
//! h_t = tanh(x_t W + b + h_(t-1) U + d)
//! da_t = dh_t (1 - h_t^2)      dh_(t-1) += da_t U'
//! ```

use super::recurrent::{Recurrence, SequenceGradients, Sequences, add_start};
use crate::error::{Result, expect_len};
use crate::{Layout, Real, Space};
use sottovoce_core::{SimdKernel, simd_dispatch};

/// tanh cells, one layer.
#[derive(Clone, Copy, Debug)]
pub struct Rnn {
    cell: Recurrence,
}

/// What backward needs of an [`Rnn`]'s forward.
#[derive(Debug)]
pub struct RnnTape<'a, R> {
    x: Sequences<'a, R>,
    states: &'a mut [R],
    units: usize,
}

impl<R> RnnTape<'_, R> {
    /// All states: batch x time x units.
    pub fn states(&self) -> &[R] {
        self.states
    }

    /// The last state of a sequence; empty if there is no such sequence.
    pub fn last(&self, sequence: usize) -> &[R] {
        last(self.states, self.x.time, self.units, sequence)
    }
}

pub(crate) fn last<R>(states: &[R], time: usize, units: usize, sequence: usize) -> &[R] {
    let end = sequence.saturating_add(1).saturating_mul(time * units);
    states.get(end.saturating_sub(units)..end).unwrap_or(&[])
}

impl Rnn {
    /// Adds `name.input` and `name.hidden` (each weight and bias) to a layout, uniform within 1 / sqrt(units).
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, units: usize) -> Result<Self> {
        Ok(Self { cell: Recurrence::new(layout, name, inputs, units, 1)? })
    }

    /// Values that forward and backward together take from the arena.
    pub fn space(&self, batch: usize, time: usize) -> usize {
        let steps = batch.saturating_mul(time);
        steps.saturating_mul(3 * self.cell.units).saturating_add(batch.saturating_mul(self.cell.units))
    }

    /// All states.
    ///
    /// # Errors
    /// If lengths contradict each other, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: Sequences<'a, R>,
        space: &mut Space<'a, R>,
    ) -> Result<RnnTape<'a, R>> {
        let units = self.cell.units;
        self.cell.check(&x, units)?;
        let sums = self.cell.project_with_biases(parameters, &x, space)?;
        let states = space.take(sums.len())?;
        for t in 0..x.time {
            self.cell.recur(parameters, &x, states, sums, t)?;
            simd_dispatch(Step { sums, states, t, time: x.time, units });
        }
        Ok(RnnTape { x, states, units })
    }

    /// Adds all gradients, given those of the states (batch x time x units).
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &RnnTape<'_, R>,
        dstates: &[R],
        gradients: &mut [R],
        into: SequenceGradients<'_, R>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        let (x, units) = (&tape.x, self.cell.units);
        expect_len("gradient of states", dstates.len(), tape.states.len())?;
        let mut space = space.scratch();
        let da = space.take(dstates.len())?;
        let carry = space.zeros(x.batch * units)?;
        for t in (0..x.time).rev() {
            simd_dispatch(Back { states: tape.states, dstates, da, carry, t, time: x.time, units });
            self.cell.recur_backward(parameters, x, da, carry, t)?;
        }
        self.cell.input_backward(parameters, x, da, gradients, into.values)?;
        self.cell.hidden_backward(x, tape.states, da, gradients)?;
        add_start(into.start, carry)
    }
}

struct Step<'s, R> {
    sums: &'s [R],
    states: &'s mut [R],
    t: usize,
    time: usize,
    units: usize,
}

impl<R: Real> SimdKernel for Step<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let all = self.time * self.units;
        for (sums, states) in self.sums.chunks_exact(all).zip(self.states.chunks_exact_mut(all)) {
            let now = self.t * self.units..(self.t + 1) * self.units;
            for (h, &a) in states[now.clone()].iter_mut().zip(&sums[now]) {
                *h = R::tanh(a);
            }
        }
    }
}

struct Back<'s, R> {
    states: &'s [R],
    dstates: &'s [R],
    da: &'s mut [R],
    carry: &'s mut [R],
    t: usize,
    time: usize,
    units: usize,
}

impl<R: Real> SimdKernel for Back<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (b, carry) in self.carry.chunks_exact_mut(self.units).enumerate() {
            let at = (b * self.time + self.t) * self.units;
            let (h, dh) = (&self.states[at..][..self.units], &self.dstates[at..][..self.units]);
            let da = &mut self.da[at..][..self.units];
            for u in 0..self.units {
                da[u] = (dh[u] + carry[u]) * (R::ONE - h[u] * h[u]);
                carry[u] = R::ZERO;
            }
        }
    }
}
