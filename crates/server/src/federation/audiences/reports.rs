//! Segment ids: a device that may say so reports a random id of its own, with a one-time token.
//!
//! Every device that takes part asks for a token of every audience in the list, whether it is in any of them or not,
//! and says nothing when it spends one. So the request, which names the device, says nothing about audiences, and the
//! report, which does, names nobody. A token is good for one report to its audience in its rotation.

use super::{AudienceError, Audiences, Result};
use crate::commit_queue::CommitError;
use crate::federation::Federation;
use crate::secret;
use crate::storage::{AudienceTokens, Change, Hash, Millis, SegmentRecord};
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::tokens::{BlindedElement, Issuer, Scope, Token, TokenResponse, to_hex};
use sottovoce_protocol::{FederationId, RoundId};

/// Bytes of a number before each element of a message.
const NUMBER: usize = 8;
/// Bytes of an entry in a request for tokens: the audience's number and a blinded element.
const ENTRY: usize = NUMBER + BlindedElement::BYTES;
/// Bytes of a request for tokens.
pub(crate) const MAX_REQUEST: u64 = 1000 * ENTRY as u64;
/// Bytes of a report, with room for longer ones to be refused with a reason.
pub(crate) const MAX_REPORT: u64 = 64;
/// Rotations that are kept after they are over: the ids of the last one are in use.
const KEPT: u64 = 2;

/// The issuer of the tokens of an audience in a rotation.
pub(super) fn issuer(secret: &Hash, federation: u64, audience: u64, rotation: u64) -> Issuer {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(b"audience tokens").update(&audience.to_le_bytes());
    Issuer::new(*hasher.finalize().as_bytes(), Scope { federation: FederationId(federation), round: RoundId(rotation) })
}

fn wrong(field: &'static str, found: &dyn ToString, expected: &str) -> AudienceError {
    AudienceError::Invalid(field, found.to_string(), expected.to_owned())
}

impl Federation {
    /// Whether a rotation is under way or has just ended.
    fn check_rotation(&self, rotation: u64, now: Millis) -> Result<()> {
        let current = self.audience_config()?.rotation(now);
        if rotation <= current && rotation + 1 >= current {
            return Ok(());
        }
        Err(wrong("rotation", &rotation, &format!("{current}, which is the current one")))
    }

    /// Issues a device its tokens of a rotation, one for each audience that it names; with the same bytes again, the
    /// same ones. Must run to completion.
    ///
    /// # Errors
    /// If the request is wrong, or the device has had other tokens in this rotation.
    pub async fn issue_audience_tokens(
        &self,
        device: u32,
        rotation: u64,
        bytes: &[u8],
        now: Millis,
    ) -> Result<Vec<u8>> {
        self.check_rotation(rotation, now)?;
        let (entries, rest) = bytes.as_chunks::<ENTRY>();
        if entries.is_empty() || !rest.is_empty() {
            return Err(wrong("body", &format!("{} bytes", bytes.len()), &format!("entries of {ENTRY} bytes")));
        }
        let mut requests = Vec::with_capacity(entries.len());
        for entry in entries {
            let (number, element) = entry.split_at(NUMBER);
            let audience = u64::from_le_bytes(number.try_into().unwrap_or_default());
            let element =
                BlindedElement::from_bytes(element).map_err(|error| AudienceError::Token(error.to_string()))?;
            if requests.last().is_some_and(|(before, _)| *before >= audience) {
                return Err(wrong("body", &format!("audience {audience}"), "audiences in ascending order, each once"));
            }
            requests.push((audience, element));
        }
        self.record_audience_tokens(device, rotation, *blake3::hash(bytes).as_bytes()).await?;
        let known =
            |id: u64| self.state().audiences.audiences.get(&id).is_some_and(|each| Audiences::is_open(each, now));
        let seed = secret::random().map_err(|_| AudienceError::from(CommitError::Busy))?;
        let mut rng = SecureRng::new(seed);
        let mut answer = Vec::with_capacity(requests.len() * (NUMBER + TokenResponse::BYTES));
        for (audience, element) in requests.into_iter().filter(|(audience, _)| known(*audience)) {
            answer.extend_from_slice(&audience.to_le_bytes());
            let issuer = issuer(&self.secret, self.id, audience, rotation);
            answer.extend_from_slice(&issuer.evaluate(&element, &mut rng).to_bytes());
        }
        Ok(answer)
    }

    async fn record_audience_tokens(&self, device: u32, rotation: u64, digest: Hash) -> Result<()> {
        {
            let mut state = self.state();
            let issued = state.audiences.issued.entry(rotation).or_default();
            match issued.get(&device) {
                Some((before, _)) if *before != digest => {
                    return Err(AudienceError::Repeated("this device has had its tokens of this rotation"));
                }
                Some((_, true)) => return Ok(()),
                Some((_, false)) => return Err(CommitError::Busy.into()),
                None => drop(issued.insert(device, (digest, false))),
            }
        }
        let tokens = AudienceTokens { federation: self.id, rotation, device, digest };
        let committed = self.commit(Change::IssueAudienceTokens(tokens)).await;
        let mut state = self.state();
        let issued = state.audiences.issued.entry(rotation).or_default();
        match &committed {
            Ok(()) => drop(issued.insert(device, (digest, true))),
            Err(_) => drop(issued.remove(&device)),
        }
        Ok(committed?)
    }

    /// Checks that a token belongs to an audience that is served and to a rotation, not whether it is spent.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_report(&self, audience: u64, rotation: u64, token: &Token, now: Millis) -> Result<()> {
        self.check_rotation(rotation, now)?;
        if !self.state().audiences.served(now).any(|each| each.id == audience) {
            return Err(AudienceError::Unknown("audience"));
        }
        let issuer = issuer(&self.secret, self.id, audience, rotation);
        issuer.check(token).map_err(|error| AudienceError::Token(error.to_string()))
    }

    /// Accepts a segment id; returns whether it is new. Must run to completion.
    ///
    /// # Errors
    /// If the token is not valid or spent with another id.
    pub async fn receive_report(
        &self,
        (audience, rotation): (u64, u64),
        token: &Token,
        bytes: &[u8],
        now: Millis,
    ) -> Result<bool> {
        self.check_report(audience, rotation, token, now)?;
        let segment: [u8; 16] =
            bytes.try_into().map_err(|_| wrong("body", &format!("{} bytes", bytes.len()), "a segment id of 16"))?;
        let (key, nullifier) = ((audience, rotation), token.nullifier());
        {
            let mut state = self.state();
            let segments = state.audiences.segments.entry(key).or_default();
            match segments.get(&nullifier) {
                Some((before, _)) if *before != segment => {
                    return Err(AudienceError::Repeated("the token was spent with another segment id"));
                }
                Some((_, true)) => return Ok(false),
                Some((_, false)) => return Err(CommitError::Busy.into()),
                None => drop(segments.insert(nullifier, (segment, false))),
            }
        }
        let record = SegmentRecord { federation: self.id, audience, rotation, nullifier, segment };
        let committed = self.commit(Change::AddSegment(record)).await;
        let mut state = self.state();
        let segments = state.audiences.segments.entry(key).or_default();
        match &committed {
            Ok(()) => drop(segments.insert(nullifier, (segment, true))),
            Err(_) => drop(segments.remove(&nullifier)),
        }
        committed?;
        Ok(true)
    }

    /// The segment ids of a rotation that is over, in hexadecimal, ascending; only from k of them on.
    ///
    /// # Errors
    /// If the audience is not the advertiser's, the rotation is not over, or there are too few.
    pub fn segments(&self, by: u64, audience: u64, rotation: Option<u64>, now: Millis) -> Result<(u64, Vec<String>)> {
        let config = self.audience_config()?;
        self.record_of(Some(by), audience)?;
        let current = config.rotation(now);
        let rotation = rotation.unwrap_or(current.saturating_sub(1));
        if rotation >= current {
            return Err(wrong("rotation", &rotation, &format!("one before {current}, which is under way")));
        }
        let state = self.state();
        let found = state.audiences.segments.get(&(audience, rotation));
        let mut ids: Vec<String> =
            found.into_iter().flat_map(|all| all.values()).map(|(segment, _)| to_hex(segment)).collect();
        if ids.len() < config.k as usize {
            let text = format!("fewer than {} segment ids were reported in rotation {rotation}", config.k);
            return Err(AudienceError::Few(text));
        }
        ids.sort_unstable();
        Ok((rotation, ids))
    }

    /// Deletes what belongs to rotations long over.
    pub(in crate::federation) async fn end_rotations(&self, now: Millis) -> Result<(), CommitError> {
        let Some(config) = &self.config.audiences else { return Ok(()) };
        let before = config.rotation(now).saturating_sub(KEPT);
        let is_old = {
            let state = self.state();
            let all = &state.audiences;
            all.issued.keys().any(|&rotation| rotation < before)
                || all.segments.keys().any(|&(_, rotation)| rotation < before)
        };
        if !is_old {
            return Ok(());
        }
        self.commit(Change::EndRotations { federation: self.id, before }).await?;
        let mut state = self.state();
        state.audiences.issued.retain(|&rotation, _| rotation >= before);
        state.audiences.segments.retain(|&(_, rotation), _| rotation >= before);
        Ok(())
    }
}
