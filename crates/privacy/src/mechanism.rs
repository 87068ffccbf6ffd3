//! The privacy mechanism of a round: quantisation, noise and seal, for device and server.

use crate::dp::DpError;
use crate::dp::noise::{Discrete, DiscreteGaussian, DiscreteLaplace, Noise as _};
use crate::keeper::Upload;
use crate::quantize::{BucketOverflow, Quantizer, to_signed};
use crate::{NoiseDistribution, Placement, PrivacyConfig, PrivacyError, Seal, SecureRng, SumEncryption, secagg};
use sottovoce_protocol::{Layout, Update};

/// Bytes of a message around its integers.
const OVERHEAD: u64 = 64;

/// A [`PrivacyConfig`] applied to the updates of a layout: both halves of every layer.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivacyMechanism {
    config: PrivacyConfig,
    quantizer: Quantizer,
    /// Drawn by each device.
    device_noise: GridNoise,
    /// Drawn by the server.
    server_noise: GridNoise,
    /// If that is the seal.
    encryption: Option<SumEncryption>,
}

/// Noise on integers: on values, in steps of the grid, and on the clip indicator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct GridNoise {
    values: Option<Discrete>,
    indicator: Option<Discrete>,
}

impl GridNoise {
    fn new(shape: NoiseDistribution, values: f64, indicator: f64) -> Result<Self, DpError> {
        let discrete = |steps: f64| match shape {
            NoiseDistribution::Gaussian => DiscreteGaussian::new(steps).map(Discrete::Gaussian),
            NoiseDistribution::Laplace => DiscreteLaplace::new(steps).map(Discrete::Laplace),
        };
        let noise = |steps: f64| (steps > 0.0).then(|| discrete(steps)).transpose();
        Ok(Self { values: noise(values)?, indicator: noise(indicator)? })
    }

    /// One draw.
    fn draw(noise: Option<&Discrete>, rng: &mut SecureRng) -> i64 {
        noise.map_or(0, |noise| noise.sample(rng))
    }
}

impl PrivacyMechanism {
    /// For updates of this layout in a cohort of this size; `None` without quantisation.
    ///
    /// # Errors
    /// If the layers are incompatible, or leave no room.
    pub fn new(config: &PrivacyConfig, layout: &Layout, cohort: u32) -> Result<Option<Self>, PrivacyError> {
        config.check()?;
        let Some(quantizer) = config.quantizer(layout, cohort)? else { return Ok(None) };
        let (noise, steps) = (config.noise, quantizer.form().grid.steps());
        let central = noise.filter(|noise| noise.placement == Placement::Central);
        let encryption = config.encryption(quantizer.length())?;
        let shape = noise.map_or(NoiseDistribution::Gaussian, |noise| noise.distribution);
        let device_count_noise = noise.map_or(0.0, |noise| noise.device_count_noise());
        let server_count = central.and_then(|noise| noise.count_noise).unwrap_or(0.0);
        Ok(Some(Self {
            encryption,
            device_noise: GridNoise::new(shape, config.device_noise() * steps, device_count_noise)?,
            server_noise: GridNoise::new(shape, config.server_noise() * steps, server_count)?,
            config: config.clone(),
            quantizer,
        }))
    }

    /// Its configuration.
    pub fn config(&self) -> &PrivacyConfig {
        &self.config
    }

    /// How updates are quantised.
    pub fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// Whether devices send whole quantised updates instead of the rows they changed.
    pub fn sends_quantized(&self) -> bool {
        self.config.sends_quantized()
    }

    /// Whether the server sees sums only.
    pub fn is_sealed(&self) -> bool {
        self.config.seal.is_some()
    }

    /// Whether devices add noise.
    pub fn adds_noise(&self) -> bool {
        self.device_noise.values.is_some()
    }

    /// Steps of the grid in 1, for gradients that are summed on it (DP-SGD).
    pub fn steps(&self) -> f64 {
        self.quantizer.form().grid.steps()
    }

    /// Adds a device's noise to sums on the grid (DP-SGD).
    pub fn add_noise(&self, rng: &mut SecureRng, sums: &mut [i64]) {
        for sum in sums {
            *sum += GridNoise::draw(self.device_noise.values.as_ref(), rng);
        }
    }

    /// How quantised updates are encrypted, if they are.
    pub fn encryption(&self) -> Option<&SumEncryption> {
        self.encryption.as_ref()
    }

    /// Bytes of the message with a device's quantised update, at most.
    pub fn message_bytes(&self) -> u64 {
        let words = OVERHEAD + 4 * self.quantizer.length() as u64;
        self.encryption.as_ref().map_or(words, SumEncryption::bytes)
    }

    /// Bytes that a device in a cohort of this size sends in a round, in all messages of the seal. The two devices that
    /// decrypt an encrypted sum send its integers on top.
    pub fn upload_bytes(&self, cohort: u32) -> u64 {
        let beside = match self.config.seal {
            Some(Seal::SecureAggregation { dropout, colluding, identities }) => {
                secagg::overhead_bytes(cohort, dropout, colluding, identities)
            }
            Some(Seal::Keeper(kept)) => Upload::overhead_bytes(kept.identities),
            _ => 0,
        };
        self.message_bytes() + beside
    }

    /// Quantises a device's update and adds its noise.
    pub fn quantize(&self, update: &Update, rng: &mut SecureRng, into: &mut Vec<u32>) {
        into.clear();
        into.resize(self.quantizer.length(), 0);
        self.quantizer.quantize(update, |position, word| into[position] = into[position].wrapping_add(word));
        if self.adds_noise() {
            for (position, word) in into.iter_mut().enumerate() {
                let noise = GridNoise::draw(self.noise_at(&self.device_noise, position), rng);
                *word = word.wrapping_add(noise as u32);
            }
        }
    }

    fn noise_at<'a>(&self, noise: &'a GridNoise, position: usize) -> Option<&'a Discrete> {
        let indicator = self.quantizer.indicator() == Some(position);
        if indicator { noise.indicator.as_ref() } else { noise.values.as_ref() }
    }

    /// Dequantises a sum of so many devices' updates with the server's noise; calls `each` with table, row, how many
    /// updates had it, and its sum. Returns the noised sum of clip indicators where the clip is adaptive.
    ///
    /// # Errors
    /// If there are more rows than the buckets hold.
    pub fn read(
        &self,
        sum: &[u32],
        updates: u32,
        rng: &mut SecureRng,
        each: impl FnMut(usize, usize, u32, &[f32]),
    ) -> Result<Option<i64>, BucketOverflow> {
        let mut sum = to_signed(sum);
        if self.server_noise.values.is_some() {
            for (position, sum) in sum.iter_mut().enumerate() {
                *sum += GridNoise::draw(self.noise_at(&self.server_noise, position), rng);
            }
        }
        self.quantizer.dequantize(&sum, updates, each)?;
        Ok(self.quantizer.indicator().map(|position| sum[position]))
    }
}
