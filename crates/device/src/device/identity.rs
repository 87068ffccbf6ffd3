//! Who a device is to others, and whom it knows, past the server.

use super::Device;
use crate::bounds::Bounds;
use crate::{DeviceError, Secret};
use sottovoce_privacy::IDENTITIES;
use sottovoce_privacy::secagg::{Identity, IdentityKey, Roster};
use sottovoce_protocol::Policy;
use std::sync::Arc;

/// The public half of the identity of a device with this secret.
pub(super) fn public(secret: &Secret) -> IdentityKey {
    Identity::new(&secret.identity(), Roster::new()).public()
}

/// An owner who has a roster wants it used: rounds in which nobody shows who they are go without this device.
pub(super) fn demand(policy: &mut Policy, roster: Option<&Roster>) {
    if roster.is_some() {
        policy.required_layers.insert(IDENTITIES.to_owned());
    } else {
        policy.required_layers.remove(IDENTITIES);
    }
}

pub(super) fn check(roster: Option<&Roster>, bounds: &Bounds) -> Result<(), DeviceError> {
    let (found, most) = (roster.map_or(0, Roster::len), bounds.roster);
    if found > most { Err(DeviceError::Roster { found, most }) } else { Ok(()) }
}

impl Device {
    /// The public half of its identity, for the rosters of others. It stays the same until the device enrols anew.
    pub fn identity(&self) -> IdentityKey {
        public(&self.state.secret)
    }

    /// The identities that the owner gave, if any.
    pub fn roster(&self) -> Option<&Roster> {
        self.state.roster.as_deref()
    }

    /// Takes another roster, or none. With one, the policy demands identities of every round from then on, until the owner takes
    /// that back; without, no more. In a round under way neighbours were looked at already.
    ///
    /// # Errors
    /// If there are too many identities, or the change cannot be kept.
    pub fn set_roster(&mut self, roster: Option<Roster>) -> Result<(), DeviceError> {
        check(roster.as_ref(), &self.options.bounds)?;
        self.change(|state| {
            demand(&mut state.policy, roster.as_ref());
            state.roster = roster.map(Arc::new);
            Ok(())
        })?;
        self.end_rest();
        Ok(())
    }

    /// Takes these identities for real besides the owner's roster, until the process ends: for a fleet, which knows its own devices.
    pub fn know(&mut self, known: Arc<Roster>) {
        self.known = Some(known);
    }

    /// Its identity among those it knows; `None` without a roster.
    pub(super) fn signing_identity(&self) -> Option<Identity> {
        let roster = match (&self.state.roster, &self.known) {
            (Some(kept), Some(known)) => Arc::new(kept.union(known).copied().collect()),
            (kept, known) => Arc::clone(kept.as_ref().or(known.as_ref())?),
        };
        Some(Identity::new(&self.state.secret.identity(), roster))
    }
}
