//! Rounds whose updates are sealed: what is said between devices and server so that their sum, and nothing else, is opened.
//!
//! What devices say is written down before it counts, and so is the end of each step, in one order: a server that was killed
//! hears it all again and stands where it stood.

use super::round::Round;
use super::{Federation, Refused};
use crate::clerk::Clerk;
use crate::storage::{Change, Hash, Millis, SealNote, Storage, StorageError};
use bytes::Bytes;
use sottovoce_privacy::EncryptedSum;
use sottovoce_privacy::secagg::{self, Message as _, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a message beside the update at most: a key and two shares for each of at most 255 neighbours. What an encrypted sum
/// opens to may be as long as an update.
pub(crate) const MOST_NOTE: u64 = 256 << 10;
/// Messages that a device may send in a round beside its update, wrong ones included.
const MOST_NOTES: u32 = 16;

/// A sealed round.
pub(crate) struct Sealing {
    kind: Kind,
    /// Messages that are being written down.
    pending: usize,
    /// Messages of each device so far.
    said: BTreeMap<u32, u32>,
    /// Digests of those that were taken: who was killed before it heard so says them again, perhaps in a later step.
    taken: BTreeMap<u32, Vec<Hash>>,
    /// When the step began.
    since: Millis,
    /// How long a step but the first may take.
    patience: Millis,
    /// When the first step ends in any case.
    deadline: Option<Millis>,
}

/// How single updates are kept from the server.
enum Kind {
    Masks(secagg::Server),
    Locked(Locked),
}

/// Encrypted updates: gathered as plain ones are, then opened by devices.
struct Locked {
    sum: EncryptedSum,
    /// Words of an update.
    length: usize,
    /// Whose updates are in it.
    counted: BTreeSet<u32>,
    /// The sum as devices get it, once no more updates are taken.
    closed: Option<Vec<u8>>,
    /// What devices say it opens to, by a digest, with how many said so.
    answers: BTreeMap<u32, Hash>,
    opened: Option<Vec<u32>>,
    aborted: Option<String>,
}

impl Locked {
    fn is_over(&self) -> bool {
        self.opened.is_some() || self.aborted.is_some()
    }

    /// Devices that must say the same, so that one of them cannot invent the sum.
    fn needed(&self) -> usize {
        self.counted.len().min(2)
    }

    fn receive(&mut self, seat: u32, bytes: &[u8]) -> Result<(), String> {
        if self.closed.is_none() || self.is_over() || !self.counted.contains(&seat) {
            return Err("this device has no part in opening the sum now".to_owned());
        }
        if bytes.len() != 4 * self.length {
            return Err(format!("{} bytes, expected {} words", bytes.len(), self.length));
        }
        let digest = *blake3::hash(bytes).as_bytes();
        if self.answers.insert(seat, digest).is_some_and(|before| before != digest) {
            return Err("this device said something else before".to_owned());
        }
        if self.answers.values().filter(|other| **other == digest).count() >= self.needed() {
            let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
            self.opened = Some(words.collect());
        }
        Ok(())
    }

    fn close_step(&mut self) {
        if self.closed.is_some() {
            self.aborted = Some("too few devices opened the sum alike".to_owned());
            return;
        }
        match self.sum.encode() {
            Some(sum) => self.closed = Some(sum),
            None => self.aborted = Some("no update came".to_owned()),
        }
    }
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
    fn new(kind: Kind, opened: Millis, deadline: Option<Millis>, patience: Millis) -> Self {
        let (said, taken) = (BTreeMap::new(), BTreeMap::new());
        Self { kind, pending: 0, said, taken, since: opened, patience, deadline }
    }

    /// Whether updates are taken now.
    pub(crate) fn takes_updates(&self) -> bool {
        match &self.kind {
            Kind::Masks(masks) => masks.step() == Step::Mask && masks.aborted().is_none(),
            Kind::Locked(locked) => locked.closed.is_none() && !locked.is_over(),
        }
    }

    /// Whether devices may still come in.
    pub(crate) fn takes_newcomers(&self) -> bool {
        match &self.kind {
            Kind::Masks(masks) => masks.step() == Step::Advertise && masks.aborted().is_none(),
            Kind::Locked(_) => self.takes_updates(),
        }
    }

    /// Whether there is a sum, or never will be.
    pub(crate) fn is_over(&self) -> bool {
        match &self.kind {
            Kind::Masks(masks) => masks.step() == Step::Done || masks.aborted().is_some(),
            Kind::Locked(locked) => locked.is_over(),
        }
    }

    /// Whether the step may be closed; `lost` says which seats will not answer, `gathered` whether a round of plain updates
    /// would be over.
    fn step_is_over(&self, now: Millis, gathered: bool, lost: impl Fn(u32) -> bool) -> bool {
        if self.is_over() || self.pending > 0 {
            return false;
        }
        let patient = now < self.since + self.patience;
        match &self.kind {
            Kind::Masks(masks) => {
                let waits = match masks.step() {
                    Step::Advertise => self.deadline.is_none_or(|deadline| now < deadline),
                    _ => patient,
                };
                !waits || masks.waiting_for().into_iter().all(lost)
            }
            Kind::Locked(Locked { closed: None, .. }) => gathered,
            Kind::Locked(_) => !patient,
        }
    }

    fn close_step(&mut self, now: Millis) {
        self.since = now;
        match &mut self.kind {
            Kind::Masks(masks) => {
                // An aborted round tells why when it is closed.
                let _aborted = masks.close_step();
            }
            Kind::Locked(locked) => locked.close_step(),
        }
    }

    fn receive(&mut self, seat: u32, bytes: &[u8]) -> Result<(), String> {
        if self.has_taken(seat, bytes) {
            return Ok(());
        }
        match &mut self.kind {
            Kind::Masks(masks) => masks.receive(seat, bytes).map(|_| ()).map_err(|error| error.to_string()),
            Kind::Locked(locked) => locked.receive(seat, bytes),
        }?;
        self.taken.entry(seat).or_default().push(*blake3::hash(bytes).as_bytes());
        Ok(())
    }

    /// Whether a device said this very thing before.
    fn has_taken(&self, seat: u32, bytes: &[u8]) -> bool {
        self.taken.get(&seat).is_some_and(|taken| taken.contains(blake3::hash(bytes).as_bytes()))
    }

    /// What is there for a device; an error if it has no part in the step.
    fn message_for(&self, seat: u32) -> Result<Heard, Refused> {
        let (part, message) = match &self.kind {
            Kind::Masks(masks) => {
                let part = masks.aborted().is_none() && masks.is_participant(seat);
                (part, if masks.has(seat) { None } else { masks.message_for(seat) })
            }
            Kind::Locked(locked) => {
                let part = locked.counted.contains(&seat) && !locked.is_over();
                let answered = locked.answers.contains_key(&seat);
                (part, locked.closed.as_ref().filter(|_| !answered).cloned())
            }
        };
        if part { Ok(message.map_or(Heard::Wait, Heard::Message)) } else { Err(Refused::RoundClosed) }
    }

    /// The sum and how many updates are in it, or why there is none.
    pub(crate) fn sum(&self) -> Result<(Vec<u32>, u64), String> {
        let early = "the round was closed before its sum was opened";
        match &self.kind {
            Kind::Masks(masks) => match (masks.sum(), masks.aborted()) {
                (Some(sum), _) => Ok((sum.words, sum.counted.len() as u64)),
                (None, why) => Err(why.map_or(early.to_owned(), ToString::to_string)),
            },
            Kind::Locked(locked) => match &locked.opened {
                Some(words) => Ok((words.clone(), locked.sum.added())),
                None => Err(locked.aborted.clone().unwrap_or_else(|| early.to_owned())),
            },
        }
    }

    /// Takes an update that is written down.
    pub(crate) fn take_update(&mut self, seat: u32, bytes: &[u8]) -> Result<(), String> {
        match &mut self.kind {
            Kind::Masks(masks) => masks.receive(seat, bytes).map(|_| ()).map_err(|error| error.to_string()),
            Kind::Locked(locked) => {
                locked.sum.add(bytes).map_err(|error| error.to_string())?;
                locked.counted.insert(seat);
                Ok(())
            }
        }
    }

    /// Whether an update can be one of this round.
    pub(crate) fn look_at(&self, seat: u32, bytes: &[u8]) -> Result<(), Refused> {
        let malformed = |why: String| Refused::Malformed(why);
        let masks = match &self.kind {
            Kind::Masks(masks) => masks,
            Kind::Locked(locked) => {
                return locked.sum.validate(bytes).map_err(|error| malformed(error.to_string()));
            }
        };
        let masked = secagg::Masked::decode(bytes).map_err(|error| malformed(error.to_string()))?;
        if masked.header != secagg::Header::new(masks.config(), seat) {
            return Err(Refused::WrongRound(
                "the update is for another round, federation or seat".to_owned(),
            ));
        }
        let (found, expected) = (masked.words.len(), masks.config().length as usize);
        if found != expected {
            return Err(Refused::WrongShape(format!("{found} words, expected {expected}")));
        }
        if masks.is_participant(seat) { Ok(()) } else { Err(Refused::RoundClosed) }
    }
}

impl Federation {
    /// What a round needs whose updates are sealed; `None` if they are not.
    pub(super) fn seal(&self, round: &Round) -> Option<Sealing> {
        let coordinator = self.coordinator();
        let protected = coordinator.protected()?;
        let length = protected.quantizer().length();
        let patience = u64::from(self.config.seal_step_seconds) * 1000;
        let (opened, deadline) = (round.opening.opened, round.opening.deadline);
        if let Some(lock) = protected.encryption() {
            let sum = EncryptedSum::new(lock.clone());
            let (counted, closed, answers, opened_to, aborted) = Default::default();
            let locked = Locked { sum, length, counted, closed, answers, opened: opened_to, aborted };
            return Some(Sealing::new(Kind::Locked(locked), opened, deadline, patience));
        }
        let terms = protected.config().secagg_config(&round.terms, length)?;
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(b"seal").update(&self.id.to_le_bytes()).update(&round.opening.round.to_le_bytes());
        let masks = secagg::Server::new(terms, *hasher.finalize().as_bytes()).ok()?;
        Some(Sealing::new(Kind::Masks(masks), opened, deadline, patience))
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
        if !self.reserve_note((device, round), &bytes)? {
            return Ok(());
        }
        let note = SealNote { device: Some(device), bytes: bytes.clone() };
        let written = clerk.write(vec![Change::Seal { federation: self.id, round, note }]).await;
        let taken = self.with_sealing(round, |under_way| {
            let seat = under_way.seat(device);
            let sealing = under_way.sealing.as_mut()?;
            sealing.pending -= 1;
            Some(written.map_err(Refused::from).and_then(|()| {
                let seat = seat.ok_or(Refused::NotAsked)?;
                sealing.receive(seat, &bytes).map_err(Refused::Malformed)
            }))
        });
        self.wake.notify_one();
        taken.unwrap_or(Err(Refused::RoundClosed))
    }

    /// Whether it is to be written down; what was said before is not.
    fn reserve_note(&self, (device, round): (u32, u64), bytes: &[u8]) -> Result<bool, Refused> {
        let reserved = self.with_sealing(round, |under_way| {
            let Some(seat) = under_way.seat(device) else { return Some(Err(Refused::NotAsked)) };
            let sealing = under_way.sealing.as_mut()?;
            if sealing.has_taken(seat, bytes) {
                return Some(Ok(false));
            }
            if sealing.is_over() {
                return Some(Err(Refused::RoundClosed));
            }
            let said = sealing.said.entry(seat).or_default();
            *said += 1;
            if *said > MOST_NOTES {
                return Some(Err(Refused::Malformed("more messages than a round has".to_owned())));
            }
            sealing.pending += 1;
            Some(Ok(true))
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
            Some(under_way.sealing.as_ref()?.message_for(seat))
        });
        heard.unwrap_or(Err(Refused::RoundClosed))
    }

    fn with_sealing<T>(&self, round: u64, work: impl FnOnce(&mut Round) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        state.round.as_mut().filter(|each| each.opening.round == round).and_then(work)
    }

    /// The round whose step is over, if one is.
    pub(super) fn step_due(round: &mut Round, now: Millis) -> bool {
        let gathered = round.has_gathered(now);
        let Some(sealing) = &round.sealing else { return false };
        let lost = |seat: u32| round.will_not_answer(seat as usize);
        round.is_settled() && sealing.step_is_over(now, gathered, lost)
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
                    let _again = seat.map(|seat| sealing.receive(seat, &note.bytes));
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
