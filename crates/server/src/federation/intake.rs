//! Taking an update in: looked at from all sides before anything is kept, acknowledged only when it is durable.

use super::round::{Answer, Known, No, repeated};
use super::{Federation, MOST_BUFFERS};
use crate::clerk::Clerk;
use crate::storage::{Change, Millis, Receipt};
use bytes::Bytes;
use sottovoce_protocol::{DecodeError, FederationId, Received, RoundId, RoundTerms, Update, codec};
use std::sync::{Arc, PoisonError};

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is stored, and will be in the round's sum.
    Stored,
    /// It had been stored before.
    Repeated,
}

/// Why an update was not taken; a device can act on each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The device is not of the round's cohort.
    #[error("this device was not asked into this round; check in")]
    NotAsked,
    /// The round takes no more.
    #[error("the round is over; drop the update and check in")]
    RoundClosed,
    /// No such round yet.
    #[error("this round has not begun; check in")]
    WrongRound(String),
    /// Another update of this device is stored.
    #[error("another answer of this device to this round is stored; drop this one")]
    Duplicate,
    /// Another update is stored under this key.
    #[error("another update is stored under this key; take a new key for other bytes")]
    KeyReused,
    /// Not a message.
    #[error("{0}")]
    Malformed(String),
    /// For other tables.
    #[error("{0}")]
    WrongShape(String),
    /// A value that is not a finite number.
    #[error("{0}")]
    NotFinite(String),
    /// Written in another way than asked, or saying more than was asked.
    #[error("{0}")]
    WrongEncoding(String),
    /// A row whose norm is past the bound.
    #[error("table {table}, row {row}: norm {norm}, at most {most} is taken")]
    RowTooLarge {
        /// Place of the table.
        table: usize,
        /// The row.
        row: usize,
        /// Its norm, rounded.
        norm: String,
        /// The bound.
        most: String,
    },
    /// The device has had another token of this round.
    #[error("another token of this round was given to this device; there is one each")]
    TokenTaken,
    /// Not a token of this round.
    #[error("{0}")]
    BadToken(String),
    /// Uploads come in another way, as the round's terms say.
    #[error("updates of this round come in another way: with a token or with a credential, as its terms say")]
    OtherWay,
    /// Too much to do at the moment, or the same update is being stored: send the same again.
    #[error("busy; send the same again")]
    Busy,
    /// The database does not take it: send the same again later.
    #[error("the update could not be stored; send the same again later")]
    NotStored,
}

impl Federation {
    /// Takes an update of a device in. Not to be dropped before it is done.
    ///
    /// # Errors
    /// If it is refused; then nothing has changed.
    pub async fn take_update(
        &self,
        clerk: &Clerk,
        (device, round): (u32, u64),
        key: &str,
        bytes: Bytes,
        now: Millis,
    ) -> Result<Taken, Refused> {
        let known = Known { key: key.to_owned(), digest: *blake3::hash(&bytes).as_bytes() };
        if self.anonymous {
            return Err(Refused::OtherWay);
        }
        let Some(terms) = self.expects(device, round, &known, now)? else { return Ok(Taken::Repeated) };
        let looked_at = match self.look_at_sealed((device, round), &bytes) {
            Some(looked_at) => looked_at.map_err(Some),
            None => self.look_at(&bytes, &terms),
        };
        if let Err(refused) = looked_at.and_then(|()| self.reserve(device, round, &known, now)) {
            let Some(refused) = refused else { return Ok(Taken::Repeated) };
            if refused != Refused::Busy {
                self.count_refused(round);
            }
            return Err(refused);
        }
        self.store(clerk, (device, round), known, bytes).await
    }

    async fn store(
        &self,
        clerk: &Clerk,
        (device, round): (u32, u64),
        known: Known,
        bytes: Bytes,
    ) -> Result<Taken, Refused> {
        let (size, sealed) = (bytes.len() as u64, bytes.clone());
        let receipt = Receipt { device, key: known.key.clone(), digest: known.digest, bytes: size };
        let upload = Change::Upload { federation: self.id, round, receipt, bytes };
        let written = clerk.write(vec![upload]).await;
        let mut state = self.state();
        if let Some(under_way) = state.round.as_mut().filter(|under_way| under_way.opening.round == round) {
            match written {
                Ok(()) => {
                    under_way.keep(device, known, size, crate::now());
                    let seat = under_way.seat(device);
                    if let (Some(seat), Some(sealing)) = (seat, &mut under_way.sealing) {
                        // It was looked at, and its step waits for what is pending.
                        let _taken = sealing.take_update(seat, &sealed);
                    }
                }
                Err(_) => under_way.release(device),
            }
        }
        drop(state);
        self.wake.notify_one();
        written.map(|()| Taken::Stored).map_err(Refused::from)
    }

    /// The terms of the round that this device is expected to answer; `None` if it has, with this very update.
    fn expects(
        &self,
        device: u32,
        round: u64,
        known: &Known,
        now: Millis,
    ) -> Result<Option<Arc<RoundTerms>>, Refused> {
        let mut state = self.state();
        let next = state.next_round;
        if let Some(under_way) = state.round.as_mut().filter(|under_way| under_way.opening.round == round) {
            return match under_way.may_take(device, known, now) {
                Ok(()) => Ok(Some(Arc::clone(&under_way.terms))),
                Err(no) => {
                    under_way.refused += u32::from(no != No::Repeated);
                    told(no).map(|()| None)
                }
            };
        }
        if round >= next {
            return Err(Refused::WrongRound(format!("round {round} has not begun; check in")));
        }
        match state.past.get(&round).and_then(|past| past.get(&device)) {
            Some(stored) => told(repeated(stored, known)).map(|()| None),
            None => Err(Refused::RoundClosed),
        }
    }

    /// Keeps the update's place; `Err(None)` if the same was stored in the meantime.
    fn reserve(&self, device: u32, round: u64, known: &Known, now: Millis) -> Result<(), Option<Refused>> {
        let mut state = self.state();
        let under_way = state.round.as_mut().filter(|under_way| under_way.opening.round == round);
        let no = match under_way {
            Some(under_way) => under_way.reserve(device, known, now).err(),
            None => Some(No::Over),
        };
        no.map_or(Ok(()), |no| Err(told(no).err()))
    }

    pub(super) fn count_refused(&self, round: u64) {
        if let Some(under_way) = self.state().round.as_mut().filter(|each| each.opening.round == round) {
            under_way.refused += 1;
        }
    }

    /// The same for a sealed update; `None` if updates are not sealed.
    fn look_at_sealed(&self, (device, round): (u32, u64), bytes: &[u8]) -> Option<Result<(), Refused>> {
        let state = self.state();
        let under_way = state.round.as_ref().filter(|under_way| under_way.opening.round == round)?;
        let sealing = under_way.sealing.as_ref()?;
        Some(under_way.seat(device).ok_or(Refused::NotAsked).and_then(|seat| sealing.look_at(seat, bytes)))
    }

    /// Decodes an update and checks it against the terms and the bound on rows.
    pub(super) fn look_at(&self, bytes: &[u8], terms: &RoundTerms) -> Result<(), Option<Refused>> {
        let mut buffer = self.buffer();
        let looked_at = self.decode(bytes, terms, &mut buffer);
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < MOST_BUFFERS {
            buffers.push(buffer);
        }
        looked_at.map_err(Some)
    }

    fn decode(&self, bytes: &[u8], terms: &RoundTerms, buffer: &mut Received) -> Result<(), Refused> {
        if let Some(length) = self.words {
            let layout = self.layout.fingerprint();
            let words = codec::decode_quantized(bytes, layout, length).map_err(|error| of_decoding(&error))?;
            return check_address((words.federation, words.round), terms);
        }
        codec::decode_update(bytes, buffer).map_err(|error| of_decoding(&error))?;
        check_address((buffer.federation(), buffer.round()), terms)?;
        buffer.check(terms).map_err(|error| Refused::WrongEncoding(error.to_string()))?;
        match self.config.row_norm {
            Some(most) => check_norms(buffer.update(), most),
            None => Ok(()),
        }
    }

    pub(super) fn buffer(&self) -> Received {
        let kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Received::new(&self.layout))
    }

    /// A device says that it will not answer.
    ///
    /// # Errors
    /// If the round is not its to refuse, or that could not be written down.
    pub async fn take_refusal(
        &self,
        clerk: &Clerk,
        device: u32,
        round: u64,
        now: Millis,
    ) -> Result<(), Refused> {
        if !self.may_decline(device, round, now)? {
            return Ok(());
        }
        clerk.write(vec![Change::Decline { federation: self.id, round, device }]).await?;
        if let Some(under_way) = self.state().round.as_mut().filter(|each| each.opening.round == round) {
            under_way.decline(device, now);
        }
        self.wake.notify_one();
        Ok(())
    }
}

impl Federation {
    /// Whether a refusal is news; an error if the round is not this device's to refuse.
    fn may_decline(&self, device: u32, round: u64, now: Millis) -> Result<bool, Refused> {
        {
            let mut state = self.state();
            let under_way = state.round.as_mut().filter(|each| each.opening.round == round);
            if let Some(under_way) = under_way {
                let goes_on = under_way.sealing.is_some() && !under_way.is_over(now);
                match under_way.answer(device) {
                    Some(Answer::Declined) => return Ok(false),
                    // A sealed round takes updates only in one of its steps, but a refusal in all.
                    Some(Answer::Awaited) if goes_on => return Ok(true),
                    _ => (),
                }
            }
        }
        let nothing = Known { key: String::new(), digest: [0; 32] };
        Ok(self.expects(device, round, &nothing, now)?.is_some())
    }
}

/// What a device is told; a repetition is none of the refusals.
pub(super) fn told(no: No) -> Result<(), Refused> {
    Err(match no {
        No::Repeated => return Ok(()),
        No::NotAsked => Refused::NotAsked,
        No::Over => Refused::RoundClosed,
        No::KeyReused => Refused::KeyReused,
        No::Duplicate => Refused::Duplicate,
        No::InProgress => Refused::Busy,
    })
}

fn check_address((federation, round): (FederationId, RoundId), terms: &RoundTerms) -> Result<(), Refused> {
    if (federation, round) == (terms.federation, terms.round) {
        return Ok(());
    }
    Err(Refused::WrongRound(format!(
        "the update is for {federation} and {round}, expected {} and {}",
        terms.federation, terms.round
    )))
}

fn of_decoding(error: &DecodeError) -> Refused {
    let text = error.to_string();
    match error {
        DecodeError::Layout { .. } => Refused::WrongShape(text),
        DecodeError::Value { .. } => Refused::NotFinite(text),
        _ => Refused::Malformed(text),
    }
}

fn check_norms(update: &Update, most: f32) -> Result<(), Refused> {
    let square =
        |values: &[f32]| values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
    for (table, rows) in update.tables().iter().enumerate() {
        for (row, values) in rows.iter() {
            let norm = square(values).sqrt();
            if norm > f64::from(most) {
                let (norm, most) = (format!("{norm:.4}"), most.to_string());
                return Err(Refused::RowTooLarge { table, row, norm, most });
            }
        }
    }
    Ok(())
}
