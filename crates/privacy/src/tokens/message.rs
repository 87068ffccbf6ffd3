//! The messages: fixed lengths, one encoding each.

use super::voprf::{self, ELEMENT, OUTPUT, Proof};
use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use sottovoce_protocol::{FederationId, RoundId};

/// Length of a token's nonce.
pub(super) const NONCE: usize = 32;

/// Why a token was not obtained or not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Bytes of another length. Fields: of what; how many there are; how many there should be.
    #[error("{0} has {1} bytes instead of {2}")]
    Length(&'static str, usize, usize),
    /// Bytes that encode no element of the group, or its identity. Fields: of which message.
    #[error("{0} is not an element of the group")]
    Element(&'static str),
    /// Bytes that encode no scalar. Fields: which.
    #[error("{0} is not a number below the order of the group")]
    Scalar(&'static str),
    /// The server did not use the key that is in the round's terms; the device should not go on.
    #[error("the token was not made with the key that the round's terms name")]
    WrongKey,
    /// A token of another federation or round. Fields: what the token is for; what it should be for.
    #[error("the token is for {} of {}, not for {} of {}", .0.round, .0.federation, .1.round, .1.federation)]
    WrongScope(Scope, Scope),
    /// Not a token of this issuer, or changed.
    #[error("the token was not issued for this round")]
    Forged,
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

    /// The input of the pseudorandom function.
    pub(super) fn input(self, nonce: &[u8; NONCE]) -> Vec<u8> {
        [&self.to_bytes()[..], nonce].concat()
    }
}

/// Messages of one group element.
macro_rules! element_message {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub(super) RistrettoPoint);

        impl $name {
            /// Encoded length.
            pub const BYTES: usize = ELEMENT;

            /// As bytes.
            pub fn to_bytes(&self) -> [u8; Self::BYTES] {
                self.0.compress().to_bytes()
            }

            /// From untrusted bytes.
            ///
            /// # Errors
            /// If they are not a group element, or its identity.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenError> {
                element($what, exact($what, bytes)?).map(Self)
            }
        }
    };
}

element_message! {
    /// The public key of a round's tokens, in the round's terms so that all devices see the same.
    PublicKey, "the key for tokens"
}

element_message! {
    /// What a device sends to obtain a token: a blinded element, independent of the token.
    BlindedElement, "the request for a token"
}

/// What the server answers: the evaluated element, and the proof that the round's key was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenResponse {
    pub(super) evaluated: RistrettoPoint,
    pub(super) proof: Proof,
}

impl TokenResponse {
    /// Encoded length.
    pub const BYTES: usize = 3 * ELEMENT;

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..32].copy_from_slice(self.evaluated.compress().as_bytes());
        bytes[32..64].copy_from_slice(self.proof.challenge.as_bytes());
        bytes[64..].copy_from_slice(self.proof.response.as_bytes());
        bytes
    }

    /// From untrusted bytes.
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

/// A one-time token: the right to upload once in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub(super) scope: Scope,
    pub(super) nonce: [u8; NONCE],
    pub(super) output: [u8; OUTPUT],
}

impl Token {
    /// Encoded length.
    pub const BYTES: usize = Scope::BYTES + NONCE + OUTPUT;

    /// Identifies a spent token.
    pub fn nullifier(&self) -> [u8; NONCE] {
        self.nonce
    }

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.scope.to_bytes());
        bytes[16..48].copy_from_slice(&self.nonce);
        bytes[48..].copy_from_slice(&self.output);
        bytes
    }

    /// From untrusted bytes.
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
    bytes.try_into().map_err(|_| TokenError::Length(what, bytes.len(), N))
}

fn element(what: &'static str, bytes: [u8; ELEMENT]) -> Result<RistrettoPoint, TokenError> {
    voprf::element(&bytes).ok_or(TokenError::Element(what))
}

fn scalar(what: &'static str, bytes: &[u8]) -> Result<Scalar, TokenError> {
    Option::from(Scalar::from_canonical_bytes(exact(what, bytes)?)).ok_or(TokenError::Scalar(what))
}
