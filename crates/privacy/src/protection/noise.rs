//! What noise is added to updates, and where.

use crate::quantize::Norm;
use std::f64::consts::SQRT_2;

/// Standard deviations of noise that there is room for in sums.
const DEVIATIONS: f64 = 12.0;
/// Scales of Laplace noise that there is room for on top.
const SCALES: f64 = 60.0;

/// Where noise is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// By the server, once, to the sum.
    Central,
    /// By each device, all of it: a device need trust nobody.
    Local,
    /// By each device its share, so that the sum has all of it: under a seal the server never sees less.
    Distributed,
    /// By each device on its gradients, each interaction's bounded by itself (DP-SGD): it hides single interactions, from
    /// everybody, and not whole histories.
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

    /// Whether it hides in the sum of a cohort, so that it matters how that is drawn; otherwise each device has all of its own.
    pub fn protects_sums(self) -> bool {
        matches!(self, Self::Central | Self::Distributed)
    }

    /// Whether all of the noise on an update or a sum comes from one hand.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Central | Self::Local)
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name() == name)
    }
}

/// How noise is distributed, which is also how the length of an update is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseDistribution {
    /// Discrete Gaussian; lengths are Euclidean.
    Gaussian,
    /// Discrete Laplace; lengths are sums of absolute values. Only where all of it comes from one hand: shares of it do not add
    /// up to it.
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

/// Noise on integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Where it is added.
    pub placement: Placement,
    /// How it is distributed.
    pub distribution: NoiseDistribution,
    /// Its standard deviation, or the scale of Laplace noise, in clips.
    pub multiplier: f64,
    /// Distributed: devices whose shares make up all of it.
    pub shares: u32,
    /// Where the clip follows the lengths of updates: standard deviation of the noise on the sum of what devices say of theirs,
    /// 1 for one within the clip and -1 for a longer one.
    pub count_noise: Option<f64>,
    /// Where single interactions are hidden ([`Placement::Sgd`]): how.
    pub per_example: Option<PerExample>,
}

/// How single interactions are bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerExample {
    /// The longest gradient of one.
    pub clip: f32,
    /// The chance with which one is learnt from in a round.
    pub rate: f64,
}

impl Noise {
    /// Gaussian, of a clip that stays as it is; all of it from one hand.
    pub fn new(placement: Placement, multiplier: f64) -> Self {
        Self { placement, distribution: NoiseDistribution::Gaussian, multiplier, shares: 1, count_noise: None, per_example: None }
    }

    /// How far the noise of so many devices goes together, in clips: further in fewer than one of 10^30 sums.
    pub(super) fn reach(&self, devices: u32) -> f64 {
        let one = self.device_noise();
        let all = one * f64::from(devices.max(1)).sqrt();
        match self.distribution {
            NoiseDistribution::Gaussian => DEVIATIONS * all,
            // A Laplace distribution of scale 1 has a variance of 2, and tails that fall like e^-x.
            NoiseDistribution::Laplace => DEVIATIONS * SQRT_2 * all + SCALES * one,
        }
    }

    /// The share of a device in noise that has this standard deviation in all.
    fn share(&self, deviation: f64) -> f64 {
        match self.placement {
            Placement::Central => 0.0,
            Placement::Local | Placement::Sgd => deviation,
            Placement::Distributed => deviation / f64::from(self.shares.max(1)).sqrt(),
        }
    }

    /// What each device adds, as `multiplier` has it.
    pub fn device_noise(&self) -> f64 {
        self.share(self.multiplier)
    }

    /// Standard deviation of what each device adds to what it says of its update's length.
    pub fn device_count_noise(&self) -> f64 {
        self.share(self.count_noise.unwrap_or(0.0))
    }
}
