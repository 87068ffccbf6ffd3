//! The privacy configuration of a round, as its terms carry it.
//!
//! Up to three layers, in the order in which they are applied: `integers` (values are clipped and quantised), `noise`
//! (differential privacy), and a seal (`secure-aggregation`, `keeper` or `encryption`), under which the server sees
//! sums only.

mod noise;
mod terms;

use crate::dp::DpError;
use crate::he::HeError;
use crate::keeper::{self, KeeperSeal};
use crate::quantize::{Form, FormError, Grid, GridError, Norm, Quantizer, RowLayout};
use crate::{SumEncryption, secagg};
use sha2::{Digest, Sha256};
use sottovoce_protocol::{Layout, RoundTerms, codec};
use thiserror::Error;

pub use noise::{BudgetPart, Noise, NoiseDistribution, PerExample, Placement};

/// The layer that quantises values.
pub const QUANTIZATION: &str = "integers";
/// The layer that adds noise.
pub const NOISE: &str = "noise";
/// The seal of pairwise masks.
pub const SECURE_AGGREGATION: &str = "secure-aggregation";
/// The requirement of an owner who accepts that seal only with identities.
pub const IDENTITIES: &str = "secure-aggregation.identities";
/// The seal of encrypted sums.
pub const ENCRYPTION: &str = "encryption";
/// The seal of masks that a second party keeps.
pub const KEEPER: &str = "keeper";
/// All layers under which the server sees sums only.
pub const SEALS: [&str; 3] = [SECURE_AGGREGATION, KEEPER, ENCRYPTION];
/// The owner's word for rounds without a seal; no layer of its own.
pub const OPEN: &str = "open";
/// What needs an owner's word before a device takes part: rounds without a seal, and encrypted ones.
pub const ACCEPTABLE: [&str; 2] = [OPEN, ENCRYPTION];
/// The layer under which uploads do not say whose they are.
pub const ANONYMOUS: &str = "anonymous-upload";
/// No protection, but a notice: the server retains every upload for an audit.
pub const UPLOAD_RETENTION: &str = "kept-uploads";

/// The privacy layers of a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrivacyConfig {
    /// Quantisation; noise and seals need it.
    pub quantization: Option<Quantization>,
    /// Noise, and where it is added.
    pub noise: Option<Noise>,
    /// What hides single updates from the server.
    pub seal: Option<Seal>,
}

/// How values are quantised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantization {
    /// Values are clamped to this magnitude.
    pub range: f32,
    /// Updates are clipped to this norm. `None`: not clipped.
    pub clip: Option<f32>,
    /// Updates that sums have room for.
    pub devices: u32,
    /// How rows are laid out.
    pub rows: RowLayout,
}

/// What hides single updates from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Seal {
    /// Pairwise masks that cancel in the sum.
    SecureAggregation {
        /// Share of the devices that may drop out.
        dropout: f64,
        /// Share of the devices that may collude with the server.
        colluding: f64,
        /// Whether keys are signed by identities from a roster, and survivors are confirmed.
        identities: bool,
    },
    /// Masks whose seeds a second party keeps.
    Keeper(KeeperSeal),
    /// Encrypted under a key that devices share and the server does not have.
    Encryption {
        /// The scheme.
        scheme: Scheme,
        /// The digest of the key that devices share, in hexadecimal.
        key: String,
    },
}

/// An additively homomorphic encryption scheme.
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

/// A privacy configuration that is impossible or unknown here.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PrivacyError {
    /// An unknown layer, or one in the wrong position.
    #[error("privacy layer {0:?} is not known here, or is out of order")]
    Unknown(String),
    /// A layer's setting. Fields: the layer; the setting; what it is; empty if it is missing; what would be right.
    #[error("privacy layer {0:?}: setting {1:?} is {2:?}, expected {3}")]
    Setting(&'static str, &'static str, String, &'static str),
    /// Noise or a seal without quantisation.
    #[error("privacy layer {0:?} needs the layer {QUANTIZATION:?} before it")]
    NeedsIntegers(&'static str),
    /// Noise without a bound on one person's influence on the sum.
    #[error("noise means nothing without a clip: an update may be of any length")]
    NoiseWithoutClip,
    /// Laplace noise in shares, or with an adaptive clip.
    #[error("Laplace noise goes with placement central or local and a clip that stays: {0}")]
    Laplace(&'static str),
    /// An adaptive clip without whole updates to follow.
    #[error("the clip can follow the lengths of whole updates only: not with noise = sgd")]
    VotesOnInteractions,
    /// Shares of noise without a seal.
    #[error("distributed noise needs a seal: alone, a device's share protects too little")]
    SharesInTheOpen,
    /// More devices than there is room for. Fields: devices asked; devices at most.
    #[error("a cohort of {0}, but sums have room for {1}")]
    Cohort(u32, u64),
    /// No quantisation grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// No such row layout.
    #[error(transparent)]
    Form(#[from] FormError),
    /// No parameters for secure aggregation.
    #[error("secure aggregation: {0}")]
    Masks(#[from] secagg::ParametersError),
    /// Fewer devices than a keeper opens together. Fields: devices asked; updates that are opened together, at least.
    #[error("{0} devices, but with seal = keeper no fewer than {1} updates are opened together (keeper_least)")]
    Keeper(u32, u32),
    /// No such noise.
    #[error(transparent)]
    Noise(#[from] DpError),
    /// No such encryption.
    #[error(transparent)]
    Encryption(#[from] HeError),
    /// Anonymous uploads under a seal.
    #[error(
        "anonymous uploads do not go with a seal: its masks and seats name devices, and it hides single updates already"
    )]
    AnonymousSeal,
    /// An approximate scheme where integers must be exact.
    #[error("rows in buckets are read by exact counts: they do not go with scheme = ckks, only with bfv")]
    ApproximateBuckets,
}

impl PrivacyConfig {
    /// Whether updates are sent as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether devices send whole quantised updates instead of the rows they changed.
    pub fn sends_quantized(&self) -> bool {
        self.seal.is_some() || self.noise.is_some_and(|noise| noise.placement != Placement::Central)
    }

    /// Checks that the layers are compatible.
    ///
    /// # Errors
    /// Says which are not.
    pub fn check(&self) -> Result<(), PrivacyError> {
        let Some(quantization) = &self.quantization else {
            return match (&self.noise, &self.seal) {
                (Some(_), _) => Err(PrivacyError::NeedsIntegers(NOISE)),
                (None, Some(seal)) => Err(PrivacyError::NeedsIntegers(seal.layer())),
                (None, None) => Ok(()),
            };
        };
        let is_approximate = matches!(self.seal, Some(Seal::Encryption { scheme: Scheme::Ckks, .. }));
        match self.noise {
            Some(noise) if noise.per_example.is_some() != (noise.placement == Placement::Sgd) => {
                Err(PrivacyError::NoiseWithoutClip)
            }
            Some(Noise { per_example: Some(_), count_noise: Some(_), .. }) => Err(PrivacyError::VotesOnInteractions),
            Some(noise) if quantization.clip.is_none() && noise.per_example.is_none() => {
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
            Some(_) if matches!(quantization.rows, RowLayout::Buckets(_)) => {
                Err(FormError::BucketsWithoutCounts.into())
            }
            None if matches!(quantization.rows, RowLayout::Buckets(_)) && is_approximate => {
                Err(PrivacyError::ApproximateBuckets)
            }
            _ => self.form().map(|_| ()),
        }
    }

    /// The quantisation of updates, if there is one.
    ///
    /// # Errors
    /// If there is no grid with room for all.
    pub fn form(&self) -> Result<Option<Form>, PrivacyError> {
        let Some(Quantization { range, clip, devices, rows }) = self.quantization else { return Ok(None) };
        let grid = Grid::choose(range, clip, u64::from(devices), self.noise_bound(devices))?;
        let grid = grid.measuring(self.noise.map_or(Norm::Euclidean, |noise| noise.distribution.norm()));
        // Gradients are summed on the grid, in integers of 24 bits.
        let grid = if self.per_example().is_some() { grid.within_24_bits() } else { grid };
        let votes = self.noise.is_some_and(|noise| noise.count_noise.is_some());
        Ok(Some(Form { grid, rows, counts: self.noise.is_none(), votes }))
    }

    /// The sensitivity that noise is scaled by: the norm of an update, or of an interaction's gradient.
    fn sensitivity(&self) -> f64 {
        let each = self.per_example().map(|each| each.clip);
        let longest =
            each.or(self.quantization.and_then(|quantization| quantization.clip.or(Some(quantization.range))));
        f64::from(longest.unwrap_or(0.0))
    }

    /// How single interactions are bounded (DP-SGD), if they are.
    pub fn per_example(&self) -> Option<PerExample> {
        self.noise.and_then(|noise| noise.per_example)
    }

    /// A bound on the noise in the sum of so many devices.
    fn noise_bound(&self, devices: u32) -> f64 {
        self.noise.map_or(0.0, |noise| noise.bound(devices) * self.sensitivity())
    }

    /// Standard deviation (Laplace: scale) of the noise on each device's values.
    pub(crate) fn device_noise(&self) -> f64 {
        self.noise.map_or(0.0, |noise| noise.device_noise() * self.sensitivity())
    }

    /// The same of the server's noise on the sum.
    pub(crate) fn server_noise(&self) -> f64 {
        let central = self.noise.filter(|noise| noise.placement == Placement::Central);
        central.map_or(0.0, |noise| noise.multiplier * self.sensitivity())
    }

    /// The quantiser of a layout's updates in a cohort of this size, if there is one.
    ///
    /// # Errors
    /// If there is no room for so many, or an update is too long.
    pub fn quantizer(&self, layout: &Layout, cohort: u32) -> Result<Option<Quantizer>, PrivacyError> {
        let (Some(form), Some(quantization)) = (self.form()?, self.quantization) else { return Ok(None) };
        let quantizer = Quantizer::new(layout, form)?;
        let most = quantizer.most_updates().min(u64::from(quantization.devices));
        if u64::from(cohort) > most {
            return Err(PrivacyError::Cohort(cohort, most));
        }
        Ok(Some(quantizer))
    }

    /// The configuration of secure aggregation in a round for inputs of this length, if that is the seal; bound to the
    /// terms and to the digest of the model's bytes.
    pub fn secagg_config(&self, terms: &RoundTerms, model: &[u8; 32], length: usize) -> Option<secagg::Config> {
        let Some(Seal::SecureAggregation { dropout, colluding, identities }) = self.seal else { return None };
        let length = u32::try_from(length).ok()?;
        let plain = secagg::Config::new(terms.federation, terms.round, terms.cohort_size, length);
        let plain = plain.bound_to(binding(terms, model));
        Some(secagg::Config { dropout, colluding, ..if identities { plain.signed() } else { plain } })
    }

    /// The configuration of a round with a keeper for inputs of this length, if that is the seal, and the keeper's key;
    /// bound to the terms and to the digest of the model's bytes.
    pub fn keeper_config(
        &self,
        terms: &RoundTerms,
        model: &[u8; 32],
        length: usize,
    ) -> Option<(keeper::Config, [u8; 32])> {
        let Some(Seal::Keeper(KeeperSeal { key, opener, least, identities, .. })) = self.seal else { return None };
        let (federation, round, length) = (terms.federation, terms.round, u32::try_from(length).ok()?);
        let binding = binding(terms, model);
        Some((keeper::Config { federation, round, opener, binding, length, least, signed: identities }, key))
    }

    /// That a cohort of this size can be sealed: secure aggregation needs at least three devices, and parameters for
    /// the shares of them that may drop out or collude; a keeper as many as it opens together.
    ///
    /// # Errors
    /// Says why not.
    pub fn seals(&self, cohort: u32) -> Result<(), PrivacyError> {
        if let Some(Seal::Keeper(KeeperSeal { least, .. })) = self.seal {
            let least = least.max(keeper::LEAST);
            return if cohort < least { Err(PrivacyError::Keeper(cohort, least)) } else { Ok(()) };
        }
        let Some(Seal::SecureAggregation { dropout, colluding, identities }) = self.seal else {
            return Ok(());
        };
        let threat_model = identities.then_some(secagg::ThreatModel::Malicious);
        Ok(secagg::Parameters::choose(cohort, dropout, colluding, threat_model).map(|_| ())?)
    }

    /// The encryption of quantised updates of this length, if that is the seal.
    ///
    /// # Errors
    /// If there are no parameters with room for so many devices.
    pub fn encryption(&self, length: usize) -> Result<Option<SumEncryption>, PrivacyError> {
        let (Some(Seal::Encryption { scheme, .. }), Some(quantization), Some(form)) =
            (&self.seal, &self.quantization, self.form()?)
        else {
            return Ok(None);
        };
        Ok(Some(SumEncryption::new(*scheme, quantization, self.noise_bound(1), form.grid.steps(), length)?))
    }
}

/// A digest of all that a device was told of a round: its terms and its model. The deadline is left out: it is the time
/// left, which differs from device to device.
fn binding(terms: &RoundTerms, model: &[u8; 32]) -> [u8; 32] {
    let mut encoded = Vec::new();
    codec::encode_terms(&terms.clone().with_deadline(0), &mut encoded);
    let terms = Sha256::digest(&encoded);
    Sha256::new_with_prefix(b"sottovoce terms and model 1").chain_update(terms).chain_update(model).finalize().into()
}

impl Seal {
    /// The layer's name.
    pub fn layer(&self) -> &'static str {
        match self {
            Self::SecureAggregation { .. } => SECURE_AGGREGATION,
            Self::Keeper(_) => KEEPER,
            Self::Encryption { .. } => ENCRYPTION,
        }
    }
}
