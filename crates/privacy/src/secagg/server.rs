//! The server's half: takes messages in, and at the end of each step says who is still there.

use super::graph::Graph;
use super::identity::signed;
use super::keys;
use super::mask::{add_words, digest};
use super::messages::{
    Advertise, Confirm, Confirmations, Header, EncryptedShares, Masked, Message, Neighbours, Peer, PublicKeys, RevealedShare,
    EncryptedShare, Shares, Survivors, Unmask,
};
use super::outcome::{AbortReason, Receipt, RejectedMessage, Step, Sum};
use super::unmasking;
use super::{Parameters, ClientIndex, Config, ConfigError};
use crate::SecureRng;
use std::collections::{BTreeMap, BTreeSet};

/// One round at the server. Its state is a function of the terms, the seed, the messages of each step in any order, and the
/// calls of [`close_step`](Self::close_step) between them.
pub struct Server {
    pub(crate) terms: Config,
    seed: [u8; 32],
    step: Step,
    aborted: Option<AbortReason>,
    pub(crate) keys: BTreeMap<ClientIndex, PublicKeys>,
    /// Whose each key and identity is: none may be two devices'.
    owners: BTreeMap<[u8; 32], ClientIndex>,
    pub(crate) parameters: Option<Parameters>,
    pub(crate) graph: Option<Graph>,
    pub(crate) shares: BTreeMap<ClientIndex, Shares>,
    /// With a digest, by which the same message is known again.
    pub(crate) masked: BTreeMap<ClientIndex, [u8; 32]>,
    pub(crate) sum: Vec<u32>,
    confirmed: BTreeMap<ClientIndex, Confirm>,
    pub(crate) unmasked: BTreeMap<ClientIndex, Unmask>,
}

impl Server {
    /// A round that begins. The seed orders the ring of neighbours; devices that could foretell it could gather around one.
    pub fn new(terms: Config, seed: [u8; 32]) -> Result<Self, ConfigError> {
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
    pub fn terms(&self) -> &Config {
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
    pub fn aborted(&self) -> Option<&AbortReason> {
        self.aborted.as_ref()
    }

    /// Who has a part in this step.
    pub fn participants(&self) -> Vec<ClientIndex> {
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
    pub fn waiting_for(&self) -> Vec<ClientIndex> {
        self.participants().into_iter().filter(|&client| !self.has(client)).collect()
    }

    /// Whether a device has a part in this step.
    pub fn is_participant(&self, client: ClientIndex) -> bool {
        match self.step {
            Step::Advertise => client < self.terms.devices,
            Step::Share => self.keys.contains_key(&client),
            Step::Mask => self.shares.contains_key(&client),
            // Who has not confirmed does not unmask either: it waits for what it was told of the survivors.
            Step::Unmask if self.terms.signed => self.confirmed.contains_key(&client),
            Step::Confirm | Step::Unmask => self.masked.contains_key(&client),
            Step::Done => false,
        }
    }

    /// Whether a device's message of this step is there.
    pub fn has(&self, client: ClientIndex) -> bool {
        match self.step {
            Step::Advertise => self.keys.contains_key(&client),
            Step::Share => self.shares.contains_key(&client),
            Step::Mask => self.masked.contains_key(&client),
            Step::Confirm => self.confirmed.contains_key(&client),
            Step::Unmask => self.unmasked.contains_key(&client),
            Step::Done => false,
        }
    }

    /// Takes a message of this step from the device that the transport trusts to have this client.
    pub fn receive(&mut self, client: ClientIndex, bytes: &[u8]) -> Result<Receipt, RejectedMessage> {
        if !self.is_participant(client) || self.aborted.is_some() {
            return Err(RejectedMessage::NotParticipating { client, step: self.step });
        }
        match self.step {
            Step::Advertise => self.advertise(self.decode(client, bytes)?),
            Step::Share => self.share(self.decode(client, bytes)?),
            Step::Mask => self.mask(&self.decode(client, bytes)?),
            Step::Confirm => self.confirm(self.decode(client, bytes)?),
            Step::Unmask => self.unmask(self.decode(client, bytes)?),
            Step::Done => Err(RejectedMessage::NotParticipating { client, step: self.step }),
        }
    }

    fn decode<M: Message>(&self, client: ClientIndex, bytes: &[u8]) -> Result<M, RejectedMessage> {
        let message = M::decode(bytes).map_err(|why| RejectedMessage::Malformed { step: self.step, why })?;
        let (found, expected) = (message.header(), Header::new(&self.terms, client));
        if found == expected { Ok(message) } else { Err(RejectedMessage::Elsewhere { found, client, expected }) }
    }

    fn advertise(&mut self, message: Advertise) -> Result<Receipt, RejectedMessage> {
        let (client, keys) = (message.header.client, message.keys);
        if keys.signed.is_some() != self.terms.signed {
            return Err(RejectedMessage::Identity(client));
        }
        self.check_identity(client, &keys)?;
        let both = [keys.boxes, keys.masks];
        if both[0] == both[1]
            || both.iter().any(|key| self.owners.get(key).is_some_and(|owner| *owner != client))
        {
            return Err(RejectedMessage::Key(client));
        }
        let identity = keys.signed.map(|(identity, _)| identity);
        let received = put(&mut self.keys, client, keys, self.step)?;
        self.owners.extend(both.into_iter().chain(identity).map(|key| (key, client)));
        Ok(received)
    }

    /// That the keys are the identity's own: a device that shows false ones would make its neighbours leave. Which identities
    /// are real, devices know and the server does not.
    fn check_identity(&self, client: ClientIndex, keys: &PublicKeys) -> Result<(), RejectedMessage> {
        let Some((identity, signature)) = &keys.signed else { return Ok(()) };
        if !signed(identity, &keys::keys_text(&self.terms, client, keys), signature) {
            return Err(RejectedMessage::Signature { client, list: "keys" });
        }
        match self.owners.get(identity) {
            Some(owner) if *owner != client => Err(RejectedMessage::Twice(client)),
            _ => Ok(()),
        }
    }

    fn share(&mut self, message: Shares) -> Result<Receipt, RejectedMessage> {
        let client = message.header.client;
        let to: Vec<ClientIndex> = message.boxes.iter().map(|sealed| sealed.client).collect();
        if to != self.neighbours(client) {
            return Err(RejectedMessage::List { client, list: "boxes" });
        }
        put(&mut self.shares, client, message, self.step)
    }

    fn mask(&mut self, message: &Masked) -> Result<Receipt, RejectedMessage> {
        let (client, found, expected) = (message.header.client, message.words.len(), self.terms.length);
        if found != expected as usize {
            return Err(RejectedMessage::Length { client, found, expected });
        }
        let received = put(&mut self.masked, client, digest(&message.words), self.step)?;
        if received == Receipt::New {
            add_words(&mut self.sum, &message.words);
        }
        Ok(received)
    }

    fn confirm(&mut self, message: Confirm) -> Result<Receipt, RejectedMessage> {
        let client = message.header.client;
        let about: Vec<ClientIndex> = message.signatures.iter().map(|(about, _)| *about).collect();
        if about != self.neighbours_in(client, &self.masked) {
            return Err(RejectedMessage::List { client, list: "confirmations" });
        }
        let (header, by) = (message.header, self.keys.get(&client).and_then(|keys| keys.signed));
        let own = |(about, signature): &(ClientIndex, [u8; 64])| {
            by.is_some_and(|(by, _)| signed(&by, &keys::included_text(&header, client, *about), signature))
        };
        if !message.signatures.iter().all(own) {
            return Err(RejectedMessage::Signature { client, list: "confirmations" });
        }
        put(&mut self.confirmed, client, message, self.step)
    }

    fn unmask(&mut self, message: Unmask) -> Result<Receipt, RejectedMessage> {
        let client = message.header.client;
        let of: Vec<ClientIndex> = message.shares.iter().map(|(of, _)| *of).collect();
        let fitting = |(of, share): &(ClientIndex, RevealedShare)| {
            matches!(share, RevealedShare::SelfMask(_)) == self.masked.contains_key(of)
        };
        if of != self.neighbours_in(client, &self.shares) || !message.shares.iter().all(fitting) {
            return Err(RejectedMessage::List { client, list: "shares" });
        }
        put(&mut self.unmasked, client, message, self.step)
    }

    pub(crate) fn neighbours(&self, client: ClientIndex) -> &[ClientIndex] {
        self.graph.as_ref().map_or(&[], |graph| graph.of(client))
    }

    pub(crate) fn neighbours_in<T>(&self, client: ClientIndex, those: &BTreeMap<ClientIndex, T>) -> Vec<ClientIndex> {
        self.neighbours(client).iter().copied().filter(|other| those.contains_key(other)).collect()
    }

    /// Ends this step with those whose messages are there, and begins the next. After an error, the round is over.
    pub fn close_step(&mut self) -> Result<Step, AbortReason> {
        if let Some(why) = &self.aborted {
            return Err(why.clone());
        }
        match self.closed() {
            Ok(next) => self.step = next,
            Err(why) => self.aborted = Some(why),
        }
        self.aborted.clone().map_or(Ok(self.step), Err)
    }

    fn closed(&mut self) -> Result<Step, AbortReason> {
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
            Step::Done => Err(AbortReason::Over),
        }
    }

    fn meet(&mut self) -> Result<Step, AbortReason> {
        let clients: Vec<ClientIndex> = self.keys.keys().copied().collect();
        let wrong = |why| AbortReason::Config { step: Step::Advertise, why };
        let parameters = self.terms.parameters(clients.len() as u32).map_err(wrong)?;
        self.graph =
            Some(Graph::new(&clients, &parameters, SecureRng::new(self.seed).stream("secagg ring", 0)));
        self.parameters = Some(parameters);
        Ok(Step::Share)
    }

    /// That of each device in `whose`, enough neighbours are in `left`.
    fn check_left<T, U>(&self, whose: &BTreeMap<ClientIndex, T>, left: &BTreeMap<ClientIndex, U>) -> Result<(), AbortReason> {
        let threshold = self.threshold();
        let count = |client| self.neighbours(client).iter().filter(|other| left.contains_key(other)).count();
        let poor = whose.keys().map(|&client| (client, count(client))).find(|(_, left)| *left < threshold as usize);
        // With nobody in `whose` there is no neighbourhood to be too small, but no sum either.
        match poor.or(left.is_empty().then_some((0, 0))) {
            Some((client, left)) => Err(AbortReason::TooFew { step: self.step, client, left, threshold }),
            None => Ok(()),
        }
    }

    pub(crate) fn threshold(&self) -> u32 {
        self.parameters.map_or(u32::MAX, |parameters| parameters.threshold)
    }

    /// What a device gets at the beginning of this step, as bytes; `None` if it has no part in it.
    pub fn message_for(&self, client: ClientIndex) -> Option<Vec<u8>> {
        if !self.is_participant(client) || self.aborted.is_some() {
            return None;
        }
        let header = Header::new(&self.terms, client);
        match self.step {
            Step::Advertise | Step::Done => None,
            Step::Share => Some(self.neighbours_message(header).encode()),
            Step::Mask => Some(EncryptedShares { header, boxes: self.boxes_for(client) }.encode()),
            Step::Confirm => Some(self.survivors(header).encode()),
            Step::Unmask if self.terms.signed => Some(self.confirmations(header).encode()),
            Step::Unmask => Some(self.survivors(header).encode()),
        }
    }

    fn neighbours_message(&self, header: Header) -> Neighbours {
        let peer = |&client: &ClientIndex| self.keys.get(&client).map(|keys| Peer { client, keys: keys.clone() });
        let peers = self.neighbours(header.client).iter().filter_map(peer).collect();
        Neighbours { header, devices: self.keys.len() as u32, peers }
    }

    fn boxes_for(&self, client: ClientIndex) -> Vec<EncryptedShare> {
        let from = |&other: &ClientIndex| {
            let boxes = &self.shares.get(&other)?.boxes;
            let place = boxes.binary_search_by_key(&client, |sealed| sealed.client).ok()?;
            Some(EncryptedShare { client: other, sealed: boxes[place].sealed })
        };
        self.neighbours(client).iter().filter_map(from).collect()
    }

    fn survivors(&self, header: Header) -> Survivors {
        let shared = self.neighbours_in(header.client, &self.shares);
        let (survived, dropped) = shared.into_iter().partition(|other| self.masked.contains_key(other));
        Survivors { header, survived, dropped }
    }

    fn confirmations(&self, header: Header) -> Confirmations {
        let by = |&other: &ClientIndex| {
            let signatures = &self.confirmed.get(&other)?.signatures;
            let place = signatures.binary_search_by_key(&header.client, |(about, _)| *about).ok()?;
            Some((other, signatures[place].1))
        };
        Confirmations { header, signatures: self.neighbours(header.client).iter().filter_map(by).collect() }
    }

    /// The sum, when the round is done.
    pub fn sum(&self) -> Option<Sum> {
        let counted = || self.masked.keys().copied().collect();
        (self.step == Step::Done).then(|| Sum { words: self.sum.clone(), counted: counted() })
    }

    /// Whose inputs came, from the end of the step [`Step::Mask`] on.
    pub fn counted(&self) -> BTreeSet<ClientIndex> {
        self.masked.keys().copied().collect()
    }
}

/// Keeps a device's message of this step; the same again is none the less good, another is not.
fn put<T: PartialEq>(
    into: &mut BTreeMap<ClientIndex, T>,
    client: ClientIndex,
    message: T,
    step: Step,
) -> Result<Receipt, RejectedMessage> {
    match into.get(&client) {
        Some(before) if *before == message => Ok(Receipt::Duplicate),
        Some(_) => Err(RejectedMessage::Changed { client, step }),
        None => {
            into.insert(client, message);
            Ok(Receipt::New)
        }
    }
}
