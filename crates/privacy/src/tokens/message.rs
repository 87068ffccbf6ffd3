//! What goes over the wire: fixed lengths, one encoding each, nothing accepted that is not exactly it.

use super::voprf::{self, ELEMENT, OUTPUT, Proof};
use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use sottovoce_protocol::{DeviceId, FederationId, RoundId};

/// Length of a token's own random part.
pub(super) const NONCE: usize = 32;

/// Why a token was not given or not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Bytes of another length.
    #[error("{what} has {found} bytes instead of {expected}")]
    Length {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// Bytes that encode no element of the group, or its identity.
    #[error("{what} is not an element of the group")]
    Element {
        /// Of which message.
        what: &'static str,
    },
    /// Bytes that encode no scalar.
    #[error("{what} is not a number below the order of the group")]
    Scalar {
        /// Which.
        what: &'static str,
    },
    /// The device may not take part any more.
    #[error("{0} is revoked")]
    Revoked(DeviceId),
    /// The device has had its token.
    #[error("{device} already has its token for {round}")]
    AlreadyIssued {
        /// Who asked.
        device: DeviceId,
        /// For which round.
        round: RoundId,
    },
    /// The server did not use the key that is in the round's terms; the device should not go on.
    #[error("the token was not made with the key that the round's terms name")]
    WrongKey,
    /// A token of another federation or round.
    #[error("the token is for {} of {}, not for {} of {}", found.round, found.federation, expected.round, expected.federation)]
    WrongScope {
        /// What the token is for.
        found: Scope,
        /// What it should be for.
        expected: Scope,
    },
    /// Not a token of this issuer, or changed.
    #[error("the token was not issued for this round")]
    Forged,
    /// A token that was spent before.
    #[error("the token has been spent")]
    Spent,
}

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Which federation.
    pub federation: FederationId,
    /// Which of its rounds.
    pub round: RoundId,
}

impl Scope {
    const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.federation.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.round.0.to_le_bytes());
        bytes
    }

    /// What the pseudorandom function is asked about.
    pub(super) fn input(self, nonce: &[u8; NONCE]) -> Vec<u8> {
        [&self.to_bytes()[..], nonce].concat()
    }
}

/// The public half of a round's key, to be put into the round's terms so that all devices see the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(pub(super) RistrettoPoint);

impl PublicKey {
    /// Length on the wire.
    pub const BYTES: usize = ELEMENT;

    /// For the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.0.compress().to_bytes()
    }

    /// From the wire.
    ///
    /// # Errors
    /// If the bytes are not a key.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        element("the key for tokens", exact("the key for tokens", bytes)?).map(Self)
    }
}

/// What a device sends to get a token: an element that says nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlindedElement(pub(super) RistrettoPoint);

impl BlindedElement {
    /// Length on the wire.
    pub const BYTES: usize = ELEMENT;

    /// For the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.0.compress().to_bytes()
    }

    /// From the wire.
    ///
    /// # Errors
    /// If the bytes are not such a message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        element("the request for a token", exact("the request for a token", bytes)?).map(Self)
    }
}

/// What the server answers: the evaluation, and the proof that the round's key was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenResponse {
    pub(super) evaluated: RistrettoPoint,
    pub(super) proof: Proof,
}

impl TokenResponse {
    /// Length on the wire.
    pub const BYTES: usize = 3 * ELEMENT;

    /// For the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..32].copy_from_slice(self.evaluated.compress().as_bytes());
        bytes[32..64].copy_from_slice(self.proof.challenge.as_bytes());
        bytes[64..].copy_from_slice(self.proof.response.as_bytes());
        bytes
    }

    /// From the wire.
    ///
    /// # Errors
    /// If the bytes are not such a message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        let what = "the answer to a request for a token";
        let bytes: [u8; Self::BYTES] = exact(what, bytes)?;
        let proof = Proof {
            challenge: scalar("the challenge of the proof", &bytes[32..64])?,
            response: scalar("the response of the proof", &bytes[64..])?,
        };
        Ok(Self { evaluated: element(what, exact(what, &bytes[..32])?)?, proof })
    }
}

/// The right to take part in one round, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub(super) scope: Scope,
    pub(super) nonce: [u8; NONCE],
    pub(super) output: [u8; OUTPUT],
}

impl Token {
    /// Length on the wire.
    pub const BYTES: usize = Scope::BYTES + NONCE + OUTPUT;

    /// What it is for.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// By which a spent token is remembered.
    pub fn nullifier(&self) -> [u8; NONCE] {
        self.nonce
    }

    /// For the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.scope.to_bytes());
        bytes[16..48].copy_from_slice(&self.nonce);
        bytes[48..].copy_from_slice(&self.output);
        bytes
    }

    /// From the wire.
    ///
    /// # Errors
    /// If there are more or fewer bytes. Whether it is worth anything only its issuer knows.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
        let bytes: [u8; Self::BYTES] = exact("the token", bytes)?;
        let number = |at: usize| exact("the token", &bytes[at..at + 8]).map(u64::from_le_bytes);
        Ok(Self {
            scope: Scope { federation: FederationId(number(0)?), round: RoundId(number(8)?) },
            nonce: exact("the token", &bytes[16..48])?,
            output: exact("the token", &bytes[48..])?,
        })
    }
}

fn exact<const N: usize>(what: &'static str, bytes: &[u8]) -> Result<[u8; N], TokenError> {
    bytes.try_into().map_err(|_| TokenError::Length { what, found: bytes.len(), expected: N })
}

fn element(what: &'static str, bytes: [u8; ELEMENT]) -> Result<RistrettoPoint, TokenError> {
    voprf::element(&bytes).ok_or(TokenError::Element { what })
}

fn scalar(what: &'static str, bytes: &[u8]) -> Result<Scalar, TokenError> {
    Option::from(Scalar::from_canonical_bytes(exact(what, bytes)?)).ok_or(TokenError::Scalar { what })
}
