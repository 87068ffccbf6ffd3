//! Credentials and tokens: 256 random bits each, stored as hashes only.

use crate::storage::Hash;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What a secret is for; a prefix distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A device's credential.
    Device,
    /// An enrolment token.
    Enrolment,
    /// An advertiser's token.
    Advertiser,
    /// An operator's token.
    Operator,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Kind::Device => "svd_",
            Kind::Enrolment => "sve_",
            Kind::Advertiser => "sva_",
            Kind::Operator => "svo_",
        }
    }
}

/// The system provides no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random numbers: {0}")]
pub struct NoRandomness(getrandom::Error);

/// 256 random bits.
///
/// # Errors
/// If the system provides none.
pub(crate) fn random() -> Result<Hash, NoRandomness> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(NoRandomness)?;
    Ok(bits)
}

/// The text of a secret.
fn text(kind: Kind, bits: &Hash) -> String {
    format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(bits))
}

/// A new secret.
///
/// # Errors
/// If the system provides no random numbers.
pub(crate) fn new(kind: Kind) -> Result<String, NoRandomness> {
    Ok(text(kind, &random()?))
}

/// The hash that is stored. It needs neither salt nor stretching: secrets are random and long.
pub(crate) fn hash(secret: &str) -> Hash {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// The credential of the device that enrols with this key and token; deterministic, so that a repeated request gets the
/// same.
pub(crate) fn credential(server_secret: &Hash, federation: u64, token: &Hash, key: &str) -> String {
    let mut hasher = blake3::Hasher::new_keyed(server_secret);
    hasher.update(b"sottovoce device credential");
    hasher.update(&federation.to_le_bytes());
    hasher.update(token);
    hasher.update(key.as_bytes());
    text(Kind::Device, hasher.finalize().as_bytes())
}

/// Whether this has the form of a secret of the kind.
pub(crate) fn is_of(kind: Kind, secret: &str) -> bool {
    secret.strip_prefix(kind.prefix()).is_some_and(|rest| rest.len() == 43)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_say_what_they_are() {
        let (one, other) = (new(Kind::Operator).unwrap(), new(Kind::Operator).unwrap());
        assert!(one != other && is_of(Kind::Operator, &one) && !is_of(Kind::Device, &one));
        assert_ne!(hash(&one), hash(&other));
    }

    #[test]
    fn a_credential_depends_on_all_that_leads_to_it() {
        let of = |secret: u8, federation, token: u8, key| credential(&[secret; 32], federation, &[token; 32], key);
        let one = of(1, 2, 3, "k");
        assert_eq!(one, of(1, 2, 3, "k"));
        assert!(is_of(Kind::Device, &one));
        for other in [of(9, 2, 3, "k"), of(1, 9, 3, "k"), of(1, 2, 9, "k"), of(1, 2, 3, "l")] {
            assert_ne!(one, other);
        }
    }
}
