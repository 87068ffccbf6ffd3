//! The server's half: evaluates requests, and checks tokens.

use super::message::{BlindedElement, PublicKey, Scope, Token, TokenError, TokenResponse};
use super::voprf;
use crate::SecureRng;
use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;

/// Issues and checks one round's tokens. Which devices have had a token and which tokens are spent, the server records:
/// one token a device, each taken once. The key is worthless in another round.
pub struct Issuer {
    scope: Scope,
    secret: Scalar,
    key: PublicKey,
}

impl Issuer {
    /// With the round's own key, derived from the server's master secret.
    pub fn new(master: [u8; 32], scope: Scope) -> Self {
        let info = [&b"sottovoce token key"[..], &scope.to_bytes()].concat();
        let secret = voprf::secret_key(&master, &info);
        Self { scope, secret, key: PublicKey(RistrettoPoint::mul_base(&secret)) }
    }

    /// For the round's terms.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Answers a device that the server has authenticated and that has not requested another token in this round. The
    /// same request again gives the same token, so that a lost answer costs nobody a round.
    pub fn evaluate(&self, request: &BlindedElement, rng: &mut SecureRng) -> TokenResponse {
        let evaluated = self.secret * request.0;
        let random = voprf::random_scalar(|bytes| rng.fill(bytes));
        TokenResponse { evaluated, proof: voprf::prove(&self.secret, &request.0, &evaluated, &random) }
    }

    /// That a token was issued for this round. Whether it is spent, the server records by its [`Token::nullifier`].
    ///
    /// # Errors
    /// If it is of another round, or forged.
    pub fn check(&self, token: &Token) -> Result<(), TokenError> {
        if token.scope != self.scope {
            return Err(TokenError::WrongScope(token.scope, self.scope));
        }
        let input = self.scope.input(&token.nonce);
        let expected = voprf::finalize(&input, &(self.secret * voprf::to_element(&input)));
        if equal(&expected, &token.output) { Ok(()) } else { Err(TokenError::Forged) }
    }
}

/// Constant-time comparison.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y))) == 0
}
