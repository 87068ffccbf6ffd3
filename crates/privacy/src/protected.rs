//! What both halves of a protected round go by.

use crate::dp::DpError;
use crate::dp::noise::{Discrete, DiscreteGaussian, DiscreteLaplace, Noise as _};
use crate::quantize::{Quantizer, BucketOverflow, to_signed};
use crate::{SecureRng, SumEncryption, Placement, PrivacyConfig, PrivacyError, Seal, NoiseDistribution, secagg};
use sottovoce_protocol::{Layout, Update};

/// Bytes of a message around its words: names of federation and round, lengths, a check.
const FRAME: u64 = 64;

/// How the updates of a layout are protected.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivacyMechanism {
    config: PrivacyConfig,
    quantizer: Quantizer,
    /// What each device adds.
    device_noise: OnGrid,
    /// What the server adds.
    server_noise: OnGrid,
    /// Where words are encrypted.
    encryption: Option<SumEncryption>,
}

/// Noise on words: on values, in steps of the grid, and on the vote of an update's length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OnGrid {
    values: Option<Discrete>,
    vote: Option<Discrete>,
}

impl OnGrid {
    fn new(shape: NoiseDistribution, values: f64, vote: f64) -> Result<Self, DpError> {
        let discrete = |steps: f64| match shape {
            NoiseDistribution::Gaussian => DiscreteGaussian::new(steps).map(Discrete::Gaussian),
            NoiseDistribution::Laplace => DiscreteLaplace::new(steps).map(Discrete::Laplace),
        };
        let noise = |steps: f64| (steps > 0.0).then(|| discrete(steps)).transpose();
        Ok(Self { values: noise(values)?, vote: noise(vote)? })
    }

    /// The noise of one word.
    fn draw(noise: Option<&Discrete>, generator: &mut SecureRng) -> i64 {
        noise.map_or(0, |noise| noise.sample(generator))
    }
}

impl PrivacyMechanism {
    /// For updates of this layout in a cohort of this size; `None` if nothing protects them.
    ///
    /// # Errors
    /// If the layers do not go together, or leave no room.
    pub fn new(
        config: &PrivacyConfig,
        layout: &Layout,
        cohort: u32,
    ) -> Result<Option<Self>, PrivacyError> {
        config.check()?;
        let Some(quantizer) = config.quantizer(layout, cohort)? else { return Ok(None) };
        let (noise, steps) = (config.noise, quantizer.form().grid.steps());
        let central = noise.filter(|noise| noise.placement == Placement::Central);
        let lock = config.encryption(quantizer.length())?;
        let shape = noise.map_or(NoiseDistribution::Gaussian, |noise| noise.distribution);
        let device_count_noise = noise.map_or(0.0, |noise| noise.device_count_noise());
        let of_votes = central.and_then(|noise| noise.count_noise).unwrap_or(0.0);
        Ok(Some(Self {
            encryption: lock,
            device_noise: OnGrid::new(shape, config.device_noise() * steps, device_count_noise)?,
            server_noise: OnGrid::new(shape, config.server_noise() * steps, of_votes)?,
            config: config.clone(),
            quantizer,
        }))
    }

    /// Which layers there are.
    pub fn config(&self) -> &PrivacyConfig {
        &self.config
    }

    /// How updates become integers.
    pub fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// Whether devices send words: all of them, instead of the rows that they touched.
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

    /// Steps of the grid in one, where gradients of interactions are added up on it.
    pub fn steps(&self) -> f64 {
        self.quantizer.form().grid.steps()
    }

    /// Adds a device's noise to sums on the grid that stay with it.
    pub fn add_noise(&self, generator: &mut SecureRng, sums: &mut [i64]) {
        for sum in sums {
            *sum += OnGrid::draw(self.device_noise.values.as_ref(), generator);
        }
    }

    /// How words are encrypted, if they are.
    pub fn encryption(&self) -> Option<&SumEncryption> {
        self.encryption.as_ref()
    }

    /// Bytes of the message that holds a device's words, at most.
    pub fn message_bytes(&self) -> u64 {
        let words = FRAME + 4 * self.quantizer.length() as u64;
        self.encryption.as_ref().map_or(words, SumEncryption::bytes)
    }

    /// Bytes that a device of a cohort of this size sends in a round, all messages of the seal together. The two devices that
    /// open an encrypted sum send its words on top.
    pub fn upload_bytes(&self, cohort: u32) -> u64 {
        let beside = match self.config.seal {
            Some(Seal::SecureAggregation { dropout, colluding, identities }) => {
                secagg::overhead_bytes(cohort, dropout, colluding, identities)
            }
            _ => 0,
        };
        self.message_bytes() + beside
    }

    /// All words of a device's update, with its noise.
    pub fn quantize(&self, update: &Update, generator: &mut SecureRng, into: &mut Vec<u32>) {
        into.clear();
        into.resize(self.quantizer.length(), 0);
        self.quantizer.quantize(update, |place, word| into[place] = into[place].wrapping_add(word));
        if self.adds_noise() {
            for (place, word) in into.iter_mut().enumerate() {
                let noise = OnGrid::draw(self.noise_at(&self.device_noise, place), generator);
                *word = word.wrapping_add(noise as u32);
            }
        }
    }

    fn noise_at<'a>(&self, noise: &'a OnGrid, place: usize) -> Option<&'a Discrete> {
        let vote = self.quantizer.vote() == Some(place);
        if vote { noise.vote.as_ref() } else { noise.values.as_ref() }
    }

    /// Reads a sum of so many devices' words with the server's noise: table, row, how many updates had it, and its sum. Returns
    /// what updates say of their lengths, noise included, where the clip follows them.
    ///
    /// # Errors
    /// If there are more rows than the buckets hold.
    pub fn read(
        &self,
        sum: &[u32],
        updates: u32,
        generator: &mut SecureRng,
        each: impl FnMut(usize, usize, u32, &[f32]),
    ) -> Result<Option<i64>, BucketOverflow> {
        let mut sum = to_signed(sum);
        if self.server_noise.values.is_some() {
            for (place, sum) in sum.iter_mut().enumerate() {
                *sum += OnGrid::draw(self.noise_at(&self.server_noise, place), generator);
            }
        }
        self.quantizer.dequantize(&sum, updates, each)?;
        Ok(self.quantizer.vote().map(|place| sum[place]))
    }
}
