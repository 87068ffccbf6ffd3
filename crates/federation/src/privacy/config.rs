//! Settings of how updates are protected, the same for every model trained in a federation.

use super::accountant::{PrivacyAccountant, each_by_chance};
use super::{PrivacyEngine, Sampling};
use crate::FederationError;
use sottovoce_models::federated::BudgetShare;
use sottovoce_models::settings::Choice as _;
use sottovoce_models::{choices, config};
use sottovoce_privacy::dp::AdaptiveClip;
use sottovoce_privacy::dp::accountant::{Budget, BudgetedRounds, Round, noise_for, noise_for_parts};
use sottovoce_privacy::keeper::{self, KeeperSeal};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::{
    Noise, NoiseDistribution, PerExample, Placement, PrivacyConfig, PrivacyError, Quantization, Scheme, Seal, SecureRng,
};

/// The fraction of a cohort without which a keeper opens nothing, by default.
const KEEPER_LEAST: f64 = 0.3;

/// Which keeper a federation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperKeys {
    /// The keeper's public key.
    pub key: [u8; 32],
    /// Digest of the secret by which the server has rounds opened.
    pub opener: [u8; 32],
}

/// Of nobody: a key whose secret everybody knows, for simulations, in which nothing is sealed.
impl Default for KeeperKeys {
    fn default() -> Self {
        let mut key = [0; 32];
        key[0] = 9;
        Self { key, opener: [0; 32] }
    }
}

/// Keys that a seal needs; each matters to one kind of seal only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SealKeys<'a> {
    /// Where updates are encrypted: the digest of the key that devices share.
    pub(crate) shared: Option<&'a str>,
    pub(crate) keeper: KeeperKeys,
}

/// How a choice between candidates shares the budget: by the fraction of what 1 / s^2 adds up to.
struct ChoiceShares {
    first: f64,
    comparison: f64,
    last: f64,
}

/// The comparison is a mean over everybody of a few values, and needs little. What the first trainings find is only
/// compared.
const CHOICE: ChoiceShares = ChoiceShares { first: 0.25, comparison: 0.05, last: 0.7 };

/// The least noise that the accountant knows, in clips.
const MIN_NOISE: f64 = 0.05;

/// A server seals the updates of rounds of so many devices unless its operator says otherwise (docs/decisions/0042).
pub const SEALED_FROM: usize = 100;

choices! {
    /// Where noise is added.
    #[derive(Default)]
    pub(crate) enum NoiseKind {
        /// Nowhere.
        #[default]
        None => "none",
        /// By the server, on sums.
        Central => "central",
        /// By each device.
        Local => "local",
        /// By each device its share, under a seal.
        Distributed => "distributed",
        /// By each device in training (DP-SGD).
        Sgd => "sgd",
    }
}

choices! {
    /// How noise is distributed.
    #[derive(Default)]
    pub(crate) enum NoiseShape {
        /// Gaussian.
        #[default]
        Gaussian => "gaussian",
        /// Laplace.
        Laplace => "laplace",
    }
}

choices! {
    /// How cohorts are sampled.
    #[derive(Default)]
    pub(crate) enum SamplingKind {
        /// Each device independently.
        #[default]
        Poisson => "poisson",
        /// Cohorts of one size.
        Fixed => "fixed",
    }
}

choices! {
    /// What seals updates.
    #[derive(Default)]
    pub(crate) enum SealKind {
        /// Nothing.
        #[default]
        None => "none",
        /// Secure aggregation.
        Secagg => "secagg",
        /// Masks with a keeper.
        Keeper => "keeper",
        /// BFV encryption.
        Bfv => "bfv",
        /// CKKS-style encryption.
        Ckks => "ckks",
    }
}

config! {
    /// How updates are protected: differential privacy, secure aggregation, encryption.
    pub(crate) struct PrivacySettings in Privacy {
        /// Differential privacy: noise for whole histories, by the server on the sum, by each device, or by each device
        /// its share (with a seal); or for single interactions, by each device in training (sgd)
        pub(crate) noise: NoiseKind = NoiseKind::None;
        /// With noise: its distribution; laplace, with noise = central or local, bounds updates by their L1 norm
        pub(crate) noise_shape: NoiseShape = NoiseShape::Gaussian;
        /// The largest norm of an update, or with noise = sgd of an interaction's gradient; longer ones are clipped;
        /// 0: any
        clip: Option<f64> = None, in 0.0..=1e6;
        /// With noise: adapt the clip from round to round to this quantile of the updates' norms; 0: keep it
        clip_quantile: Option<f64> = None, in 0.0..=1.0;
        /// With clip_quantile: learning rate of the clip
        clip_learning_rate: f64 = 0.2, in 0.0..=10.0 => [was("clip_rate")];
        /// With noise = sgd: probability that an interaction is sampled in a round
        interactions: f64 = 1.0, in 1e-6..=1.0 => [log];
        /// With noise: its standard deviation (laplace: its scale), in clips; 0: as little as epsilon allows over all
        /// rounds
        noise_multiplier: f64 = 1.0, in 0.0..=1e4;
        /// With noise: the delta for which epsilon is reported
        delta: f64 = 1e-5, in 1e-12..=0.1 => [log];
        /// With noise: privacy budget; training ends before it would spend more; 0: no bound
        epsilon: Option<f64> = None, in 0.0..=1e6;
        /// With noise on sums: sample each device independently, or cohorts of one size
        sampling: SamplingKind = SamplingKind::Poisson;
        /// What hides single updates: secure aggregation, which a server takes for cohorts of 100 or more if this is
        /// not set; masks with a keeper, a second party, for which devices come once; or encryption under a key that
        /// devices share, which protects a stolen database, not from a server that lies
        pub(crate) seal: SealKind = SealKind::None;
        /// With a seal: hash rows into this many buckets per table instead of sending whole tables; 0: whole tables
        buckets: Option<usize> = None, in 0..=100_000_000;
        /// With a seal or noise: quantisation range; larger values are clipped
        seal_range: f64 = 8.0, in 1e-6..=1e6 => [log];
        /// With seal = secagg or keeper: fraction of a cohort that may drop out; with a keeper it sets the shares of
        /// noise alone
        seal_dropout: f64 = 0.3, in 0.0..=0.9;
        /// With seal = secagg or keeper: fraction of a cohort that may collude with the server
        seal_colluding: f64 = 0.1, in 0.0..=0.9;
        /// With seal = secagg: devices sign their keys with identities that they know of each other without the server,
        /// and confirm who is counted; with seal = keeper: they sign for the keeper, which knows them
        seal_identities: bool = false;
        /// With seal = keeper: the fewest updates that are opened together; 0: 30 % of a cohort, and with noise =
        /// distributed as many as there are shares of it
        keeper_least: Option<usize> = None, in 0..=1_000_000;
        /// Without a seal: uploads carry a one-time token of their round instead of the device's credential
        anonymous: bool = false;
    }
}

impl PrivacySettings {
    fn placement(&self) -> Option<Placement> {
        Placement::named(self.noise.name())
    }

    fn distribution(&self) -> NoiseDistribution {
        match self.noise_shape {
            NoiseShape::Gaussian => NoiseDistribution::Gaussian,
            NoiseShape::Laplace => NoiseDistribution::Laplace,
        }
    }

    fn fixed_cohorts(&self) -> bool {
        self.sampling == SamplingKind::Fixed
    }

    /// The clip, in the precision of updates.
    fn clip(&self) -> Option<f32> {
        self.clip.map(|clip| clip as f32)
    }

    /// Whether nothing protects updates beyond their owners' policies.
    pub(crate) fn is_none(&self) -> bool {
        self.noise == NoiseKind::None && self.seal == SealKind::None && !self.anonymous
    }

    /// The server's part in a training of so many rounds, each of which expects so many updates and asks so many
    /// devices of a population, `uniform` if all are as likely to be asked; `None` if nothing protects updates.
    ///
    /// # Errors
    /// If the layers do not go together.
    pub(crate) fn engine(
        &self,
        (expected, asked, population): (usize, usize, usize),
        (rounds, uniform): (u64, bool),
        shares: &'static [BudgetShare],
        keys: &SealKeys<'_>,
        generator: SecureRng,
    ) -> Result<Option<PrivacyEngine>, FederationError> {
        if self.seal_identities && !matches!(self.seal, SealKind::Secagg | SealKind::Keeper) {
            let found = format!("true with seal = {}", self.seal.name());
            let expected = "seal = secagg or keeper: only their keys and seeds are signed";
            return Err(FederationError::setting("seal_identities", found, expected));
        }
        if self.is_none() {
            return Ok(None);
        }
        if let Some(wrong) = keys.shared.filter(|key| !(key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit())))
        {
            let expected = "64 hexadecimal digits, as `federation key` prints them";
            return Err(FederationError::setting("seal_key_digest", wrong, expected));
        }
        self.check_shape()?;
        self.check_shares(shares, expected >= population)?;
        let rounds = if shares.is_empty() { rounds } else { 1 };
        let multiplier = self.noise_multiplier((expected, population), rounds, uniform)?;
        let adaptive = self.adaptive(multiplier, expected)?;
        let protection = self.protection(multiplier, (expected, asked), adaptive.as_ref(), keys)?;
        protection.check()?;
        if self.seal_identities && self.seal == SealKind::Secagg {
            protection.seals(asked as u32)?;
        }
        if self.anonymous && protection.seal.is_some() {
            return Err(PrivacyError::AnonymousSeal.into());
        }
        let sampling = match (uniform, self.fixed_cohorts()) {
            (false, _) => Sampling::Uneven,
            (true, true) => Sampling::Fixed,
            (true, false) => Sampling::Poisson,
        };
        // What update and vote spend together.
        let spends = protection.noise.map(|noise| Noise { multiplier, ..noise });
        let accountant = spends.map(|noise| PrivacyAccountant::new(&noise, self.delta, self.epsilon)).transpose()?;
        let privacy_engine = PrivacyEngine::new(protection, expected, sampling, accountant, generator);
        let privacy_engine = adaptive.into_iter().fold(privacy_engine, PrivacyEngine::adapting);
        let privacy_engine = privacy_engine.sharing(shares);
        Ok(Some(if self.anonymous { privacy_engine.anonymous() } else { privacy_engine }))
    }

    /// Where rounds share the budget unequally, what one may spend is known only if everybody is in each of them, and
    /// the clip stays.
    fn check_shares(&self, shares: &[BudgetShare], everybody: bool) -> Result<(), FederationError> {
        if shares.is_empty() || self.noise == NoiseKind::None {
            return Ok(());
        }
        if self.noise_multiplier == 0.0 && !everybody {
            let expected = "at least 0.05, or all devices in each round: this model's rounds share epsilon unequally";
            return Err(FederationError::setting("noise_multiplier", "0", expected));
        }
        if let Some(quantile) = self.clip_quantile {
            let expected = "0: no update of this model is longer than 1, so that there is nothing to adapt to";
            return Err(FederationError::setting("clip_quantile", quantile.to_string(), expected));
        }
        Ok(())
    }

    /// The same for a model whose updates are never longer than this, where there is noise and no smaller clip.
    pub(crate) fn bounded(&self, sensitivity: Option<f32>) -> Self {
        let clip = self.clip.or(sensitivity.map(f64::from).filter(|_| self.noise != NoiseKind::None));
        Self { clip, ..self.clone() }
    }

    /// Laplace noise on sums has accountant only where each device comes by its own chance.
    fn check_shape(&self) -> Result<(), FederationError> {
        if !(self.noise_shape == NoiseShape::Laplace && self.fixed_cohorts() && self.noise == NoiseKind::Central) {
            return Ok(());
        }
        let expected = "gaussian, or sampling = poisson: there are no accountant of it for cohorts of one size";
        Err(FederationError::setting("noise_shape", "laplace with sampling = fixed", expected))
    }

    /// How much noise there is: what was set, or what the budget needs for all rounds.
    pub(crate) fn noise_multiplier(
        &self,
        sizes: (usize, usize),
        rounds: u64,
        uniform: bool,
    ) -> Result<f64, FederationError> {
        match self.budgeted(sizes, uniform)? {
            Some((budget, round)) => Ok(noise_for(&budget, round, rounds)?),
            None => Ok(self.noise_multiplier),
        }
    }

    /// Standard deviation of noise of this multiplier on the sum of so many updates, in clips; 0 where it does not hide
    /// whole histories.
    pub(crate) fn noise_on_sums(&self, multiplier: f64, updates: usize) -> f64 {
        match self.placement() {
            Some(Placement::Central | Placement::Distributed) => multiplier,
            Some(Placement::Local) => multiplier * (updates as f64).sqrt(),
            Some(Placement::Sgd) | None => 0.0,
        }
    }

    /// The noise of a choice between candidates: of each of so many first trainings, of the comparison, and of the last
    /// training; what was set, or what the budget needs for all of them together.
    pub(crate) fn choice_noise(
        &self,
        sizes: (usize, usize),
        (rounds, uniform): (u64, bool),
        trainings: u64,
    ) -> Result<[f64; 3], FederationError> {
        let Some((budget, round)) = self.budgeted(sizes, uniform)? else { return Ok([self.noise_multiplier; 3]) };
        let comparison = match self.distribution() {
            NoiseDistribution::Gaussian => Round::Poisson { rate: 1.0, multiplier: 1.0 },
            NoiseDistribution::Laplace => Round::Laplace { rate: 1.0, scale: 1.0 },
        };
        let first = (trainings as f64 * CHOICE.last / CHOICE.first).sqrt();
        let last = CHOICE.last + if trainings == 0 { CHOICE.first } else { 0.0 };
        let compared = (last / CHOICE.comparison).sqrt();
        let mut parts = vec![
            BudgetedRounds { round, rounds, times: 1.0 },
            BudgetedRounds { round: comparison, rounds: 1, times: compared },
        ];
        if trainings > 0 {
            parts.push(BudgetedRounds { round, rounds: rounds * trainings, times: first });
        }
        let noise = noise_for_parts(&budget, &parts)?;
        Ok([first, compared, 1.0].map(|times| times * noise))
    }

    /// The budget and a round, where the noise follows from them.
    fn budgeted(
        &self,
        (expected, population): (usize, usize),
        uniform: bool,
    ) -> Result<Option<(Budget, Round)>, FederationError> {
        let wrong =
            |expected: &str| FederationError::setting("noise_multiplier", self.noise_multiplier.to_string(), expected);
        let Some(placement) = self.placement().filter(|_| self.noise_multiplier < MIN_NOISE) else {
            return Ok(None);
        };
        if self.noise_multiplier > 0.0 {
            return Err(wrong("at least 0.05, or 0: what the budget needs"));
        }
        let Some(epsilon) = self.epsilon else {
            return Err(wrong("at least 0.05; 0, which is what the budget needs, goes with epsilon"));
        };
        let everybody = expected >= population;
        let rate = match placement {
            _ if self.fixed_cohorts() && placement.protects_sums() && !everybody => {
                return Err(wrong("at least 0.05: 0 goes with sampling = poisson"));
            }
            Placement::Local | Placement::Sgd if !everybody => {
                return Err(wrong(
                    "at least 0.05: 0 goes with noise on sums, or with all devices in each round; how often one will take part is not known",
                ));
            }
            Placement::Sgd => self.interactions,
            Placement::Central | Placement::Distributed if uniform && !everybody => expected as f64 / population as f64,
            _ => 1.0,
        };
        let noise = Noise { distribution: self.distribution(), ..Noise::new(placement, 1.0) };
        Ok(Some((Budget::new(epsilon, self.delta)?, each_by_chance(&noise, rate))))
    }

    /// How the clip follows the lengths of updates, if it does.
    fn adaptive(&self, multiplier: f64, expected: usize) -> Result<Option<AdaptiveClip>, FederationError> {
        let Some(quantile) = self.clip_quantile else { return Ok(None) };
        let wrong = |expected: &str| FederationError::setting("clip_quantile", quantile.to_string(), expected);
        let (Some(clip), Some(placement)) = (self.clip(), self.placement()) else {
            return Err(wrong(
                "0, or a clip to begin with and noise: what updates say of their lengths is hidden in it",
            ));
        };
        // Of the count of updates within the clip: the paper's twentieth of a cohort, and enough that little of the
        // noise on updates is made up for.
        let count_noise = match placement {
            Placement::Central | Placement::Distributed => (expected as f64 / 20.0).max(2.0 * multiplier),
            Placement::Local => 2.0 * multiplier,
            Placement::Sgd => return Err(wrong("0: with noise = sgd no update is clipped as a whole")),
        };
        Ok(Some(AdaptiveClip::new(f64::from(clip), quantile, self.clip_learning_rate, count_noise)?))
    }

    /// The fewest updates that a keeper opens together, where so many are expected and so many shares make up the
    /// noise: with fewer a sum would have less than all of it.
    fn keeper_least(&self, expected: usize, shares: u32) -> Result<u32, FederationError> {
        let least = match self.keeper_least {
            Some(least) if least < shares as usize => {
                let expected = format!(
                    "at least {shares}, which are the shares of noise that a sum must have; or more seal_dropout"
                );
                return Err(FederationError::setting("keeper_least", least.to_string(), expected));
            }
            Some(least) => least as u32,
            None => ((expected as f64 * KEEPER_LEAST).ceil() as u32).max(shares),
        };
        Ok(least.max(keeper::LEAST))
    }

    fn protection(
        &self,
        multiplier: f64,
        (expected, asked): (usize, usize),
        adaptive: Option<&AdaptiveClip>,
        keys: &SealKeys<'_>,
    ) -> Result<PrivacyConfig, FederationError> {
        let multiplier = match adaptive {
            Some(adaptive) => adaptive.update_multiplier(multiplier)?,
            None => multiplier,
        };
        let noise = self.placement().map(|placement| Noise {
            shares: match placement {
                Placement::Distributed => ((expected as f64 * (1.0 - self.seal_dropout)).floor() as u32).max(1),
                _ => 1,
            },
            distribution: self.distribution(),
            count_noise: adaptive.map(AdaptiveClip::vote_noise),
            per_example: self
                .clip()
                .filter(|_| placement == Placement::Sgd)
                .map(|clip| PerExample { clip, rate: self.interactions }),
            ..Noise::new(placement, multiplier)
        });
        let by_chance = noise.is_some_and(|noise| noise.placement.protects_sums()) && !self.fixed_cohorts();
        // Where each device comes by its own chance, more than this come in one of 10^14 rounds.
        let by_luck = (8.0 * (asked as f64).sqrt()).ceil() as usize + 8;
        // Room for one where there is nobody yet.
        let devices = if by_chance { asked + by_luck } else { asked.max(1) };
        let rows = self.buckets.map_or(RowLayout::Dense, |buckets| RowLayout::Buckets(buckets as u32));
        let clip = self.clip().filter(|_| self.noise != NoiseKind::Sgd);
        let integers = Quantization { range: self.seal_range as f32, clip, devices: devices as u32, rows };
        let encrypted = |scheme| Seal::Encryption { scheme, key: keys.shared.unwrap_or(&"0".repeat(64)).to_owned() };
        let seal = match self.seal {
            SealKind::Secagg => Some(Seal::SecureAggregation {
                dropout: self.seal_dropout,
                colluding: self.seal_colluding,
                identities: self.seal_identities,
            }),
            SealKind::Keeper => Some(Seal::Keeper(KeeperSeal {
                key: keys.keeper.key,
                opener: keys.keeper.opener,
                least: self.keeper_least(expected, noise.map_or(1, |noise| noise.shares))?,
                colluding: self.seal_colluding,
                identities: self.seal_identities,
            })),
            SealKind::Bfv => Some(encrypted(Scheme::Bfv)),
            SealKind::Ckks => Some(encrypted(Scheme::Ckks)),
            SealKind::None => None,
        };
        Ok(PrivacyConfig { quantization: Some(integers), noise, seal })
    }
}
