//! Anonymous uploads: each device of the cohort is issued one token under its credential, and uploads with the token
//! and without the credential.
//!
//! Two things are stored, and nothing links them: which devices were issued their token, and which tokens were spent,
//! each with its update. The round counts how many updates came, not whose.

use super::Federation;
use super::round::{Admission, Round, UploadId};
use super::uploads::{Result, UploadError};
use crate::error::ServerError;
use crate::secret;
use crate::storage::{Change, Hash, Millis, Sender};
use bytes::Bytes;
use sottovoce_federation::FederationError;
use sottovoce_privacy::tokens::{BlindedElement, Issuer, Scope, Token};
use sottovoce_privacy::{SecureRng, anonymous_layer};
use sottovoce_protocol::{FederationId, RoundId, RoundTerms};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one-time tokens of a round.
pub(crate) struct OneTimeTokens {
    issuer: Arc<Issuer>,
    /// Each device's blinded request, and whether it is stored.
    issued: BTreeMap<u32, (Hash, bool)>,
    /// Nullifiers of spent tokens; `None` while the update is being stored.
    spent: BTreeMap<Hash, Option<UploadId>>,
}

impl OneTimeTokens {
    pub(crate) fn new(issuer: Issuer) -> Self {
        Self { issuer: Arc::new(issuer), issued: BTreeMap::new(), spent: BTreeMap::new() }
    }

    /// A token was issued before a restart.
    pub(super) fn restore(&mut self, device: u32, blinded: Hash) {
        self.issued.insert(device, (blinded, true));
    }

    /// Whether a new token is to be issued; otherwise the device has it and gets the same again.
    fn request(&mut self, device: u32, blinded: Hash) -> Result<bool> {
        match self.issued.get(&device) {
            Some((before, _)) if *before != blinded => Err(UploadError::TokenTaken),
            Some((_, true)) => Ok(false),
            Some((_, false)) => Err(UploadError::Busy),
            None => {
                self.issued.insert(device, (blinded, false));
                Ok(true)
            }
        }
    }

    /// How an upload compares to the one that a token was spent with; `None` if it is unspent.
    pub(super) fn spent_with(&self, nullifier: &Hash, id: &UploadId) -> Option<Result<Admission>> {
        self.spent.get(nullifier).map(|spent| spent.as_ref().map_or(Err(UploadError::Busy), |s| s.compare(id)))
    }

    /// Marks a token as spent while its update is being stored; returns whether it was unspent.
    pub(super) fn spend(&mut self, nullifier: Hash) -> bool {
        self.spent.insert(nullifier, None).is_none()
    }

    pub(super) fn stored(&mut self, nullifier: Hash, id: UploadId) -> bool {
        self.spent.insert(nullifier, Some(id)) == Some(None)
    }

    pub(super) fn release(&mut self, nullifier: &Hash) -> bool {
        self.spent.remove(nullifier) == Some(None)
    }

    pub(super) fn into_uploads(self) -> impl Iterator<Item = (Sender, UploadId)> {
        self.spent.into_iter().filter_map(|(nullifier, id)| Some((Sender::Token(nullifier), id?)))
    }
}

/// The issuer of a round's tokens: derived from the server's secret, so that it survives a restart.
pub(crate) fn issuer(secret: &Hash, federation: u64, round: u64) -> Issuer {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(b"tokens");
    let scope = Scope { federation: FederationId(federation), round: RoundId(round) };
    Issuer::new(*hasher.finalize().as_bytes(), scope)
}

/// Adds the layer with the public key of the round's tokens to its terms.
pub(crate) fn with_key(terms: RoundTerms, issuer: &Issuer) -> Result<RoundTerms, FederationError> {
    let mut terms = terms.into_draft();
    terms.privacy.layers.push(anonymous_layer(issuer));
    Ok(RoundTerms::freeze(terms)?)
}

impl Federation {
    /// A digest of the protection and keys that the federation was founded with. Its enrolment tokens carry it, so that
    /// devices have it from whoever gives them the token.
    ///
    /// # Errors
    /// If its terms cannot be made.
    pub fn commitment(&self) -> Result<String, ServerError> {
        let terms = self.coordinator().terms(1)?;
        let issuer = self.anonymous.then(|| issuer(&self.secret, self.id, terms.round.0));
        let terms = issuer.iter().try_fold(terms, with_key)?;
        let terms = self.retention.iter().try_fold(terms, |terms, _| super::retention::with_notice(terms))?;
        sottovoce_privacy::commitment(&terms).map_err(|error| FederationError::from(error).into())
    }

    fn with_tokens<T>(&self, round: u64, work: impl FnOnce(&mut Round) -> Result<T>) -> Result<T> {
        if !self.anonymous {
            return Err(UploadError::WrongChannel);
        }
        let mut state = self.state();
        let next = state.next_round;
        match state.open_round(round) {
            Some(open) => work(open),
            None => Err(UploadError::of_other_round(round, next)),
        }
    }

    /// Issues a device its token of a round; with the same bytes again, the same one. Must run to completion.
    ///
    /// # Errors
    /// If the device is not in the cohort, has had another token, or is revoked.
    pub async fn issue_token(&self, (device, round): (u32, u64), bytes: &[u8], now: Millis) -> Result<Vec<u8>> {
        let request = BlindedElement::from_bytes(bytes).map_err(|error| UploadError::invalid("malformed", error))?;
        let blinded = request.to_bytes();
        let (new, issuer) = self.with_tokens(round, |open| {
            open.check_token_request(device, now)?;
            let tokens = open.tokens.as_mut().ok_or(UploadError::WrongChannel)?;
            Ok((tokens.request(device, blinded)?, Arc::clone(&tokens.issuer)))
        })?;
        if new {
            let issue = Change::IssueToken { federation: self.id, round, device, blinded };
            let committed = self.commit(issue).await;
            self.with_tokens(round, |open| {
                let tokens = open.tokens.as_mut().ok_or(UploadError::WrongChannel)?;
                match &committed {
                    Ok(()) => tokens.issued.insert(device, (blinded, true)),
                    Err(_) => tokens.issued.remove(&device),
                };
                committed?;
                // It may have been revoked in the meantime.
                open.token_issued(device)
            })?;
        }
        let seed = secret::random().map_err(|_| UploadError::Busy)?;
        Ok(issuer.evaluate(&request, &mut SecureRng::new(seed)).to_bytes().to_vec())
    }

    /// Checks that a token belongs to a round, not whether it is spent.
    ///
    /// # Errors
    /// If it does not, or the round has been closed for too long to know.
    pub fn check_token(&self, round: u64, token: &Token) -> Result<()> {
        let open = self.with_tokens(round, |open| {
            open.tokens.as_ref().map(|tokens| Arc::clone(&tokens.issuer)).ok_or(UploadError::WrongChannel)
        });
        let issuer = match open {
            Err(UploadError::RoundClosed) if self.state().past_uploads.contains_key(&round) => {
                Arc::new(issuer(&self.secret, self.id, round))
            }
            open => open?,
        };
        issuer.check(token).map_err(|error| UploadError::invalid("bad-token", error))
    }

    /// Accepts an update sent with a token. Must run to completion.
    ///
    /// # Errors
    /// If it is rejected; then nothing has changed, and the token can still be spent.
    pub async fn receive_anonymous_update(
        &self,
        (round, token): (u64, &Token),
        key: &str,
        bytes: Bytes,
    ) -> Result<Admission> {
        self.check_token(round, token)?;
        self.receive(round, Sender::Token(token.nullifier()), key, bytes).await
    }
}
