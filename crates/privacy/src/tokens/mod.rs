//! One-time tokens that prove the right to take part without saying who does.
//!
//! In a round a device asks for a token with its credential, blinded ([`Request`]); the server's [`Issuer`] checks revocation and
//! that the device has none yet, and evaluates the blinded element with the round's key, with a proof that it is the key of the
//! round's terms and no other. The device unblinds the [`Token`] and gives it with its upload on a connection without
//! credential. The issuer sees that the token is its own and not yet spent; which of the issued ones it is, it cannot tell:
//! any blinded element fits any token by some blinding factor. The construction is the verifiable oblivious pseudorandom
//! function of RFC 9497 (ristretto255, SHA-512), used as in Privacy Pass (RFC 9576).
//!
//! What it does not hide is what the connection shows: address and time. Uploads go through a relay, or at least at
//! a random moment of the round, where that matters.
//!
//! ```
//! use sottovoce_privacy::SecureRng;
//! use sottovoce_privacy::tokens::{Issuer, TokenRequest, Scope, Eligibility};
//! use sottovoce_protocol::{DeviceId, FederationId, RoundId};
//! let scope = Scope { federation: FederationId(1), round: RoundId(7) };
//! let mut server = Issuer::new([3; 32], scope);
//! let in_the_terms = server.key();
//!
//! let mut random = SecureRng::new([4; 32]);
//! let request = TokenRequest::new(&mut random, scope);
//! let answer = server.issue(DeviceId(5), Eligibility::Eligible, &request.blinded(), &mut random)?;
//! let token = request.finalize(&answer, &in_the_terms)?;
//!
//! server.redeem(&token)?;
//! assert!(server.redeem(&token).is_err());
//! # Ok::<(), sottovoce_privacy::tokens::TokenError>(())
//! ```

mod device;
mod hex;
mod issuer;
mod message;
mod voprf;

pub use device::TokenRequest;
pub use hex::{from_hex, to_hex};
pub use issuer::{Issuer, Eligibility};
pub use message::{BlindedElement, TokenResponse, PublicKey, Scope, Token, TokenError};

#[cfg(test)]
mod tests;
