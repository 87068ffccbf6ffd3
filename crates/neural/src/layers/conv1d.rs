//! Convolution over sequences: [`Conv2d`](crate::Conv2d) with images of height 1.
//!
//! ```text
//! y[f, t] = b[f] + sum over channels c and k < kernel of W[f, c, k] x[c, t * stride + k - padding]
//! ```
//! A sequence is channels x length, as in PyTorch.

use super::conv2d::{Conv2d, Conv2dShape};
use crate::error::Result;
use crate::{Layout, Real, Space};

/// The shape of a [`Conv1d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv1dShape {
    /// Channels of an input.
    pub channels: usize,
    /// Its length.
    pub length: usize,
    /// Channels of the output.
    pub filters: usize,
    /// Length of a patch.
    pub kernel: usize,
    /// Steps between patches.
    pub stride: usize,
    /// Zeros before and after.
    pub padding: usize,
}

/// Convolution of sequences of one length.
#[derive(Clone, Copy, Debug)]
pub struct Conv1d(Conv2d);

impl Conv1d {
    /// Adds `name.weight` (filters x channels x kernel) and `name.bias` to a layout, uniform within
    /// 1 / sqrt(channels * kernel).
    ///
    /// # Errors
    /// If a size is 0, a patch does not fit into the sequence, or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, shape: Conv1dShape) -> Result<Self> {
        let flat = Conv2dShape {
            channels: shape.channels,
            image: [1, shape.length],
            filters: shape.filters,
            kernel: [1, shape.kernel],
            stride: [1, shape.stride],
            padding: [0, shape.padding],
        };
        Conv2d::with_weight(layout, name, flat, &[shape.filters, shape.channels, shape.kernel]).map(Self)
    }

    /// Length of the output.
    pub fn length(&self) -> usize {
        self.0.output()[1]
    }

    /// Values of an input: channels x length.
    pub fn inputs(&self) -> usize {
        self.0.inputs()
    }

    /// Values of an output: filters x length.
    pub fn outputs(&self) -> usize {
        self.0.outputs()
    }

    /// Values that forward and backward of so many sequences together take from the arena.
    pub fn space(&self, batch: usize) -> usize {
        self.0.space(batch)
    }

    /// The outputs, one after the other.
    ///
    /// # Errors
    /// If x is not whole sequences, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        self.0.forward(parameters, x, space)
    }

    /// Adds the gradients of weight and bias, and of x where asked for.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        dy: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        self.0.backward(parameters, x, dy, gradients, dx, space)
    }
}
