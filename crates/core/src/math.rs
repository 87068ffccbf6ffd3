//! Deterministic mathematics, and the vector kernels that the models share.
//!
//! The `exp` and `ln` of two platforms may differ in the last bit; a model trained on a phone, in a browser and in the
//! simulator must not. Elementary functions therefore come from `libm`. Sums of products use eight lanes in a fixed
//! order, which compilers turn into vector instructions of any width without changing the result.

use crate::{SimdKernel, simd_dispatch};

pub use libm::{cos, exp, log as ln, log2, pow, sin, tanh};

/// e^x in f32 within 2 units in the last place, written so that loops over it vectorise.
///
/// Cody-Waite reduction and a polynomial of degree 6 (a minimax fit on +-ln 2 / 2); saturates outside [-87, 88].
#[inline]
pub fn exp_f32(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer without a branch or a library call.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_2e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let value = p * r * r + r + 1.0;
    // The last bits of `rounded` are n, so that they need no conversion to become an exponent.
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    value * power
}

/// The logistic function 1 / (1 + e^-x).
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp_f32(-x))
}

/// Hyperbolic tangent in f32 within 4 units in the last place, written so that loops over it vectorise.
///
/// An odd polynomial (a minimax fit on [0, 0.625]) near 0, where 1 - 2 / (e^2x + 1) would lose its digits.
#[inline]
pub fn tanh_f32(x: f32) -> f32 {
    let square = x * x;
    let mut p = -5.704_988_7e-3;
    p = p * square + 2.063_908_8e-2;
    p = p * square - 5.373_971_5e-2;
    p = p * square + 1.333_144_2e-1;
    p = p * square - 3.333_328e-1;
    let near = x + x * square * p;
    let far = (1.0 - 2.0 / (exp_f32(2.0 * x.abs()) + 1.0)).copysign(x);
    if square < 0.625 * 0.625 { near } else { far }
}

/// Sum of products, in eight lanes.
///
/// # Panics
/// If the slices differ in length.
#[inline]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    for (lane, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[lane] += x * y;
    }
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

/// `y += a * x`.
///
/// # Panics
/// If the slices differ in length.
#[inline]
pub fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
    assert_eq!(y.len(), x.len());
    // In blocks of four: rows are short, and what is left over by wider blocks goes value by value.
    let (y_blocks, y_rest) = y.as_chunks_mut::<4>();
    let (x_blocks, x_rest) = x.as_chunks::<4>();
    for (y, x) in y_blocks.iter_mut().zip(x_blocks) {
        for lane in 0..4 {
            y[lane] += a * x[lane];
        }
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        *y += a * x;
    }
}

/// `y += x`.
///
/// # Panics
/// If the slices differ in length.
#[inline(always)]
pub fn add(y: &mut [f32], x: &[f32]) {
    assert_eq!(y.len(), x.len());
    let (y, y_rest) = y.as_chunks_mut::<8>();
    let (x, x_rest) = x.as_chunks::<8>();
    for (y, x) in y.iter_mut().zip(x) {
        add_lanes(y, x);
    }
    let (y, y_rest) = y_rest.as_chunks_mut::<4>();
    let (x, x_rest) = x_rest.as_chunks::<4>();
    for (y, x) in y.iter_mut().zip(x) {
        add_lanes(y, x);
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        *y += x;
    }
}

/// Reads everything before it writes, so that the compiler need not assume that the two overlap.
#[inline(always)]
fn add_lanes<const L: usize>(y: &mut [f32; L], x: &[f32; L]) {
    let mut sum = *y;
    for lane in 0..L {
        sum[lane] += x[lane];
    }
    *y = sum;
}

/// Whether no value is infinite or not a number. Examines every value instead of stopping at the first bad one, so that it
/// vectorises.
#[inline]
pub fn all_finite(values: &[f32]) -> bool {
    if values.len() < 64 { Finite(values).run() } else { simd_dispatch(Finite(values)) }
}

struct Finite<'a>(&'a [f32]);

impl SimdKernel for Finite<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        // A value that is not finite makes its sum not finite, whatever follows. A sum of large values may also overflow;
        // then each value is checked. Many lanes, so that the sums are independent.
        let (blocks, rest) = self.0.as_chunks::<64>();
        let (fours, rest) = rest.as_chunks::<4>();
        let mut lanes = [0.0f32; 64];
        for block in blocks {
            for lane in 0..64 {
                lanes[lane] += block[lane];
            }
        }
        let mut last = [0.0f32; 4];
        for four in fours {
            for lane in 0..4 {
                last[lane] += four[lane];
            }
        }
        let mut sum = last[0] + last[1] + last[2] + last[3];
        if !blocks.is_empty() {
            sum += lanes.iter().sum::<f32>();
        }
        for value in rest {
            sum += value;
        }
        sum.is_finite() || self.0.iter().all(|value| value.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_f32_is_accurate_and_saturates() {
        let mut worst = 0.0f64;
        for step in -86_000..88_000 {
            let x = step as f32 * 1e-3;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp_f32(x)) - exact).abs() / exact);
        }
        assert!(worst < 2.4e-7, "{worst}");
        assert!(exp_f32(1e9).is_finite() && exp_f32(-1e9) > 0.0 && exp_f32(f32::NAN).is_nan());
    }

    #[test]
    fn tanh_f32_is_accurate_odd_and_saturates() {
        let mut worst = 0.0f64;
        for step in 1..20_000 {
            let x = step as f32 * 5e-4;
            let exact = f64::from(x).tanh();
            worst = worst.max((f64::from(tanh_f32(x)) - exact).abs() / exact);
            assert_eq!(tanh_f32(-x), -tanh_f32(x));
        }
        assert!(worst < 2.4e-7, "{worst}");
        assert_eq!((tanh_f32(0.0), tanh_f32(1e9), tanh_f32(-1e9), tanh_f32(1e-20)), (0.0, 1.0, -1.0, 1e-20));
        assert!(tanh_f32(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_is_symmetric_and_bounded() {
        for x in [0.0f32, 0.3, 2.0, 30.0, 1e6] {
            assert!((sigmoid(x) + sigmoid(-x) - 1.0).abs() < 1e-6);
            assert!((0.0..=1.0).contains(&sigmoid(x)));
        }
    }

    #[test]
    fn all_finite_finds_one_bad_value_anywhere() {
        for length in [0, 1, 3, 21, 42, 64, 100] {
            let mut values: Vec<f32> = (0..length).map(|n| f32::MAX * (n as f32 - 50.0).signum()).collect();
            assert!(all_finite(&values), "{length}");
            for place in 0..length {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let good = std::mem::replace(&mut values[place], bad);
                    assert!(!all_finite(&values), "{bad} at {place} of {length}");
                    values[place] = good;
                }
            }
        }
    }

    #[test]
    fn dot_agrees_with_double_precision_for_all_lengths() {
        for n in 0..40 {
            let a: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
            let b: Vec<f32> = (0..n).map(|i| (i as f32 * 1.3).cos()).collect();
            let exact: f64 = a.iter().zip(&b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            assert!((f64::from(dot(&a, &b)) - exact).abs() < 1e-5);
        }
    }
}
