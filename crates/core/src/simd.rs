//! SIMD dispatch: hot loops run with the widest vector instructions of the machine.

/// A kernel whose loops are compiled for several instruction sets. Mark [`run`](Self::run) and everything it calls in a
/// loop as `#[inline(always)]`: code that is not inlined is compiled for the baseline only.
pub trait SimdKernel {
    /// The result.
    type Output;

    /// Runs the loops.
    fn run(self) -> Self::Output;
}

/// Runs a kernel with the instructions that this machine has. The result has the same bits on all of them: lanes are
/// explicit in the source, and no multiplication is fused with an addition.
#[inline]
pub fn simd_dispatch<K: SimdKernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if *modern::FOUND {
        // SAFETY: the processor has every feature that `with_all` enables.
        #[allow(unsafe_code)]
        return unsafe { modern::with_all(kernel) };
    }
    kernel.run()
}

/// x86 processors since about 2013.
#[cfg(target_arch = "x86_64")]
mod modern {
    use super::SimdKernel;
    use std::arch::is_x86_feature_detected as has;
    use std::sync::LazyLock;

    pub(super) static FOUND: LazyLock<bool> =
        LazyLock::new(|| has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt"));

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn with_all<K: SimdKernel>(kernel: K) -> K::Output {
        kernel.run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dot<'a>(&'a [f32], &'a [f32]);

    impl SimdKernel for Dot<'_> {
        type Output = f32;

        #[inline(always)]
        fn run(self) -> f32 {
            crate::math::dot(self.0, self.1)
        }
    }

    #[test]
    fn dispatched_kernels_give_the_same_bits() {
        let mut rng = crate::Rng::new(9);
        for length in 0..100 {
            let (mut a, mut b) = (vec![0.0; length], vec![0.0; length]);
            rng.fill_normal(1.0, &mut a);
            rng.fill_normal(1.0, &mut b);
            assert_eq!(simd_dispatch(Dot(&a, &b)).to_bits(), Dot(&a, &b).run().to_bits());
        }
    }
}
