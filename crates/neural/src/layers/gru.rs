//! The gated recurrent unit (Cho et al. 2014), in PyTorch's form and order of gates: r, z, n.
//!
//! With a = x_t W + b, c = h_(t-1) U + d and their parts a_r, a_z, a_n, c_r, c_z, c_n:
//! ```text
//! r = sigma(a_r + c_r)    z = sigma(a_z + c_z)    n = tanh(a_n + r c_n)    h_t = (1 - z) n + z h_(t-1)
//!
//! da_n = dh (1 - z) (1 - n^2)               dc_n = da_n r
//! da_r = dc_r = da_n c_n r (1 - r)          da_z = dc_z = dh (h_(t-1) - n) z (1 - z)
//! dh_(t-1) += dh z + dc U'
//! ```

use super::recurrent::{Recurrence, SequenceGradients, Sequences, add_start, before, before_and_now};
use super::rnn::last;
use crate::error::{Result, expect_len};
use crate::{Layout, Real, Space};
use sottovoce_core::{SimdKernel, simd_dispatch};

/// Gated recurrent units, one layer.
#[derive(Clone, Copy, Debug)]
pub struct Gru {
    cell: Recurrence,
}

/// What backward needs of a [`Gru`]'s forward.
#[derive(Debug)]
pub struct GruTape<'a, R> {
    x: Sequences<'a, R>,
    /// r, z, n of each step.
    gates: &'a mut [R],
    /// c of each step.
    hidden: &'a mut [R],
    states: &'a mut [R],
    zeros: &'a mut [R],
    units: usize,
}

impl<R> GruTape<'_, R> {
    /// All states: batch x time x units.
    pub fn states(&self) -> &[R] {
        self.states
    }

    /// The last state of a sequence; empty if there is no such sequence.
    pub fn last(&self, sequence: usize) -> &[R] {
        last(self.states, self.x.time, self.units, sequence)
    }
}

impl Gru {
    /// Adds `name.input` and `name.hidden` (each weight and bias, for gates r, z, n) to a layout, uniform within
    /// 1 / sqrt(units).
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, units: usize) -> Result<Self> {
        Ok(Self { cell: Recurrence::new(layout, name, inputs, units, 3)? })
    }

    /// Values that forward and backward together take from the arena.
    pub fn space(&self, batch: usize, time: usize) -> usize {
        let steps = batch.saturating_mul(time).saturating_mul(13 * self.cell.units);
        steps.saturating_add(batch.saturating_add(1).saturating_mul(self.cell.units))
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
    ) -> Result<GruTape<'a, R>> {
        let units = self.cell.units;
        self.cell.check(&x, units)?;
        let gates = self.cell.project(parameters, &x, space)?;
        let hidden = self.cell.hidden_biases(parameters, &x, space)?;
        let states = space.take(x.batch * x.time * units)?;
        let zeros = space.zeros(units)?;
        for t in 0..x.time {
            self.cell.recur(parameters, &x, states, hidden, t)?;
            simd_dispatch(Step { x, gates, hidden, states, zeros, t, units });
        }
        Ok(GruTape { x, gates, hidden, states, zeros, units })
    }

    /// Adds all gradients, given those of the states (batch x time x units).
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &GruTape<'_, R>,
        dstates: &[R],
        gradients: &mut [R],
        into: SequenceGradients<'_, R>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        let x = &tape.x;
        expect_len("gradient of states", dstates.len(), tape.states.len())?;
        let mut space = space.scratch();
        let (da, dc) = (space.take(tape.gates.len())?, space.take(tape.gates.len())?);
        let carry = space.zeros(x.batch * self.cell.units)?;
        for t in (0..x.time).rev() {
            simd_dispatch(Back { tape, dstates, da, dc, carry, t });
            self.cell.recur_backward(parameters, x, dc, carry, t)?;
        }
        self.cell.input_backward(parameters, x, da, gradients, into.values)?;
        self.cell.hidden_backward(x, tape.states, dc, gradients)?;
        add_start(into.start, carry)
    }
}

/// A step's three parts, each as wide as the units.
#[inline(always)]
fn thirds<R>(values: &[R], units: usize) -> [&[R]; 3] {
    [&values[..units], &values[units..2 * units], &values[2 * units..3 * units]]
}

#[inline(always)]
fn thirds_mut<R>(values: &mut [R], units: usize) -> [&mut [R]; 3] {
    let (first, rest) = values.split_at_mut(units);
    let (second, rest) = rest.split_at_mut(units);
    [first, second, &mut rest[..units]]
}

/// The state before the first step of a sequence.
#[inline(always)]
fn first_of<'s, R>(x: &Sequences<'s, R>, zeros: &'s [R], b: usize, units: usize) -> &'s [R] {
    x.start.map_or(zeros, |start| &start[b * units..][..units])
}

struct Step<'s, R> {
    x: Sequences<'s, R>,
    gates: &'s mut [R],
    hidden: &'s [R],
    states: &'s mut [R],
    zeros: &'s [R],
    t: usize,
    units: usize,
}

impl<R: Real> SimdKernel for Step<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let units = self.units;
        for b in 0..self.x.batch {
            let at = (b * self.x.time + self.t) * 3 * units;
            let [r, z, n] = thirds_mut(&mut self.gates[at..], units);
            let [c_r, c_z, c_n] = thirds(&self.hidden[at..], units);
            let first = first_of(&self.x, self.zeros, b, units);
            let (before, now) = before_and_now(self.states, first, (b, self.t, self.x.time), units);
            for u in 0..units {
                r[u] = R::sigmoid(r[u] + c_r[u]);
                z[u] = R::sigmoid(z[u] + c_z[u]);
            }
            for u in 0..units {
                n[u] = R::tanh(n[u] + r[u] * c_n[u]);
                now[u] = (R::ONE - z[u]) * n[u] + z[u] * before[u];
            }
        }
    }
}

struct Back<'s, 'a, R> {
    tape: &'s GruTape<'a, R>,
    dstates: &'s [R],
    da: &'s mut [R],
    dc: &'s mut [R],
    carry: &'s mut [R],
    t: usize,
}

impl<R: Real> SimdKernel for Back<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (tape, units) = (self.tape, self.tape.units);
        for (b, carry) in self.carry.chunks_exact_mut(units).enumerate() {
            let step = b * tape.x.time + self.t;
            let [r, z, n] = thirds(&tape.gates[3 * step * units..], units);
            let [_, _, c_n] = thirds(&tape.hidden[3 * step * units..], units);
            let first = first_of(&tape.x, tape.zeros, b, units);
            let before = before(tape.states, first, (b, self.t, tape.x.time), units);
            let dstate = &self.dstates[step * units..][..units];
            let [da_r, da_z, da_n] = thirds_mut(&mut self.da[3 * step * units..], units);
            let [dc_r, dc_z, dc_n] = thirds_mut(&mut self.dc[3 * step * units..], units);
            for u in 0..units {
                let dh = dstate[u] + carry[u];
                da_n[u] = dh * (R::ONE - z[u]) * (R::ONE - n[u] * n[u]);
                dc_n[u] = da_n[u] * r[u];
                da_r[u] = da_n[u] * c_n[u] * r[u] * (R::ONE - r[u]);
                da_z[u] = dh * (before[u] - n[u]) * z[u] * (R::ONE - z[u]);
                (dc_r[u], dc_z[u]) = (da_r[u], da_z[u]);
                carry[u] = dh * z[u];
            }
        }
    }
}
