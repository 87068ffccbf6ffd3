//! A device's identity and its roster of others, which do not come from the server.

use super::{Device, check_length};
use crate::{DeviceError, Secret};
use sottovoce_privacy::secagg::{Identity, IdentityKey, Roster};
use sottovoce_privacy::{IDENTITIES, KEEPER};
use sottovoce_protocol::{Policy, RoundTerms};
use std::sync::Arc;

/// The public half of the identity of a device with this secret.
pub(super) fn public(secret: &Secret) -> IdentityKey {
    Identity::new(&secret.identity(), Roster::new()).public()
}

/// With a roster, the policy requires identities of every round.
pub(super) fn require(policy: &mut Policy, roster: Option<&Roster>) {
    if roster.is_some() {
        policy.required_layers.insert(IDENTITIES.to_owned());
    } else {
        policy.required_layers.remove(IDENTITIES);
    }
}

impl Device {
    /// The public half of its identity, for the rosters of others. It stays the same until the device enrols anew.
    pub fn identity(&self) -> IdentityKey {
        public(&self.state.secret)
    }

    /// The identities that the owner trusts, if they gave any.
    pub fn roster(&self) -> Option<&Roster> {
        self.state.roster.as_deref()
    }

    /// Replaces the roster. With one, the policy requires identities of every round, until the owner changes that;
    /// without, it does not. A round under way goes on with the roster it began with.
    ///
    /// # Errors
    /// If there are too many identities, or the change cannot be stored.
    pub fn set_roster(&mut self, roster: Option<Roster>) -> Result<(), DeviceError> {
        check_length("identities", roster.as_ref().map_or(0, Roster::len), self.options.bounds.roster)?;
        self.update(|state| {
            require(&mut state.policy, roster.as_ref());
            state.roster = roster.map(Arc::new);
        })?;
        self.end_wait();
        Ok(())
    }

    /// Trusts these identities beside the owner's roster, until the process ends: for a fleet, which knows its own
    /// devices.
    pub fn set_session_roster(&mut self, roster: Arc<Roster>) {
        self.session_roster = Some(roster);
    }

    /// Its identity in a round, where its devices sign. For a keeper it needs no roster: it is the keeper that must
    /// know it.
    pub(super) fn identity_for(&self, terms: &RoundTerms) -> Option<Identity> {
        let is_kept = terms.privacy.layers.iter().any(|layer| layer.name == KEEPER);
        let alone = || is_kept.then(|| Identity::new(&self.state.secret.identity(), Roster::new()));
        self.signing_identity().or_else(alone)
    }

    /// Its identity and those it trusts; `None` without a roster.
    pub(super) fn signing_identity(&self) -> Option<Identity> {
        let roster = match (&self.state.roster, &self.session_roster) {
            (Some(owners), Some(session)) => Arc::new(owners.union(session).copied().collect()),
            (owners, session) => Arc::clone(owners.as_ref().or(session.as_ref())?),
        };
        Some(Identity::new(&self.state.secret.identity(), roster))
    }
}
