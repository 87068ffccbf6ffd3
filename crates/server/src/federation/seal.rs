//! Sealed rounds: the messages by which the sum of the updates, and nothing else, is opened.
//!
//! A device's message is stored before it counts, and so is the end of each step, in one order: after a restart the
//! server replays them and is in the same state.

use super::Federation;
use super::keeper::KeptSum;
use super::round::Round;
use super::uploads::{Result, UploadError};
use crate::commit_queue::CommitError;
use crate::storage::{Change, Hash, Millis, SealMessage, Sender, StorageError};
use bytes::Bytes;
use sottovoce_privacy::EncryptedSum;
use sottovoce_privacy::secagg::{self, Message as _, Step, Suspicion};
use std::collections::{BTreeMap, BTreeSet};

/// Messages that a device may send in a round beside its update, wrong ones included.
const MAX_MESSAGES: u32 = 16;

/// The state of a sealed round.
pub(crate) struct Seal {
    kind: Kind,
    /// Messages that are being stored.
    storing: usize,
    /// Messages of each seat so far.
    sent: BTreeMap<u32, u32>,
    /// Digests of the messages accepted: a device that missed the acknowledgement repeats them, perhaps in a later
    /// step.
    accepted: BTreeMap<u32, Vec<Hash>>,
    /// When the step began.
    since: Millis,
    /// How long a step but the first may take.
    step_timeout: Millis,
    /// When the first step ends at the latest.
    deadline: Option<Millis>,
}

/// How single updates are hidden from the server.
#[cfg_attr(not(feature = "he"), expect(clippy::large_enum_variant, reason = "the other kind is absent then"))]
enum Kind {
    /// Secure aggregation.
    Masked(secagg::Server),
    /// Masks with a keeper.
    Kept(KeptSum),
    /// Homomorphic encryption.
    Encrypted(SumDecryption),
}

/// Encrypted updates: collected like plain ones, then decrypted by devices.
struct SumDecryption {
    sum: EncryptedSum,
    /// Values of an update.
    length: usize,
    /// The seats whose updates are in the sum.
    counted: BTreeSet<u32>,
    /// The encoded sum, once no more updates are accepted.
    closed: Option<Vec<u8>>,
    /// Digest of each seat's decryption.
    decryptions: BTreeMap<u32, Hash>,
    opened: Option<Vec<u32>>,
    aborted: Option<String>,
}

/// A message that is in order, to be stored and then counted.
enum Checked {
    Masked(secagg::Checked),
    Decryption(Bytes),
}

impl SumDecryption {
    fn new(sum: EncryptedSum, length: usize) -> Self {
        let (counted, closed, decryptions, opened, aborted) = Default::default();
        Self { sum, length, counted, closed, decryptions, opened, aborted }
    }

    fn is_over(&self) -> bool {
        self.opened.is_some() || self.aborted.is_some()
    }

    /// Checks a decryption of the sum; returns its digest.
    fn check(&self, seat: u32, bytes: &[u8]) -> Result<Hash, String> {
        if self.closed.is_none() || self.is_over() || !self.counted.contains(&seat) {
            return Err("this device has no part in opening the sum now".to_owned());
        }
        if bytes.len() != 4 * self.length {
            return Err(format!("{} bytes, expected {} values", bytes.len(), self.length));
        }
        let digest = *blake3::hash(bytes).as_bytes();
        match self.decryptions.get(&seat) {
            Some(before) if *before != digest => Err("this device sent another decryption before".to_owned()),
            _ => Ok(digest),
        }
    }

    /// Counts a decryption of the sum. Two devices must agree, so that one alone cannot invent the sum.
    fn accept(&mut self, seat: u32, bytes: &[u8]) -> Result<(), String> {
        let digest = self.check(seat, bytes)?;
        self.decryptions.insert(seat, digest);
        let agreeing = self.decryptions.values().filter(|other| **other == digest).count();
        if agreeing >= self.counted.len().min(2) {
            let values = bytes.as_chunks().0.iter().map(|value| u32::from_le_bytes(*value));
            self.opened = Some(values.collect());
        }
        Ok(())
    }

    fn close_step(&mut self) {
        if self.closed.is_some() {
            self.aborted = Some("too few devices agree on the opened sum".to_owned());
            return;
        }
        self.closed = self.sum.encode();
        if self.closed.is_none() {
            self.aborted = Some("no update came".to_owned());
        }
    }
}

impl Seal {
    fn new(kind: Kind, round: &Round, step_timeout: Millis) -> Self {
        let (sent, accepted) = (BTreeMap::new(), BTreeMap::new());
        let (since, deadline) = (round.opening.opened, round.opening.deadline);
        Self { kind, storing: 0, sent, accepted, since, step_timeout, deadline }
    }

    /// The state with a keeper, if there is one.
    pub(super) fn kept(&self) -> Option<&KeptSum> {
        if let Kind::Kept(kept) = &self.kind { Some(kept) } else { None }
    }

    /// The same to be changed.
    pub(super) fn kept_mut(&mut self) -> Option<&mut KeptSum> {
        if let Kind::Kept(kept) = &mut self.kind { Some(kept) } else { None }
    }

    /// Whether updates are accepted in this step.
    pub(crate) fn accepts_updates(&self) -> bool {
        match &self.kind {
            Kind::Masked(masks) => masks.step() == Step::Mask && masks.aborted().is_none(),
            Kind::Kept(kept) => kept.accepts_updates(),
            Kind::Encrypted(encrypted) => encrypted.closed.is_none() && !encrypted.is_over(),
        }
    }

    /// Whether devices can still join.
    pub(crate) fn accepts_devices(&self) -> bool {
        match &self.kind {
            Kind::Masked(masks) => masks.step() == Step::Advertise && masks.aborted().is_none(),
            Kind::Kept(_) | Kind::Encrypted(_) => self.accepts_updates(),
        }
    }

    /// Seats that are suspected of lying, once the round is over.
    pub(super) fn suspects(&self) -> Vec<(u32, Suspicion)> {
        match &self.kind {
            Kind::Masked(masks) => masks.suspects(),
            Kind::Kept(_) | Kind::Encrypted(_) => Vec::new(),
        }
    }

    /// Whether the sum is open, or never will be.
    pub(crate) fn is_over(&self) -> bool {
        match &self.kind {
            Kind::Masked(masks) => masks.step() == Step::Done || masks.aborted().is_some(),
            Kind::Kept(kept) => kept.is_over(),
            Kind::Encrypted(encrypted) => encrypted.is_over(),
        }
    }

    /// Whether the step can be closed; `enough`: whether a round of plain updates would be over.
    fn step_is_over(&self, now: Millis, enough: bool, declined: impl Fn(u32) -> bool) -> bool {
        if self.is_over() || self.storing > 0 {
            return false;
        }
        let timed_out = now >= self.since + self.step_timeout;
        match &self.kind {
            Kind::Masked(masks) => {
                let timed_out = match masks.step() {
                    Step::Advertise => self.deadline.is_some_and(|deadline| now >= deadline),
                    _ => timed_out,
                };
                timed_out || masks.waiting_for().into_iter().all(declined)
            }
            Kind::Kept(kept) => enough && kept.accepts_updates(),
            Kind::Encrypted(SumDecryption { closed: None, .. }) => enough,
            Kind::Encrypted(_) => timed_out,
        }
    }

    fn close_step(&mut self, now: Millis) {
        self.since = now;
        match &mut self.kind {
            Kind::Masked(masks) => {
                // The reason of an abort is recorded when the round closes.
                let _aborted = masks.close_step();
            }
            Kind::Kept(kept) => kept.close(),
            Kind::Encrypted(encrypted) => encrypted.close_step(),
        }
    }

    fn check(&self, seat: u32, bytes: &Bytes) -> Result<Checked> {
        match &self.kind {
            Kind::Masked(masks) => masks.check(seat, bytes).map(Checked::Masked).map_err(|error| {
                // Whoever is slow is not accused of anything.
                if error.is_late() { UploadError::RoundClosed } else { UploadError::invalid("malformed", error) }
            }),
            // There is nothing to say beside the update.
            Kind::Kept(_) => Err(UploadError::RoundClosed),
            Kind::Encrypted(encrypted) => {
                let checked = encrypted.check(seat, bytes).map(|_| Checked::Decryption(bytes.clone()));
                checked.map_err(|error| UploadError::invalid("malformed", error))
            }
        }
    }

    /// Counts a stored message.
    fn accept(&mut self, seat: u32, message: Checked, digest: Hash) -> Result<(), String> {
        match (&mut self.kind, message) {
            (Kind::Masked(masks), Checked::Masked(checked)) => {
                masks.accept(checked).map(drop).map_err(|error| error.to_string())
            }
            (Kind::Encrypted(encrypted), Checked::Decryption(bytes)) => encrypted.accept(seat, &bytes),
            _ => Err("a message of another kind of seal".to_owned()),
        }?;
        self.accepted.entry(seat).or_default().push(digest);
        Ok(())
    }

    /// Counts a message that was stored before the server stopped.
    fn replay(&mut self, seat: u32, bytes: &Bytes) -> Result<(), String> {
        if self.has_accepted(seat, bytes) {
            return Ok(());
        }
        let checked = self.check(seat, bytes).map_err(|error| error.to_string())?;
        self.accept(seat, checked, *blake3::hash(bytes).as_bytes())
    }

    /// The longest message that a device may send beside its update in this step, or repeat of the one before.
    fn message_limit(&self) -> u64 {
        match &self.kind {
            Kind::Masked(masks) => masks.message_limit(),
            Kind::Kept(_) => 0,
            Kind::Encrypted(encrypted) => 4 * encrypted.length as u64,
        }
    }

    fn has_accepted(&self, seat: u32, bytes: &[u8]) -> bool {
        self.accepted.get(&seat).is_some_and(|digests| digests.contains(blake3::hash(bytes).as_bytes()))
    }

    /// A new message, checked, that is to be stored now; `None` if it was accepted before. Nothing that is wrong is
    /// ever stored.
    fn reserve(&mut self, seat: u32, bytes: &Bytes) -> Result<Option<Checked>> {
        if self.has_accepted(seat, bytes) {
            return Ok(None);
        }
        if self.is_over() {
            return Err(UploadError::RoundClosed);
        }
        let sent = self.sent.entry(seat).or_default();
        *sent += 1;
        if *sent > MAX_MESSAGES {
            return Err(UploadError::invalid("malformed", "more messages than a round has"));
        }
        let checked = self.check(seat, bytes)?;
        self.storing += 1;
        Ok(Some(checked))
    }

    fn message_for(&self, seat: u32) -> Result<Option<Vec<u8>>> {
        let (takes_part, message) = match &self.kind {
            Kind::Masked(masks) => {
                let takes_part = masks.aborted().is_none() && masks.is_participant(seat);
                (takes_part, if masks.has(seat) { None } else { masks.message_for(seat) })
            }
            Kind::Kept(_) => (false, None),
            Kind::Encrypted(encrypted) => {
                let takes_part = encrypted.counted.contains(&seat) && !encrypted.is_over();
                let answered = encrypted.decryptions.contains_key(&seat);
                (takes_part, encrypted.closed.as_ref().filter(|_| !answered).cloned())
            }
        };
        if takes_part { Ok(message) } else { Err(UploadError::RoundClosed) }
    }

    /// The sum and the number of updates in it, or why there is none.
    pub(crate) fn sum(&self) -> Result<(Vec<u32>, u64), String> {
        let (sum, aborted) = match &self.kind {
            Kind::Masked(masks) => {
                let sum = masks.sum().map(|sum| (sum.words, sum.counted.len() as u64));
                (sum, masks.aborted().map(ToString::to_string))
            }
            Kind::Kept(kept) => kept.sum(),
            Kind::Encrypted(encrypted) => {
                let sum = encrypted.opened.clone().map(|values| (values, encrypted.sum.added()));
                (sum, encrypted.aborted.clone())
            }
        };
        sum.ok_or_else(|| aborted.unwrap_or("the round closed before its sum was opened".to_owned()))
    }

    /// Adds a stored update.
    fn add_update(&mut self, seat: u32, bytes: &[u8]) -> Result<(), String> {
        match &mut self.kind {
            Kind::Masked(masks) => masks.receive(seat, bytes).map(drop).map_err(|error| error.to_string()),
            // It was validated, and is read again once all have come.
            Kind::Kept(_) => Ok(()),
            Kind::Encrypted(encrypted) => {
                encrypted.sum.add(bytes).map_err(|error| error.to_string())?;
                encrypted.counted.insert(seat);
                Ok(())
            }
        }
    }

    /// Checks that an update belongs to this round.
    pub(crate) fn validate(&self, seat: u32, bytes: &[u8]) -> Result<()> {
        let masks = match &self.kind {
            Kind::Masked(masks) => masks,
            Kind::Kept(kept) => return kept.validate(seat, bytes),
            Kind::Encrypted(encrypted) => {
                return encrypted.sum.validate(bytes).map_err(|error| UploadError::invalid("malformed", error));
            }
        };
        let masked = secagg::Masked::decode(bytes).map_err(|error| UploadError::invalid("malformed", error))?;
        if masked.header != secagg::Header::new(masks.config(), seat) {
            let reason = "the update is for another round, federation or seat";
            return Err(UploadError::invalid("wrong-round", reason));
        }
        let (found, expected) = (masked.words.len(), masks.config().words());
        if found != expected {
            return Err(UploadError::invalid("wrong-shape", format!("{found} words, expected {expected}")));
        }
        if masks.is_participant(seat) { Ok(()) } else { Err(UploadError::RoundClosed) }
    }
}

impl Round {
    /// Adds a stored update to the sealed sum, if the round is sealed.
    pub(super) fn seal_update(&mut self, sender: Sender, bytes: &[u8]) -> Result<(), String> {
        let Sender::Device(device) = sender else { return Ok(()) };
        match (self.seat(device), &mut self.seal) {
            (Some(seat), Some(seal)) => seal.add_update(seat, bytes),
            _ => Ok(()),
        }
    }

    /// Whether the current step of the seal can be closed.
    pub(super) fn seal_step_is_over(&mut self, now: Millis) -> bool {
        let enough = self.has_enough(now);
        let declined = |seat: u32| self.has_declined(seat);
        self.is_settled() && self.seal.as_ref().is_some_and(|seal| seal.step_is_over(now, enough, declined))
    }
}

impl Federation {
    /// The seal of a round on the model of this digest, if its updates are sealed.
    pub(super) fn new_seal(&self, round: &Round, model: &Hash) -> Option<Seal> {
        let protected = self.with_coordinator(round.measurement.is_some(), |of| of.privacy().cloned())?;
        let length = protected.quantizer().length();
        let step_timeout = u64::from(self.config.seal_step_seconds) * 1000;
        let kept = protected.config().keeper_config(&round.terms, model, length);
        let kind = match (protected.encryption(), kept) {
            (Some(encryption), _) => Kind::Encrypted(SumDecryption::new(EncryptedSum::new(encryption.clone()), length)),
            (None, Some((config, _))) => Kind::Kept(KeptSum::new(config)),
            (None, None) => {
                let terms = protected.config().secagg_config(&round.terms, model, length)?;
                let mut hasher = blake3::Hasher::new_keyed(&self.secret);
                let number = round.opening.round.to_le_bytes();
                hasher.update(b"seal").update(&self.id.to_le_bytes()).update(&number);
                Kind::Masked(secagg::Server::new(terms, *hasher.finalize().as_bytes()).ok()?)
            }
        };
        Some(Seal::new(kind, round, step_timeout))
    }

    /// Accepts a message of a device beside its update. Must run to completion.
    ///
    /// # Errors
    /// If it is rejected.
    pub async fn receive_seal_message(&self, (device, round): (u32, u64), bytes: Bytes) -> Result<()> {
        let reserved = self.with_seal(device, round, |seat, seal| seal.reserve(seat, &bytes));
        if let Err(error) = &reserved {
            self.count_refusal(device, round, error).await;
        }
        let Some(checked) = reserved? else { return Ok(()) };
        let digest = *blake3::hash(&bytes).as_bytes();
        let message = SealMessage { device: Some(device), bytes };
        let committed = self.commit(Change::Seal { federation: self.id, round, message }).await;
        let accepted = self.with_seal(device, round, |seat, seal| {
            seal.storing -= 1;
            committed?;
            // Only another device's key in the meantime is a reason to reject it now.
            seal.accept(seat, checked, digest).map_err(|error| UploadError::invalid("malformed", error))
        });
        self.wake.notify_one();
        accepted
    }

    /// The longest message that devices may send in a round now beside their updates. Where no sealed round is open,
    /// long enough for latecomers to be told so; nothing is stored then.
    pub(crate) fn seal_message_limit(&self, round: u64) -> u64 {
        let limit = |open: &mut Round| open.seal.as_ref().map(Seal::message_limit);
        self.state().open_round(round).and_then(limit).unwrap_or(self.upload_limit)
    }

    /// The message of the current step for a device; `None` while other devices have not answered yet.
    ///
    /// # Errors
    /// If it has no part in the round, or no longer.
    pub fn seal_message_for(&self, device: u32, round: u64) -> Result<Option<Vec<u8>>> {
        self.with_seal(device, round, |seat, seal| seal.message_for(seat))
    }

    fn with_seal<T>(&self, device: u32, round: u64, work: impl FnOnce(u32, &mut Seal) -> Result<T>) -> Result<T> {
        let mut state = self.state();
        let open = state.open_round(round).ok_or(UploadError::RoundClosed)?;
        let seat = open.seat(device).ok_or(UploadError::NotAsked)?;
        work(seat, open.seal.as_mut().ok_or(UploadError::RoundClosed)?)
    }

    /// Closes the current step.
    pub(super) async fn close_seal_step(&self) -> Result<(), CommitError> {
        // The step counts as being stored, so that no message comes between its record and its effect.
        let round = match &mut self.state().round {
            Some(Round { seal: Some(seal), opening, .. }) => {
                seal.storing += 1;
                opening.round
            }
            _ => return Ok(()),
        };
        let message = SealMessage { device: None, bytes: Bytes::new() };
        let committed = self.commit(Change::Seal { federation: self.id, round, message }).await;
        if let Some(seal) = self.state().open_round(round).and_then(|open| open.seal.as_mut()) {
            seal.storing -= 1;
            if committed.is_ok() {
                seal.close_step(crate::now());
            }
        }
        committed
    }

    /// Replays the stored messages of a round that was open when the server stopped.
    pub(crate) fn replay_seal(&self, messages: &[SealMessage]) -> Result<(), StorageError> {
        let mut state = self.state();
        let model = state.current.digest;
        let Some(open) = &mut state.round else { return Ok(()) };
        open.seal = self.new_seal(open, &model);
        for message in messages {
            if message.device.is_none() {
                self.replay_updates(open)?;
            }
            let seat = message.device.map(|device| open.seat(device));
            match (seat, &mut open.seal) {
                (None, Some(Seal { kind: Kind::Kept(kept), .. })) if !message.bytes.is_empty() => {
                    kept.restore(&message.bytes);
                }
                (None, Some(seal)) => seal.close_step(crate::now()),
                // What was rejected then is rejected again.
                (Some(Some(seat)), Some(seal)) => drop(seal.replay(seat, &message.bytes)),
                _ => (),
            }
        }
        self.replay_updates(open)
    }

    /// Adds the stored updates to the sum in the step that accepts them.
    fn replay_updates(&self, open: &mut Round) -> Result<(), StorageError> {
        if !open.seal.as_ref().is_some_and(Seal::accepts_updates) {
            return Ok(());
        }
        self.services.storage.updates(self.id, open.opening.round, &mut |sender, bytes| {
            // What was rejected then is rejected again.
            let _added = open.seal_update(sender, bytes);
            Ok(())
        })
    }
}
