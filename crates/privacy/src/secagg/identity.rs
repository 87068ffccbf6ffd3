//! Device identities that do not depend on the server.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An identity's public half: Ed25519.
pub type IdentityKey = [u8; 32];

/// The identities that a device trusts, obtained from somebody other than the server.
pub type Roster = BTreeSet<IdentityKey>;

/// Why a text is not a roster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// Not a key. Fields: which, from 1; the beginning of the line.
    #[error("line {0}: {1:?} is not a public key: expected 64 hexadecimal digits")]
    Line(usize, String),
    /// No key at all.
    #[error("there is no public key in it")]
    Empty,
}

/// Reads a roster: a public key a line in 64 hexadecimal digits; empty lines and comments from `#` on are ignored.
///
/// # Errors
/// Names the first line that is not a key, or says that there is none.
pub fn read_roster(text: &str) -> Result<Roster, RosterError> {
    let mut roster = Roster::new();
    for (line, found) in (1..).zip(text.lines()) {
        let found = found.split('#').next().unwrap_or_default().trim();
        if !found.is_empty() {
            let wrong = || RosterError::Line(line, found.chars().take(80).collect());
            roster.insert(read_key(found).ok_or_else(wrong)?);
        }
    }
    if roster.is_empty() { Err(RosterError::Empty) } else { Ok(roster) }
}

/// A verification key; weak ones, for which anybody could sign, are rejected.
fn read_key(digits: &str) -> Option<IdentityKey> {
    let key: IdentityKey = crate::tokens::from_hex(&digits.to_ascii_lowercase())?.try_into().ok()?;
    VerifyingKey::from_bytes(&key).ok().filter(|key| !key.is_weak()).map(|_| key)
}

/// A device's own identity and those it trusts.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    pub(crate) roster: Arc<Roster>,
}

impl Identity {
    /// From the 32 secret bytes of an Ed25519 key and the identities of others.
    pub fn new(secret: &[u8; 32], roster: impl Into<Arc<Roster>>) -> Self {
        Self { key: SigningKey::from_bytes(secret), roster: roster.into() }
    }

    /// The public half.
    pub fn public(&self) -> IdentityKey {
        self.key.verifying_key().to_bytes()
    }

    pub(crate) fn sign(&self, text: &[u8]) -> [u8; 64] {
        self.key.sign(text).to_bytes()
    }
}

/// Without the secret key.
impl std::fmt::Debug for Identity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Identity").field("public", &self.public()).finish_non_exhaustive()
    }
}

pub(crate) fn signed(by: &IdentityKey, text: &[u8], signature: &[u8; 64]) -> bool {
    VerifyingKey::from_bytes(by).is_ok_and(|key| key.verify_strict(text, &Signature::from_bytes(signature)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::to_hex;

    #[test]
    fn reads_rosters_and_names_bad_lines() {
        let keys = [1, 2].map(|byte| Identity::new(&[byte; 32], Roster::new()).public());
        let [one, two] = keys.map(|key| to_hex(&key));
        let text = format!("# the choir\n\n{one}\n  {}  # Ada\r\n{one}\n", two.to_uppercase());
        assert_eq!(read_roster(&text), Ok(Roster::from(keys)));
        assert_eq!(read_roster("# nobody yet\n"), Err(RosterError::Empty));
        let weak = format!("01{}", "0".repeat(62));
        for wrong in ["ab", &one[1..], &"g".repeat(64), &format!("{one} {two}"), &"é".repeat(32), &weak] {
            let error = read_roster(&format!("{one}\n\n{wrong}\n")).unwrap_err();
            assert!(matches!(error, RosterError::Line(3, _)), "{error}");
        }
    }
}
