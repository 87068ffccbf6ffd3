//! What the rounds that really happened have spent of differential privacy.

use super::Sampling;
use crate::FederationError;
use crate::state::{put_u64s, take_numbers, unfit};
use sottovoce_models::Privacy;
use sottovoce_privacy::dp::accountant::{Accountant, Budget, Round};
use sottovoce_privacy::{Noise, NoiseDistribution, Placement};
use std::io::{self, Read, Write};

/// A round in which everybody takes part with this chance.
pub(super) fn each_by_chance(noise: &Noise, rate: f64) -> Round {
    let multiplier = noise.multiplier;
    match noise.distribution {
        NoiseDistribution::Gaussian => Round::Poisson { rate, multiplier },
        NoiseDistribution::Laplace => Round::Laplace { rate, scale: multiplier },
    }
}

/// The accountant of a federation.
#[derive(Clone, Debug)]
pub struct PrivacyAccountant {
    noise: Noise,
    delta: f64,
    budget: Option<Budget>,
    accountant: Accountant,
    /// Rounds of what was spent before.
    before: u64,
    /// Where each device has noise of its own: rounds that it took part in.
    taken: Vec<u32>,
    /// The most of those.
    most: u64,
    /// Where devices add noise in shares: for each device the sum of 1 / sigma^2 over the rounds that it took part in,
    /// by the noise that came in each, for the account against the server.
    revealed: Vec<f64>,
}

/// In the first number of stored accounts: that what the server has seen is stored, too.
const HAS_REVEALED: u64 = 1 << 63;

impl PrivacyAccountant {
    /// Nothing spent yet; `budget` is an epsilon.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(noise: &Noise, delta: f64, budget: Option<f64>) -> Result<Self, FederationError> {
        let budget = budget.map(|epsilon| Budget::new(epsilon, delta)).transpose()?;
        let accountant = Accountant::default();
        accountant.rdp(delta)?;
        let (taken, revealed) = (Vec::new(), Vec::new());
        Ok(Self { noise: *noise, delta, budget, accountant, before: 0, taken, most: 0, revealed })
    }

    /// The same for the same people, after what was spent on another training. Where each device has noise of its own,
    /// the device that took part most often is counted in each.
    pub(crate) fn after(mut self, earlier: &Self) -> Self {
        self.accountant.clone_from(&earlier.accountant);
        self.before = earlier.accountant.rounds();
        self.revealed.clone_from(&earlier.revealed);
        self
    }

    /// Rounds held so far: where each device has noise of its own, of the one that took part most often.
    pub(crate) fn rounds(&self) -> u64 {
        self.accountant.rounds() - self.before
    }

    /// From now on accounts for noise of another multiplier.
    pub(crate) fn set_multiplier(&mut self, multiplier: f64) {
        self.noise.multiplier = multiplier;
    }

    /// Whether each device has noise of its own, so that what counts is how often one took part.
    pub(crate) fn are_local(&self) -> bool {
        !self.noise.placement.protects_sums()
    }

    /// What a device spends that takes part.
    fn of_a_device(&self) -> Round {
        let rate = self.noise.per_example.map_or(1.0, |each| each.rate.min(1.0));
        each_by_chance(&self.noise, rate)
    }

    fn round(&self, chance: f64, sampling: Sampling, (size, population): (usize, usize)) -> Round {
        match sampling {
            _ if self.are_local() => self.of_a_device(),
            Sampling::Fixed if size < population => {
                let multiplier = self.noise.multiplier;
                Round::FixedCohort { cohort: size as u64, population: population as u64, multiplier }
            }
            _ => each_by_chance(&self.noise, chance.min(1.0)),
        }
    }

    /// Whether the budget allows another round.
    pub(crate) fn may_spend(
        &self,
        chance: f64,
        sampling: Sampling,
        sizes: (usize, usize),
    ) -> Result<(), FederationError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let round = self.round(chance, sampling, sizes);
        let admitted = self.accountant.clone().admit(round, budget);
        admitted.map_err(|error| FederationError::Budget(error.to_string()))
    }

    /// A round was held.
    pub(crate) fn spend(
        &mut self,
        chance: f64,
        sampling: Sampling,
        sizes: (usize, usize),
    ) -> Result<(), FederationError> {
        if !self.are_local() {
            self.accountant.record(self.round(chance, sampling, sizes), 1)?;
        }
        Ok(())
    }

    /// These devices added noise of their own.
    pub(crate) fn record_participants(&mut self, cohort: &[u32]) -> Result<(), FederationError> {
        for &device in cohort {
            let index = device as usize;
            if index >= self.taken.len() {
                self.taken.resize(index + 1, 0);
            }
            self.taken[index] += 1;
            if u64::from(self.taken[index]) > self.most {
                self.most += 1;
                self.accountant.record(self.of_a_device(), 1)?;
            }
        }
        Ok(())
    }

    /// A sum was opened with the noise of so many devices that cannot take it off again, and these took part in it, as
    /// the server knows.
    pub(crate) fn record_opened(&mut self, cohort: &[u32], honest: u32) {
        if self.noise.placement != Placement::Distributed {
            return;
        }
        let sigma = self.noise.device_noise() * f64::from(honest).sqrt();
        for &device in cohort {
            let index = device as usize;
            if index >= self.revealed.len() {
                self.revealed.resize(index + 1, 0.0);
            }
            self.revealed[index] += (sigma * sigma).recip();
        }
    }

    /// Epsilon against the server, which knows whom it asks: without amplification by sampling, and with the noise that
    /// really came. Of the device that took part most. `None`: no bound, because the server has updates, or their sum,
    /// without noise.
    fn against_server(&self, model: f64) -> Option<f64> {
        match self.noise.placement {
            Placement::Central => None,
            // There nothing is amplified, and all of the noise is the device's.
            Placement::Local | Placement::Sgd => Some(model),
            Placement::Distributed => {
                let most = self.revealed.iter().copied().fold(0.0, f64::max);
                let mut accountant = Accountant::default();
                if most > 0.0 {
                    // Gaussian rounds without sampling are together one: their squares add up.
                    accountant.record(Round::Poisson { rate: 1.0, multiplier: most.sqrt().recip() }, 1).ok()?;
                }
                accountant.epsilon(self.delta).ok().map(|spent| spent.tight)
            }
        }
    }

    /// What was spent so far.
    pub(crate) fn spent(&self) -> Privacy {
        // Only a delta out of range is refused, and that was looked at.
        let found = self.accountant.epsilon(self.delta);
        let (epsilon, epsilon_rdp) = found.map_or((f64::INFINITY, f64::INFINITY), |found| (found.tight, found.rdp));
        let Noise { placement, distribution, multiplier, .. } = self.noise;
        Privacy {
            epsilon,
            epsilon_server: self.against_server(epsilon),
            epsilon_rdp,
            delta: self.delta,
            rounds: self.accountant.rounds(),
            placement: placement.name(),
            shape: distribution.name(),
            hides: if placement == Placement::Sgd { "an interaction" } else { "a person" },
            multiplier,
            clip: None,
            budget: self.budget.map(|budget| budget.epsilon),
            ended: None,
        }
    }

    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let bytes = self.accountant.to_bytes();
        put_u64s(out, &[bytes.len() as u64 | HAS_REVEALED, self.taken.len() as u64])?;
        out.write_all(&bytes)?;
        let taken: Vec<u64> = self.taken.iter().map(|&rounds| u64::from(rounds)).collect();
        put_u64s(out, &taken)?;
        put_u64s(out, &[self.revealed.len() as u64])?;
        let revealed: Vec<u64> = self.revealed.iter().map(|sum| sum.to_bits()).collect();
        put_u64s(out, &revealed)
    }

    pub(crate) fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        /// Bytes of accountant at most, whatever a file says.
        const MOST: u64 = 1 << 30;
        let [first, devices] = take_numbers(from)?;
        let (has_revealed, length) = (first & HAS_REVEALED != 0, first & !HAS_REVEALED);
        if length > MOST || devices > u64::from(u32::MAX) {
            return Err(unfit("accountant of differential privacy that are too long"));
        }
        let mut bytes = Vec::new();
        from.take(length).read_to_end(&mut bytes)?;
        self.accountant = Accountant::from_bytes(&bytes).map_err(|error| unfit(error.to_string()))?;
        self.taken.clear();
        for _ in 0..devices {
            let [rounds] = take_numbers(from)?;
            self.taken.push(u32::try_from(rounds).map_err(|_| unfit("rounds of a device"))?);
        }
        self.revealed.clear();
        let revealed = if has_revealed { take_numbers::<1>(from)?[0] } else { 0 };
        if revealed > u64::from(u32::MAX) {
            return Err(unfit("devices of an account against the server"));
        }
        for _ in 0..revealed {
            let [sum] = take_numbers(from)?;
            self.revealed.push(f64::from_bits(sum));
        }
        self.most = self.taken.iter().copied().max().unwrap_or(0).into();
        Ok(())
    }
}
