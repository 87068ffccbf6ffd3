//! Activations.
//!
//! ```text
//! ReLU       y = max(x, 0)              dx = dy [y > 0]
//! leaky      y = x or s x if x < 0      dx = dy (1 or s if y < 0)
//! sigmoid    y = 1 / (1 + e^-x)         dx = dy y (1 - y)
//! tanh       y = tanh x                 dx = dy (1 - y^2)
//! GELU       y = x Phi(x), with Phi(x) = (1 + tanh(c (x + 0.044715 x^3))) / 2, c = sqrt(2 / pi)
//! ```
//! All but GELU can be derived from their output alone and so work in place. None hides a value that is not a number.

use crate::Real;
use crate::error::{Result, expect_len};
use sottovoce_core::{SimdKernel, simd_dispatch};

/// An activation that works in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// y = x.
    Identity,
    /// y = max(x, 0).
    Relu,
    /// y = x, or this share of it below 0; a share of 0 or less is taken as ReLU's 0.
    LeakyRelu(f64),
    /// The logistic function.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Replaces x by y.
    pub fn apply<R: Real>(self, values: &mut [R]) {
        match self {
            Self::Identity => {}
            Self::Relu => simd_dispatch(Each(values, |x| if x < R::ZERO { R::ZERO } else { x })),
            Self::LeakyRelu(slope) => {
                let slope = R::of(slope.max(0.0));
                simd_dispatch(Each(values, move |x| if x < R::ZERO { slope * x } else { x }));
            }
            Self::Sigmoid => simd_dispatch(Each(values, R::sigmoid)),
            Self::Tanh => simd_dispatch(Each(values, R::tanh)),
        }
    }

    /// Replaces dy by dx, given y.
    ///
    /// # Errors
    /// If the two differ in length.
    pub fn backward<R: Real>(self, y: &[R], gradient: &mut [R]) -> Result<()> {
        expect_len("gradient of an activation", gradient.len(), y.len())?;
        match self {
            Self::Identity => {}
            Self::Relu => simd_dispatch(Pairs(y, gradient, |y, dy| if y > R::ZERO { dy } else { R::ZERO })),
            Self::LeakyRelu(slope) => {
                let slope = R::of(slope.max(0.0));
                simd_dispatch(Pairs(y, gradient, move |y, dy| if y > R::ZERO { dy } else { slope * dy }));
            }
            Self::Sigmoid => simd_dispatch(Pairs(y, gradient, |y, dy| dy * y * (R::ONE - y))),
            Self::Tanh => simd_dispatch(Pairs(y, gradient, |y, dy| dy * (R::ONE - y * y))),
        }
        Ok(())
    }
}

struct Each<'v, R, F>(&'v mut [R], F);

impl<R: Real, F: Fn(R) -> R> SimdKernel for Each<'_, R, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for value in self.0 {
            *value = self.1(*value);
        }
    }
}

struct Pairs<'v, R, F>(&'v [R], &'v mut [R], F);

impl<R: Real, F: Fn(R, R) -> R> SimdKernel for Pairs<'_, R, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (gradient, &y) in self.1.iter_mut().zip(self.0) {
            *gradient = self.2(y, *gradient);
        }
    }
}

const GELU_SCALE: f64 = 0.797_884_560_802_865_4;
const GELU_CUBE: f64 = 0.044_715;

/// Writes GELU(x) to y, in its tanh form.
///
/// # Errors
/// If the two differ in length.
pub fn gelu<R: Real>(x: &[R], y: &mut [R]) -> Result<()> {
    expect_len("output of GELU", y.len(), x.len())?;
    let (scale, cube, half) = (R::of(GELU_SCALE), R::of(GELU_CUBE), R::of(0.5));
    simd_dispatch(Pairs(x, y, move |x, _| half * x * (R::ONE + R::tanh(scale * (x + cube * x * x * x)))));
    Ok(())
}

/// Replaces dy by dx, given x.
///
/// # Errors
/// If the two differ in length.
pub fn gelu_backward<R: Real>(x: &[R], gradient: &mut [R]) -> Result<()> {
    expect_len("gradient of GELU", gradient.len(), x.len())?;
    let (scale, cube, half) = (R::of(GELU_SCALE), R::of(GELU_CUBE), R::of(0.5));
    let three = R::of(3.0);
    simd_dispatch(Pairs(x, gradient, move |x, dy| {
        let t = R::tanh(scale * (x + cube * x * x * x));
        let inner = scale * (R::ONE + three * cube * x * x);
        dy * half * (R::ONE + t + x * (R::ONE - t * t) * inner)
    }));
    Ok(())
}
