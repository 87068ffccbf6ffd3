//! Rounds whose updates are sealed: what is said between devices and server so that their sum, and nothing else, is opened.
//!
//! What devices say is written down before it counts, and so is the end of each step, in one order: a server that was killed
//! hears it all again and stands where it stood.

use super::round::Round;
use super::{Federation, Refused};
use crate::clerk::Clerk;
use crate::storage::{Change, Millis, SealNote, Storage, StorageError};
use bytes::Bytes;
use sottovoce_privacy::secagg::{self, Step};
use std::collections::BTreeMap;

/// Bytes of a message beside the update at most: a key and two shares for each of at most 255 neighbours.
pub(crate) const MOST_NOTE: u64 = 256 << 10;
/// Messages that a device may send in a round beside its update, wrong ones included.
const MOST_NOTES: u32 = 16;

/// A sealed round.
pub(crate) struct Sealing {
    masks: secagg::Server,
    /// Messages that are being written down.
    pending: usize,
    /// Messages of each device so far.
    said: BTreeMap<u32, u32>,
    /// When the step began.
    since: Millis,
    /// How long a step but the first may take.
    patience: Millis,
    /// When the first step ends in any case.
    deadline: Option<Millis>,
}

/// What a device hears that asks for its part in the step.
#[derive(Debug)]
pub enum Heard {
    /// This is for it.
    Message(Vec<u8>),
    /// Others are awaited.
    Wait,
}

impl Sealing {
    pub(crate) fn new(
        masks: secagg::Server,
        opened: Millis,
        deadline: Option<Millis>,
        patience: Millis,
    ) -> Self {
        Self { masks, pending: 0, said: BTreeMap::new(), since: opened, patience, deadline }
    }

    /// Whether updates are taken now.
    pub(crate) fn takes_updates(&self) -> bool {
        self.masks.step() == Step::Mask && self.masks.aborted().is_none()
    }

    /// Whether devices may still come in.
    pub(crate) fn takes_newcomers(&self) -> bool {
        self.masks.step() == Step::Advertise && self.masks.aborted().is_none()
    }

    /// Whether there is a sum, or never will be.
    pub(crate) fn is_over(&self) -> bool {
        self.masks.step() == Step::Done || self.masks.aborted().is_some()
    }

    /// Whether the step may be closed; `lost` says which seats will not answer.
    fn step_is_over(&self, now: Millis, lost: impl Fn(u32) -> bool) -> bool {
        if self.is_over() || self.pending > 0 {
            return false;
        }
        let ends = match self.masks.step() {
            Step::Advertise => self.deadline,
            _ => Some(self.since + self.patience),
        };
        ends.is_some_and(|ends| now >= ends) || self.masks.waiting_for().into_iter().all(lost)
    }

    fn close_step(&mut self, now: Millis) {
        self.since = now;
        // An aborted round tells why when it is closed.
        let _aborted = self.masks.close_step();
    }

    /// The sum and how many updates are in it, or why there is none.
    pub(crate) fn sum(&self) -> Result<(Vec<u32>, u64), String> {
        match (self.masks.sum(), self.masks.aborted()) {
            (Some(sum), _) => Ok((sum.words, sum.counted.len() as u64)),
            (None, Some(why)) => Err(why.to_string()),
            (None, None) => Err("the round was closed before its sum was opened".to_owned()),
        }
    }

    /// Takes an update that is written down.
    pub(crate) fn take_update(&mut self, seat: u32, bytes: &[u8]) -> Result<(), secagg::Rejected> {
        self.masks.receive(seat, bytes).map(|_| ())
    }

    /// Whether an update can be one of this round.
    pub(crate) fn look_at(&self, seat: u32, bytes: &[u8]) -> Result<(), Refused> {
        use secagg::Message as _;
        let masked = secagg::Masked::decode(bytes).map_err(|error| Refused::Malformed(error.to_string()))?;
        let expected = secagg::Head::new(self.masks.terms(), seat);
        if masked.head != expected {
            return Err(Refused::WrongRound(
                "the update is for another round, federation or seat".to_owned(),
            ));
        }
        let (found, expected) = (masked.words.len(), self.masks.terms().length as usize);
        if found != expected {
            return Err(Refused::WrongShape(format!("{found} words, expected {expected}")));
        }
        if !self.masks.takes_part(seat) {
            return Err(Refused::RoundClosed);
        }
        Ok(())
    }
}

impl Federation {
    /// What a round needs whose updates are sealed; `None` if they are not.
    pub(super) fn seal(&self, round: &Round) -> Option<Sealing> {
        let coordinator = self.coordinator();
        let protected = coordinator.protected()?;
        let terms = protected.protection().masks(&round.terms, protected.packing().length())?;
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(b"seal").update(&self.id.to_le_bytes()).update(&round.opening.round.to_le_bytes());
        let masks = secagg::Server::new(terms, *hasher.finalize().as_bytes()).ok()?;
        let patience = u64::from(self.config.seal_step_seconds) * 1000;
        Some(Sealing::new(masks, round.opening.opened, round.opening.deadline, patience))
    }

    /// A device says something beside its update. Not to be dropped before it is done.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn take_note(
        &self,
        clerk: &Clerk,
        (device, round): (u32, u64),
        bytes: Bytes,
    ) -> Result<(), Refused> {
        self.reserve_note(device, round)?;
        let note = SealNote { device: Some(device), bytes: bytes.clone() };
        let written = clerk.write(vec![Change::Seal { federation: self.id, round, note }]).await;
        let taken = self.with_sealing(round, |under_way| {
            let seat = under_way.seat(device);
            let sealing = under_way.sealing.as_mut()?;
            sealing.pending -= 1;
            Some(written.map_err(Refused::from).and_then(|()| {
                let seat = seat.ok_or(Refused::NotAsked)?;
                let taken = sealing.masks.receive(seat, &bytes);
                taken.map(|_| ()).map_err(|rejected| Refused::Malformed(rejected.to_string()))
            }))
        });
        self.wake.notify_one();
        taken.unwrap_or(Err(Refused::RoundClosed))
    }

    fn reserve_note(&self, device: u32, round: u64) -> Result<(), Refused> {
        let reserved = self.with_sealing(round, |under_way| {
            let Some(seat) = under_way.seat(device) else { return Some(Err(Refused::NotAsked)) };
            let sealing = under_way.sealing.as_mut()?;
            if sealing.is_over() {
                return Some(Err(Refused::RoundClosed));
            }
            let said = sealing.said.entry(seat).or_default();
            *said += 1;
            if *said > MOST_NOTES {
                return Some(Err(Refused::Malformed("more messages than a round has".to_owned())));
            }
            sealing.pending += 1;
            Some(Ok(()))
        });
        reserved.unwrap_or(Err(Refused::RoundClosed))
    }

    /// What is there for a device in this step.
    ///
    /// # Errors
    /// If it has no part in the round, or no longer.
    pub fn hear(&self, device: u32, round: u64) -> Result<Heard, Refused> {
        let heard = self.with_sealing(round, |under_way| {
            let Some(seat) = under_way.seat(device) else { return Some(Err(Refused::NotAsked)) };
            let masks = &under_way.sealing.as_ref()?.masks;
            if masks.aborted().is_some() || !masks.takes_part(seat) {
                return Some(Err(Refused::RoundClosed));
            }
            let message = if masks.has(seat) { None } else { masks.message_for(seat) };
            Some(Ok(message.map_or(Heard::Wait, Heard::Message)))
        });
        heard.unwrap_or(Err(Refused::RoundClosed))
    }

    fn with_sealing<T>(&self, round: u64, work: impl FnOnce(&mut Round) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        state.round.as_mut().filter(|each| each.opening.round == round).and_then(work)
    }

    /// The round whose step is over, if one is.
    pub(super) fn step_due(round: &Round, now: Millis) -> bool {
        let Some(sealing) = &round.sealing else { return false };
        let lost = |seat: u32| round.will_not_answer(seat as usize);
        round.is_settled() && sealing.step_is_over(now, lost)
    }

    /// Ends a step, which is written down.
    pub(super) async fn close_step(&self, clerk: &Clerk) -> Result<(), crate::clerk::ClerkError> {
        let round = self.state().round.as_ref().map(|round| round.opening.round);
        let Some(round) = round else { return Ok(()) };
        // Nothing may come between this note and its effect: messages are taken only while none is pending.
        let held = self
            .with_sealing(round, |under_way| under_way.sealing.as_mut().map(|sealing| sealing.pending += 1));
        if held.is_none() {
            return Ok(());
        }
        let note = SealNote { device: None, bytes: Bytes::new() };
        let written = clerk.write(vec![Change::Seal { federation: self.id, round, note }]).await;
        let _closed = self.with_sealing(round, |under_way| {
            let sealing = under_way.sealing.as_mut()?;
            sealing.pending -= 1;
            if written.is_ok() {
                sealing.close_step(crate::now());
            }
            Some(())
        });
        written
    }

    /// Hears again what was said in a round that was under way.
    pub(crate) fn hear_again(&self, notes: &[SealNote], storage: &dyn Storage) -> Result<(), StorageError> {
        let mut state = self.state();
        let Some(under_way) = &mut state.round else { return Ok(()) };
        under_way.sealing = self.seal(under_way);
        if under_way.sealing.is_none() {
            return Ok(());
        }
        let (id, round) = (self.id, under_way.opening.round);
        for note in notes {
            let seat = note.device.map(|device| under_way.seat(device));
            let Some(sealing) = &mut under_way.sealing else { return Ok(()) };
            match seat {
                // What was refused then is refused again.
                Some(seat) => {
                    let _again = seat.map(|seat| sealing.masks.receive(seat, &note.bytes));
                }
                None => {
                    if sealing.takes_updates() {
                        take_stored(under_way, (id, round), storage)?;
                    }
                    if let Some(sealing) = &mut under_way.sealing {
                        sealing.close_step(crate::now());
                    }
                }
            }
        }
        if under_way.sealing.as_ref().is_some_and(Sealing::takes_updates) {
            take_stored(under_way, (id, round), storage)?;
        }
        Ok(())
    }
}

fn take_stored(
    under_way: &mut Round,
    (federation, round): (u64, u64),
    storage: &dyn Storage,
) -> Result<(), StorageError> {
    storage.updates(federation, round, &mut |device, bytes| {
        if let (Some(seat), Some(sealing)) = (under_way.seat(device), under_way.sealing.as_mut()) {
            let _again = sealing.take_update(seat, bytes);
        }
        Ok(())
    })
}
