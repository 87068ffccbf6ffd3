//! How a round protects updates: what stands in its terms, for both sides to read.
//!
//! Up to three layers, in the order in which they are applied: `integers` (values become steps of a grid, cut to a range and
//! perhaps to a norm), `noise` (differential privacy), and a seal (`secure-aggregation` or `encryption`), under which the
//! server sees sums only.

mod noise;
mod terms;

use crate::dp::DpError;
use crate::he::HeError;
use crate::quantize::{Form, FormError, Grid, GridError, Norm, Quantizer, RowLayout};
use crate::{SumEncryption, secagg};
use sottovoce_protocol::{Layout, RoundTerms};
use thiserror::Error;

pub use noise::{PerExample, Noise, Placement, NoiseDistribution};

/// The layer that makes values integers.
pub const QUANTIZATION: &str = "integers";
/// The layer that adds noise.
pub const NOISE: &str = "noise";
/// The seal of pairwise masks.
pub const SECURE_AGGREGATION: &str = "secure-aggregation";
/// What an owner demands who takes part under that seal only where devices' identities are known.
pub const IDENTITIES: &str = "secure-aggregation.identities";
/// The seal of encrypted sums.
pub const ENCRYPTION: &str = "encryption";
/// The layer under which uploads do not say whose they are.
pub const ANONYMOUS: &str = "anonymous-upload";
/// No protection, but a notice: the server keeps every upload, for an audit.
pub const UPLOAD_RETENTION: &str = "kept-uploads";

/// Everything that protects the updates of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrivacyConfig {
    /// How values become integers; without it there is neither noise nor a seal.
    pub quantization: Option<Quantization>,
    /// What noise is added, and where.
    pub noise: Option<Noise>,
    /// What keeps the server from single updates.
    pub seal: Option<Seal>,
}

/// How values become integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantization {
    /// The largest value; larger ones are cut.
    pub range: f32,
    /// The longest update; longer ones are cut down. `None`: any.
    pub clip: Option<f32>,
    /// Updates that sums have room for.
    pub devices: u32,
    /// How rows are laid out.
    pub rows: RowLayout,
}

/// What keeps the server from single updates.
#[derive(Clone, Debug, PartialEq)]
pub enum Seal {
    /// Pairwise masks that cancel in the sum.
    SecureAggregation {
        /// Share of the devices that may be lost on the way.
        dropout: f64,
        /// Share of the devices that may work with the server.
        colluding: f64,
        /// Whether keys are signed by identities that devices know from elsewhere, and who is counted is confirmed.
        identities: bool,
    },
    /// Encrypted under a key that devices share and the server does not have.
    Encryption {
        /// The scheme.
        scheme: Scheme,
        /// The digest of the key that devices share, in hexadecimal.
        key: String,
    },
}

/// A scheme of additive encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Exact.
    Bfv,
    /// Approximate.
    Ckks,
}

impl Scheme {
    /// Its name in terms and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfv => "bfv",
            Self::Ckks => "ckks",
        }
    }
}

/// A protection that cannot be, or is not known here.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PrivacyError {
    /// A layer of another name, or in another place.
    #[error("privacy layer {0:?} is not known here, or stands where it does not belong")]
    Unknown(String),
    /// A layer's setting.
    #[error("privacy layer {layer:?}: setting {key:?} is {found:?}, expected {expected}")]
    Setting {
        /// The layer.
        layer: &'static str,
        /// The setting.
        key: &'static str,
        /// What it is; empty if it is missing.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Noise or a seal on numbers that are not integers.
    #[error("privacy layer {0:?} needs the layer {QUANTIZATION:?} before it")]
    NeedsIntegers(&'static str),
    /// Noise without a bound on what one person can do to the sum.
    #[error("noise means nothing without a clip: an update may be of any length")]
    NoiseWithoutClip,
    /// Laplace noise where it is not made up of one piece, or not alone.
    #[error("Laplace noise goes with placement central or local and a clip that stays: {0}")]
    Laplace(&'static str),
    /// A clip that follows the lengths of updates, where there are none to follow.
    #[error("the clip can follow the lengths of whole updates only: not with noise = sgd")]
    VotesOnInteractions,
    /// Shares of noise in the open.
    #[error("distributed noise needs a seal: alone, a device's share protects too little")]
    SharesInTheOpen,
    /// More devices than there is room for.
    #[error("a cohort of {found}, but sums have room for {most}")]
    Cohort {
        /// Devices asked.
        found: u32,
        /// Devices at most.
        most: u64,
    },
    /// No grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// No such form.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A cohort that masks cannot hide anybody in.
    #[error("secure aggregation: {0}")]
    Masks(#[from] secagg::ParametersError),
    /// No such noise.
    #[error(transparent)]
    Noise(#[from] DpError),
    /// No such encryption.
    #[error(transparent)]
    Encryption(#[from] HeError),
    /// Uploads that do not say whose they are under a seal that does.
    #[error(
        "anonymous uploads do not go with a seal: its masks and seats name devices, and it hides single updates already"
    )]
    AnonymousSeal,
    /// An approximate scheme for numbers that must be exact.
    #[error("rows in buckets are read by exact counts: they do not go with scheme = ckks, only with bfv")]
    ApproximateBuckets,
}

impl PrivacyConfig {
    /// Whether updates travel as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether devices send all their words instead of the rows they touched.
    pub fn sends_quantized(&self) -> bool {
        self.seal.is_some() || self.noise.is_some_and(|noise| noise.placement != Placement::Central)
    }

    /// Checks that the layers go together.
    ///
    /// # Errors
    /// Says what does not.
    pub fn check(&self) -> Result<(), PrivacyError> {
        let Some(integers) = &self.quantization else {
            return match (&self.noise, &self.seal) {
                (Some(_), _) => Err(PrivacyError::NeedsIntegers(NOISE)),
                (None, Some(seal)) => Err(PrivacyError::NeedsIntegers(seal.layer())),
                (None, None) => Ok(()),
            };
        };
        match self.noise {
            Some(noise) if noise.per_example.is_some() != (noise.placement == Placement::Sgd) => {
                Err(PrivacyError::NoiseWithoutClip)
            }
            Some(Noise { per_example: Some(_), count_noise: Some(_), .. }) => Err(PrivacyError::VotesOnInteractions),
            Some(noise) if integers.clip.is_none() && noise.per_example.is_none() => {
                Err(PrivacyError::NoiseWithoutClip)
            }
            Some(Noise { placement: Placement::Distributed, .. }) if self.seal.is_none() => {
                Err(PrivacyError::SharesInTheOpen)
            }
            Some(Noise { distribution: NoiseDistribution::Laplace, placement, .. }) if !placement.is_whole() => {
                Err(PrivacyError::Laplace("shares of it do not add up to it"))
            }
            Some(Noise { distribution: NoiseDistribution::Laplace, count_noise: Some(_), .. }) => {
                Err(PrivacyError::Laplace("what updates say of their lengths has Gaussian noise"))
            }
            Some(_) if integers.rows != RowLayout::Dense => Err(FormError::BucketsWithoutCounts.into()),
            _ if integers.rows != RowLayout::Dense && self.is_approximate() => {
                Err(PrivacyError::ApproximateBuckets)
            }
            _ => self.form().map(|_| ()),
        }
    }

    fn is_approximate(&self) -> bool {
        matches!(self.seal, Some(Seal::Encryption { scheme: Scheme::Ckks, .. }))
    }

    /// How updates become integers, if they do.
    ///
    /// # Errors
    /// If there is no grid with room for all.
    pub fn form(&self) -> Result<Option<Form>, PrivacyError> {
        let Some(Quantization { range, clip, devices, rows }) = self.quantization else { return Ok(None) };
        let grid = Grid::choose(range, clip, u64::from(devices), self.reach(devices))?;
        let grid = grid.measuring(self.noise.map_or(Norm::Euclidean, |noise| noise.distribution.norm()));
        // Gradients are added up on the grid, in numbers of 24 bits.
        let grid = if self.per_example().is_some() { grid.within_24_bits() } else { grid };
        let votes = self.noise.is_some_and(|noise| noise.count_noise.is_some());
        Ok(Some(Form { grid, rows, counts: self.noise.is_none(), votes }))
    }

    /// What noise is measured by: the longest update, or the longest gradient of an interaction.
    fn clip(&self) -> f64 {
        let each = self.per_example().map(|each| each.clip);
        let longest = each.or(self.quantization.and_then(|integers| integers.clip.or(Some(integers.range))));
        f64::from(longest.unwrap_or(0.0))
    }

    /// How single interactions are bounded, if they are.
    pub fn per_example(&self) -> Option<PerExample> {
        self.noise.and_then(|noise| noise.per_example)
    }

    /// How far the noise on the values of so many devices' sum goes.
    fn reach(&self, devices: u32) -> f64 {
        self.noise.map_or(0.0, |noise| noise.reach(devices) * self.clip())
    }

    /// Standard deviation, or scale, of the noise on the values that each device sends.
    pub(crate) fn device_noise(&self) -> f64 {
        self.noise.map_or(0.0, |noise| noise.device_noise() * self.clip())
    }

    /// The same of the server's noise on the values of a sum.
    pub(crate) fn server_noise(&self) -> f64 {
        let central = self.noise.filter(|noise| noise.placement == Placement::Central);
        central.map_or(0.0, |noise| noise.multiplier * self.clip())
    }

    /// How updates of a layout become integers, if they do, in a cohort of this size.
    ///
    /// # Errors
    /// If there is no room for so many, or an update is too long.
    pub fn quantizer(&self, layout: &Layout, cohort: u32) -> Result<Option<Quantizer>, PrivacyError> {
        let (Some(form), Some(integers)) = (self.form()?, self.quantization) else { return Ok(None) };
        let quantizer = Quantizer::new(layout, form)?;
        let most = quantizer.most_updates().min(u64::from(integers.devices));
        if u64::from(cohort) > most {
            return Err(PrivacyError::Cohort { found: cohort, most });
        }
        Ok(Some(quantizer))
    }

    /// What secure aggregation is agreed on in a round for inputs of this length, if that is the seal.
    pub fn secagg_config(&self, terms: &RoundTerms, length: usize) -> Option<secagg::Config> {
        let Some(Seal::SecureAggregation { dropout, colluding, identities }) = self.seal else { return None };
        let length = u32::try_from(length).ok()?;
        let plain = secagg::Config::new(terms.federation, terms.round, terms.cohort_size, length);
        Some(secagg::Config { dropout, colluding, ..if identities { plain.signed() } else { plain } })
    }

    /// Whether a cohort of this size can be sealed: masks need at least three devices, and shares of them that can be lost and
    /// that may collude for which there are parameters.
    ///
    /// # Errors
    /// Says why not.
    pub fn seals(&self, cohort: u32) -> Result<(), PrivacyError> {
        let Some(Seal::SecureAggregation { dropout, colluding, identities }) = self.seal else {
            return Ok(());
        };
        Ok(secagg::Parameters::choose_for(cohort, dropout, colluding, identities).map(|_| ())?)
    }

    /// How words of this length are encrypted, if they are.
    ///
    /// # Errors
    /// If there are no parameters with room for so many devices.
    pub fn encryption(&self, length: usize) -> Result<Option<SumEncryption>, PrivacyError> {
        let (Some(Seal::Encryption { scheme, .. }), Some(integers), Some(form)) =
            (&self.seal, &self.quantization, self.form()?)
        else {
            return Ok(None);
        };
        Ok(Some(SumEncryption::new(*scheme, integers, self.reach(1), form.grid.steps(), length)?))
    }
}

impl Seal {
    /// The layer's name.
    pub fn layer(&self) -> &'static str {
        match self {
            Self::SecureAggregation { .. } => SECURE_AGGREGATION,
            Self::Encryption { .. } => ENCRYPTION,
        }
    }
}
