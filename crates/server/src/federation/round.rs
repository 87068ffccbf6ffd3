//! A round under way, in memory.

use super::anonymous::Tokens;
use super::sealing::Sealing;
use crate::storage::{AnonymousReceipt, Hash, Millis, OpenRound, Receipt, RoundOpening, RoundRecord};
use bytes::Bytes;
use sottovoce_federation::{Closing, RoundRules};
use sottovoce_protocol::{RoundTerms, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where one of the cohort stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing heard yet.
    Awaited,
    /// Its update is being written down.
    Pending,
    /// Its update is stored.
    Stored(Known),
    /// It has its token; whether it has answered with it is not known.
    Token,
    /// It will not answer.
    Declined,
}

/// By what a repetition is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) key: String,
    pub(crate) digest: Hash,
}

/// Why an update is not taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum No {
    /// The device is not of the cohort.
    NotAsked,
    /// The round takes no more.
    Over,
    /// The very same was stored before.
    Repeated,
    /// Another one was stored under the same key.
    KeyReused,
    /// Another one was stored, or the device declined.
    Duplicate,
    /// One is being written down at this moment.
    InProgress,
}

/// A round that asks, gathers and ends.
pub(crate) struct Round {
    /// Where updates are sealed: how far their sum is from being opened.
    pub(crate) sealing: Option<Sealing>,
    /// Where uploads do not say whose they are: who has a token, and which were spent.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) opening: RoundOpening,
    pub(crate) terms: Arc<RoundTerms>,
    closing: Closing,
    answers: Vec<Answer>,
    pending: usize,
    pub(crate) stored: u32,
    pub(crate) declined: u32,
    pub(crate) refused: u32,
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
    /// No more updates are taken, which is written down.
    pub(crate) closing_for_good: bool,
    /// The terms as encoded last, with the seconds that were left.
    encoded: Option<(u32, Bytes)>,
}

impl Round {
    pub(crate) fn new(opening: RoundOpening, terms: Arc<RoundTerms>, over_selection: f64) -> Self {
        let deadline = opening.deadline.map(|deadline| seconds(deadline.saturating_sub(opening.opened)));
        let rules = RoundRules { over_selection, deadline };
        let asked = opening.cohort.len();
        Self {
            closing: Closing::new(&rules, opening.wanted as usize, asked),
            answers: vec![Answer::Awaited; asked],
            sealing: None,
            tokens: None,
            opening,
            terms,
            pending: 0,
            stored: 0,
            declined: 0,
            refused: 0,
            bytes_up: 0,
            bytes_down: 0,
            closing_for_good: false,
            encoded: None,
        }
    }

    /// As it was written down.
    pub(crate) fn restored(found: OpenRound, terms: Arc<RoundTerms>, over_selection: f64) -> Self {
        let mut round = Self::new(found.opening, terms, over_selection);
        for Receipt { device, key, digest, bytes } in found.received {
            if let Some(place) = round.place(device) {
                round.answers[place] = Answer::Pending;
                round.pending += 1;
                round.keep(device, Known { key, digest }, bytes, round.opening.opened);
            }
        }
        for AnonymousReceipt { bytes, .. } in found.anonymous {
            round.expect_one();
            round.one_came(Some(bytes), round.opening.opened);
        }
        for (device, _) in found.issued {
            // Only those of the cohort were given one.
            let _given = round.token_given(device);
        }
        for device in found.declined {
            round.decline(device, round.opening.opened);
        }
        round.closing_for_good = found.closing;
        round
    }

    /// A device's place in the cohort.
    pub(crate) fn seat(&self, device: u32) -> Option<u32> {
        self.place(device).map(|place| place as u32)
    }

    /// Whether the device at a place will not answer.
    pub(crate) fn will_not_answer(&self, place: usize) -> bool {
        self.answers.get(place) == Some(&Answer::Declined)
    }

    fn place(&self, device: u32) -> Option<usize> {
        self.opening.cohort.binary_search(&device).ok()
    }

    /// Where a device stands; `None` if it was not asked.
    pub(crate) fn answer(&self, device: u32) -> Option<&Answer> {
        self.place(device).map(|place| &self.answers[place])
    }

    fn since_opened(&self, now: Millis) -> f64 {
        seconds(now.saturating_sub(self.opening.opened))
    }

    /// Whether no more updates are taken.
    pub(crate) fn is_over(&mut self, now: Millis) -> bool {
        if let Some(sealing) = &self.sealing {
            return self.closing_for_good || sealing.is_over();
        }
        self.closing_for_good || self.closing.wait_until(self.since_opened(now)).is_some()
    }

    /// Whether a round of updates that are not sealed would be over.
    pub(crate) fn has_gathered(&mut self, now: Millis) -> bool {
        self.closing.wait_until(self.since_opened(now)).is_some()
    }

    /// Whether all that was taken is written down, so that it can be added up.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending == 0
    }

    /// Seconds that are left to answer, rounded up.
    pub(crate) fn seconds_left(&self, now: Millis) -> u32 {
        let left = self.opening.deadline.map(|deadline| deadline.saturating_sub(now).div_ceil(1000));
        left.map_or(0, |left| left.clamp(1, u64::from(u32::MAX)) as u32)
    }

    /// The terms for a device that checks in now, encoded.
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

    /// Looks whether an update may be taken.
    pub(crate) fn may_take(&mut self, device: u32, known: &Known, now: Millis) -> Result<(), No> {
        let over = self.is_over(now) || self.sealing.as_ref().is_some_and(|sealing| !sealing.takes_updates());
        match self.answer(device).ok_or(No::NotAsked)? {
            Answer::Stored(stored) => Err(repeated(stored, known)),
            Answer::Pending => Err(No::InProgress),
            Answer::Declined | Answer::Token => Err(No::Duplicate),
            Answer::Awaited if over => Err(No::Over),
            Answer::Awaited => Ok(()),
        }
    }

    /// The same, and keeps its place.
    pub(crate) fn reserve(&mut self, device: u32, known: &Known, now: Millis) -> Result<(), No> {
        self.may_take(device, known, now)?;
        if let Some(place) = self.place(device) {
            self.answers[place] = Answer::Pending;
            self.pending += 1;
        }
        Ok(())
    }

    /// What was reserved is written down.
    pub(crate) fn keep(&mut self, device: u32, known: Known, bytes: u64, now: Millis) {
        let at = self.since_opened(now);
        if let Some(place) = self.place(device)
            && self.answers[place] == Answer::Pending
        {
            self.answers[place] = Answer::Stored(known);
            self.pending -= 1;
            self.stored += 1;
            self.bytes_up += bytes;
            self.closing.answered(at);
        }
    }

    /// What was reserved could not be written down: the device may try again.
    pub(crate) fn release(&mut self, device: u32) {
        if let Some(place) = self.place(device)
            && self.answers[place] == Answer::Pending
        {
            self.answers[place] = Answer::Awaited;
            self.pending -= 1;
        }
    }

    /// Looks whether a device may have a token, or have it again.
    pub(crate) fn may_have_token(&mut self, device: u32, now: Millis) -> Result<(), No> {
        let over = self.is_over(now);
        match self.answer(device).ok_or(No::NotAsked)? {
            Answer::Awaited | Answer::Token if over => Err(No::Over),
            Answer::Awaited | Answer::Token => Ok(()),
            Answer::Stored(_) | Answer::Pending | Answer::Declined => Err(No::Duplicate),
        }
    }

    /// A device has its token, which is written down.
    pub(crate) fn token_given(&mut self, device: u32) -> Result<(), No> {
        let place = self.place(device).ok_or(No::NotAsked)?;
        if self.answers[place] == Answer::Declined {
            return Err(No::Duplicate);
        }
        self.answers[place] = Answer::Token;
        Ok(())
    }

    /// Somebody's update is being written down.
    pub(crate) fn expect_one(&mut self) {
        self.pending += 1;
    }

    /// It is written down, with so many bytes; `None`: it could not be.
    pub(crate) fn one_came(&mut self, bytes: Option<u64>, now: Millis) {
        self.pending -= 1;
        if let Some(bytes) = bytes {
            self.stored += 1;
            self.bytes_up += bytes;
            self.closing.answered(self.since_opened(now));
        }
    }

    /// A device will not answer; says whether that is news.
    pub(crate) fn decline(&mut self, device: u32, now: Millis) -> bool {
        let at = self.since_opened(now);
        match self.place(device) {
            Some(place) if self.answers[place] == Answer::Awaited => {
                self.answers[place] = Answer::Declined;
                self.declined += 1;
                self.closing.lost(at);
                true
            }
            _ => false,
        }
    }

    /// A device left, and its update with it. What may have come with its token stays: nobody knows which it is.
    pub(crate) fn remove(&mut self, device: u32, now: Millis) {
        if self.decline(device, now) || self.closing_for_good {
            return;
        }
        if let Some(place) = self.place(device)
            && matches!(self.answers[place], Answer::Stored(_))
        {
            self.answers[place] = Answer::Declined;
            self.declined += 1;
            self.stored -= 1;
        }
    }

    /// What there is to tell of it when it ends now and leads to nothing.
    pub(crate) fn record(&self, federation: u64) -> RoundRecord {
        RoundRecord {
            federation,
            round: self.opening.round,
            version: None,
            asked: self.opening.cohort.len() as u32,
            counted: 0,
            declined: self.declined,
            refused: self.refused,
            bytes_up: self.bytes_up,
            bytes_down: self.bytes_down,
            opened: self.opening.opened,
            closed: crate::now(),
            criteria: "{}".to_owned(),
            remark: String::new(),
        }
    }

    /// What is known of stored updates, for repetitions that come when the round is over.
    pub(crate) fn into_known(self) -> BTreeMap<u32, Known> {
        let answers = self.opening.cohort.into_iter().zip(self.answers);
        answers
            .filter_map(|(device, answer)| match answer {
                Answer::Stored(known) => Some((device, known)),
                _ => None,
            })
            .collect()
    }
}

/// What a second update of a device is, beside the one that is stored.
pub(crate) fn repeated(stored: &Known, other: &Known) -> No {
    match (stored.key == other.key, stored.digest == other.digest) {
        (true, true) => No::Repeated,
        (true, false) => No::KeyReused,
        (false, _) => No::Duplicate,
    }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::TermsDraft;

    fn round(cohort: &[u32], wanted: u32) -> Round {
        let (federation, round, version, minimum) = (1, 0, 0, 1);
        let (opened, deadline) = (1_000, Some(61_000));
        let cohort = cohort.to_vec();
        let opening = RoundOpening { federation, round, version, cohort, wanted, minimum, opened, deadline };
        Round::new(opening, Arc::new(RoundTerms::freeze(TermsDraft::default()).unwrap()), 1.0)
    }

    fn known(key: &str, digest: u8) -> Known {
        Known { key: key.to_owned(), digest: [digest; 32] }
    }

    #[test]
    fn an_update_counts_once_whatever_is_sent_again() {
        let mut round = round(&[2, 5], 2);
        assert_eq!(round.reserve(3, &known("a", 1), 2_000), Err(No::NotAsked));
        round.reserve(2, &known("a", 1), 2_000).unwrap();
        assert_eq!(round.reserve(2, &known("a", 1), 2_000), Err(No::InProgress));
        round.release(2);
        round.reserve(2, &known("a", 1), 2_000).unwrap();
        round.keep(2, known("a", 1), 10, 2_000);
        assert_eq!(round.reserve(2, &known("a", 1), 2_000), Err(No::Repeated));
        assert_eq!(round.reserve(2, &known("a", 2), 2_000), Err(No::KeyReused));
        assert_eq!(round.reserve(2, &known("b", 1), 2_000), Err(No::Duplicate));
        assert!(!round.is_over(2_000) && !round.decline(2, 2_000) && round.decline(5, 3_000));
        assert!(round.is_over(3_000) && round.is_settled());
        assert_eq!((round.stored, round.declined, round.bytes_up), (1, 1, 10));
    }

    #[test]
    fn over_at_the_deadline_with_what_is_pending_still_to_come() {
        let mut round = round(&[1, 2, 3], 3);
        assert_eq!((round.seconds_left(1_000), round.seconds_left(60_500)), (60, 1));
        round.reserve(1, &known("a", 1), 60_900).unwrap();
        assert!(round.is_over(61_001) && !round.is_settled());
        assert_eq!(round.reserve(2, &known("a", 1), 61_001), Err(No::Over));
        round.keep(1, known("a", 1), 4, 61_002);
        assert!(round.is_settled() && round.stored == 1);
        assert_eq!(round.into_known().into_keys().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn who_leaves_takes_the_update_along() {
        let mut round = round(&[1, 2], 2);
        round.reserve(1, &known("a", 1), 1_500).unwrap();
        round.keep(1, known("a", 1), 4, 1_500);
        round.remove(1, 1_600);
        round.remove(2, 1_600);
        assert_eq!((round.stored, round.declined), (0, 2));
        assert!(round.is_over(1_700));
    }

    #[test]
    fn a_round_found_in_the_record_goes_on() {
        let opening = round(&[1, 2, 3], 3).opening;
        let terms = Arc::new(RoundTerms::freeze(TermsDraft::default()).unwrap());
        let receipt = Receipt { device: 2, key: "k".into(), digest: [7; 32], bytes: 9 };
        let found = OpenRound {
            opening,
            closing: false,
            declined: vec![3],
            received: vec![receipt],
            notes: vec![],
            issued: vec![],
            anonymous: vec![],
        };
        let mut round = Round::restored(found, terms, 1.0);
        assert_eq!((round.stored, round.declined, round.bytes_up), (1, 1, 9));
        assert_eq!(round.reserve(2, &known("k", 7), 2_000), Err(No::Repeated));
        round.reserve(1, &known("x", 1), 2_000).unwrap();
        round.keep(1, known("x", 1), 1, 2_000);
        assert!(round.is_over(2_000));
    }

    #[test]
    fn updates_of_nobody_count_and_who_has_a_token_may_leave_without_them() {
        let mut round = round(&[1, 2, 3], 3);
        assert_eq!(round.may_have_token(4, 2_000), Err(No::NotAsked));
        round.may_have_token(1, 2_000).unwrap();
        round.token_given(1).unwrap();
        round.may_have_token(1, 2_000).unwrap();
        assert!(!round.decline(1, 2_000), "its update may come");
        round.expect_one();
        assert!(!round.is_settled());
        round.one_came(Some(7), 2_000);
        round.expect_one();
        round.one_came(None, 2_000);
        assert!(round.is_settled() && !round.is_over(2_000));
        round.remove(1, 2_100);
        assert_eq!((round.stored, round.declined, round.bytes_up), (1, 0, 7));
        round.remove(2, 2_100);
        assert_eq!(round.token_given(2), Err(No::Duplicate), "shut out while it was written down");
        assert!(!round.is_over(2_200) && round.decline(3, 2_200) && round.is_over(2_200));
        assert_eq!(round.may_have_token(1, 2_300), Err(No::Over));
    }

    #[test]
    fn tokens_found_in_the_record_stay_given_and_spent() {
        let opening = round(&[1, 2], 2).opening;
        let terms = Arc::new(RoundTerms::freeze(TermsDraft::default()).unwrap());
        let receipt = AnonymousReceipt { nullifier: [5; 32], key: "k".into(), digest: [7; 32], bytes: 9 };
        let (issued, anonymous) = (vec![(2, [8; 32])], vec![receipt]);
        let found = OpenRound {
            opening,
            closing: false,
            declined: vec![],
            received: vec![],
            notes: vec![],
            issued,
            anonymous,
        };
        let mut round = Round::restored(found, terms, 1.0);
        assert_eq!((round.stored, round.bytes_up), (1, 9));
        assert_eq!((round.answer(1), round.answer(2)), (Some(&Answer::Awaited), Some(&Answer::Token)));
        round.expect_one();
        round.one_came(Some(1), 2_000);
        assert!(round.is_over(2_000));
    }
}
