//! What a device can say of itself, for a server that weighs updates by it (the thesis, sec. 5.5).

use crate::{choices, criteria};
use sottovoce_core::Images;

choices! {
    /// A property of a device, its images or what it learnt, by the thesis's name in lower case. A server divides
    /// values by their sum over the cohort.
    pub enum Criterion {
        /// DS: the number of images.
        Samples => "ds",
        /// LD: the number of classes among them.
        Labels => "ld",
        /// MW: how near the local model stayed to the shared one, 1 / sqrt(|theta - theta_u| + 1).
        Closeness => "mw",
        /// MW as the thesis's program has it: the mean of the layers' kernel norms in place of the norm of everything.
        KernelCloseness => "mwk",
        /// CB: images of the rarest class over images of the commonest, over all classes of the input.
        Balance => "cb",
        /// IS: the share of sharp images.
        Sharpness => "is",
    }
}

impl Criterion {
    /// The name under which rounds ask for it.
    pub fn asked_as(self) -> &'static str {
        match self {
            Self::Samples => criteria::SIZE,
            Self::Labels => criteria::DIVERSITY,
            Self::Closeness => criteria::CLOSENESS,
            Self::KernelCloseness => criteria::KERNEL_CLOSENESS,
            Self::Balance => criteria::BALANCE,
            Self::Sharpness => criteria::SHARPNESS,
        }
    }

    /// Its value for a device that has these images; `None` for what is known only when it has trained.
    pub fn value(self, images: &Images, own: &[u32]) -> Option<f64> {
        let of_class = || {
            let mut counts = [0u64; 256];
            own.iter().for_each(|&image| counts[usize::from(images.labels()[image as usize])] += 1);
            counts
        };
        Some(match self {
            Self::Samples => own.len() as f64,
            Self::Labels => of_class().iter().filter(|&&count| count > 0).count() as f64,
            Self::Closeness | Self::KernelCloseness => return None,
            Self::Balance => {
                let counts = &of_class()[..images.classes()];
                let least = counts.iter().copied().min().unwrap_or(0);
                least as f64 / counts.iter().copied().max().unwrap_or(0).max(1) as f64
            }
            Self::Sharpness => {
                let sharp = own.iter().filter(|&&image| images.is_sharp(image as usize)).count();
                sharp as f64 / own.len().max(1) as f64
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Choice;

    #[test]
    fn values_are_as_defined() {
        let images = Images::new([1, 1, 1], 2, vec![0; 6], vec![0, 0, 0, 1, 1, 0]).unwrap();
        let images = images.with_sharpness(vec![true, false, true, true, false, false]).unwrap();
        let of = |name: &str, own: &[u32]| Criterion::named(name).unwrap().value(&images, own);
        let own = [0, 1, 2, 3];
        assert_eq!([of("ds", &own), of("ld", &own), of("mw", &own)], [Some(4.0), Some(2.0), None]);
        assert_eq!([of("cb", &own), of("is", &own)], [Some(1.0 / 3.0), Some(0.75)]);
        let some = [of("cb", &[0, 1]), of("ld", &[0, 1]), of("is", &[1, 4])];
        assert_eq!(some, [Some(0.0), Some(1.0), Some(0.0)]);
        assert!(Criterion::named("DS").is_none() && Criterion::named("").is_none());
    }
}
