//! The server's half: gives one token a device, takes each once.

use super::message::{BlindedElement, TokenResponse, NONCE, PublicKey, Scope, Token, TokenError};
use super::voprf::{self, ELEMENT};
use crate::SecureRng;
use curve25519_dalek::scalar::Scalar;
use sottovoce_protocol::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// What the server's records say of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// It may take part.
    Eligible,
    /// It may not any more.
    Revoked,
}

/// One round's tokens. Dropped when the round is over, and with it all that it remembers: its key is worth nothing in
/// another round.
pub struct Issuer {
    scope: Scope,
    secret: Scalar,
    key: PublicKey,
    /// What each device had evaluated.
    issued: BTreeMap<DeviceId, [u8; ELEMENT]>,
    spent: BTreeSet<[u8; NONCE]>,
}

impl Issuer {
    /// With the round's own key, derived from the server's master secret.
    pub fn new(master: [u8; 32], scope: Scope) -> Self {
        let info = [&b"sottovoce token key"[..], &scope.to_bytes()].concat();
        let secret = voprf::secret_key(&master, &info);
        let key = PublicKey(voprf::public_key(&secret));
        Self { scope, secret, key, issued: BTreeMap::new(), spent: BTreeSet::new() }
    }

    /// As it was before a restart.
    #[must_use]
    pub fn remembering(
        mut self,
        issued: impl IntoIterator<Item = (DeviceId, [u8; 32])>,
        spent: impl IntoIterator<Item = [u8; 32]>,
    ) -> Self {
        self.issued.extend(issued);
        self.spent.extend(spent);
        self
    }

    /// What the tokens are for.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// For the round's terms.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Who has had a token, with the bytes of the request: for storing.
    pub fn issued(&self) -> impl Iterator<Item = (DeviceId, [u8; 32])> + '_ {
        self.issued.iter().map(|(device, blinded)| (*device, *blinded))
    }

    /// The spent tokens' nullifiers: for storing.
    pub fn spent(&self) -> impl Iterator<Item = [u8; 32]> + '_ {
        self.spent.iter().copied()
    }

    /// Answers a device that is known by its credential. The same request again gets the same token, so that an answer that was
    /// lost on the way costs nobody a round.
    ///
    /// # Errors
    /// If the device is revoked, or has asked for another token of this round.
    pub fn issue(
        &mut self,
        device: DeviceId,
        standing: Eligibility,
        request: &BlindedElement,
        generator: &mut SecureRng,
    ) -> Result<TokenResponse, TokenError> {
        if standing == Eligibility::Revoked {
            return Err(TokenError::Revoked(device));
        }
        let bytes = request.to_bytes();
        if *self.issued.entry(device).or_insert(bytes) != bytes {
            return Err(TokenError::AlreadyIssued { device, round: self.scope.round });
        }
        Ok(self.evaluate(request, generator))
    }

    /// The same for a server that keeps its own record of who has had a token, and has looked there.
    pub fn evaluate(&self, request: &BlindedElement, generator: &mut SecureRng) -> TokenResponse {
        let evaluated = self.secret * request.0;
        let random = voprf::random_scalar(|bytes| generator.fill(bytes));
        TokenResponse { evaluated, proof: voprf::prove(&self.secret, &request.0, &evaluated, &random) }
    }

    /// Whether a token could be redeemed now; spends nothing.
    ///
    /// # Errors
    /// If it is of another round, forged or spent.
    pub fn check(&self, token: &Token) -> Result<(), TokenError> {
        if token.scope != self.scope {
            return Err(TokenError::WrongScope { found: token.scope, expected: self.scope });
        }
        let input = self.scope.input(&token.nonce);
        let expected = voprf::finalize(&input, &(self.secret * voprf::to_element(&input)));
        if !same(&expected, &token.output) {
            return Err(TokenError::Forged);
        }
        if self.spent.contains(&token.nonce) { Err(TokenError::Spent) } else { Ok(()) }
    }

    /// Takes a token, once.
    ///
    /// # Errors
    /// If it is of another round, forged or spent.
    pub fn redeem(&mut self, token: &Token) -> Result<(), TokenError> {
        self.check(token)?;
        self.spent.insert(token.nonce);
        Ok(())
    }
}

/// Compares all bytes whatever they are, so that time says nothing of where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y))) == 0
}

/// Says nothing of the key.
impl std::fmt::Debug for Issuer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Issuer").field("scope", &self.scope).finish_non_exhaustive()
    }
}
