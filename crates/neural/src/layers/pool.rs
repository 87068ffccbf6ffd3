//! Pooling over images, or over sequences (images of height 1).
//!
//! ```text
//! max    y = the largest of a window     dx of the first largest += dy
//! mean   y = the mean of a window        dx of each += dy / size of the window
//! ```
//! Windows lie wholly inside the image; what is left over at the right and below is not looked at.

use crate::error::{Result, expect_len, rows_of, setting, size};
use crate::{Real, Space};

/// How a window becomes one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Its largest value.
    Max,
    /// Its mean.
    Mean,
}

/// The shape of a [`Pool`]; pairs are (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Channels, each pooled by itself.
    pub channels: usize,
    /// Height and width of an image.
    pub image: [usize; 2],
    /// Height and width of a window.
    pub window: [usize; 2],
    /// Steps between windows, down and across.
    pub stride: [usize; 2],
}

/// Pooling of images of one size.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pooling: Pooling,
    shape: PoolShape,
    output: [usize; 2],
}

impl Pool {
    /// A layer without parameters.
    ///
    /// # Errors
    /// If a size is 0 or a window does not fit into the image.
    pub fn new(pooling: Pooling, shape: PoolShape) -> Result<Self> {
        size("pooling", &[shape.channels, shape.image[0], shape.image[1]])?;
        size("window of pooling", &shape.window)?;
        size("stride of pooling", &shape.stride)?;
        let side = |n: usize| match shape.image[n].checked_sub(shape.window[n]) {
            Some(free) => Ok(free / shape.stride[n] + 1),
            None => Err(setting(format!("pooling: a window of {} in {}", shape.window[n], shape.image[n]))),
        };
        Ok(Self { pooling, shape, output: [side(0)?, side(1)?] })
    }

    /// Height and width of the output.
    pub fn output(&self) -> [usize; 2] {
        self.output
    }

    /// Values of an input.
    pub fn inputs(&self) -> usize {
        self.shape.channels * self.shape.image[0] * self.shape.image[1]
    }

    /// Values of an output: channels x height x width.
    pub fn outputs(&self) -> usize {
        self.shape.channels * self.output[0] * self.output[1]
    }

    /// Values that a forward of so many images takes from the arena.
    pub fn space(&self, batch: usize) -> usize {
        batch.saturating_mul(self.outputs())
    }

    /// The pooled images, one after the other.
    ///
    /// # Errors
    /// If x is not whole images or the arena is too small.
    pub fn forward<'a, R: Real>(&self, x: &[R], space: &mut Space<'a, R>) -> Result<&'a mut [R]> {
        let batch = rows_of("input of pooling", x.len(), self.inputs())?;
        let y = space.take(self.space(batch))?;
        let scale = self.scale();
        for (x, y) in x.chunks_exact(self.inputs()).zip(y.chunks_exact_mut(self.outputs())) {
            self.for_each_window(|n, start| {
                y[n] = match self.pooling {
                    Pooling::Max => x[self.place_of_largest(x, start)],
                    Pooling::Mean => self.window(start).map(|place| x[place]).sum::<R>() * scale,
                };
            });
        }
        Ok(y)
    }

    /// Adds the gradient of x.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn backward<R: Real>(&self, x: &[R], dy: &[R], dx: &mut [R]) -> Result<()> {
        let batch = rows_of("input of pooling", x.len(), self.inputs())?;
        expect_len("gradient of pooling", dy.len(), self.space(batch))?;
        expect_len("gradient of pooling's input", dx.len(), x.len())?;
        let scale = self.scale();
        let images = x.chunks_exact(self.inputs()).zip(dx.chunks_exact_mut(self.inputs()));
        for ((x, dx), dy) in images.zip(dy.chunks_exact(self.outputs())) {
            self.for_each_window(|n, start| match self.pooling {
                Pooling::Max => dx[self.place_of_largest(x, start)] += dy[n],
                Pooling::Mean => self.window(start).for_each(|place| dx[place] += dy[n] * scale),
            });
        }
        Ok(())
    }

    fn scale<R: Real>(&self) -> R {
        R::of(1.0 / (self.shape.window[0] * self.shape.window[1]) as f64)
    }

    /// Calls with the place in the output and where in the image its window starts.
    #[inline(always)]
    fn for_each_window(&self, mut call: impl FnMut(usize, usize)) {
        let PoolShape { channels, image: [height, width], stride, .. } = self.shape;
        let mut n = 0;
        for channel in 0..channels {
            for down in 0..self.output[0] {
                for across in 0..self.output[1] {
                    call(n, (channel * height + down * stride[0]) * width + across * stride[1]);
                    n += 1;
                }
            }
        }
    }

    #[inline(always)]
    fn window(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        let ([height, width], across) = (self.shape.window, self.shape.image[1]);
        (0..height).flat_map(move |row| start + row * across..start + row * across + width)
    }

    /// The first largest value, or the first that is not a number.
    #[inline(always)]
    fn place_of_largest<R: Real>(&self, x: &[R], start: usize) -> usize {
        let mut best = start;
        for place in self.window(start) {
            let beats = x[place] > x[best] || R::is_nan(x[place]);
            if beats && !R::is_nan(x[best]) {
                best = place;
            }
        }
        best
    }
}
