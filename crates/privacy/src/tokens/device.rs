//! The device's half.

use super::message::{BlindedElement, TokenResponse, NONCE, PublicKey, Scope, Token, TokenError};
use super::voprf;
use crate::SecureRng;
use curve25519_dalek::scalar::Scalar;

/// A token that was asked for and has not come yet; stays on the device.
pub struct TokenRequest {
    scope: Scope,
    nonce: [u8; NONCE],
    factor: Scalar,
    blinded: BlindedElement,
}

impl TokenRequest {
    /// A new token's request.
    pub fn new(generator: &mut SecureRng, scope: Scope) -> Self {
        let nonce = generator.seed();
        let factor = voprf::random_scalar(|bytes| generator.fill(bytes));
        let blinded = BlindedElement(factor * voprf::to_element(&scope.input(&nonce)));
        Self { scope, nonce, factor, blinded }
    }

    /// What the server gets. The same however often it is asked, so that a lost answer can be asked for again.
    pub fn blinded(&self) -> BlindedElement {
        self.blinded
    }

    /// The token, if the answer was made with the key of the round's terms.
    ///
    /// # Errors
    /// If the proof does not hold: the server used another key, which would tell this device from others, or the answer was
    /// changed.
    pub fn finalize(&self, answer: &TokenResponse, key: &PublicKey) -> Result<Token, TokenError> {
        if !voprf::holds(&answer.proof, &key.0, &self.blinded.0, &answer.evaluated) {
            return Err(TokenError::WrongKey);
        }
        let unblinded = self.factor.invert() * answer.evaluated;
        let output = voprf::finalize(&self.scope.input(&self.nonce), &unblinded);
        Ok(Token { scope: self.scope, nonce: self.nonce, output })
    }
}

/// Says nothing of the secret.
impl std::fmt::Debug for TokenRequest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Request").field("scope", &self.scope).finish_non_exhaustive()
    }
}
