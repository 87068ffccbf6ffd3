//! An open round, in memory.

use super::anonymous::OneTimeTokens;
use super::seal::Seal;
use super::uploads::{Result, UploadError};
use crate::storage::{Hash, Millis, OpenRound, Receipt, RoundOpening, RoundRecord, Sender};
use bytes::Bytes;
use sottovoce_federation::{Closing, RoundRules};
use sottovoce_protocol::{RoundTerms, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of a device of the cohort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceState {
    /// It has not answered yet.
    Waiting,
    /// Its update is being stored.
    Storing,
    /// Its update is stored.
    Stored(UploadId),
    /// It was issued its one-time token; whether it has uploaded with it is unknown.
    TokenIssued,
    /// It declined.
    Declined,
}

/// Idempotency key and body digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UploadId {
    pub(crate) key: String,
    pub(crate) digest: Hash,
}

/// An accepted upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It was not stored before.
    New,
    /// It was.
    Repeated,
}

impl UploadId {
    /// How another upload of the same sender compares to this one, which is stored.
    pub(crate) fn compare(&self, other: &Self) -> Result<Admission> {
        match (self.key == other.key, self.digest == other.digest) {
            (true, true) => Ok(Admission::Repeated),
            (true, false) => Err(UploadError::KeyReused),
            (false, _) => Err(UploadError::Duplicate),
        }
    }
}

/// A round that accepts updates or is about to close.
pub(crate) struct Round {
    /// The state of secure aggregation or encryption, if updates are sealed.
    pub(crate) seal: Option<Seal>,
    /// The round's one-time tokens, if uploads are anonymous.
    pub(crate) tokens: Option<OneTimeTokens>,
    /// The measurement that is made in it, if it is no round of training.
    pub(crate) measurement: Option<u64>,
    pub(crate) opening: RoundOpening,
    pub(crate) terms: Arc<RoundTerms>,
    closing: Closing,
    devices: Vec<DeviceState>,
    /// Updates that are being stored.
    storing: usize,
    pub(crate) stored: u32,
    /// The round's record so far.
    pub(crate) record: RoundRecord,
    /// Whether the database has recorded that no more updates are accepted.
    pub(crate) uploads_stopped: bool,
    /// The encoded terms, with the seconds left at the time.
    encoded: Option<(u32, Bytes)>,
}

impl Round {
    pub(crate) fn new(
        opening: RoundOpening,
        terms: RoundTerms,
        over_selection: f64,
        tokens: Option<OneTimeTokens>,
    ) -> Self {
        let deadline = opening.deadline.map(|deadline| seconds(deadline.saturating_sub(opening.opened)));
        let rules = RoundRules { over_selection, deadline };
        let cohort = opening.cohort.len();
        let RoundOpening { federation, round, opened, .. } = opening;
        let (asked, criteria) = (cohort as u32, "{}".to_owned());
        let record = RoundRecord { federation, round, asked, opened, criteria, ..RoundRecord::default() };
        Self {
            closing: Closing::new(&rules, opening.wanted as usize, cohort),
            devices: vec![DeviceState::Waiting; cohort],
            seal: None,
            measurement: None,
            tokens,
            opening,
            terms: Arc::new(terms),
            storing: 0,
            stored: 0,
            record,
            uploads_stopped: false,
            encoded: None,
        }
    }

    /// Restores what is stored of the round.
    pub(crate) fn restore(&mut self, stored: OpenRound) {
        let opened = self.opening.opened;
        for Receipt { sender, key, digest, bytes } in stored.received {
            self.mark_storing(sender);
            self.finish_upload(sender, UploadId { key, digest }, bytes, opened);
        }
        for (device, blinded) in stored.issued {
            if let Some(tokens) = &mut self.tokens {
                tokens.restore(device, blinded);
            }
            // Tokens were issued to the cohort only.
            let _issued = self.token_issued(device);
        }
        for device in stored.declined {
            self.decline(device, opened);
        }
        self.uploads_stopped = stored.closing;
    }

    /// A device's index in the cohort.
    pub(crate) fn seat(&self, device: u32) -> Option<u32> {
        self.index(device).map(|index| index as u32)
    }

    /// Whether the device at a seat declined.
    pub(crate) fn has_declined(&self, seat: u32) -> bool {
        self.devices.get(seat as usize) == Some(&DeviceState::Declined)
    }

    fn index(&self, device: u32) -> Option<usize> {
        self.opening.cohort.binary_search(&device).ok()
    }

    /// The state of a device; `None` if it is not in the cohort.
    pub(crate) fn device(&self, device: u32) -> Option<&DeviceState> {
        self.index(device).map(|index| &self.devices[index])
    }

    fn since_opened(&self, now: Millis) -> f64 {
        seconds(now.saturating_sub(self.opening.opened))
    }

    /// Whether no more updates are accepted.
    pub(crate) fn is_over(&mut self, now: Millis) -> bool {
        self.uploads_stopped
            || match &self.seal {
                Some(seal) => seal.is_over(),
                None => self.has_enough(now),
            }
    }

    /// Whether a round of unsealed updates would be over.
    pub(crate) fn has_enough(&mut self, now: Millis) -> bool {
        self.closing.wait_until(self.since_opened(now)).is_some()
    }

    /// Whether all accepted updates are stored, so that they can be aggregated.
    pub(crate) fn is_settled(&self) -> bool {
        self.storing == 0
    }

    /// Seconds until the deadline, rounded up.
    pub(crate) fn seconds_left(&self, now: Millis) -> u32 {
        let left = self.opening.deadline.map(|deadline| deadline.saturating_sub(now).div_ceil(1000));
        left.map_or(0, |left| left.clamp(1, u64::from(u32::MAX)) as u32)
    }

    /// The encoded terms for a device that checks in now.
    pub(crate) fn encoded_terms(&mut self, now: Millis) -> Bytes {
        let seconds = self.seconds_left(now);
        match &self.encoded {
            Some((left, bytes)) if *left == seconds => bytes.clone(),
            _ => {
                let mut bytes = Vec::new();
                codec::encode_terms(&RoundTerms::clone(&self.terms).with_deadline(seconds), &mut bytes);
                let bytes = Bytes::from(bytes);
                self.encoded = Some((seconds, bytes.clone()));
                bytes
            }
        }
    }

    /// Whether an upload would be accepted.
    pub(crate) fn check_upload(&mut self, sender: Sender, id: &UploadId, now: Millis) -> Result<Admission> {
        let over = self.is_over(now) || self.seal.as_ref().is_some_and(|seal| !seal.accepts_updates());
        let waiting = match sender {
            Sender::Device(device) => match self.device(device).ok_or(UploadError::NotAsked)? {
                DeviceState::Waiting => None,
                DeviceState::Storing => Some(Err(UploadError::Busy)),
                DeviceState::Stored(stored) => Some(stored.compare(id)),
                DeviceState::Declined | DeviceState::TokenIssued => Some(Err(UploadError::Duplicate)),
            },
            Sender::Token(nullifier) => {
                self.tokens.as_ref().ok_or(UploadError::WrongChannel)?.spent_with(&nullifier, id)
            }
        };
        waiting.unwrap_or(if over { Err(UploadError::RoundClosed) } else { Ok(Admission::New) })
    }

    /// Checks an upload and, if it is new, reserves its slot.
    pub(crate) fn reserve(&mut self, sender: Sender, id: &UploadId, now: Millis) -> Result<Admission> {
        let admission = self.check_upload(sender, id, now)?;
        if admission == Admission::New {
            self.mark_storing(sender);
        }
        Ok(admission)
    }

    fn mark_storing(&mut self, sender: Sender) {
        self.storing += usize::from(match sender {
            Sender::Device(device) => self.replace(device, &DeviceState::Waiting, DeviceState::Storing),
            Sender::Token(nullifier) => self.tokens.as_mut().is_some_and(|tokens| tokens.spend(nullifier)),
        });
    }

    /// Changes the state of a device; returns whether it was in the state expected.
    fn replace(&mut self, device: u32, expected: &DeviceState, state: DeviceState) -> bool {
        let index = self.index(device).filter(|&index| self.devices[index] == *expected);
        index.map(|index| self.devices[index] = state).is_some()
    }

    /// An upload whose slot was reserved is stored.
    pub(crate) fn finish_upload(&mut self, sender: Sender, id: UploadId, bytes: u64, now: Millis) {
        let stored = match sender {
            Sender::Device(device) => self.replace(device, &DeviceState::Storing, DeviceState::Stored(id)),
            Sender::Token(nullifier) => self.tokens.as_mut().is_some_and(|tokens| tokens.stored(nullifier, id)),
        };
        if stored {
            self.storing -= 1;
            self.stored += 1;
            self.record.bytes_up += bytes;
            self.closing.answered(self.since_opened(now));
        }
    }

    /// An upload whose slot was reserved could not be stored: the sender may try again.
    pub(crate) fn release(&mut self, sender: Sender) {
        self.storing -= usize::from(match sender {
            Sender::Device(device) => self.replace(device, &DeviceState::Storing, DeviceState::Waiting),
            Sender::Token(nullifier) => self.tokens.as_mut().is_some_and(|tokens| tokens.release(&nullifier)),
        });
    }

    /// Whether a device may be issued its token, or the same one again.
    pub(crate) fn check_token_request(&mut self, device: u32, now: Millis) -> Result<()> {
        let over = self.is_over(now);
        match self.device(device).ok_or(UploadError::NotAsked)? {
            DeviceState::Waiting | DeviceState::TokenIssued if over => Err(UploadError::RoundClosed),
            DeviceState::Waiting | DeviceState::TokenIssued => Ok(()),
            DeviceState::Stored(_) | DeviceState::Storing | DeviceState::Declined => Err(UploadError::Duplicate),
        }
    }

    /// A device was issued its token.
    pub(crate) fn token_issued(&mut self, device: u32) -> Result<()> {
        let index = self.index(device).ok_or(UploadError::NotAsked)?;
        if self.devices[index] == DeviceState::Declined {
            return Err(UploadError::Duplicate);
        }
        self.devices[index] = DeviceState::TokenIssued;
        Ok(())
    }

    /// A device declines; returns whether it had not answered before.
    pub(crate) fn decline(&mut self, device: u32, now: Millis) -> bool {
        let declined = self.replace(device, &DeviceState::Waiting, DeviceState::Declined);
        if declined {
            self.record.declined += 1;
            self.closing.lost(self.since_opened(now));
        }
        declined
    }

    /// A device has left, and its update is removed. An update sent with its token stays: nobody knows which one it is.
    pub(crate) fn remove(&mut self, device: u32, now: Millis) {
        if self.decline(device, now) || self.uploads_stopped {
            return;
        }
        if let Some(index) = self.index(device)
            && matches!(self.devices[index], DeviceState::Stored(_))
        {
            self.devices[index] = DeviceState::Declined;
            self.record.declined += 1;
            self.stored -= 1;
        }
    }

    /// The record of the round if it closes now and produces no version.
    pub(crate) fn close(&self) -> RoundRecord {
        RoundRecord { closed: crate::now(), ..self.record.clone() }
    }

    /// The devices whose updates are stored.
    pub(super) fn answered(&self) -> Vec<u32> {
        let of_device = self.opening.cohort.iter().zip(&self.devices);
        of_device.filter(|(_, state)| matches!(state, DeviceState::Stored(_))).map(|(&device, _)| device).collect()
    }

    /// The uploads stored, to recognise repetitions when the round is over.
    pub(crate) fn into_uploads(self) -> BTreeMap<Sender, UploadId> {
        let stored = |(device, state)| match state {
            DeviceState::Stored(id) => Some((Sender::Device(device), id)),
            _ => None,
        };
        let of_devices = self.opening.cohort.into_iter().zip(self.devices).filter_map(stored);
        of_devices.chain(self.tokens.into_iter().flat_map(OneTimeTokens::into_uploads)).collect()
    }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::anonymous::issuer;
    use sottovoce_protocol::TermsDraft;

    fn opening(cohort: &[u32]) -> RoundOpening {
        let (federation, round, version, minimum) = (1, 0, 0, 1);
        let (opened, deadline) = (1_000, Some(61_000));
        let (cohort, wanted) = (cohort.to_vec(), cohort.len() as u32);
        RoundOpening { federation, round, version, cohort, wanted, minimum, opened, deadline }
    }

    fn round(cohort: &[u32]) -> Round {
        Round::new(opening(cohort), RoundTerms::freeze(TermsDraft::default()).unwrap(), 1.0, None)
    }

    fn anonymous_round(cohort: &[u32]) -> Round {
        Round { tokens: Some(OneTimeTokens::new(issuer(&[3; 32], 1, 0))), ..round(cohort) }
    }

    fn id(key: &str, digest: u8) -> UploadId {
        UploadId { key: key.to_owned(), digest: [digest; 32] }
    }

    const fn device(number: u32) -> Sender {
        Sender::Device(number)
    }

    const fn token(nullifier: u8) -> Sender {
        Sender::Token([nullifier; 32])
    }

    #[test]
    fn repeated_updates_count_once() {
        let mut round = round(&[2, 5]);
        assert_eq!(round.reserve(device(3), &id("a", 1), 2_000), Err(UploadError::NotAsked));
        round.reserve(device(2), &id("a", 1), 2_000).unwrap();
        assert_eq!(round.reserve(device(2), &id("a", 1), 2_000), Err(UploadError::Busy));
        round.release(device(2));
        round.reserve(device(2), &id("a", 1), 2_000).unwrap();
        round.finish_upload(device(2), id("a", 1), 10, 2_000);
        assert_eq!(round.reserve(device(2), &id("a", 1), 2_000), Ok(Admission::Repeated));
        assert_eq!(round.reserve(device(2), &id("a", 2), 2_000), Err(UploadError::KeyReused));
        assert_eq!(round.reserve(device(2), &id("b", 1), 2_000), Err(UploadError::Duplicate));
        assert!(!round.is_over(2_000) && !round.decline(2, 2_000) && round.decline(5, 3_000));
        assert!(round.is_over(3_000) && round.is_settled());
        assert_eq!((round.stored, round.record.declined, round.record.bytes_up), (1, 1, 10));
    }

    #[test]
    fn deadline_waits_for_updates_being_stored() {
        let mut round = round(&[1, 2, 3]);
        assert_eq!((round.seconds_left(1_000), round.seconds_left(60_500)), (60, 1));
        round.reserve(device(1), &id("a", 1), 60_900).unwrap();
        assert!(round.is_over(61_001) && !round.is_settled());
        assert_eq!(round.reserve(device(2), &id("a", 1), 61_001), Err(UploadError::RoundClosed));
        round.finish_upload(device(1), id("a", 1), 4, 61_002);
        assert!(round.is_settled() && round.stored == 1);
        assert_eq!(round.into_uploads().into_keys().collect::<Vec<_>>(), [device(1)]);
    }

    #[test]
    fn leaving_device_removes_its_update() {
        let mut round = round(&[1, 2]);
        round.reserve(device(1), &id("a", 1), 1_500).unwrap();
        round.finish_upload(device(1), id("a", 1), 4, 1_500);
        round.remove(1, 1_600);
        round.remove(2, 1_600);
        assert_eq!((round.stored, round.record.declined), (0, 2));
        assert!(round.is_over(1_700));
    }

    #[test]
    fn stored_round_is_restored() {
        let receipt = Receipt { sender: device(2), key: "k".into(), digest: [7; 32], bytes: 9 };
        let mut round = round(&[1, 2, 3]);
        let stored = OpenRound::new(round.opening.clone());
        round.restore(OpenRound { declined: vec![3], received: vec![receipt], ..stored });
        assert_eq!((round.stored, round.record.declined, round.record.bytes_up), (1, 1, 9));
        assert_eq!(round.reserve(device(2), &id("k", 7), 2_000), Ok(Admission::Repeated));
        round.reserve(device(1), &id("x", 1), 2_000).unwrap();
        round.finish_upload(device(1), id("x", 1), 1, 2_000);
        assert!(round.is_over(2_000));
    }

    #[test]
    fn anonymous_updates_count_and_stay_when_a_token_holder_leaves() {
        let mut round = anonymous_round(&[1, 2, 3]);
        assert_eq!(round.check_token_request(4, 2_000), Err(UploadError::NotAsked));
        round.check_token_request(1, 2_000).unwrap();
        round.token_issued(1).unwrap();
        round.check_token_request(1, 2_000).unwrap();
        assert!(!round.decline(1, 2_000), "its update may come");
        round.reserve(token(7), &id("a", 1), 2_000).unwrap();
        assert!(!round.is_settled());
        round.finish_upload(token(7), id("a", 1), 7, 2_000);
        assert_eq!(round.reserve(token(7), &id("a", 1), 2_000), Ok(Admission::Repeated));
        round.reserve(token(8), &id("b", 1), 2_000).unwrap();
        round.release(token(8));
        assert!(round.is_settled() && !round.is_over(2_000));
        round.remove(1, 2_100);
        assert_eq!((round.stored, round.record.declined, round.record.bytes_up), (1, 0, 7));
        round.remove(2, 2_100);
        assert_eq!(round.token_issued(2), Err(UploadError::Duplicate), "revoked while it was stored");
        assert!(!round.is_over(2_200) && round.decline(3, 2_200) && round.is_over(2_200));
        assert_eq!(round.check_token_request(1, 2_300), Err(UploadError::RoundClosed));
    }

    #[test]
    fn stored_tokens_are_restored_as_issued_and_spent() {
        let receipt = Receipt { sender: token(5), key: "k".into(), digest: [7; 32], bytes: 9 };
        let mut round = anonymous_round(&[1, 2]);
        let stored = OpenRound::new(round.opening.clone());
        round.restore(OpenRound { issued: vec![(2, [8; 32])], received: vec![receipt], ..stored });
        assert_eq!((round.stored, round.record.bytes_up), (1, 9));
        assert_eq!(round.device(1), Some(&DeviceState::Waiting));
        assert_eq!(round.device(2), Some(&DeviceState::TokenIssued));
        assert_eq!(round.reserve(token(5), &id("k", 7), 2_000), Ok(Admission::Repeated));
        round.reserve(token(6), &id("x", 1), 2_000).unwrap();
        round.finish_upload(token(6), id("x", 1), 1, 2_000);
        assert!(round.is_over(2_000));
    }
}
