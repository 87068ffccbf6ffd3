//! The two kinds of numbers that layers compute with.

use sottovoce_core::math;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32`, with which models are trained, or `f64`, with which layers are checked.
///
/// Functions, not methods, for what `std` has platform-dependent methods of the same name for.
pub trait Real:
    sealed::Sealed
    + Copy
    + Default
    + Debug
    + Display
    + PartialOrd
    + Send
    + Sync
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The nearest value to this one.
    fn of(x: f64) -> Self;
    /// The value in double precision.
    fn to_f64(x: Self) -> f64;
    /// Whether it is not a number.
    fn is_nan(x: Self) -> bool;
    /// Square root; exact to the last bit on every platform.
    fn sqrt(x: Self) -> Self;
    /// e^x.
    fn exp(x: Self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(x: Self) -> Self;

    /// The logistic function 1 / (1 + e^-x).
    #[inline(always)]
    fn sigmoid(x: Self) -> Self {
        Self::ONE / (Self::ONE + Self::exp(-x))
    }

    /// |x|; not a number stays so.
    #[inline(always)]
    fn abs(x: Self) -> Self {
        if x < Self::ZERO { -x } else { x }
    }
}

macro_rules! real {
    ($type:ident, $exp:path, $tanh:path) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $type
            }

            #[inline(always)]
            fn to_f64(x: Self) -> f64 {
                x.into()
            }

            #[inline(always)]
            fn is_nan(x: Self) -> bool {
                x.is_nan()
            }

            #[inline(always)]
            fn sqrt(x: Self) -> Self {
                x.sqrt()
            }

            #[inline(always)]
            fn exp(x: Self) -> Self {
                $exp(x)
            }

            #[inline(always)]
            fn tanh(x: Self) -> Self {
                $tanh(x)
            }
        }
    };
}

real!(f32, math::exp_f32, math::tanh_f32);
real!(f64, math::exp, math::tanh);
