//! The noise of differential privacy, and where it is added.

use crate::quantize::Norm;
use std::f64::consts::SQRT_2;

/// Standard deviations of noise that sums have room for.
const DEVIATIONS: f64 = 12.0;
/// Scales of Laplace noise that they have room for on top.
const SCALES: f64 = 60.0;

/// Where noise is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// By the server, once, to the sum.
    Central,
    /// By each device, all of it (local differential privacy): a device need trust nobody.
    Local,
    /// By each device its share, so that the sum has all of it (distributed differential privacy): under a seal the
    /// server sees nothing with less.
    Distributed,
    /// By each device on its gradients, clipped per interaction (DP-SGD): protects single interactions from everybody,
    /// not whole histories.
    Sgd,
}

impl Placement {
    /// In the order of their names in settings.
    pub const ALL: [Self; 4] = [Self::Central, Self::Local, Self::Distributed, Self::Sgd];

    /// Its name in terms and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::Local => "local",
            Self::Distributed => "distributed",
            Self::Sgd => "sgd",
        }
    }

    /// Whether it protects the sum of a cohort, so that cohort sampling amplifies privacy; otherwise each device adds
    /// all of it.
    pub fn protects_sums(self) -> bool {
        matches!(self, Self::Central | Self::Distributed)
    }

    /// Whether one party draws all of the noise.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Central | Self::Local)
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }
}

/// The distribution of noise, which also determines the norm of the sensitivity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseDistribution {
    /// Discrete Gaussian; L2 sensitivity.
    Gaussian,
    /// Discrete Laplace; L1 sensitivity. Only where one party draws all of it: shares do not add up to it.
    Laplace,
}

impl NoiseDistribution {
    /// In the order of their names in settings.
    pub const ALL: [Self; 2] = [Self::Gaussian, Self::Laplace];

    /// Its name in terms and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::Laplace => "laplace",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }

    pub(super) fn norm(self) -> Norm {
        match self {
            Self::Gaussian => Norm::Euclidean,
            Self::Laplace => Norm::Absolute,
        }
    }
}

/// Noise on quantised values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Where it is added.
    pub placement: Placement,
    /// Its distribution.
    pub distribution: NoiseDistribution,
    /// The noise multiplier: standard deviation (Laplace: scale) in units of the sensitivity.
    pub multiplier: f64,
    /// Distributed: the number of devices whose shares make up all of it.
    pub shares: u32,
    /// Adaptive clipping: standard deviation of the noise on the sum of clip indicators, 1 for an update within the
    /// clip and -1 for a longer one.
    pub count_noise: Option<f64>,
    /// DP-SGD ([`Placement::Sgd`]): how single interactions are bounded.
    pub per_example: Option<PerExample>,
    /// Where rounds share a budget unequally: this round's part of it, from which the multiplier follows.
    pub part: Option<BudgetPart>,
}

/// A round's part of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetPart {
    /// The multiplier of a round that spends all of the budget.
    pub whole: f64,
    /// The fraction of 1 / multiplier^2 that this round spends.
    pub fraction: f64,
}

impl BudgetPart {
    /// The multiplier of the round.
    pub fn multiplier(&self) -> f64 {
        self.whole / self.fraction.sqrt()
    }
}

/// Per-example clipping and sampling (DP-SGD).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerExample {
    /// The largest norm of an interaction's gradient.
    pub clip: f32,
    /// The probability with which an interaction is sampled in a round.
    pub rate: f64,
}

impl Noise {
    /// Gaussian, with a fixed clip, drawn by one party.
    pub fn new(placement: Placement, multiplier: f64) -> Self {
        Self {
            placement,
            distribution: NoiseDistribution::Gaussian,
            multiplier,
            shares: 1,
            count_noise: None,
            per_example: None,
            part: None,
        }
    }

    /// The same in a round that spends this part of a budget.
    #[must_use]
    pub fn spending(self, part: BudgetPart) -> Self {
        Self { multiplier: part.multiplier(), part: Some(part), ..self }
    }

    /// A bound on the noise of so many devices together, in sensitivities; exceeded in fewer than one of 10^30 sums.
    pub(super) fn bound(&self, devices: u32) -> f64 {
        let one = self.device_noise();
        let all = one * f64::from(devices.max(1)).sqrt();
        match self.distribution {
            NoiseDistribution::Gaussian => DEVIATIONS * all,
            // A Laplace distribution of scale 1 has a variance of 2, and tails that fall like e^-x.
            NoiseDistribution::Laplace => DEVIATIONS * SQRT_2 * all + SCALES * one,
        }
    }

    /// A device's share of noise of this standard deviation.
    fn share(&self, deviation: f64) -> f64 {
        match self.placement {
            Placement::Central => 0.0,
            Placement::Local | Placement::Sgd => deviation,
            Placement::Distributed => deviation / f64::from(self.shares.max(1)).sqrt(),
        }
    }

    /// What each device adds, in units of `multiplier`.
    pub fn device_noise(&self) -> f64 {
        self.share(self.multiplier)
    }

    /// Standard deviation of what each device adds to its clip indicator.
    pub fn device_count_noise(&self) -> f64 {
        self.share(self.count_noise.unwrap_or(0.0))
    }
}
