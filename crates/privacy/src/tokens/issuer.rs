//! The server's half: evaluates requests, and checks tokens.

use super::message::{BlindedElement, PublicKey, Scope, Token, TokenError, TokenResponse};
use super::voprf;
use crate::SecureRng;
use curve25519_dalek::RistrettoPoint;
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity;

/// Issues and checks one round's tokens. Which devices have had a token and which tokens are spent, the server records:
/// one token a device, each taken once. The key is worthless in another round.
pub struct Issuer {
    scope: Scope,
    secret: Scalar,
    key: PublicKey,
    root: PublicKey,
    derivation: voprf::Proof,
}

/// What the federation's key is shifted by in a round. Only its inverse evaluates requests (as in mode 2 of RFC 9497),
/// so that the tokens of one round say nothing of another's.
fn shift(scope: Scope) -> Scalar {
    voprf::hash_to_scalar(&[&b"sottovoce token round"[..], &scope.to_bytes()].concat())
}

/// That a round's key is derived from the federation's: with `t` the secret of their shifted root, `t` times the key is
/// the base point. So every device that knows the root has the same key for a round.
pub(super) fn is_derived(key: &PublicKey, root: &PublicKey, scope: Scope, proof: &voprf::Proof) -> bool {
    let shifted = root.0 + RistrettoPoint::mul_base(&shift(scope));
    !shifted.is_identity() && voprf::verify(proof, &shifted, &key.0, &RISTRETTO_BASEPOINT_POINT)
}

impl Issuer {
    /// With the round's own key, derived from the federation's, which is derived from the server's master secret.
    pub fn new(master: [u8; 32], scope: Scope) -> Self {
        let root =
            voprf::secret_key(&master, &[&b"sottovoce token root"[..], &scope.federation.0.to_le_bytes()].concat());
        // Zero once in 2^252.
        let shifted = root + shift(scope);
        let secret = shifted.invert();
        let key = PublicKey(RistrettoPoint::mul_base(&secret));
        let random = voprf::secret_key(&master, &[&b"sottovoce token proof"[..], &scope.to_bytes()].concat());
        let derivation = voprf::prove(&shifted, &key.0, &RISTRETTO_BASEPOINT_POINT, &random);
        Self { scope, secret, key, root: PublicKey(RistrettoPoint::mul_base(&root)), derivation }
    }

    /// The federation's key, from which those of all rounds are derived.
    pub fn root(&self) -> PublicKey {
        self.root
    }

    /// Shows that the round's key is derived from the federation's.
    pub(super) fn derivation(&self) -> &voprf::Proof {
        &self.derivation
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
