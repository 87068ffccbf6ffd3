//! Who devices are, where that is known from elsewhere than the server.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::collections::BTreeSet;

/// An identity's public half: Ed25519.
pub type IdentityKey = [u8; 32];

/// The identities that a device takes for real: it learnt them from somebody other than the server.
pub type Roster = BTreeSet<IdentityKey>;

/// A device's own identity and those it knows.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    roster: Roster,
}

impl Identity {
    /// From the 32 secret bytes of an Ed25519 key and the identities of others.
    pub fn new(secret: &[u8; 32], roster: Roster) -> Self {
        Self { key: SigningKey::from_bytes(secret), roster }
    }

    /// The public half.
    pub fn public(&self) -> IdentityKey {
        self.key.verifying_key().to_bytes()
    }

    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.key.sign(text).to_bytes()
    }

    pub(crate) fn knows(&self, identity: &IdentityKey) -> bool {
        self.roster.contains(identity)
    }
}

/// Says nothing of the secret key.
impl std::fmt::Debug for Identity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Identity").field("public", &self.public()).finish_non_exhaustive()
    }
}

pub(crate) fn signed(by: &IdentityKey, text: &[u8], signature: &[u8; 64]) -> bool {
    VerifyingKey::from_bytes(by)
        .is_ok_and(|key| key.verify_strict(text, &Signature::from_bytes(signature)).is_ok())
}
