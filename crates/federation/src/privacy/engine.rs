//! The server's half of the privacy layers.

use super::QuantizedSumConfig;
use super::accountant::PrivacyAccountant;
use crate::state::unfit;
use crate::{Aggregate, FederationError};
use sottovoce_client::streams;
use sottovoce_core::{Rng, math};
use sottovoce_models::Privacy;
use sottovoce_models::federated::BudgetShare;
use sottovoce_privacy::dp::AdaptiveClip;
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::tokens::{BlindedElement, Token};
use sottovoce_privacy::{
    BudgetPart, NoiseDistribution, Placement, PrivacyConfig, PrivacyError, PrivacyMechanism, SecureRng,
};
use sottovoce_protocol::{Layout, RoundId};
use std::io::{self, Read, Write};

/// Bytes that a device sends for and with its token, which is text there: two digits a byte.
const TOKEN_BYTES: u64 = (BlindedElement::BYTES + 2 * Token::BYTES) as u64;

/// How cohorts are drawn, which the accountant follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Each device by its own chance, so that cohorts differ in size: what most accountants of differential privacy
    /// assume.
    #[default]
    Poisson,
    /// Cohorts of one size.
    Fixed,
    /// Not uniform: no device is credited with having been left out.
    Uneven,
}

/// Adds the server's noise, opens sums and keeps account of what they spend.
pub struct PrivacyEngine {
    config: PrivacyConfig,
    /// Updates expected a round.
    expected: usize,
    sampling: Sampling,
    pub(crate) accountant: Option<PrivacyAccountant>,
    generator: SecureRng,
    /// Uploads do not say whose they are.
    anonymous: bool,
    /// Where the clip follows the lengths of updates.
    adaptive: Option<AdaptiveClip>,
    /// Who takes part in the round that is opened next.
    present: Vec<u32>,
    /// Where rounds share the budget unequally: the fractions, and the multiplier of a round that spends all of it.
    shares: Option<(&'static [BudgetShare], f64)>,
}

/// The shortest and the longest clip that is gone on with.
const CLIPS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

impl PrivacyEngine {
    /// With an accountant where there is noise; `expected` updates come to a round. The generator's seed must be nobody
    /// else's.
    pub fn new(
        config: PrivacyConfig,
        expected: usize,
        sampling: Sampling,
        accountant: Option<PrivacyAccountant>,
        generator: SecureRng,
    ) -> Self {
        Self {
            config,
            expected,
            sampling,
            accountant,
            generator,
            anonymous: false,
            adaptive: None,
            present: Vec::new(),
            shares: None,
        }
    }

    /// The same with a clip that follows the lengths of updates.
    #[must_use]
    pub fn adapting(mut self, adaptive: AdaptiveClip) -> Self {
        self.adaptive = Some(adaptive);
        self.take_up_clip();
        self
    }

    /// The same after what was spent on earlier trainings of the same people.
    #[must_use]
    pub(crate) fn after(mut self, earlier: Option<&PrivacyAccountant>) -> Self {
        self.accountant = match (self.accountant, earlier) {
            (Some(accountant), Some(earlier)) => Some(accountant.after(earlier)),
            (accountant, _) => accountant,
        };
        self
    }

    /// The same where rounds share the budget so; the multiplier so far is that of a round that spends all of it.
    #[must_use]
    pub fn sharing(mut self, shares: &'static [BudgetShare]) -> Self {
        let whole = self.config.noise.map(|noise| noise.multiplier).filter(|_| !shares.is_empty());
        self.shares = whole.map(|whole| (shares, whole));
        self.take_up_share();
        self
    }

    /// Sets the noise of the next round; whether it is another than before.
    fn take_up_share(&mut self) -> bool {
        let (Some((shares, whole)), Some(noise)) = (self.shares, &mut self.config.noise) else { return false };
        let held = self.accountant.as_ref().map_or(0, PrivacyAccountant::rounds);
        let share = usize::try_from(held).ok().and_then(|held| shares.get(held)).or(shares.last());
        let Some(share) = share else { return false };
        let spending = noise.spending(BudgetPart { whole, fraction: share.share });
        let moved = *noise != spending;
        *noise = spending;
        let multiplier = noise.multiplier;
        if let Some(integers) = &mut self.config.quantization {
            integers.rows = RowLayout::Table(share.table);
        }
        if let Some(accountant) = &mut self.accountant {
            accountant.set_multiplier(multiplier);
        }
        moved
    }

    /// Standard deviation of the noise on each value of a sum of so many updates.
    fn deviation(&self, updates: u64) -> f64 {
        let (Some(noise), Some(integers)) = (self.config.noise, self.config.quantization) else { return 0.0 };
        let clip = noise.per_example.map(|each| each.clip).or(integers.clip).unwrap_or(integers.range);
        let shape = if noise.distribution == NoiseDistribution::Laplace { std::f64::consts::SQRT_2 } else { 1.0 };
        let one = shape * f64::from(clip);
        match noise.placement {
            Placement::Central => one * noise.multiplier,
            _ => one * noise.device_noise() * (updates as f64).sqrt(),
        }
    }

    fn take_up_clip(&mut self) {
        if let (Some(adaptive), Some(integers)) = (&self.adaptive, &mut self.config.quantization) {
            integers.clip = Some(adaptive.bound().clamp(*CLIPS.start(), *CLIPS.end()) as f32);
        }
    }

    /// The same where uploads do not say whose they are.
    #[must_use]
    pub fn anonymous(self) -> Self {
        Self { anonymous: true, ..self }
    }

    /// Whether uploads do not say whose they are.
    pub fn is_anonymous(&self) -> bool {
        self.anonymous
    }

    /// Which layers there are.
    pub fn config(&self) -> &PrivacyConfig {
        &self.config
    }

    /// How updates of a layout are added up.
    pub(crate) fn quantized_sum(&self, layout: &Layout) -> Result<Option<QuantizedSumConfig>, FederationError> {
        let expected = self.config.noise.map(|_| self.expected as u64);
        let mechanism = PrivacyMechanism::new(&self.config, layout, 1)?;
        if let Some(mechanism) = &mechanism {
            mechanism.quantizer().check_buckets().map_err(PrivacyError::from)?;
        }
        let token_bytes = if self.anonymous { TOKEN_BYTES } else { 0 };
        Ok(mechanism.map(|mechanism| QuantizedSumConfig { mechanism, expected, token_bytes }))
    }

    /// Whether noise is accounted for a whole cohort at once, so that how it is drawn matters.
    fn hides_in_cohort(&self) -> bool {
        self.config.noise.is_some_and(|noise| noise.placement.protects_sums())
    }

    /// Devices to be asked: where each comes by its own chance, a number drawn anew for each round.
    pub(crate) fn wanted(&self, size: usize, population: usize, rng: &Rng) -> usize {
        if !self.hides_in_cohort() || self.sampling != Sampling::Poisson || size >= population {
            return size;
        }
        let drawn = binomial(population, size as f64 / population as f64, &mut rng.stream(streams::POISSON, 0));
        let room = self.config.quantization.map_or(usize::MAX, |integers| integers.devices as usize);
        drawn.min(room)
    }

    /// Chance that a device is in a round, as far as the accountant may use it.
    fn chance(&self, size: usize, population: usize) -> f64 {
        if self.sampling == Sampling::Uneven || population == 0 || !self.hides_in_cohort() {
            return 1.0;
        }
        (size as f64 / population as f64).min(1.0)
    }

    /// Whether the budget allows another round.
    pub(crate) fn may_spend(&self, size: usize, population: usize) -> Result<(), FederationError> {
        match &self.accountant {
            Some(accountant) => accountant.may_spend(self.chance(size, population), self.sampling, (size, population)),
            None => Ok(()),
        }
    }

    /// Opens a round's sum, with the noise that is the server's to add, and writes down what that spent. Whether the
    /// clip has moved.
    pub(crate) fn open(
        &mut self,
        round: RoundId,
        aggregate: &mut Aggregate,
        (size, population): (usize, usize),
    ) -> Result<bool, FederationError> {
        let mut generator = self.generator.stream("noise", round.0);
        let counted = u32::try_from(aggregate.updates).unwrap_or(u32::MAX);
        aggregate.noise = self.deviation(aggregate.updates);
        let votes = aggregate
            .open(&mut generator)
            .map_err(|error| FederationError::Sealed { round: round.0, reason: error.to_string() })?;
        let chance = self.chance(size, population);
        if let Some(accountant) = &mut self.accountant {
            accountant.spend(chance, self.sampling, (size, population))?;
            accountant.record_opened(&self.present, self.config.honest(counted));
        }
        let shared = self.take_up_share();
        let (Some(adaptive), Some(votes)) = (&mut self.adaptive, votes) else { return Ok(shared) };
        adaptive.follow(votes, self.expected as f64)?;
        self.take_up_clip();
        Ok(true)
    }

    /// These devices take part in the round that is opened next: each adds noise of its own where noise is local.
    pub(crate) fn record_participants(&mut self, cohort: &[u32]) -> Result<(), FederationError> {
        self.present.clear();
        self.present.extend_from_slice(cohort);
        match self.accountant.as_mut().filter(|accountant| accountant.are_local()) {
            Some(accountant) => accountant.record_participants(cohort),
            None => Ok(()),
        }
    }

    /// What was spent so far.
    pub fn spent(&self) -> Option<Privacy> {
        let clip = self.config.quantization.and_then(|integers| integers.clip);
        let each = self.config.per_example().map(|each| each.clip);
        self.accountant.as_ref().map(|accountant| Privacy { clip: each.or(clip), ..accountant.spent() })
    }

    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        self.accountant.as_ref().map_or(Ok(()), |accountant| accountant.save(out))?;
        self.adaptive.as_ref().map_or(Ok(()), |adaptive| out.write_all(&adaptive.to_bytes()))
    }

    pub(crate) fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.accountant.as_mut().map_or(Ok(()), |accountant| accountant.restore(from))?;
        if let Some(adaptive) = &mut self.adaptive {
            let mut bytes = [0; AdaptiveClip::BYTES];
            from.read_exact(&mut bytes)?;
            *adaptive = AdaptiveClip::from_bytes(&bytes).map_err(|error| unfit(error.to_string()))?;
        }
        self.take_up_clip();
        self.take_up_share();
        Ok(())
    }
}

/// How many of `n` come, each with this chance: jumps from one who comes to the next.
fn binomial(n: usize, chance: f64, rng: &mut Rng) -> usize {
    let stays = math::ln(1.0 - chance);
    let (mut position, mut count) = (0.0, 0);
    loop {
        // 1 - unit is above 0.
        position += (math::ln(1.0 - rng.unit()) / stays).floor() + 1.0;
        if position > n as f64 {
            return count;
        }
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cohorts_by_chance_have_the_binomial_mean_and_spread() {
        let (n, chance, draws) = (400, 0.1, 4000);
        let counts: Vec<f64> =
            (0..draws).map(|draw| binomial(n, chance, &mut Rng::new(3).stream("draw", draw)) as f64).collect();
        let mean = counts.iter().sum::<f64>() / draws as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / draws as f64;
        assert!((mean - 40.0).abs() < 0.4, "{mean}");
        assert!((variance - 36.0).abs() < 3.0, "{variance}");
    }
}
