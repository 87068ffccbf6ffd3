//! The server's half: takes messages in, and at the end of each step says who is still there.

use super::graph::Graph;
use super::identity::signed;
use super::keys;
use super::mask::{add_words, digest};
use super::messages::{
    Advertise, Confirm, Confirmed, Head, Inbox, Masked, Message, Neighbours, Peer, PublicKeys, Revealed,
    SealedShare, Shares, Survivors, Unmask,
};
use super::outcome::{Aborted, Received, Rejected, Step, Sum};
use super::unmasking;
use super::{Parameters, Seat, Terms, TermsError};
use crate::Generator;
use std::collections::{BTreeMap, BTreeSet};

/// One round at the server. Its state is a function of the terms, the seed, the messages of each step in any order, and the
/// calls of [`close_step`](Self::close_step) between them.
pub struct Server {
    pub(crate) terms: Terms,
    seed: [u8; 32],
    step: Step,
    aborted: Option<Aborted>,
    pub(crate) keys: BTreeMap<Seat, PublicKeys>,
    /// Whose each key and identity is: none may be two devices'.
    owners: BTreeMap<[u8; 32], Seat>,
    pub(crate) parameters: Option<Parameters>,
    pub(crate) graph: Option<Graph>,
    pub(crate) shares: BTreeMap<Seat, Shares>,
    /// With a digest, by which the same message is known again.
    pub(crate) masked: BTreeMap<Seat, [u8; 32]>,
    pub(crate) sum: Vec<u32>,
    confirmed: BTreeMap<Seat, Confirm>,
    pub(crate) unmasked: BTreeMap<Seat, Unmask>,
}

impl Server {
    /// A round that begins. The seed orders the ring of neighbours; devices that could foretell it could gather around one.
    pub fn new(terms: Terms, seed: [u8; 32]) -> Result<Self, TermsError> {
        terms.check()?;
        let sum = vec![0; terms.length as usize];
        Ok(Self {
            terms,
            seed,
            step: Step::Advertise,
            aborted: None,
            keys: BTreeMap::new(),
            owners: BTreeMap::new(),
            parameters: None,
            graph: None,
            shares: BTreeMap::new(),
            masked: BTreeMap::new(),
            sum,
            confirmed: BTreeMap::new(),
            unmasked: BTreeMap::new(),
        })
    }

    /// The terms of the round.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// What it is waiting for.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Neighbours and threshold, once it is known who advertised.
    pub fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_ref()
    }

    /// Why the round ended without a sum, if it did.
    pub fn aborted(&self) -> Option<&Aborted> {
        self.aborted.as_ref()
    }

    /// Who has a part in this step.
    pub fn taking_part(&self) -> Vec<Seat> {
        match self.step {
            Step::Advertise => (0..self.terms.devices).collect(),
            Step::Share => self.keys.keys().copied().collect(),
            Step::Mask => self.shares.keys().copied().collect(),
            Step::Unmask if self.terms.signed => self.confirmed.keys().copied().collect(),
            Step::Confirm | Step::Unmask => self.masked.keys().copied().collect(),
            Step::Done => Vec::new(),
        }
    }

    /// Whose message of this step is not there yet.
    pub fn waiting_for(&self) -> Vec<Seat> {
        self.taking_part().into_iter().filter(|&seat| !self.has(seat)).collect()
    }

    /// Whether a device has a part in this step.
    pub fn takes_part(&self, seat: Seat) -> bool {
        match self.step {
            Step::Advertise => seat < self.terms.devices,
            Step::Share => self.keys.contains_key(&seat),
            Step::Mask => self.shares.contains_key(&seat),
            // Who has not confirmed does not unmask either: it waits for what it was told of the survivors.
            Step::Unmask if self.terms.signed => self.confirmed.contains_key(&seat),
            Step::Confirm | Step::Unmask => self.masked.contains_key(&seat),
            Step::Done => false,
        }
    }

    /// Whether a device's message of this step is there.
    pub fn has(&self, seat: Seat) -> bool {
        match self.step {
            Step::Advertise => self.keys.contains_key(&seat),
            Step::Share => self.shares.contains_key(&seat),
            Step::Mask => self.masked.contains_key(&seat),
            Step::Confirm => self.confirmed.contains_key(&seat),
            Step::Unmask => self.unmasked.contains_key(&seat),
            Step::Done => false,
        }
    }

    /// Takes a message of this step from the device that the transport knows to have this seat.
    pub fn receive(&mut self, seat: Seat, bytes: &[u8]) -> Result<Received, Rejected> {
        if !self.takes_part(seat) || self.aborted.is_some() {
            return Err(Rejected::NoPart { seat, step: self.step });
        }
        match self.step {
            Step::Advertise => self.advertise(self.decode(seat, bytes)?),
            Step::Share => self.share(self.decode(seat, bytes)?),
            Step::Mask => self.mask(&self.decode(seat, bytes)?),
            Step::Confirm => self.confirm(self.decode(seat, bytes)?),
            Step::Unmask => self.unmask(self.decode(seat, bytes)?),
            Step::Done => Err(Rejected::NoPart { seat, step: self.step }),
        }
    }

    fn decode<M: Message>(&self, seat: Seat, bytes: &[u8]) -> Result<M, Rejected> {
        let message = M::decode(bytes).map_err(|why| Rejected::Malformed { step: self.step, why })?;
        let (found, expected) = (message.head(), Head::new(&self.terms, seat));
        if found == expected { Ok(message) } else { Err(Rejected::Elsewhere { found, seat, expected }) }
    }

    fn advertise(&mut self, message: Advertise) -> Result<Received, Rejected> {
        let (seat, keys) = (message.head.seat, message.keys);
        if keys.signed.is_some() != self.terms.signed {
            return Err(Rejected::Identity(seat));
        }
        self.check_identity(seat, &keys)?;
        let both = [keys.boxes, keys.masks];
        if both[0] == both[1]
            || both.iter().any(|key| self.owners.get(key).is_some_and(|owner| *owner != seat))
        {
            return Err(Rejected::Key(seat));
        }
        let identity = keys.signed.map(|(identity, _)| identity);
        let received = put(&mut self.keys, seat, keys, self.step)?;
        self.owners.extend(both.into_iter().chain(identity).map(|key| (key, seat)));
        Ok(received)
    }

    /// That the keys are the identity's own: a device that shows false ones would make its neighbours leave. Which identities
    /// are real, devices know and the server does not.
    fn check_identity(&self, seat: Seat, keys: &PublicKeys) -> Result<(), Rejected> {
        let Some((identity, signature)) = &keys.signed else { return Ok(()) };
        if !signed(identity, &keys::keys_text(&self.terms, seat, keys), signature) {
            return Err(Rejected::Signature { seat, list: "keys" });
        }
        match self.owners.get(identity) {
            Some(owner) if *owner != seat => Err(Rejected::Twice(seat)),
            _ => Ok(()),
        }
    }

    fn share(&mut self, message: Shares) -> Result<Received, Rejected> {
        let seat = message.head.seat;
        let to: Vec<Seat> = message.boxes.iter().map(|sealed| sealed.seat).collect();
        if to != self.neighbours(seat) {
            return Err(Rejected::List { seat, list: "boxes" });
        }
        put(&mut self.shares, seat, message, self.step)
    }

    fn mask(&mut self, message: &Masked) -> Result<Received, Rejected> {
        let (seat, found, expected) = (message.head.seat, message.words.len(), self.terms.length);
        if found != expected as usize {
            return Err(Rejected::Length { seat, found, expected });
        }
        let received = put(&mut self.masked, seat, digest(&message.words), self.step)?;
        if received == Received::New {
            add_words(&mut self.sum, &message.words);
        }
        Ok(received)
    }

    fn confirm(&mut self, message: Confirm) -> Result<Received, Rejected> {
        let seat = message.head.seat;
        let about: Vec<Seat> = message.signatures.iter().map(|(about, _)| *about).collect();
        if about != self.neighbours_in(seat, &self.masked) {
            return Err(Rejected::List { seat, list: "confirmations" });
        }
        let (head, by) = (message.head, self.keys.get(&seat).and_then(|keys| keys.signed));
        let own = |(about, signature): &(Seat, [u8; 64])| {
            by.is_some_and(|(by, _)| signed(&by, &keys::included_text(&head, seat, *about), signature))
        };
        if !message.signatures.iter().all(own) {
            return Err(Rejected::Signature { seat, list: "confirmations" });
        }
        put(&mut self.confirmed, seat, message, self.step)
    }

    fn unmask(&mut self, message: Unmask) -> Result<Received, Rejected> {
        let seat = message.head.seat;
        let of: Vec<Seat> = message.shares.iter().map(|(of, _)| *of).collect();
        let fitting = |(of, share): &(Seat, Revealed)| {
            matches!(share, Revealed::OwnMask(_)) == self.masked.contains_key(of)
        };
        if of != self.neighbours_in(seat, &self.shares) || !message.shares.iter().all(fitting) {
            return Err(Rejected::List { seat, list: "shares" });
        }
        put(&mut self.unmasked, seat, message, self.step)
    }

    pub(crate) fn neighbours(&self, seat: Seat) -> &[Seat] {
        self.graph.as_ref().map_or(&[], |graph| graph.of(seat))
    }

    pub(crate) fn neighbours_in<T>(&self, seat: Seat, those: &BTreeMap<Seat, T>) -> Vec<Seat> {
        self.neighbours(seat).iter().copied().filter(|other| those.contains_key(other)).collect()
    }

    /// Ends this step with those whose messages are there, and begins the next. After an error, the round is over.
    pub fn close_step(&mut self) -> Result<Step, Aborted> {
        if let Some(why) = &self.aborted {
            return Err(why.clone());
        }
        match self.closed() {
            Ok(next) => self.step = next,
            Err(why) => self.aborted = Some(why),
        }
        self.aborted.clone().map_or(Ok(self.step), Err)
    }

    fn closed(&mut self) -> Result<Step, Aborted> {
        match self.step {
            Step::Advertise => self.meet(),
            Step::Share => {
                self.check_left(&self.shares, &self.shares)?;
                Ok(Step::Mask)
            }
            Step::Mask => {
                self.check_left(&self.shares, &self.masked)?;
                Ok(if self.terms.signed { Step::Confirm } else { Step::Unmask })
            }
            Step::Confirm => {
                self.check_left(&self.masked, &self.confirmed)?;
                Ok(Step::Unmask)
            }
            Step::Unmask => {
                self.check_left(&self.shares, &self.unmasked)?;
                let without_masks = unmasking::unmasked(self)?;
                self.sum = without_masks;
                Ok(Step::Done)
            }
            Step::Done => Err(Aborted::Over),
        }
    }

    fn meet(&mut self) -> Result<Step, Aborted> {
        let seats: Vec<Seat> = self.keys.keys().copied().collect();
        let wrong = |why| Aborted::Terms { step: Step::Advertise, why };
        let parameters = self.terms.parameters(seats.len() as u32).map_err(wrong)?;
        self.graph =
            Some(Graph::new(&seats, &parameters, Generator::new(self.seed).stream("secagg ring", 0)));
        self.parameters = Some(parameters);
        Ok(Step::Share)
    }

    /// That of each device in `whose`, enough neighbours are in `left`.
    fn check_left<T, U>(&self, whose: &BTreeMap<Seat, T>, left: &BTreeMap<Seat, U>) -> Result<(), Aborted> {
        let threshold = self.threshold();
        let count = |seat| self.neighbours(seat).iter().filter(|other| left.contains_key(other)).count();
        let poor = whose.keys().map(|&seat| (seat, count(seat))).find(|(_, left)| *left < threshold as usize);
        // With nobody in `whose` there is no neighbourhood to be too small, but no sum either.
        match poor.or(left.is_empty().then_some((0, 0))) {
            Some((seat, left)) => Err(Aborted::TooFew { step: self.step, seat, left, threshold }),
            None => Ok(()),
        }
    }

    pub(crate) fn threshold(&self) -> u32 {
        self.parameters.map_or(u32::MAX, |parameters| parameters.threshold)
    }

    /// What a device gets at the beginning of this step, as bytes; `None` if it has no part in it.
    pub fn message_for(&self, seat: Seat) -> Option<Vec<u8>> {
        if !self.takes_part(seat) || self.aborted.is_some() {
            return None;
        }
        let head = Head::new(&self.terms, seat);
        match self.step {
            Step::Advertise | Step::Done => None,
            Step::Share => Some(self.neighbours_message(head).encode()),
            Step::Mask => Some(Inbox { head, boxes: self.boxes_for(seat) }.encode()),
            Step::Confirm => Some(self.survivors(head).encode()),
            Step::Unmask if self.terms.signed => Some(self.confirmations(head).encode()),
            Step::Unmask => Some(self.survivors(head).encode()),
        }
    }

    fn neighbours_message(&self, head: Head) -> Neighbours {
        let peer = |&seat: &Seat| self.keys.get(&seat).map(|keys| Peer { seat, keys: keys.clone() });
        let peers = self.neighbours(head.seat).iter().filter_map(peer).collect();
        Neighbours { head, devices: self.keys.len() as u32, peers }
    }

    fn boxes_for(&self, seat: Seat) -> Vec<SealedShare> {
        let from = |&other: &Seat| {
            let boxes = &self.shares.get(&other)?.boxes;
            let place = boxes.binary_search_by_key(&seat, |sealed| sealed.seat).ok()?;
            Some(SealedShare { seat: other, sealed: boxes[place].sealed })
        };
        self.neighbours(seat).iter().filter_map(from).collect()
    }

    fn survivors(&self, head: Head) -> Survivors {
        let shared = self.neighbours_in(head.seat, &self.shares);
        let (survived, dropped) = shared.into_iter().partition(|other| self.masked.contains_key(other));
        Survivors { head, survived, dropped }
    }

    fn confirmations(&self, head: Head) -> Confirmed {
        let by = |&other: &Seat| {
            let signatures = &self.confirmed.get(&other)?.signatures;
            let place = signatures.binary_search_by_key(&head.seat, |(about, _)| *about).ok()?;
            Some((other, signatures[place].1))
        };
        Confirmed { head, signatures: self.neighbours(head.seat).iter().filter_map(by).collect() }
    }

    /// The sum, when the round is done.
    pub fn sum(&self) -> Option<Sum> {
        let counted = || self.masked.keys().copied().collect();
        (self.step == Step::Done).then(|| Sum { words: self.sum.clone(), counted: counted() })
    }

    /// Whose inputs came, from the end of the step [`Step::Mask`] on.
    pub fn counted(&self) -> BTreeSet<Seat> {
        self.masked.keys().copied().collect()
    }
}

/// Keeps a device's message of this step; the same again is none the less good, another is not.
fn put<T: PartialEq>(
    into: &mut BTreeMap<Seat, T>,
    seat: Seat,
    message: T,
    step: Step,
) -> Result<Received, Rejected> {
    match into.get(&seat) {
        Some(before) if *before == message => Ok(Received::Again),
        Some(_) => Err(Rejected::Changed { seat, step }),
        None => {
            into.insert(seat, message);
            Ok(Received::New)
        }
    }
}
