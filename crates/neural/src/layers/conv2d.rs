//! Convolution over images, and over sequences (images of height 1).
//!
//! An image is channels x height x width. Its patches make a matrix P with a row for each value of a patch
//! (channels x kernel) and a column for each position of the output, zeros where a patch hangs over the edge:
//! ```text
//! Y  = W P + b            for each image; W has a row for each filter
//! dW += dY P'     db += sums of dY's rows     dP = W' dY, each value added to where in the image it came from
//! ```
//! P is made again in backward: copying it costs a small part of the products, and storing it for a batch would fall out
//! of the cache.

use crate::error::{Result, expect_len, rows_of, setting, size};
use crate::kernels::sum;
use crate::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use crate::{Arithmetic, Init, Layout, Real, Role, Slot, Space};

/// The shape of a [`Conv2d`]; pairs are (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dShape {
    /// Channels of an input image.
    pub channels: usize,
    /// Its height and width.
    pub image: [usize; 2],
    /// Channels of the output.
    pub filters: usize,
    /// Height and width of a patch.
    pub kernel: [usize; 2],
    /// Steps between patches, down and across.
    pub stride: [usize; 2],
    /// Zeros above and below, left and right.
    pub padding: [usize; 2],
}

/// The shape of a convolution over sequences, [`Conv2d::over_sequences`]. A sequence is channels x length, as in PyTorch.
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

/// Convolution of images of one size.
#[derive(Clone, Copy, Debug)]
pub struct Conv2d {
    weight: Slot,
    bias: Slot,
    shape: Conv2dShape,
    output: [usize; 2],
    arithmetic: Arithmetic,
}

/// Positions of a patch along one side.
fn positions(image: usize, kernel: usize, stride: usize, padding: usize) -> Result<usize> {
    let padded = padding.checked_mul(2).and_then(|zeros| image.checked_add(zeros));
    match padded.and_then(|padded| padded.checked_sub(kernel)) {
        Some(free) if stride > 0 => Ok(free / stride + 1),
        _ => Err(setting(format!(
            "convolution: a patch of {kernel} every {stride} does not fit {image} values with {padding} zeros on each side"
        ))),
    }
}

impl Conv2d {
    /// Adds `name.weight` (filters x channels x kernel) and `name.bias` to a layout, uniform within
    /// 1 / sqrt(channels * kernel).
    ///
    /// # Errors
    /// If a size is 0, a patch does not fit into the image, or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, shape: Conv2dShape) -> Result<Self> {
        let [height, width] = shape.kernel;
        Self::with_weight(layout, name, shape, &[shape.filters, shape.channels, height, width])
    }

    /// A convolution over sequences. Adds `name.weight` (filters x channels x kernel) and `name.bias` to a layout, uniform
    /// within 1 / sqrt(channels * kernel).
    ///
    /// # Errors
    /// If a size is 0, a patch does not fit into the sequence, or the name is taken.
    pub fn over_sequences(layout: &mut Layout, name: &str, shape: Conv1dShape) -> Result<Self> {
        let Conv1dShape { channels, length, filters, kernel, stride, padding } = shape;
        let flat = Conv2dShape {
            channels,
            image: [1, length],
            filters,
            kernel: [1, kernel],
            stride: [1, stride],
            padding: [0, padding],
        };
        Self::with_weight(layout, name, flat, &[filters, channels, kernel])
    }

    fn with_weight(layout: &mut Layout, name: &str, shape: Conv2dShape, weight: &[usize]) -> Result<Self> {
        let [height, width] = shape.image;
        size("image", &[shape.channels, height, width])?;
        let patch = size("patch", &[shape.channels, shape.kernel[0], shape.kernel[1]])?;
        let side = |n: usize| positions(shape.image[n], shape.kernel[n], shape.stride[n], shape.padding[n]);
        let output = [side(0)?, side(1)?];
        size("patches", &[patch, output[0], output[1]])?;
        size("output of a convolution", &[shape.filters, output[0], output[1]])?;
        let init = Init::fan_in(patch);
        Ok(Self {
            weight: layout.add(format!("{name}.weight"), weight, Role::Weight, init)?,
            bias: layout.add(format!("{name}.bias"), &[shape.filters], Role::Bias, init)?,
            shape,
            output,
            arithmetic: layout.arithmetic(),
        })
    }

    /// Height and width of the output.
    pub fn output(&self) -> [usize; 2] {
        self.output
    }

    /// Values of an input image.
    pub fn inputs(&self) -> usize {
        self.shape.channels * self.shape.image[0] * self.shape.image[1]
    }

    /// Values of an output image: filters x height x width.
    pub fn outputs(&self) -> usize {
        self.shape.filters * self.positions()
    }

    fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Values of a patch.
    fn patch(&self) -> usize {
        self.shape.channels * self.shape.kernel[0] * self.shape.kernel[1]
    }

    /// Values that forward and backward of so many images together take from the arena.
    pub fn space(&self, batch: usize) -> usize {
        batch.saturating_mul(self.outputs()).saturating_add(2 * self.patch() * self.positions())
    }

    /// The output images, one after the other.
    ///
    /// # Errors
    /// If x is not whole images, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(&self, parameters: &[R], x: &[R], space: &mut Space<'a, R>) -> Result<&'a mut [R]> {
        let batch = rows_of("input of a convolution", x.len(), self.inputs())?;
        let weight = Matrix::new(self.weight.of(parameters)?, self.patch())?;
        let bias = self.bias.of(parameters)?;
        let y = space.take(batch.saturating_mul(self.outputs()))?;
        let mut scratch = space.scratch();
        let patches = scratch.take(self.patch() * self.positions())?;
        for (x, y) in x.chunks_exact(self.inputs()).zip(y.chunks_exact_mut(self.outputs())) {
            for (y, &bias) in y.chunks_exact_mut(self.positions()).zip(bias) {
                y.fill(bias);
            }
            self.gather(x, patches);
            let (patches, y) = (Matrix::new(patches, self.positions())?, MatrixMut::new(y, self.positions())?);
            add_product(self.arithmetic, weight, patches, y)?;
        }
        Ok(y)
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
        mut dx: Option<&mut [R]>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        let batch = rows_of("input of a convolution", x.len(), self.inputs())?;
        expect_len("gradient of a convolution", dy.len(), batch.saturating_mul(self.outputs()))?;
        if let Some(dx) = &dx {
            expect_len("gradient of a convolution's input", dx.len(), x.len())?;
        }
        let mut scratch = space.scratch();
        let patches = scratch.take(self.patch() * self.positions())?;
        for (n, (x, dy)) in x.chunks_exact(self.inputs()).zip(dy.chunks_exact(self.outputs())).enumerate() {
            self.gather(x, patches);
            self.add_parameters(patches, dy, gradients)?;
            if let Some(dx) = &mut dx {
                let dx = &mut dx[n * self.inputs()..][..self.inputs()];
                self.add_input(parameters, dy, dx, &mut scratch.scratch())?;
            }
        }
        Ok(())
    }

    fn add_parameters<R: Real>(&self, patches: &[R], dy: &[R], gradients: &mut [R]) -> Result<()> {
        let (patches, rows) = (Matrix::new(patches, self.positions())?, Matrix::new(dy, self.positions())?);
        let weight = MatrixMut::new(self.weight.of_mut(gradients)?, self.patch())?;
        add_product_by_transposed(self.arithmetic, rows, patches, weight)?;
        for (bias, dy) in self.bias.of_mut(gradients)?.iter_mut().zip(rows.iter_rows()) {
            *bias += sum(dy);
        }
        Ok(())
    }

    fn add_input<R: Real>(&self, parameters: &[R], dy: &[R], dx: &mut [R], space: &mut Space<'_, R>) -> Result<()> {
        let dpatches = space.zeros(self.patch() * self.positions())?;
        let weight = Matrix::new(self.weight.of(parameters)?, self.patch())?;
        let into = MatrixMut::new(dpatches, self.positions())?;
        add_transposed_product(self.arithmetic, weight, Matrix::new(dy, self.positions())?, into)?;
        self.scatter(dpatches, dx);
        Ok(())
    }

    /// Writes an image's patches.
    fn gather<R: Real>(&self, image: &[R], patches: &mut [R]) {
        patches.fill(R::ZERO);
        let stride = self.shape.stride[1];
        self.for_each_run(|run| {
            let into = &mut patches[run.patches..][..run.len];
            if stride == 1 {
                into.copy_from_slice(&image[run.image..][..run.len]);
            } else {
                into.iter_mut().zip(image[run.image..].iter().step_by(stride)).for_each(|(to, &from)| *to = from);
            }
        });
    }

    /// Adds patches to where in the image they come from.
    fn scatter<R: Real>(&self, patches: &[R], image: &mut [R]) {
        let stride = self.shape.stride[1];
        self.for_each_run(|run| {
            let from = &patches[run.patches..][..run.len];
            for (to, &from) in image[run.image..].iter_mut().step_by(stride).zip(from) {
                *to += from;
            }
        });
    }

    /// Calls for every stretch of a row of P whose values lie in one row of the image, `stride` apart.
    #[inline(always)]
    fn for_each_run(&self, mut call: impl FnMut(Run)) {
        let Conv2dShape { image: [height, width], kernel, stride, padding, .. } = self.shape;
        let [down, across] = self.output;
        for row in 0..self.patch() {
            let (x, y) = (row % kernel[1], row / kernel[1] % kernel[0]);
            let channel = row / (kernel[0] * kernel[1]);
            let rows = inside(y, height, stride[0], padding[0], down);
            let columns = inside(x, width, stride[1], padding[1], across);
            if columns.is_empty() {
                continue;
            }
            let first = columns.start * stride[1] + x - padding[1];
            for out in rows {
                let line = channel * height + out * stride[0] + y - padding[0];
                let patches = row * self.positions() + out * across + columns.start;
                call(Run { patches, image: line * width + first, len: columns.len() });
            }
        }
    }
}

struct Run {
    patches: usize,
    image: usize,
    len: usize,
}

/// The positions at which value `k` of a patch is inside the image: 0 <= position * stride + k - padding < size.
fn inside(k: usize, size: usize, stride: usize, padding: usize, positions: usize) -> std::ops::Range<usize> {
    let first = padding.saturating_sub(k).div_ceil(stride);
    let end = (size + padding).saturating_sub(k).div_ceil(stride).min(positions);
    first..end.max(first)
}
