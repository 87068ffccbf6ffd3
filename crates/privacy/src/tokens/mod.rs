//! One-time tokens that prove the right to take part without saying who does.
//!
//! In a round a device requests a token with its credential, blinded ([`TokenRequest`]); the server checks that the
//! device may take part and has no other token yet, and its [`Issuer`] evaluates the blinded element with the round's
//! key and proves that it is the key in the round's terms. The device unblinds the [`Token`] and uploads with it on a
//! connection without credential. The server checks that the token is genuine and not yet spent; it cannot tell which
//! of the issued ones it is: any blinded element fits any token by some blinding factor. The construction is the
//! verifiable oblivious pseudorandom function of RFC 9497 (ristretto255, SHA-512), used as in Privacy Pass (RFC 9576).
//!
//! What it does not hide is what the connection shows: address and time. Uploads go through a relay, or at least at
//! a random moment of the round, where that matters.
//!
//! ```
//! use sottovoce_privacy::SecureRng;
//! use sottovoce_privacy::tokens::{Issuer, Scope, TokenRequest};
//! use sottovoce_protocol::{FederationId, RoundId};
//! let scope = Scope { federation: FederationId(1), round: RoundId(7) };
//! let server = Issuer::new([3; 32], scope);
//! let in_the_terms = server.key();
//!
//! let mut random = SecureRng::new([4; 32]);
//! let request = TokenRequest::new(&mut random, scope);
//! let response = server.evaluate(&request.blinded(), &mut random);
//! let token = request.finalize(&response, &in_the_terms)?;
//!
//! server.check(&token)?;
//! # Ok::<(), sottovoce_privacy::tokens::TokenError>(())
//! ```

mod device;
mod hex;
mod issuer;
mod message;
mod terms;
mod voprf;

pub use device::TokenRequest;
pub use hex::{from_hex, to_hex};
pub use issuer::Issuer;
pub use message::{BlindedElement, PublicKey, Scope, Token, TokenError, TokenResponse};
pub use terms::{anonymous_key, anonymous_layer, anonymous_root};

#[cfg(test)]
mod tests;
