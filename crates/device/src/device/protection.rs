//! Holding the server to the protection that the device joined with.

use super::Device;
use super::audiences::measures;
use crate::DeviceError;
use sottovoce_client::Declined;
use sottovoce_privacy::{ENCRYPTION, OPEN, PrivacyConfig, Seal};
use sottovoce_protocol::{PrivacyTerms, RoundTerms};

/// Why a device declines encrypted rounds.
const NO_ENCRYPTION: &str = "encryption under a key that devices share protects the server's database if it is stolen, not \
    from the server itself, which can have a device open any single update for it: `sottovoce device policy --accept \
    encryption` agrees to that";

/// Why a device declines open rounds.
const NO_OPEN: &str = "the federation is open: no seal hides this device's update among those of others, so the server sees \
    it by itself and can infer from it what is in the history. `sottovoce device policy --accept open` agrees to that";

impl Device {
    /// That these layers are no weaker than this device goes, whatever it met before.
    pub(super) fn check_floors(&self, terms: &RoundTerms, config: &PrivacyConfig) -> Result<(), Declined> {
        config.check_floors(terms.cohort_size, self.policy.least_cohort).map_err(Declined::terms)?;
        match config.seal {
            Some(Seal::Encryption { .. }) if !self.accepts(ENCRYPTION) => Err(Declined::terms(NO_ENCRYPTION)),
            _ => Ok(()),
        }
    }

    /// That these terms are no weaker than what the device has kept of its federation, and within its owner's budget.
    /// What to keep from now on; or why to decline, with weaker layers for the owner to decide on.
    pub(super) fn check_protection(
        &self,
        terms: &RoundTerms,
    ) -> Result<Option<PrivacyTerms>, (Declined, Option<PrivacyTerms>)> {
        let declined = |error| (Declined::terms(error), None);
        let config = PrivacyConfig::read(&terms.privacy).map_err(declined)?;
        // A measurement has layers and a budget of its own, which are checked by themselves.
        if measures(terms) {
            return Ok(None);
        }
        let (cohort, least) = (terms.cohort_size, self.policy.least_cohort);
        self.state.account.admit(&config, cohort, least).map_err(|declined| (declined, None))?;
        let kept = self.state.protection.check(terms)?;
        match config.seal {
            None if !self.accepts(OPEN) => Err((Declined::terms(NO_OPEN), None)),
            _ => Ok(Some(kept)),
        }
    }

    /// Keeps the layers of a round that the device takes part in.
    pub(super) fn keep_protection(&mut self, kept: Option<PrivacyTerms>) -> Result<(), DeviceError> {
        let protection = &self.state.protection;
        if kept.is_none() || (kept == protection.kept && protection.offered.is_none()) {
            return Ok(());
        }
        self.update(|state| (state.protection.kept, state.protection.offered) = (kept, None))
    }

    /// Keeps weaker layers that the server asked for, for the owner to decide on.
    pub(super) fn keep_offer(&mut self, offered: Option<PrivacyTerms>) -> Result<(), DeviceError> {
        if offered.is_none() || offered == self.state.protection.offered {
            return Ok(());
        }
        self.update(|state| state.protection.offered = offered)
    }

    /// The layers that the device holds its server to; `None` before its first round.
    pub fn kept_protection(&self) -> Option<&PrivacyTerms> {
        self.state.protection.kept.as_ref()
    }

    /// Weaker layers that the server asked for last, if the owner has not decided on them.
    pub fn weaker_protection(&self) -> Option<&PrivacyTerms> {
        self.state.protection.offered.as_ref()
    }

    /// The owner agrees to the weaker layers that the server asked for last, and to no others. Returns whether there
    /// were any.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn accept_weaker(&mut self) -> Result<bool, DeviceError> {
        let Some(offered) = self.state.protection.offered.clone() else { return Ok(false) };
        self.update(|state| state.protection.accept_weaker(offered))?;
        self.declined_round = None;
        self.end_wait();
        Ok(true)
    }

    /// What the device's updates have spent of differential privacy against the server, by its own account, as an
    /// epsilon at [`ACCOUNT_DELTA`](crate::ACCOUNT_DELTA); and how many updates left that no noise of devices bounds.
    /// Over all federations that used this store.
    pub fn account(&self) -> (f64, u64) {
        (self.state.account.epsilon(), self.state.account.unbounded)
    }

    /// The largest epsilon against the server that the owner allows.
    pub fn epsilon_budget(&self) -> Option<f64> {
        self.state.account.budget
    }

    /// Sets the largest epsilon against the server; the device takes part in no round that would bring its own account
    /// above it, nor in one without a bound. `None`: any.
    ///
    /// # Errors
    /// If it is not above 0, or the change cannot be stored.
    pub fn set_epsilon_budget(&mut self, budget: Option<f64>) -> Result<(), DeviceError> {
        if let Some(wrong) = budget.filter(|budget| !(budget.is_finite() && *budget > 0.0)) {
            return Err(DeviceError::EpsilonBudget(wrong));
        }
        self.update(|state| state.account.budget = budget)?;
        self.declined_round = None;
        self.end_wait();
        Ok(())
    }

    /// Whether the owner has agreed to a layer that needs their word.
    pub fn accepts(&self, layer: &str) -> bool {
        self.state.protection.accepted.contains(layer)
    }

    /// The owner agrees to a layer that needs their word, or no longer.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn set_accepted(&mut self, layer: &str, accepted: bool) -> Result<(), DeviceError> {
        self.update(|state| match accepted {
            true => drop(state.protection.accepted.insert(layer.to_owned())),
            false => drop(state.protection.accepted.remove(layer)),
        })?;
        self.declined_round = None;
        self.end_wait();
        Ok(())
    }
}
