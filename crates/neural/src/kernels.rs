//! The vector loops that everything else is made of.
//!
//! Sums run in eight lanes in a fixed order and no multiplication is fused with an addition, so that the bits do not depend on
//! the width of a machine's vectors. All is inlined into work that [`sottovoce_core::simd_dispatch`] compiles for several
//! instruction sets.

use crate::Real;

/// Defines a function over slices of `R` whose loops run with the widest vector instructions of the machine: a
/// [`SimdKernel`](sottovoce_core::SimdKernel) of its parameters, dispatched at once.
macro_rules! kernel {
    ($(#[$doc:meta])* fn $name:ident<$($life:lifetime),+, R>($($field:ident: $type:ty),+ $(,)?) $body:block) => {
        $crate::kernels::kernel! { $(#[$doc])* fn $name<$($life),+, R>($($field: $type),+) -> () $body }
    };
    ($(#[$doc:meta])* fn $name:ident<$($life:lifetime),+, R>($($field:ident: $type:ty),+ $(,)?) -> $out:ty $body:block) => {
        $(#[$doc])*
        #[inline]
        fn $name<$($life),+, R: $crate::Real>($($field: $type),+) -> $out {
            struct Kernel<$($life),+, R> {
                $($field: $type),+
            }

            impl<$($life),+, R: $crate::Real> sottovoce_core::SimdKernel for Kernel<$($life),+, R> {
                type Output = $out;

                #[inline(always)]
                fn run(self) -> $out {
                    let Self { $($field),+ } = self;
                    $body
                }
            }

            sottovoce_core::simd_dispatch(Kernel { $($field),+ })
        }
    };
}
pub(crate) use kernel;

const LANES: usize = 8;

#[inline(always)]
fn sum_of<R: Real>(lanes: [R; LANES]) -> R {
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

/// Not inlined, so that the lanes stay whole vectors in the loops before it: otherwise the compiler splits them to suit
/// this sum.
#[inline(never)]
fn sums_of<R: Real, const K: usize>(lanes: &[[R; LANES]; K]) -> [R; K] {
    lanes.map(sum_of)
}

/// Reads all before it writes, so that compilers need not fear that the slices overlap.
#[inline(always)]
fn add_products<R: Real>(lanes: &mut [R; LANES], x: &[R; LANES], y: &[R; LANES]) {
    let mut sum = *lanes;
    for lane in 0..LANES {
        sum[lane] += x[lane] * y[lane];
    }
    *lanes = sum;
}

/// Sum of products with each of K rows of the same length.
#[inline(always)]
pub(crate) fn dots<R: Real, const K: usize>(a: &[R], rows: [&[R]; K]) -> [R; K] {
    let (blocks, rest) = a.as_chunks::<LANES>();
    let split = rows.map(|row| row[..a.len()].as_chunks::<LANES>());
    let mut lanes = [[R::ZERO; LANES]; K];
    // Never fails; proves to the compiler that no index below is outside.
    assert!(split.iter().all(|(row, _)| row.len() == blocks.len()));
    for n in 0..blocks.len() {
        for k in 0..K {
            add_products(&mut lanes[k], &blocks[n], &split[k].0[n]);
        }
    }
    for k in 0..K {
        for (lane, (&x, &y)) in rest.iter().zip(split[k].1).enumerate() {
            lanes[k][lane] += x * y;
        }
    }
    sums_of(&lanes)
}

/// `y += a_0 x_0 + a_1 x_1 + ...`, added one after the other: the bits of K single additions, for fewer loads and stores.
#[inline(always)]
pub(crate) fn add_scaled<R: Real, const K: usize>(y: &mut [R], a: [R; K], x: [&[R]; K]) {
    let x = x.map(|x| x[..y.len()].as_chunks::<LANES>());
    let (blocks, rest) = y.as_chunks_mut::<LANES>();
    let x = x.map(|(x, x_rest)| (&x[..blocks.len()], &x_rest[..rest.len()]));
    for (n, block) in blocks.iter_mut().enumerate() {
        let mut sum = *block;
        for k in 0..K {
            let x = &x[k].0[n];
            for lane in 0..LANES {
                sum[lane] += a[k] * x[lane];
            }
        }
        *block = sum;
    }
    for (n, y) in rest.iter_mut().enumerate() {
        for k in 0..K {
            *y += a[k] * x[k].1[n];
        }
    }
}

/// `y += x`.
#[inline(always)]
pub(crate) fn add<R: Real>(y: &mut [R], x: &[R]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// Sum of all values.
#[inline(always)]
pub(crate) fn sum<R: Real>(values: &[R]) -> R {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [R::ZERO; LANES];
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] += block[lane];
        }
    }
    for (lane, &value) in rest.iter().enumerate() {
        lanes[lane] += value;
    }
    sum_of(lanes)
}

/// The largest value, or one that is not a number if there is one.
#[inline(always)]
pub(crate) fn largest<R: Real>(values: &[R]) -> R {
    let larger = |a: R, b: R| if b > a || R::is_nan(b) { b } else { a };
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [values.first().copied().unwrap_or(R::ZERO); LANES];
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], block[lane]);
        }
    }
    rest.iter().chain(&lanes).copied().fold(lanes[0], larger)
}

/// Logarithm of a product of many factors between 1 and 2, taken once for hundreds of them: a logarithm costs as much as
/// twenty of the exponentials that the factors are made of.
pub(crate) struct LogProduct {
    lanes: [f64; LANES],
    factors: usize,
    sum: f64,
}

impl LogProduct {
    /// 2^100 in each of eight lanes is within the range of a double, also when all lanes are multiplied.
    const MOST: usize = 100;

    pub(crate) fn new() -> Self {
        Self { lanes: [1.0; LANES], factors: 0, sum: 0.0 }
    }

    /// Takes up to eight factors.
    #[inline(always)]
    pub(crate) fn multiply<R: Real>(&mut self, factors: &[R; LANES]) {
        for lane in 0..LANES {
            self.lanes[lane] *= R::to_f64(factors[lane]);
        }
        self.factors += 1;
        if self.factors == Self::MOST {
            self.close();
        }
    }

    fn close(&mut self) {
        self.sum += sottovoce_core::math::ln(self.lanes.iter().product());
        self.lanes = [1.0; LANES];
        self.factors = 0;
    }

    pub(crate) fn logarithm(mut self) -> f64 {
        self.close();
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize, step: f64) -> Vec<f64> {
        (0..n).map(|i| (i as f64 * step).sin()).collect()
    }

    #[test]
    fn kernels_agree_with_plain_loops_for_all_lengths() {
        for n in 0..40 {
            let (a, b, c) = (wave(n, 0.7), wave(n, 1.3), wave(n, 2.9));
            let plain = |x: &[f64]| a.iter().zip(x).map(|(x, y)| x * y).sum::<f64>();
            let [ab, ac] = dots(&a, [&b, &c]);
            assert!((ab - plain(&b)).abs() < 1e-12 && (ac - plain(&c)).abs() < 1e-12);
            assert!((sum(&a) - a.iter().sum::<f64>()).abs() < 1e-12);
            let (mut both, mut after_each_other) = (a.clone(), a.clone());
            add_scaled(&mut both, [0.3, -2.0], [&b, &c]);
            add_scaled(&mut after_each_other, [0.3], [&b]);
            add_scaled(&mut after_each_other, [-2.0], [&c]);
            assert_eq!(both, after_each_other);
            if n > 0 {
                assert_eq!(largest(&a), a.iter().copied().fold(f64::MIN, f64::max));
            }
        }
    }

    #[test]
    fn nan_propagates() {
        for place in 0..20 {
            let mut values = wave(20, 0.5);
            values[place] = f64::NAN;
            assert!(largest(&values).is_nan() && sum(&values).is_nan(), "{place}");
        }
    }

    #[test]
    fn log_product_is_the_sum_of_logarithms() {
        let mut product = LogProduct::new();
        let mut sum = 0.0;
        for n in 0..1000 {
            let factors = [0, 1, 2, 3, 4, 5, 6, 7].map(|lane| 1.0 + f64::from((n * 8 + lane) % 101) / 100.0);
            product.multiply(&factors);
            sum += factors.iter().map(|factor| factor.ln()).sum::<f64>();
        }
        assert!((product.logarithm() - sum).abs() < 1e-9);
    }
}
