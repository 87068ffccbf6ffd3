//! A radix-2 fast Fourier transform, with the same bits on every machine (decision 26).

use sottovoce_core::math;
use std::f64::consts::PI;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    pub(super) const ONE: Self = Self { re: 1.0, im: 0.0 };

    pub(super) fn times(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }

    pub(super) fn power(self, mut exponent: u64) -> Self {
        let (mut base, mut result) = (self, Self::ONE);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result.times(base);
            }
            base = base.times(base);
            exponent >>= 1;
        }
        result
    }
}

/// The roots of unity for one length.
pub(super) struct Fourier {
    roots: Vec<Complex>,
    length: usize,
}

impl Fourier {
    /// For vectors of `length`, a power of two.
    pub(super) fn new(length: usize) -> Self {
        debug_assert!(length.is_power_of_two());
        let root = |k: usize| -2.0 * PI * k as f64 / length as f64;
        let roots = (0..length / 2).map(|k| Complex { re: math::cos(root(k)), im: math::sin(root(k)) }).collect();
        Self { roots, length }
    }

    /// In place: values to frequencies.
    pub(super) fn forward(&self, values: &mut [Complex]) {
        debug_assert_eq!(values.len(), self.length);
        reorder(values);
        let mut half = 1;
        while half < self.length {
            let stride = self.length / (2 * half);
            for block in values.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for k in 0..half {
                    let turned = high[k].times(self.roots[k * stride]);
                    let kept = low[k];
                    low[k] = Complex { re: kept.re + turned.re, im: kept.im + turned.im };
                    high[k] = Complex { re: kept.re - turned.re, im: kept.im - turned.im };
                }
            }
            half *= 2;
        }
    }

    /// In place: frequencies to values, of which only the real parts matter.
    pub(super) fn inverse_real(&self, values: &mut [Complex]) {
        for value in values.iter_mut() {
            value.im = -value.im;
        }
        self.forward(values);
        let share = 1.0 / self.length as f64;
        for value in values.iter_mut() {
            value.re *= share;
        }
    }
}

/// Bit-reversal permutation.
fn reorder(values: &mut [Complex]) {
    let bits = values.len().trailing_zeros();
    if bits == 0 {
        return;
    }
    for index in 0..values.len() {
        let other = index.reverse_bits() >> (usize::BITS - bits);
        if index < other {
            values.swap(index, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_discrete_fourier_transform_and_inverts() {
        let start: Vec<f64> = (0..16).map(|k| f64::from(k * k % 7) - 2.5).collect();
        let mut values: Vec<Complex> = start.iter().map(|&re| Complex { re, im: 0.0 }).collect();
        let fourier = Fourier::new(16);
        fourier.forward(&mut values);
        for (k, found) in values.iter().enumerate() {
            let angle = |n: usize| -2.0 * PI * (k * n) as f64 / 16.0;
            let re: f64 = start.iter().enumerate().map(|(n, v)| v * angle(n).cos()).sum();
            let im: f64 = start.iter().enumerate().map(|(n, v)| v * angle(n).sin()).sum();
            assert!((found.re - re).abs() < 1e-12 && (found.im - im).abs() < 1e-12);
        }
        fourier.inverse_real(&mut values);
        assert!(values.iter().zip(&start).all(|(a, b)| (a.re - b).abs() < 1e-13));
    }

    #[test]
    fn powers_are_repeated_products() {
        let z = Complex { re: 0.6, im: -0.7 };
        let slow = (0..13).fold(Complex::ONE, |p, _| p.times(z));
        let fast = z.power(13);
        assert!((slow.re - fast.re).abs() < 1e-14 && (slow.im - fast.im).abs() < 1e-14);
        assert_eq!(z.power(0), Complex::ONE);
    }
}
