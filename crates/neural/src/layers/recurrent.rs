//! What RNN, GRU and LSTM have in common: two dense layers, one over inputs and one over the state before.
//!
//! ```text
//! a_t = x_t W + b      c_t = h_(t-1) U + d      h_t = cell(a_t, c_t, h_(t-1))
//! ```
//! The products with W are made for all steps at once; those with U wait for the state before. Both biases are kept, as
//! in PyTorch, though only GRU tells them apart.

use super::linear::Linear;
use crate::error::{Result, expect_len, size};
use crate::kernels::add;
use crate::products::{Matrix, MatrixMut};
use crate::{Init, Layout, Real, Space};

/// Sequences of equal length: `values` holds batch x time x inputs.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'x, R> {
    /// All inputs: the steps of the first sequence, then those of the next.
    pub values: &'x [R],
    /// Sequences.
    pub batch: usize,
    /// Steps of each.
    pub time: usize,
    /// The states before the first step, a row a sequence (for LSTM: state and cell beside each other); none for zeros.
    pub start: Option<&'x [R]>,
}

impl<'x, R> Sequences<'x, R> {
    /// Sequences that start from zeros.
    pub fn new(values: &'x [R], batch: usize, time: usize) -> Self {
        Self { values, batch, time, start: None }
    }
}

/// Where the gradients of [`Sequences`] are added to, if anywhere.
#[derive(Debug)]
pub struct SequenceGradients<'g, R> {
    /// Of the inputs.
    pub values: Option<&'g mut [R]>,
    /// Of the states before the first step.
    pub start: Option<&'g mut [R]>,
}

impl<R> Default for SequenceGradients<'_, R> {
    fn default() -> Self {
        Self { values: None, start: None }
    }
}

/// The two dense layers of a cell with some gates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recurrence {
    input: Linear,
    hidden: Linear,
    pub(crate) units: usize,
}

impl Recurrence {
    pub(crate) fn new(
        layout: &mut Layout,
        name: &str,
        inputs: usize,
        units: usize,
        gates: usize,
    ) -> Result<Self> {
        let width = size("units of a recurrent layer", &[units, gates])?;
        let init = Init::fan_in(units);
        let input = Linear::with_init(layout, &format!("{name}.input"), inputs, width, init)?;
        let hidden = Linear::with_init(layout, &format!("{name}.hidden"), units, width, init)?;
        Ok(Self { input, hidden, units })
    }

    /// Values of all gates of a step.
    pub(crate) fn width(&self) -> usize {
        self.input.outputs()
    }

    /// Checks sequences whose states before the first step have this width.
    pub(crate) fn check<R>(&self, x: &Sequences<'_, R>, start: usize) -> Result<()> {
        let expected = size("sequences", &[x.batch, x.time, self.input.inputs()])?;
        expect_len("values of sequences", x.values.len(), expected)?;
        match x.start {
            Some(states) => expect_len("start of sequences", states.len(), x.batch.saturating_mul(start)),
            None => Ok(()),
        }
    }

    /// a of all steps.
    pub(crate) fn project<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &Sequences<'_, R>,
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        self.input.forward(parameters, x.values, space)
    }

    /// c of all steps, without the products yet.
    pub(crate) fn hidden_biases<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &Sequences<'_, R>,
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        self.hidden.biased(parameters, x.batch * x.time, space)
    }

    /// a + d of all steps, for cells that need a and c only as a sum.
    pub(crate) fn project_with_biases<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &Sequences<'_, R>,
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        let sums = self.project(parameters, x, space)?;
        self.hidden.add_bias(parameters, sums)?;
        Ok(sums)
    }

    /// Adds h_(t-1) U to step t of `into`.
    pub(crate) fn recur<R: Real>(
        &self,
        parameters: &[R],
        x: &Sequences<'_, R>,
        states: &[R],
        into: &mut [R],
        t: usize,
    ) -> Result<()> {
        let Some(before) = self.states_before(x, states, t)? else { return Ok(()) };
        let width = self.width();
        let into = MatrixMut::strided(&mut into[t * width..], x.batch, width, x.time * width)?;
        self.hidden.add_rows(parameters, before, into)
    }

    /// The states before step t, a row a sequence; none if they are zeros.
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

    /// carry += dc_t U'.
    pub(crate) fn recur_backward<R: Real>(
        &self,
        parameters: &[R],
        x: &Sequences<'_, R>,
        dc: &[R],
        carry: &mut [R],
        t: usize,
    ) -> Result<()> {
        let dc = self.step(x, dc, t)?;
        self.hidden.add_input_gradient(parameters, dc, MatrixMut::new(carry, self.units)?)
    }

    /// Step t of gates' gradients, a row a sequence.
    fn step<'s, R: Real>(&self, x: &Sequences<'_, R>, dc: &'s [R], t: usize) -> Result<Matrix<'s, R>> {
        let width = self.width();
        Matrix::strided(&dc[t * width..], x.batch, width, x.time * width)
    }

    /// Adds the gradients of W, b and x.
    pub(crate) fn input_backward<R: Real>(
        &self,
        parameters: &[R],
        x: &Sequences<'_, R>,
        da: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
    ) -> Result<()> {
        self.input.backward(parameters, x.values, da, gradients, dx)
    }

    /// Adds the gradients of U and d, in as few products as the shape allows.
    pub(crate) fn hidden_backward<R: Real>(
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

/// The state before step t of sequence b beside the state of step t, of one array of states.
#[inline(always)]
pub(crate) fn before_and_now<'s, R>(
    states: &'s mut [R],
    before_first: &'s [R],
    place: (usize, usize, usize),
    units: usize,
) -> (&'s [R], &'s mut [R]) {
    let (b, t, time) = place;
    let (before, now) = states.split_at_mut((b * time + t) * units);
    let before = if t == 0 { before_first } else { &before[before.len() - units..] };
    (before, &mut now[..units])
}

/// The state before step t of sequence b.
#[inline(always)]
pub(crate) fn before<'s, R>(
    states: &'s [R],
    before_first: &'s [R],
    place: (usize, usize, usize),
    units: usize,
) -> &'s [R] {
    let (b, t, time) = place;
    if t == 0 { before_first } else { &states[(b * time + t - 1) * units..][..units] }
}

/// Adds what is left over at the first step to the gradient of the states before it.
pub(crate) fn add_start<R: Real>(start: Option<&mut [R]>, carry: &[R]) -> Result<()> {
    if let Some(start) = start {
        expect_len("gradient of the start of sequences", start.len(), carry.len())?;
        add(start, carry);
    }
    Ok(())
}
