//! Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gate), PyTorch's order of gates: i, f, g, o.
//!
//! With a = x_t W + b + h_(t-1) U + d and its parts a_i, a_f, a_g, a_o:
//! ```text
//! i, f, o = sigma(a_i), sigma(a_f), sigma(a_o)    g = tanh(a_g)    c_t = f c_(t-1) + i g    h_t = o tanh(c_t)
//!
//! dc = dc_t + dh o (1 - tanh(c_t)^2)      dc_(t-1) = dc f      dh_(t-1) += da U'
//! da_i = dc g i (1 - i)    da_f = dc c_(t-1) f (1 - f)    da_g = dc i (1 - g^2)    da_o = dh tanh(c_t) o (1 - o)
//! ```

use super::recurrent::{Recurrence, SequenceGradients, Sequences, before, before_and_now};
use super::rnn::last;
use crate::error::{Result, expect_len};
use crate::kernels::add;
use crate::{Layout, Real, Space};
use sottovoce_core::{SimdKernel, simd_dispatch};

/// Long short-term memory, one layer. A start holds state and cell of a sequence beside each other.
#[derive(Clone, Copy, Debug)]
pub struct Lstm {
    cell: Recurrence,
}

/// What backward needs of an [`Lstm`]'s forward.
#[derive(Debug)]
pub struct LstmTape<'a, R> {
    x: Sequences<'a, R>,
    /// i, f, g, o of each step.
    gates: &'a mut [R],
    cells: &'a mut [R],
    /// tanh of the cells.
    squashed: &'a mut [R],
    states: &'a mut [R],
    zeros: &'a mut [R],
    units: usize,
}

impl<R> LstmTape<'_, R> {
    /// All states: batch x time x units.
    pub fn states(&self) -> &[R] {
        self.states
    }

    /// The last state of a sequence; empty if there is no such sequence.
    pub fn last(&self, sequence: usize) -> &[R] {
        last(self.states, self.x.time, self.units, sequence)
    }

    /// The last cell of a sequence; empty if there is no such sequence.
    pub fn last_cell(&self, sequence: usize) -> &[R] {
        last(self.cells, self.x.time, self.units, sequence)
    }
}

/// The gradients of what an [`Lstm`] gives.
#[derive(Clone, Copy, Debug)]
pub struct LstmGradients<'g, R> {
    /// Of all states: batch x time x units.
    pub states: &'g [R],
    /// Of the last cells, a row a sequence; none for zeros.
    pub last_cells: Option<&'g [R]>,
}

impl Lstm {
    /// Adds `name.input` and `name.hidden` (each weight and bias, for gates i, f, g, o) to a layout, uniform within
    /// 1 / sqrt(units).
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, units: usize) -> Result<Self> {
        Ok(Self { cell: Recurrence::new(layout, name, inputs, units, 4)? })
    }

    /// Values that forward and backward together take from the arena.
    pub fn space(&self, batch: usize, time: usize) -> usize {
        let steps = batch.saturating_mul(time).saturating_mul(11 * self.cell.units);
        steps.saturating_add(batch.saturating_mul(2).saturating_add(1).saturating_mul(self.cell.units))
    }

    /// All states and cells.
    ///
    /// # Errors
    /// If lengths contradict each other, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: Sequences<'a, R>,
        space: &mut Space<'a, R>,
    ) -> Result<LstmTape<'a, R>> {
        let units = self.cell.units;
        self.cell.check(&x, 2 * units)?;
        let gates = self.cell.project_with_biases(parameters, &x, space)?;
        let steps = x.batch * x.time * units;
        let (cells, squashed, states) = (space.take(steps)?, space.take(steps)?, space.take(steps)?);
        let zeros = space.zeros(units)?;
        for t in 0..x.time {
            self.cell.recur(parameters, &x, states, gates, t)?;
            simd_dispatch(Step { x, gates, cells, squashed, states, zeros, t, units });
        }
        Ok(LstmTape { x, gates, cells, squashed, states, zeros, units })
    }

    /// Adds all gradients, given those of states and last cells.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &LstmTape<'_, R>,
        dy: LstmGradients<'_, R>,
        gradients: &mut [R],
        into: SequenceGradients<'_, R>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        let (x, units) = (&tape.x, self.cell.units);
        expect_len("gradient of states", dy.states.len(), tape.states.len())?;
        let mut space = space.scratch();
        let da = space.take(tape.gates.len())?;
        let (carry, carry_cell) = (space.zeros(x.batch * units)?, space.zeros(x.batch * units)?);
        if let Some(last_cells) = dy.last_cells {
            expect_len("gradient of last cells", last_cells.len(), carry_cell.len())?;
            carry_cell.copy_from_slice(last_cells);
        }
        for t in (0..x.time).rev() {
            simd_dispatch(Back { tape, dstates: dy.states, da, carry, carry_cell, t });
            self.cell.recur_backward(parameters, x, da, carry, t)?;
        }
        self.cell.input_backward(parameters, x, da, gradients, into.values)?;
        self.cell.hidden_backward(x, tape.states, da, gradients)?;
        self.add_start(into.start, carry, carry_cell)
    }

    fn add_start<R: Real>(&self, start: Option<&mut [R]>, carry: &[R], carry_cell: &[R]) -> Result<()> {
        let Some(start) = start else { return Ok(()) };
        expect_len("gradient of the start of sequences", start.len(), 2 * carry.len())?;
        let units = self.cell.units;
        for (b, start) in start.chunks_exact_mut(2 * units).enumerate() {
            let (state, cell) = start.split_at_mut(units);
            add(state, &carry[b * units..][..units]);
            add(cell, &carry_cell[b * units..][..units]);
        }
        Ok(())
    }
}

/// The cell before the first step of a sequence.
#[inline(always)]
fn first_cell<'s, R>(x: &Sequences<'s, R>, zeros: &'s [R], b: usize, units: usize) -> &'s [R] {
    x.start.map_or(zeros, |start| &start[(2 * b + 1) * units..][..units])
}

#[inline(always)]
fn quarters_mut<R>(values: &mut [R], units: usize) -> [&mut [R]; 4] {
    let (first, rest) = values.split_at_mut(units);
    let (second, rest) = rest.split_at_mut(units);
    let (third, rest) = rest.split_at_mut(units);
    [first, second, third, &mut rest[..units]]
}

#[inline(always)]
fn quarters<R>(values: &[R], units: usize) -> [&[R]; 4] {
    [0, 1, 2, 3].map(|n| &values[n * units..(n + 1) * units])
}

struct Step<'s, R> {
    x: Sequences<'s, R>,
    gates: &'s mut [R],
    cells: &'s mut [R],
    squashed: &'s mut [R],
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
            let step = b * self.x.time + self.t;
            let [i, f, g, o] = quarters_mut(&mut self.gates[4 * step * units..], units);
            let first = first_cell(&self.x, self.zeros, b, units);
            let (before, cell) = before_and_now(self.cells, first, (b, self.t, self.x.time), units);
            let squashed = &mut self.squashed[step * units..][..units];
            let state = &mut self.states[step * units..][..units];
            for u in 0..units {
                (i[u], f[u], o[u]) = (R::sigmoid(i[u]), R::sigmoid(f[u]), R::sigmoid(o[u]));
                g[u] = R::tanh(g[u]);
            }
            for u in 0..units {
                cell[u] = f[u] * before[u] + i[u] * g[u];
                squashed[u] = R::tanh(cell[u]);
                state[u] = o[u] * squashed[u];
            }
        }
    }
}

struct Back<'s, 'a, R> {
    tape: &'s LstmTape<'a, R>,
    dstates: &'s [R],
    da: &'s mut [R],
    carry: &'s mut [R],
    carry_cell: &'s mut [R],
    t: usize,
}

impl<R: Real> SimdKernel for Back<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (tape, units) = (self.tape, self.tape.units);
        let carries = self.carry.chunks_exact_mut(units).zip(self.carry_cell.chunks_exact_mut(units));
        for (b, (carry, carry_cell)) in carries.enumerate() {
            let step = b * tape.x.time + self.t;
            let [i, f, g, o] = quarters(&tape.gates[4 * step * units..], units);
            let squashed = &tape.squashed[step * units..][..units];
            let first = first_cell(&tape.x, tape.zeros, b, units);
            let before = before(tape.cells, first, (b, self.t, tape.x.time), units);
            let dstate = &self.dstates[step * units..][..units];
            let [da_i, da_f, da_g, da_o] = quarters_mut(&mut self.da[4 * step * units..], units);
            for u in 0..units {
                let dh = dstate[u] + carry[u];
                let dc = carry_cell[u] + dh * o[u] * (R::ONE - squashed[u] * squashed[u]);
                da_i[u] = dc * g[u] * i[u] * (R::ONE - i[u]);
                da_f[u] = dc * before[u] * f[u] * (R::ONE - f[u]);
                da_g[u] = dc * i[u] * (R::ONE - g[u] * g[u]);
                da_o[u] = dh * squashed[u] * o[u] * (R::ONE - o[u]);
                (carry[u], carry_cell[u]) = (R::ZERO, dc * f[u]);
            }
        }
    }
}
