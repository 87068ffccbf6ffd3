//! The disclosure policies of a simulated population.

use crate::{FederationError, PiSpread};
use sottovoce_client::streams;
use sottovoce_core::{Histories, HistoriesBuilder, Rng};
use sottovoce_protocol::{DisclosureMode, Policy, PolicyError, Reportable};
use std::collections::BTreeSet;

/// A user's pi.
fn draw_pi(spread: PiSpread, mean: f64, rng: &mut Rng) -> f64 {
    let reach = mean.min(1.0 - mean);
    match spread {
        PiSpread::Fixed => mean,
        PiSpread::Uniform => (mean + reach * (2.0 * rng.unit() - 1.0)).clamp(0.0, 1.0),
        PiSpread::AllOrNothing => f64::from(u8::from(rng.chance(mean))),
    }
}

/// The policies of a population: the same for all users, except pi, which may differ, and that some users report nothing.
#[derive(Clone, Debug)]
pub struct Disclosure {
    policy: Policy,
    /// One a device; empty if all have the policy's.
    own: Vec<f32>,
    /// Users who report nothing; empty if all follow the policy.
    silent: Vec<bool>,
    /// The run's root.
    rng: Rng,
}

impl Disclosure {
    /// The same policy for all users.
    pub fn same(policy: Policy, rng: &Rng) -> Self {
        Self { policy, own: Vec::new(), silent: Vec::new(), rng: rng.clone() }
    }

    /// The given policy, with a pi for each device drawn around the policy's.
    pub fn spread(policy: Policy, how: PiSpread, devices: usize, rng: &Rng) -> Self {
        let draw = |device| draw_pi(how, policy.pi(), &mut rng.stream(streams::PI, device as u64)) as f32;
        let own = if how == PiSpread::Fixed { Vec::new() } else { (0..devices).map(draw).collect() };
        Self { own, ..Self::same(policy, rng) }
    }

    /// The same with what a round asks for reported by this fraction of users only.
    #[must_use]
    pub fn reporting(mut self, share: f64, devices: usize, rng: &Rng) -> Self {
        (self.policy.samples, self.policy.criteria) = (true, Reportable::All);
        let silent = |device| !rng.stream(streams::REPORTING, device as u64).chance(share);
        self.silent = if share < 1.0 { (0..devices).map(silent).collect() } else { Vec::new() };
        self
    }

    /// The pi of a device.
    pub fn pi(&self, device: u32) -> f64 {
        self.own.get(device as usize).map_or(self.policy.pi(), |&pi| f64::from(pi))
    }

    /// Whether some user always withholds some items.
    pub(crate) fn withholds_items(&self) -> bool {
        let some = self.own.iter().any(|&pi| pi < 1.0) && self.policy.disclosure == DisclosureMode::Fixed;
        some || self.policy.withholds_items()
    }

    /// All users' items that are disclosed, with fixed disclosure.
    pub(crate) fn disclosed_histories(&self, people: &Histories) -> Result<Histories, FederationError> {
        let (rated, timed) = (!people.ratings().is_empty(), !people.times().is_empty());
        let mut all = HistoriesBuilder::new(people.catalog_size(), rated, timed);
        let mut policy = self.policy();
        for user in 0..people.users() {
            let device = user as u32;
            self.become_of(device, &mut policy)?;
            let fixed = self.fixed_seed(device, &policy);
            for (index, &item) in people.of(user).iter().enumerate() {
                if !policy.withholds_items() || policy.discloses(item, fixed) {
                    let rating = people.ratings_of(user).get(index).copied().unwrap_or_default();
                    let time = people.times_of(user).get(index).copied().unwrap_or_default();
                    let pushed = all.push(item, rating, time);
                    debug_assert!(pushed.is_ok(), "items of the same catalog");
                }
            }
            all.end_user();
        }
        Ok(all.finish())
    }

    /// Decides which items a device discloses, once for all rounds; 0 where its policy does not need it.
    fn fixed_seed(&self, device: u32, policy: &Policy) -> u64 {
        match policy.disclosure {
            DisclosureMode::Fixed if policy.pi() < 1.0 => {
                self.rng.stream(streams::FIXED_DISCLOSURE, u64::from(device)).next_u64()
            }
            _ => 0,
        }
    }

    /// A policy that [`become_of`](Self::become_of) changes into each device's in turn.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// Changes a policy into this device's.
    pub(crate) fn become_of(&self, device: u32, policy: &mut Policy) -> Result<(), FederationError> {
        if let Some(&silent) = self.silent.get(device as usize) {
            policy.samples = !silent;
            policy.criteria = if silent { Reportable::Only(BTreeSet::new()) } else { Reportable::All };
        }
        if self.own.is_empty() {
            return Ok(());
        }
        policy.set_pi(self.pi(device)).map_err(|error: PolicyError| error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_models::settings::Choice as _;

    #[test]
    fn spreads_keep_the_mean() {
        let of = |how, mean| {
            let disclosure = Disclosure::spread(Policy::new(mean).unwrap(), how, 4000, &Rng::new(1));
            (0..4000).map(|device| disclosure.pi(device)).collect::<Vec<_>>()
        };
        for mean in [0.0, 0.2, 0.7, 1.0] {
            for name in PiSpread::NAMES {
                let pis = of(PiSpread::named(name).unwrap(), mean);
                let found = pis.iter().sum::<f64>() / 4000.0;
                assert!((found - mean).abs() < 0.03, "{name} {mean}: {found}");
            }
            assert!(of(PiSpread::AllOrNothing, mean).iter().all(|&pi| pi == 0.0 || pi == 1.0));
        }
        let uniform = of(PiSpread::Uniform, 0.7);
        assert!(uniform.iter().all(|pi| (0.399..=1.0).contains(pi)));
        assert!(uniform.iter().any(|&pi| pi < 0.42) && uniform.iter().any(|&pi| pi > 0.98));
    }
}
