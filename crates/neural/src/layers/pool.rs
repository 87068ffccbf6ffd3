//! Pooling over images, or over sequences (images of height 1).
//!
//! ```text
//! max    y = the largest of a window     dx of the first largest += dy
//! mean   y = the mean of a window        dx of each += dy / size of the window
//! ```
//! Windows lie wholly inside the image; the remainder at the right and below is ignored.

use crate::error::{Result, expect_len, rows_of, setting, size};
use crate::kernels::kernel;
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
            if self.halves() {
                largest_of_four(x, y, self.shape.image[1]);
                continue;
            }
            self.for_each_window(|n, start| {
                y[n] = match self.pooling {
                    Pooling::Max => x[self.index_of_largest(x, start)],
                    Pooling::Mean => self.window(start).map(|index| x[index]).sum::<R>() * scale,
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
            if self.halves() {
                back_to_largest_of_four(x, dy, dx, self.shape.image[1]);
                continue;
            }
            self.for_each_window(|n, start| match self.pooling {
                Pooling::Max => dx[self.index_of_largest(x, start)] += dy[n],
                Pooling::Mean => self.window(start).for_each(|index| dx[index] += dy[n] * scale),
            });
        }
        Ok(())
    }

    /// Whether this is the commonest pooling, which has loops of its own: the largest of two by two, and nothing left over.
    fn halves(&self) -> bool {
        let PoolShape { image, window, stride, .. } = self.shape;
        self.pooling == Pooling::Max && [window, stride] == [[2; 2]; 2] && image.iter().all(|side| side % 2 == 0)
    }

    fn scale<R: Real>(&self) -> R {
        R::of(1.0 / (self.shape.window[0] * self.shape.window[1]) as f64)
    }

    /// Calls with the index in the output and where in the image its window starts.
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
    fn index_of_largest<R: Real>(&self, x: &[R], start: usize) -> usize {
        let mut best = start;
        for index in self.window(start) {
            if beats(x[index], x[best]) {
                best = index;
            }
        }
        best
    }
}

/// Whether b replaces a: it is larger, or the first that is not a number.
#[inline(always)]
fn beats<R: Real>(b: R, a: R) -> bool {
    (b > a || R::is_nan(b)) && !R::is_nan(a)
}

#[inline(always)]
fn larger<R: Real>(a: R, b: R) -> R {
    if beats(b, a) { b } else { a }
}

kernel! {
    /// Two by two values each become one.
    fn largest_of_four<'s, R>(x: &'s [R], y: &'s mut [R], width: usize) {
        for (x, y) in x.chunks_exact(2 * width).zip(y.chunks_exact_mut(width / 2)) {
            let (above, below) = x.split_at(width);
            let pairs = above.as_chunks::<2>().0.iter().zip(below.as_chunks::<2>().0);
            for (y, ([a, b], [c, d])) in y.iter_mut().zip(pairs) {
                *y = larger(larger(*a, *b), larger(*c, *d));
            }
        }
    }
}

kernel! {
    /// Each gradient goes to the largest of its four.
    fn back_to_largest_of_four<'s, R>(x: &'s [R], dy: &'s [R], dx: &'s mut [R], width: usize) {
        let images = x.chunks_exact(2 * width).zip(dx.chunks_exact_mut(2 * width));
        for ((x, dx), dy) in images.zip(dy.chunks_exact(width / 2)) {
            let ((above, below), (dx_above, dx_below)) = (x.split_at(width), dx.split_at_mut(width));
            let values = above.as_chunks::<2>().0.iter().zip(below.as_chunks::<2>().0);
            let targets = dx_above.as_chunks_mut::<2>().0.iter_mut().zip(dx_below.as_chunks_mut::<2>().0);
            for ((&dy, ([a, b], [c, d])), (above, below)) in dy.iter().zip(values).zip(targets) {
                let (right, right_below) = (beats(*b, *a), beats(*d, *c));
                let lower = beats(larger(*c, *d), larger(*a, *b));
                let part = |here: bool| if here { dy } else { R::ZERO };
                above[0] += part(!lower & !right);
                above[1] += part(!lower & right);
                below[0] += part(lower & !right_below);
                below[1] += part(lower & right_below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use sottovoce_core::Rng;

    #[test]
    fn two_by_two_kernel_agrees_with_the_general_one() {
        let shape = PoolShape { channels: 2, image: [4, 6], window: [2; 2], stride: [2; 2] };
        let pool = Pool::new(Pooling::Max, shape).unwrap();
        let mut rng = Rng::new(3);
        // Few values, so that there are ties, and one that is not a number.
        let mut x: Vec<f32> = (0..96).map(|_| rng.below(3) as f32 - 1.0).collect();
        x[7] = f32::NAN;
        let mut arena = Arena::new(24, 0).unwrap();
        let y = pool.forward(&x, &mut arena.space()).unwrap().to_vec();
        let dy: Vec<f32> = (1..=24).map(|n| n as f32).collect();
        let mut dx = vec![0.5; 96];
        pool.backward(&x, &dy, &mut dx).unwrap();
        let (mut expected, mut back) = (vec![0.0; 24], vec![0.5; 96]);
        for (image, x) in x.chunks_exact(48).enumerate() {
            pool.for_each_window(|n, start| {
                let index = pool.index_of_largest(x, start);
                expected[image * 12 + n] = x[index];
                back[image * 48 + index] += dy[image * 12 + n];
            });
        }
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&y), dx), (bits(&expected), back));
    }
}
