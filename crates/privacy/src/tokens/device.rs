//! The device's half.

use super::message::{BlindedElement, NONCE, PublicKey, Scope, Token, TokenError, TokenResponse};
use super::voprf;
use crate::SecureRng;
use curve25519_dalek::scalar::Scalar;

/// A pending request for a token; stays on the device.
pub struct TokenRequest {
    scope: Scope,
    nonce: [u8; NONCE],
    blind: Scalar,
    blinded: BlindedElement,
}

impl TokenRequest {
    /// A request for a new token.
    pub fn new(rng: &mut SecureRng, scope: Scope) -> Self {
        let nonce = rng.seed();
        let blind = voprf::random_scalar(|bytes| rng.fill(bytes));
        let blinded = BlindedElement(blind * voprf::to_element(&scope.input(&nonce)));
        Self { scope, nonce, blind, blinded }
    }

    /// What the server receives. The same each time, so that a lost answer can be requested again.
    pub fn blinded(&self) -> BlindedElement {
        self.blinded
    }

    /// The token, if the response was made with the key in the round's terms.
    ///
    /// # Errors
    /// If the proof does not verify: the server used another key, which would identify this device, or the response was
    /// changed.
    pub fn finalize(&self, response: &TokenResponse, key: &PublicKey) -> Result<Token, TokenError> {
        if !voprf::verify(&response.proof, &key.0, &self.blinded.0, &response.evaluated) {
            return Err(TokenError::WrongKey);
        }
        let unblinded = self.blind.invert() * response.evaluated;
        let output = voprf::finalize(&self.scope.input(&self.nonce), &unblinded);
        Ok(Token { scope: self.scope, nonce: self.nonce, output })
    }
}
