//! Settings of how updates are protected, the same for every model trained in a federation.

use super::accountant::{PrivacyAccountant, each_by_chance};
use super::{PrivacyEngine, Sampling};
use crate::FederationError;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_privacy::dp::AdaptiveClip;
use sottovoce_privacy::dp::accountant::{Budget, noise_for};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::{
    PerExample, SecureRng, Quantization, Noise, Placement, PrivacyConfig, PrivacyError, Scheme, Seal, NoiseDistribution,
};

/// The least noise that there are accountant for, in clips.
const LEAST_NOISE: f64 = 0.05;

/// What protection needs to know of a training.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Training {
    /// Updates that a round expects.
    pub(crate) expected: usize,
    /// Devices that a round asks.
    pub(crate) asked: usize,
    /// Devices that may be asked.
    pub(crate) population: usize,
    /// Rounds.
    pub(crate) rounds: u64,
    /// Whether all devices are as likely to be asked.
    pub(crate) uniform: bool,
}

/// How updates are protected, as it was set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    clip: Option<f32>,
    quantile: Option<f64>,
    clip_rate: f64,
    noise: Option<Placement>,
    distribution: NoiseDistribution,
    interactions: f64,
    multiplier: f64,
    delta: f64,
    budget: Option<f64>,
    fixed: bool,
    seal: String,
    buckets: Option<u32>,
    range: f32,
    dropout: f64,
    colluding: f64,
    identities: bool,
    anonymous: bool,
}

impl Chosen {
    /// Their definitions.
    pub(crate) fn settings() -> Vec<Setting> {
        let mut all = noises();
        all.extend(seals());
        all
    }

    /// From checked settings.
    pub(crate) fn read(settings: &Settings) -> Self {
        let above_0 = |key| Some(settings.real(key)).filter(|&value| value > 0.0);
        Self {
            clip: above_0("clip").map(|clip| clip as f32),
            quantile: above_0("clip_quantile"),
            clip_rate: settings.real("clip_rate"),
            noise: Placement::named(settings.word("noise")),
            distribution: NoiseDistribution::named(settings.word("noise_shape")).unwrap_or(NoiseDistribution::Gaussian),
            interactions: settings.real("interactions"),
            multiplier: settings.real("noise_multiplier"),
            delta: settings.real("delta"),
            budget: above_0("epsilon"),
            fixed: settings.word("sampling") == "fixed",
            seal: settings.word("seal").to_owned(),
            buckets: Some(settings.integer("buckets") as u32).filter(|&cells| cells > 0),
            range: settings.real("seal_range") as f32,
            dropout: settings.real("seal_dropout"),
            colluding: settings.real("seal_colluding"),
            identities: settings.switch("seal_identities"),
            anonymous: settings.switch("anonymous"),
        }
    }

    /// Whether nothing protects updates beyond their owners' policies.
    pub(crate) fn is_none(&self) -> bool {
        self.noise.is_none() && self.seal == "none" && !self.anonymous
    }

    /// The server's part in a training; `None` if nothing protects updates. `key` is the digest of the key that devices share,
    /// where updates are encrypted.
    ///
    /// # Errors
    /// If the layers do not go together.
    pub(crate) fn privacy_engine(
        &self,
        training: &Training,
        key: Option<&str>,
        generator: SecureRng,
    ) -> Result<Option<PrivacyEngine>, FederationError> {
        if self.identities && self.seal != "secagg" {
            return Err(FederationError::Setting {
                key: "seal_identities",
                found: format!("true with seal = {}", self.seal),
                expected: "seal = secagg: only its keys are signed".to_owned(),
            });
        }
        let &Training { expected, asked, uniform, .. } = training;
        if self.is_none() {
            return Ok(None);
        }
        if let Some(wrong) =
            key.filter(|key| !(key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit())))
        {
            return Err(FederationError::Setting {
                key: "seal_key_digest",
                found: wrong.to_owned(),
                expected: "64 hexadecimal digits, as `federation key` prints them".to_owned(),
            });
        }
        self.check_shape()?;
        let multiplier = self.multiplier(training)?;
        let adaptive = self.adaptive(multiplier, expected)?;
        let protection = self.protection(multiplier, (expected, asked), adaptive.as_ref(), key)?;
        protection.check()?;
        if self.identities {
            protection.seals(asked as u32)?;
        }
        if self.anonymous && protection.seal.is_some() {
            return Err(PrivacyError::AnonymousSeal.into());
        }
        let sampling = match (uniform, self.fixed) {
            (false, _) => Sampling::Uneven,
            (true, true) => Sampling::Fixed,
            (true, false) => Sampling::Poisson,
        };
        // What update and vote spend together.
        let spends = protection.noise.map(|noise| Noise { multiplier, ..noise });
        let accountant = spends.map(|noise| PrivacyAccountant::new(&noise, self.delta, self.budget)).transpose()?;
        let privacy_engine = PrivacyEngine::new(protection, expected, sampling, accountant, generator);
        let privacy_engine = adaptive.into_iter().fold(privacy_engine, PrivacyEngine::adapting);
        Ok(Some(if self.anonymous { privacy_engine.anonymous() } else { privacy_engine }))
    }

    /// Laplace noise on sums has accountant only where each device comes by its own chance.
    fn check_shape(&self) -> Result<(), FederationError> {
        if !(self.distribution == NoiseDistribution::Laplace && self.fixed && self.noise == Some(Placement::Central)) {
            return Ok(());
        }
        Err(FederationError::Setting {
            key: "noise_shape",
            found: "laplace with sampling = fixed".to_owned(),
            expected: "gaussian, or sampling = poisson: there are no accountant of it for cohorts of one size"
                .to_owned(),
        })
    }

    /// How much noise there is: what was set, or what the budget needs for all rounds.
    fn multiplier(&self, training: &Training) -> Result<f64, FederationError> {
        let wrong = |expected: &str| FederationError::Setting {
            key: "noise_multiplier",
            found: self.multiplier.to_string(),
            expected: expected.to_owned(),
        };
        let Some(placement) = self.noise.filter(|_| self.multiplier < LEAST_NOISE) else {
            return Ok(self.multiplier);
        };
        if self.multiplier > 0.0 {
            return Err(wrong("at least 0.05, or 0: what the budget needs"));
        }
        let Some(epsilon) = self.budget else {
            return Err(wrong("at least 0.05; 0, which is what the budget needs, goes with epsilon"));
        };
        let &Training { expected, population, rounds, uniform, .. } = training;
        let everybody = expected >= population;
        let rate = match placement {
            _ if self.fixed && placement.protects_sums() && !everybody => {
                return Err(wrong("at least 0.05: 0 goes with sampling = poisson"));
            }
            Placement::Local | Placement::Sgd if !everybody => {
                return Err(wrong(
                    "at least 0.05: 0 goes with noise on sums, or with all devices in each round; how often one will take part is not known",
                ));
            }
            Placement::Sgd => self.interactions,
            Placement::Central | Placement::Distributed if uniform && !everybody => {
                expected as f64 / population as f64
            }
            _ => 1.0,
        };
        let noise = Noise { distribution: self.distribution, ..Noise::new(placement, 1.0) };
        Ok(noise_for(&Budget::new(epsilon, self.delta)?, each_by_chance(&noise, rate), rounds)?)
    }

    /// How the clip follows the lengths of updates, if it does.
    fn adaptive(&self, multiplier: f64, expected: usize) -> Result<Option<AdaptiveClip>, FederationError> {
        let Some(quantile) = self.quantile else { return Ok(None) };
        let wrong = |expected: &str| FederationError::Setting {
            key: "clip_quantile",
            found: quantile.to_string(),
            expected: expected.to_owned(),
        };
        let (Some(clip), Some(placement)) = (self.clip, self.noise) else {
            return Err(wrong(
                "0, or a clip to begin with and noise: what updates say of their lengths is hidden in it",
            ));
        };
        // Of the count of updates within the clip: the paper's twentieth of a cohort, and enough that little of the noise on
        // updates is made up for.
        let count_noise = match placement {
            Placement::Central | Placement::Distributed => (expected as f64 / 20.0).max(2.0 * multiplier),
            Placement::Local => 2.0 * multiplier,
            Placement::Sgd => return Err(wrong("0: with noise = sgd no update is clipped as a whole")),
        };
        Ok(Some(AdaptiveClip::new(f64::from(clip), quantile, self.clip_rate, count_noise)?))
    }

    fn protection(
        &self,
        multiplier: f64,
        (expected, asked): (usize, usize),
        adaptive: Option<&AdaptiveClip>,
        key: Option<&str>,
    ) -> Result<PrivacyConfig, FederationError> {
        let multiplier = match adaptive {
            Some(adaptive) => adaptive.update_multiplier(multiplier)?,
            None => multiplier,
        };
        let noise = self.noise.map(|placement| Noise {
            shares: match placement {
                Placement::Distributed => ((expected as f64 * (1.0 - self.dropout)).floor() as u32).max(1),
                _ => 1,
            },
            distribution: self.distribution,
            count_noise: adaptive.map(AdaptiveClip::vote_noise),
            per_example: self
                .clip
                .filter(|_| placement == Placement::Sgd)
                .map(|clip| PerExample { clip, rate: self.interactions }),
            ..Noise::new(placement, multiplier)
        });
        let by_chance = noise.is_some_and(|noise| noise.placement.protects_sums()) && !self.fixed;
        let devices = if by_chance { with_luck(asked) } else { asked };
        let rows = self.buckets.map_or(RowLayout::Dense, RowLayout::Buckets);
        let clip = self.clip.filter(|_| self.noise != Some(Placement::Sgd));
        let integers = Quantization { range: self.range, clip, devices: devices as u32, rows };
        let encrypted = |scheme| Seal::Encryption { scheme, key: key.unwrap_or(&"0".repeat(64)).to_owned() };
        let seal = match self.seal.as_str() {
            "secagg" => Some(Seal::SecureAggregation {
                dropout: self.dropout,
                colluding: self.colluding,
                identities: self.identities,
            }),
            "bfv" => Some(encrypted(Scheme::Bfv)),
            "ckks" => Some(encrypted(Scheme::Ckks)),
            _ => None,
        };
        Ok(PrivacyConfig { quantization: Some(integers), noise, seal })
    }
}

/// Devices that come where each comes by its own chance: more than this in one of 10^14 rounds.
fn with_luck(expected: usize) -> usize {
    expected + (8.0 * (expected as f64).sqrt()).ceil() as usize + 8
}

fn noises() -> Vec<Setting> {
    vec![
        Setting::choice(
            "noise",
            &["none", "central", "local", "distributed", "sgd"],
            "Differential privacy: noise of whole histories by the server on the sum, by each device, or by each device its share (with a seal); or of single interactions, by each device in its training (sgd)",
        ),
        Setting::choice(
            "noise_shape",
            &["gaussian", "laplace"],
            "With noise: how it is distributed; laplace, with noise = central or local, measures updates by the sum of their absolute values",
        ),
        Setting::real(
            "clip",
            0.0,
            0.0..=1e6,
            "The longest update (norm of all its values), or with noise = sgd the longest gradient of an interaction; longer ones are partition down; 0: any",
        ),
        Setting::real(
            "clip_quantile",
            0.0,
            0.0..=1.0,
            "With noise: from round to round the clip moves to where this share of the updates is within it; 0: it stays",
        ),
        Setting::real("clip_rate", 0.2, 0.0..=10.0, "With clip_quantile: how fast"),
        Setting::real(
            "interactions",
            1.0,
            1e-6..=1.0,
            "With noise = sgd: the chance with which an interaction is learnt from in a round",
        )
        .on_log_scale(),
        Setting::real(
            "noise_multiplier",
            1.0,
            0.0..=1e4,
            "With noise: its standard deviation (laplace: its scale), in clips; 0: as little as epsilon allows over all rounds",
        ),
        Setting::real("delta", 1e-5, 1e-12..=0.1, "With noise: the delta for which epsilon is told")
            .on_log_scale(),
        Setting::real(
            "epsilon",
            0.0,
            0.0..=1e6,
            "With noise: training ends before it would spend more than this; 0: no bound",
        ),
        Setting::choice(
            "sampling",
            &["poisson", "fixed"],
            "With noise on sums: each device comes by its own chance, or cohorts have one size",
        ),
    ]
}

fn seals() -> Vec<Setting> {
    vec![
        Setting::choice(
            "seal",
            &["none", "secagg", "bfv", "ckks"],
            "What keeps the server from single updates: masks that cancel in the sum, or encryption under a key that devices share",
        ),
        Setting::integer(
            "buckets",
            0,
            0..=100_000_000,
            "With a seal: rows in so many hashed buckets a table instead of whole tables; 0: whole tables",
        ),
        Setting::real(
            "seal_range",
            8.0,
            1e-6..=1e6,
            "With a seal or noise: the largest value; larger ones are partition",
        )
        .on_log_scale(),
        Setting::real(
            "seal_dropout",
            0.3,
            0.0..=0.9,
            "With seal = secagg: share of a cohort that may be lost on the way",
        ),
        Setting::real(
            "seal_colluding",
            0.1,
            0.0..=0.9,
            "With seal = secagg: share of a cohort that may work with the server",
        ),
        Setting::switch(
            "seal_identities",
            false,
            "With seal = secagg: keys are signed by identities that devices know from elsewhere than the server, and who is counted is confirmed",
        ),
        Setting::switch(
            "anonymous",
            false,
            "Without a seal: uploads carry a one-time token of their round instead of the device's credential",
        ),
    ]
}
