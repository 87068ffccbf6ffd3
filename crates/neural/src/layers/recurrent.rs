//! Recurrent layers: plain RNN (Elman 1990), GRU (Cho et al. 2014) and LSTM (Hochreiter and Schmidhuber 1997, with
//! forget gate), in PyTorch's form and order of gates.
//!
//! A layer has two dense layers, one over the inputs and one over the previous state:
//! ```text
//! a = x_t W + b      c = h_(t-1) U + d      h_t = cell(a, c, h_(t-1))
//! ```
//! The products with W are computed for all steps at once; those with U wait for the previous state. Both biases are
//! kept, as in PyTorch, although only the GRU uses them separately. In the equations below, s = a + c.
//! ```text
//! RNN    h_t = tanh(s)                                            da = dc = dh (1 - h_t^2)
//!
//! GRU    r = sigma(s_r)    z = sigma(s_z)    n = tanh(a_n + r c_n)    h_t = (1 - z) n + z h_(t-1)
//!        da_n = dh (1 - z) (1 - n^2)                dc_n = da_n r
//!        da_r = dc_r = da_n c_n r (1 - r)           da_z = dc_z = dh (h_(t-1) - n) z (1 - z)
//!        dh_(t-1) += dh z
//!
//! LSTM   i, f, o = sigma(s_i), sigma(s_f), sigma(s_o)    g = tanh(s_g)    k_t = f k_(t-1) + i g    h_t = o tanh(k_t)
//!        dk = dk_t + dh o (1 - tanh(k_t)^2)         dk_(t-1) = dk f
//!        ds_i = dk g i (1 - i)    ds_f = dk k_(t-1) f (1 - f)   ds_g = dk i (1 - g^2)   ds_o = dh tanh(k_t) o (1 - o)
//!
//! all    dh_(t-1) += dc U'
//! ```

use super::linear::Linear;
use crate::error::{Result, expect_len, size};
use crate::kernels::{add, kernel};
use crate::products::{Matrix, MatrixMut};
use crate::{Init, Layout, Real, Space};
use sottovoce_core::{SimdKernel, simd_dispatch};

/// The kind of a [`Recurrent`] layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentCell {
    /// tanh of a sum.
    Rnn,
    /// Gated recurrent unit; gates r, z, n.
    Gru,
    /// Long short-term memory; gates i, f, g, o.
    Lstm,
}

/// Sequences of equal length: `values` holds batch x time x inputs.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'x, R> {
    /// All inputs: the steps of the first sequence, then those of the next.
    pub values: &'x [R],
    /// Number of sequences.
    pub batch: usize,
    /// Steps of each.
    pub time: usize,
    /// The initial states, one row per sequence (LSTM: state and cell beside each other); `None` for zeros.
    pub start: Option<&'x [R]>,
}

impl<'x, R> Sequences<'x, R> {
    /// Sequences that start from zeros.
    pub fn new(values: &'x [R], batch: usize, time: usize) -> Self {
        Self { values, batch, time, start: None }
    }
}

/// Where the gradients of [`Sequences`] are added, if anywhere.
#[derive(Debug, Default)]
pub struct SequenceGradients<'g, R> {
    /// Of the inputs.
    pub values: Option<&'g mut [R]>,
    /// Of the initial states.
    pub start: Option<&'g mut [R]>,
}

/// The gradients of the output of a [`Recurrent`] layer.
#[derive(Clone, Copy, Debug)]
pub struct StateGradients<'g, R> {
    /// Of all states: batch x time x units.
    pub states: &'g [R],
    /// Of the last cells of an LSTM, one row per sequence; `None` for zeros.
    pub last_cells: Option<&'g [R]>,
}

/// What backward needs of a [`Recurrent`] layer's forward.
#[derive(Debug)]
pub struct RecurrentTape<'a, R> {
    x: Sequences<'a, R>,
    /// Activated gates of each step; sums in an RNN.
    gates: &'a mut [R],
    /// c of each step, in a GRU.
    hidden: &'a mut [R],
    /// Cells of each step and their tanh, in an LSTM.
    cells: &'a mut [R],
    squashed: &'a mut [R],
    states: &'a mut [R],
    zeros: &'a mut [R],
    units: usize,
}

impl<R> RecurrentTape<'_, R> {
    /// All states: batch x time x units.
    pub fn states(&self) -> &[R] {
        self.states
    }

    /// The last state of a sequence; empty if there is no such sequence.
    pub fn last(&self, sequence: usize) -> &[R] {
        self.last_of(self.states, sequence)
    }

    /// The last cell of a sequence of an LSTM; empty if there is no such sequence.
    pub fn last_cell(&self, sequence: usize) -> &[R] {
        self.last_of(self.cells, sequence)
    }

    fn last_of<'s>(&self, values: &'s [R], sequence: usize) -> &'s [R] {
        let end = sequence.saturating_add(1).saturating_mul(self.x.time * self.units);
        values.get(end.saturating_sub(self.units)..end).unwrap_or(&[])
    }

    /// Row `row` of the start of sequence b: its state is row 0, an LSTM's cell row 1 of 2.
    #[inline(always)]
    fn start_row(&self, b: usize, row: usize, rows: usize) -> &[R] {
        self.x.start.map_or(self.zeros, |start| &start[(rows * b + row) * self.units..][..self.units])
    }
}

/// A recurrent layer.
#[derive(Clone, Copy, Debug)]
pub struct Recurrent {
    cell: RecurrentCell,
    input: Linear,
    hidden: Linear,
    units: usize,
}

impl Recurrent {
    /// Adds `name.input` and `name.hidden` (each weight and bias, for all gates) to a layout, uniform within
    /// 1 / sqrt(units).
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, cell: RecurrentCell, inputs: usize, units: usize) -> Result<Self> {
        let gates = match cell {
            RecurrentCell::Rnn => 1,
            RecurrentCell::Gru => 3,
            RecurrentCell::Lstm => 4,
        };
        let width = size("units of a recurrent layer", &[units, gates])?;
        let init = Init::fan_in(units);
        let input = Linear::with_init(layout, &format!("{name}.input"), inputs, width, init)?;
        let hidden = Linear::with_init(layout, &format!("{name}.hidden"), units, width, init)?;
        Ok(Self { cell, input, hidden, units })
    }

    /// Values that forward and backward together take from the arena.
    pub fn space(&self, batch: usize, time: usize) -> usize {
        let of_step = match self.cell {
            RecurrentCell::Rnn => 3,
            RecurrentCell::Gru => 13,
            RecurrentCell::Lstm => 11,
        };
        let steps = batch.saturating_mul(time).saturating_mul(of_step * self.units);
        steps.saturating_add(batch.saturating_mul(self.start_rows()).saturating_add(1).saturating_mul(self.units))
    }

    /// Rows of the start of a sequence.
    fn start_rows(&self) -> usize {
        if self.is_lstm() { 2 } else { 1 }
    }

    fn is_gru(&self) -> bool {
        self.cell == RecurrentCell::Gru
    }

    fn is_lstm(&self) -> bool {
        self.cell == RecurrentCell::Lstm
    }

    /// All states, and an LSTM's cells.
    ///
    /// # Errors
    /// If lengths contradict each other, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: Sequences<'a, R>,
        space: &mut Space<'a, R>,
    ) -> Result<RecurrentTape<'a, R>> {
        let expected = size("sequences", &[x.batch, x.time, self.input.inputs()])?;
        expect_len("values of sequences", x.values.len(), expected)?;
        if let Some(start) = x.start {
            let expected = x.batch.saturating_mul(self.start_rows() * self.units);
            expect_len("start of sequences", start.len(), expected)?;
        }
        let gates = self.input.forward(parameters, x.values, space)?;
        let hidden = match self.is_gru() {
            true => self.hidden.biased(parameters, x.batch * x.time, space)?,
            false => space.take(0)?,
        };
        if !self.is_gru() {
            self.hidden.add_bias(parameters, gates)?;
        }
        let steps = x.batch * x.time * self.units;
        let of_cells = if self.is_lstm() { steps } else { 0 };
        let (cells, squashed) = (space.take(of_cells)?, space.take(of_cells)?);
        let (states, zeros) = (space.take(steps)?, space.zeros(self.units)?);
        let mut tape = RecurrentTape { x, gates, hidden, cells, squashed, states, zeros, units: self.units };
        for t in 0..x.time {
            if let Some(before) = self.states_before(&x, tape.states, t)? {
                let width = self.width();
                let sums = if self.is_gru() { &mut *tape.hidden } else { &mut *tape.gates };
                let sums = MatrixMut::strided(&mut sums[t * width..], x.batch, width, x.time * width)?;
                self.hidden.add_rows(parameters, before, sums)?;
            }
            run_step(self.cell, &mut tape, t);
        }
        Ok(tape)
    }

    /// Adds all gradients, given those of the states and, for an LSTM, of the last cells.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &RecurrentTape<'_, R>,
        dy: StateGradients<'_, R>,
        gradients: &mut [R],
        into: SequenceGradients<'_, R>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        let x = &tape.x;
        expect_len("gradient of states", dy.states.len(), tape.states.len())?;
        let mut space = space.scratch();
        let (da, dc) = (space.take(tape.gates.len())?, space.take(tape.hidden.len())?);
        let carry = space.zeros(x.batch * self.units)?;
        let carry_cell = space.zeros(if self.is_lstm() { carry.len() } else { 0 })?;
        if let Some(last_cells) = dy.last_cells {
            expect_len("gradient of last cells", last_cells.len(), carry_cell.len())?;
            carry_cell.copy_from_slice(last_cells);
        }
        for t in (0..x.time).rev() {
            let dstates = dy.states;
            simd_dispatch(StepBackward { cell: self.cell, tape, dstates, da, dc, carry, carry_cell, t });
            let dc = self.step(x, if self.is_gru() { dc } else { da }, t)?;
            self.hidden.add_input_gradient(parameters, dc, MatrixMut::new(carry, self.units)?)?;
        }
        self.input.backward(parameters, x.values, da, gradients, into.values)?;
        self.hidden_backward(x, tape.states, if self.is_gru() { dc } else { da }, gradients)?;
        let Some(start) = into.start else { return Ok(()) };
        let (units, rows) = (self.units, self.start_rows());
        expect_len("gradient of the start of sequences", start.len(), rows * carry.len())?;
        for (b, start) in start.chunks_exact_mut(rows * units).enumerate() {
            let (state, cell) = start.split_at_mut(units);
            add(state, &carry[b * units..][..units]);
            if self.is_lstm() {
                add(cell, &carry_cell[b * units..][..units]);
            }
        }
        Ok(())
    }

    /// Values of all gates of a step.
    fn width(&self) -> usize {
        self.input.outputs()
    }

    /// The states before step t, one row per sequence; `None` if they are zeros.
    fn states_before<'s, R: Real>(
        &self,
        x: &Sequences<'s, R>,
        states: &'s [R],
        t: usize,
    ) -> Result<Option<Matrix<'s, R>>> {
        match (t, x.start) {
            (0, None) => Ok(None),
            (0, Some(start)) => Matrix::strided(start, x.batch, self.units, start.len() / x.batch).map(Some),
            _ => {
                let stride = x.time * self.units;
                Matrix::strided(&states[(t - 1) * self.units..], x.batch, self.units, stride).map(Some)
            }
        }
    }

    /// Step t of the gates' gradients, one row per sequence.
    fn step<'s, R: Real>(&self, x: &Sequences<'_, R>, dc: &'s [R], t: usize) -> Result<Matrix<'s, R>> {
        let width = self.width();
        Matrix::strided(&dc[t * width..], x.batch, width, x.time * width)
    }

    /// Adds the gradients of U and d, in as few products as the shape allows.
    fn hidden_backward<R: Real>(
        &self,
        x: &Sequences<'_, R>,
        states: &[R],
        dc: &[R],
        gradients: &mut [R],
    ) -> Result<()> {
        self.hidden.add_bias_gradient(Matrix::new(dc, self.width())?, gradients)?;
        let by_sequence = x.batch < x.time;
        let steps = if by_sequence { 1 } else { x.time };
        for t in 0..steps {
            if let Some(before) = self.states_before(x, states, t)? {
                self.hidden.add_weight_gradient(before, self.step(x, dc, t)?, gradients)?;
            }
        }
        if by_sequence {
            let (all, width) = (x.time * self.units, self.width());
            for (states, dc) in states.chunks_exact(all).zip(dc.chunks_exact(x.time * width)) {
                let before = Matrix::new(&states[..all - self.units], self.units)?;
                self.hidden.add_weight_gradient(before, Matrix::new(&dc[width..], width)?, gradients)?;
            }
        }
        Ok(())
    }
}

/// The gates of a step, each `units` wide.
#[inline(always)]
fn gates<R, const N: usize>(values: &[R], units: usize) -> [&[R]; N] {
    std::array::from_fn(|n| &values[n * units..(n + 1) * units])
}

#[inline(always)]
fn gates_mut<R, const N: usize>(mut values: &mut [R], units: usize) -> [&mut [R]; N] {
    std::array::from_fn(|_| {
        let (gate, rest) = std::mem::take(&mut values).split_at_mut(units);
        values = rest;
        gate
    })
}

kernel! {
    /// Step t of all sequences.
    fn run_step<'s, 'a, R>(cell: RecurrentCell, tape: &'s mut RecurrentTape<'a, R>, t: usize) {
        for b in 0..tape.x.batch {
            match cell {
                RecurrentCell::Rnn => rnn_step(tape, b, t),
                RecurrentCell::Gru => gru_step(tape, b, t),
                RecurrentCell::Lstm => lstm_step(tape, b, t),
            }
        }
    }
}

#[inline(always)]
fn rnn_step<R: Real>(tape: &mut RecurrentTape<'_, R>, b: usize, t: usize) {
    let at = (b * tape.x.time + t) * tape.units;
    let (states, sums) = (&mut tape.states[at..][..tape.units], &tape.gates[at..][..tape.units]);
    for (h, &s) in states.iter_mut().zip(sums) {
        *h = R::tanh(s);
    }
}

#[inline(always)]
fn gru_step<R: Real>(tape: &mut RecurrentTape<'_, R>, b: usize, t: usize) {
    let (units, step) = (tape.units, b * tape.x.time + t);
    let first = tape.x.start.map_or(&*tape.zeros, |start| &start[b * units..][..units]);
    let [r, z, n] = gates_mut(&mut tape.gates[3 * step * units..], units);
    let [c_r, c_z, c_n] = gates(&tape.hidden[3 * step * units..], units);
    let (before, now) = before_and_now(tape.states, first, step, t, units);
    for u in 0..units {
        r[u] = R::sigmoid(r[u] + c_r[u]);
        z[u] = R::sigmoid(z[u] + c_z[u]);
    }
    for u in 0..units {
        n[u] = R::tanh(n[u] + r[u] * c_n[u]);
        now[u] = (R::ONE - z[u]) * n[u] + z[u] * before[u];
    }
}

#[inline(always)]
fn lstm_step<R: Real>(tape: &mut RecurrentTape<'_, R>, b: usize, t: usize) {
    let (units, step) = (tape.units, b * tape.x.time + t);
    let first = tape.x.start.map_or(&*tape.zeros, |start| &start[(2 * b + 1) * units..][..units]);
    let [i, f, g, o] = gates_mut(&mut tape.gates[4 * step * units..], units);
    let (before, cell) = before_and_now(tape.cells, first, step, t, units);
    let squashed = &mut tape.squashed[step * units..][..units];
    let state = &mut tape.states[step * units..][..units];
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

/// The values before step t of a sequence, and those of step t, in one array of states or cells; `step` counts the
/// steps of all sequences.
#[inline(always)]
fn before_and_now<'s, R>(
    values: &'s mut [R],
    first: &'s [R],
    step: usize,
    t: usize,
    units: usize,
) -> (&'s [R], &'s mut [R]) {
    let (before, now) = values.split_at_mut(step * units);
    let before = if t == 0 { first } else { &before[before.len() - units..] };
    (before, &mut now[..units])
}

/// The gradients of step t of all sequences, from those of its states and of what followed (`carry`, `carry_cell`).
struct StepBackward<'s, 'a, R> {
    cell: RecurrentCell,
    tape: &'s RecurrentTape<'a, R>,
    dstates: &'s [R],
    da: &'s mut [R],
    dc: &'s mut [R],
    carry: &'s mut [R],
    carry_cell: &'s mut [R],
    t: usize,
}

impl<R: Real> SimdKernel for StepBackward<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        for b in 0..self.tape.x.batch {
            match self.cell {
                RecurrentCell::Rnn => self.rnn(b),
                RecurrentCell::Gru => self.gru(b),
                RecurrentCell::Lstm => self.lstm(b),
            }
        }
    }
}

impl<R: Real> StepBackward<'_, '_, R> {
    #[inline(always)]
    fn rnn(&mut self, b: usize) {
        let units = self.tape.units;
        let at = (b * self.tape.x.time + self.t) * units;
        let (h, dh) = (&self.tape.states[at..][..units], &self.dstates[at..][..units]);
        let (da, carry) = (&mut self.da[at..][..units], &mut self.carry[b * units..][..units]);
        for u in 0..units {
            da[u] = (dh[u] + carry[u]) * (R::ONE - h[u] * h[u]);
            carry[u] = R::ZERO;
        }
    }

    #[inline(always)]
    fn gru(&mut self, b: usize) {
        let (tape, units) = (self.tape, self.tape.units);
        let step = b * tape.x.time + self.t;
        let [r, z, n] = gates(&tape.gates[3 * step * units..], units);
        let [_, _, c_n] = gates(&tape.hidden[3 * step * units..], units);
        let before = self.before(tape.states, tape.start_row(b, 0, 1), step);
        let dstate = &self.dstates[step * units..][..units];
        let carry = &mut self.carry[b * units..][..units];
        let [da_r, da_z, da_n] = gates_mut(&mut self.da[3 * step * units..], units);
        let [dc_r, dc_z, dc_n] = gates_mut(&mut self.dc[3 * step * units..], units);
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

    #[inline(always)]
    fn lstm(&mut self, b: usize) {
        let (tape, units) = (self.tape, self.tape.units);
        let step = b * tape.x.time + self.t;
        let [i, f, g, o] = gates(&tape.gates[4 * step * units..], units);
        let squashed = &tape.squashed[step * units..][..units];
        let before = self.before(tape.cells, tape.start_row(b, 1, 2), step);
        let dstate = &self.dstates[step * units..][..units];
        let carry = &mut self.carry[b * units..][..units];
        let carry_cell = &mut self.carry_cell[b * units..][..units];
        let [ds_i, ds_f, ds_g, ds_o] = gates_mut(&mut self.da[4 * step * units..], units);
        for u in 0..units {
            let dh = dstate[u] + carry[u];
            let dk = carry_cell[u] + dh * o[u] * (R::ONE - squashed[u] * squashed[u]);
            ds_i[u] = dk * g[u] * i[u] * (R::ONE - i[u]);
            ds_f[u] = dk * before[u] * f[u] * (R::ONE - f[u]);
            ds_g[u] = dk * i[u] * (R::ONE - g[u] * g[u]);
            ds_o[u] = dh * squashed[u] * o[u] * (R::ONE - o[u]);
            (carry[u], carry_cell[u]) = (R::ZERO, dk * f[u]);
        }
    }

    /// The values before step t of a sequence.
    #[inline(always)]
    fn before<'v>(&self, values: &'v [R], first: &'v [R], step: usize) -> &'v [R] {
        let units = self.tape.units;
        if self.t == 0 { first } else { &values[(step - 1) * units..][..units] }
    }
}
