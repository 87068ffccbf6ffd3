//! The server's half: receives messages and, at the end of each step, determines who is still in the round.

use super::graph::Graph;
use super::identity::signed;
use super::keys;
use super::mask::{add_words, digest};
use super::messages::{
    Advertise, Confirm, Confirmations, EncryptedShares, Header, Masked, Message, Neighbours, PublicKeys, RevealedShare,
    Shares, Survivors, Unmask,
};
use super::step::{AbortReason, Receipt, RejectedMessage, Step, Sum, Suspicion};
use super::unmasking;
use super::{ClientIndex, Config, ConfigError, Parameters, config::CHECK_WORD};
use crate::SecureRng;
use std::collections::BTreeMap;

/// One round at the server. Its state is a function of the configuration, the seed, the messages of each step in any
/// order, and the calls of [`close_step`](Self::close_step) between them.
pub struct Server {
    pub(crate) config: Config,
    seed: [u8; 32],
    step: Step,
    aborted: Option<AbortReason>,
    pub(crate) keys: BTreeMap<ClientIndex, PublicKeys>,
    /// Owner of each key and identity: none may belong to two devices.
    owners: BTreeMap<[u8; 32], ClientIndex>,
    pub(crate) parameters: Option<Parameters>,
    pub(crate) graph: Option<Graph>,
    pub(crate) shares: BTreeMap<ClientIndex, Shares>,
    /// Digests, to recognise a repeated message.
    pub(crate) masked: BTreeMap<ClientIndex, [u8; 32]>,
    pub(crate) sum: Vec<u32>,
    confirmed: BTreeMap<ClientIndex, Confirm>,
    pub(crate) unmasked: BTreeMap<ClientIndex, Unmask>,
    /// How often each device had to do with a box that did not open, or a false share.
    doubts: Doubts,
}

/// A message that is in order, to be counted by [`Server::accept`].
#[derive(Debug)]
pub struct Checked(ClientIndex, Body);

/// What it says.
#[derive(Debug)]
enum Body {
    Advertise(Advertise),
    Share(Shares),
    Mask(Masked),
    Confirm(Confirm),
    Unmask(Unmask),
}

/// The kinds of message that devices send.
const UP: [u8; 5] = [Advertise::KIND, Shares::KIND, Masked::KIND, Confirm::KIND, Unmask::KIND];
/// What every message begins with, in bytes.
const HEADER_BYTES: u64 = 22;

impl Server {
    /// A new round. The seed orders the ring of neighbours; devices that could predict it could surround another.
    pub fn new(config: Config, seed: [u8; 32]) -> Result<Self, ConfigError> {
        config.check()?;
        let sum = vec![0; config.words()];
        Ok(Self {
            config,
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
            doubts: Doubts::default(),
        })
    }

    /// The round's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The current step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Degree and threshold, once it is known who advertised.
    pub fn parameters(&self) -> Option<&Parameters> {
        self.parameters.as_ref()
    }

    /// Why the round ended without a sum, if it did.
    pub fn aborted(&self) -> Option<&AbortReason> {
        self.aborted.as_ref()
    }

    /// The devices whose message of this step is missing.
    pub fn waiting_for(&self) -> Vec<ClientIndex> {
        let missing = |&client: &ClientIndex| self.is_participant(client) && !self.has(client);
        (0..self.config.devices).filter(missing).collect()
    }

    /// Whether a device is in this step.
    pub fn is_participant(&self, client: ClientIndex) -> bool {
        match self.step {
            Step::Advertise => client < self.config.devices,
            Step::Share => self.keys.contains_key(&client),
            Step::Mask => self.shares.contains_key(&client),
            // A device that has not confirmed cannot unmask: it does not know the survivors.
            Step::Unmask if self.config.signed => self.confirmed.contains_key(&client),
            Step::Confirm | Step::Unmask => self.masked.contains_key(&client),
            Step::Done => false,
        }
    }

    /// Whether a device's message of this step has come.
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

    /// Receives a message of this step from the device that the transport authenticated as this client.
    pub fn receive(&mut self, client: ClientIndex, bytes: &[u8]) -> Result<Receipt, RejectedMessage> {
        let checked = self.check(client, bytes)?;
        self.accept(checked)
    }

    /// Checks a message of this step without counting it, so that it is stored only if it is in order.
    pub fn check(&self, client: ClientIndex, bytes: &[u8]) -> Result<Checked, RejectedMessage> {
        self.check_participant(client)?;
        let of_step = match self.step {
            Step::Advertise => Advertise::KIND,
            Step::Share => Shares::KIND,
            Step::Mask => Masked::KIND,
            Step::Confirm => Confirm::KIND,
            Step::Unmask | Step::Done => Unmask::KIND,
        };
        // Kinds are numbered in the order of the steps.
        if kind_of(bytes).is_some_and(|kind| UP.contains(&kind) && kind < of_step) {
            return Err(RejectedMessage::Late(client, self.step));
        }
        let body = match self.step {
            Step::Advertise => Body::Advertise(self.checked(client, bytes, Self::check_keys)?),
            Step::Share => Body::Share(self.checked(client, bytes, Self::check_shares)?),
            Step::Mask => Body::Mask(self.checked(client, bytes, Self::check_masked)?),
            Step::Confirm => Body::Confirm(self.checked(client, bytes, Self::check_confirmations)?),
            Step::Unmask => Body::Unmask(self.checked(client, bytes, Self::check_revealed)?),
            Step::Done => return Err(RejectedMessage::NotParticipating(client, self.step)),
        };
        Ok(Checked(client, body))
    }

    /// Counts a message that was checked in this step.
    pub fn accept(&mut self, Checked(client, body): Checked) -> Result<Receipt, RejectedMessage> {
        self.check_participant(client)?;
        match (self.step, body) {
            (Step::Advertise, Body::Advertise(message)) => self.advertise(message),
            (Step::Share, Body::Share(message)) => put(&mut self.shares, client, message, self.step),
            (Step::Mask, Body::Mask(message)) => self.mask(&message),
            (Step::Confirm, Body::Confirm(message)) => put(&mut self.confirmed, client, message, self.step),
            (Step::Unmask, Body::Unmask(message)) => put(&mut self.unmasked, client, message, self.step),
            _ => Err(RejectedMessage::NotParticipating(client, self.step)),
        }
    }

    /// The longest message beside the inputs that a device may send in this step, or repeat of the one before, in
    /// bytes.
    pub fn message_limit(&self) -> u64 {
        let neighbours = self.parameters.map_or(0, |parameters| u64::from(parameters.neighbours));
        let advertise = HEADER_BYTES + 65 + 96;
        // Boxes are the longest that is said of each neighbour.
        advertise.max(HEADER_BYTES + 32 + 4 + neighbours * (4 + keys::CIPHERTEXT as u64))
    }

    fn check_participant(&self, client: ClientIndex) -> Result<(), RejectedMessage> {
        match self.is_participant(client) && self.aborted.is_none() {
            true => Ok(()),
            false => Err(RejectedMessage::NotParticipating(client, self.step)),
        }
    }

    fn checked<M: Message>(
        &self,
        client: ClientIndex,
        bytes: &[u8],
        check: impl Fn(&Self, &M) -> Result<(), RejectedMessage>,
    ) -> Result<M, RejectedMessage> {
        let message = self.decode(client, bytes)?;
        check(self, &message)?;
        Ok(message)
    }

    fn decode<M: Message>(&self, client: ClientIndex, bytes: &[u8]) -> Result<M, RejectedMessage> {
        let message = M::decode(bytes).map_err(|why| RejectedMessage::Malformed(self.step, why))?;
        let (found, expected) = (message.header(), Header::new(&self.config, client));
        if found == expected { Ok(message) } else { Err(RejectedMessage::WrongSender(found, client, expected)) }
    }

    fn check_keys(&self, message: &Advertise) -> Result<(), RejectedMessage> {
        let (client, keys) = (message.header.client, &message.keys);
        if keys.signed.is_some() != self.config.signed {
            return Err(RejectedMessage::Identity(client));
        }
        if [&keys.encryption, &keys.masks].into_iter().any(keys::is_low_order) {
            return Err(RejectedMessage::LowOrder(client));
        }
        self.check_identity(client, keys)?;
        self.check_owners(client, keys)?;
        unchanged(&self.keys, client, keys, self.step)
    }

    fn check_owners(&self, client: ClientIndex, keys: &PublicKeys) -> Result<(), RejectedMessage> {
        let both = [keys.encryption, keys.masks];
        let owned = |key: &[u8; 32]| self.owners.get(key).is_some_and(|owner| *owner != client);
        if both[0] == both[1] || both.iter().any(owned) {
            return Err(RejectedMessage::Key(client));
        }
        match keys.signed.as_ref().is_some_and(|(identity, _)| owned(identity)) {
            true => Err(RejectedMessage::DuplicateIdentity(client)),
            false => Ok(()),
        }
    }

    /// Another device may have advertised the same key since this one was checked.
    fn advertise(&mut self, message: Advertise) -> Result<Receipt, RejectedMessage> {
        let (client, keys) = (message.header.client, message.keys);
        self.check_owners(client, &keys)?;
        let identity = keys.signed.map(|(identity, _)| identity);
        let both = [keys.encryption, keys.masks];
        let received = put(&mut self.keys, client, keys, self.step)?;
        self.owners.extend(both.into_iter().chain(identity).map(|key| (key, client)));
        Ok(received)
    }

    /// That the identity signed the keys: a device with false ones would make its neighbours leave. Which identities
    /// are genuine only devices know.
    fn check_identity(&self, client: ClientIndex, keys: &PublicKeys) -> Result<(), RejectedMessage> {
        let Some((identity, signature)) = &keys.signed else { return Ok(()) };
        if !signed(identity, &keys::keys_text(&self.config, client, keys), signature) {
            return Err(RejectedMessage::Signature(client, "keys"));
        }
        Ok(())
    }

    fn check_shares(&self, message: &Shares) -> Result<(), RejectedMessage> {
        let client = message.header.client;
        if !message.encrypted.iter().map(|(to, _)| to).eq(self.neighbours(client)) {
            return Err(RejectedMessage::List(client, "encrypted shares"));
        }
        unchanged(&self.shares, client, message, self.step)
    }

    fn check_masked(&self, message: &Masked) -> Result<(), RejectedMessage> {
        let (client, found, expected) = (message.header.client, message.words.len(), self.config.words());
        if found == expected { Ok(()) } else { Err(RejectedMessage::Length(client, found, expected)) }
    }

    fn mask(&mut self, message: &Masked) -> Result<Receipt, RejectedMessage> {
        let received = put(&mut self.masked, message.header.client, digest(&message.words), self.step)?;
        if received == Receipt::New {
            add_words(&mut self.sum, &message.words);
        }
        Ok(received)
    }

    fn check_confirmations(&self, message: &Confirm) -> Result<(), RejectedMessage> {
        let client = message.header.client;
        let about = self.neighbours_in(client, &self.masked);
        if !message.signatures.iter().map(|(about, _)| about).eq(&about) {
            return Err(RejectedMessage::List(client, "confirmations"));
        }
        let by = self.keys.get(&client).and_then(|keys| keys.signed);
        let own = |(about, signature): &(ClientIndex, [u8; 64])| {
            by.is_some_and(|(by, _)| signed(&by, &keys::included_text(&self.config, client, *about), signature))
        };
        if !message.signatures.iter().all(own) {
            return Err(RejectedMessage::Signature(client, "confirmations"));
        }
        unchanged(&self.confirmed, client, message, self.step)
    }

    /// Neighbours may be left out: their boxes did not open.
    fn check_revealed(&self, message: &Unmask) -> Result<(), RejectedMessage> {
        let client = message.header.client;
        let owners = self.neighbours_in(client, &self.shares);
        let fitting = |(of, share): &(ClientIndex, RevealedShare)| {
            owners.binary_search(of).is_ok()
                && matches!(share, RevealedShare::SelfMask(_)) == self.masked.contains_key(of)
        };
        if !message.shares.iter().all(fitting) {
            return Err(RejectedMessage::List(client, "shares"));
        }
        unchanged(&self.unmasked, client, message, self.step)
    }

    pub(crate) fn neighbours(&self, client: ClientIndex) -> &[ClientIndex] {
        self.graph.as_ref().map_or(&[], |graph| graph.of(client))
    }

    pub(crate) fn neighbours_in<T>(&self, client: ClientIndex, those: &BTreeMap<ClientIndex, T>) -> Vec<ClientIndex> {
        self.neighbours(client).iter().copied().filter(|other| those.contains_key(other)).collect()
    }

    /// Ends this step with the messages that have come, and begins the next. After an error the round is over.
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
            Step::Advertise => self.build_graph(),
            Step::Share => {
                self.check_left(&self.shares, &self.shares)?;
                Ok(Step::Mask)
            }
            Step::Mask => {
                self.check_left(&self.shares, &self.masked)?;
                Ok(if self.config.signed { Step::Confirm } else { Step::Unmask })
            }
            Step::Confirm => {
                self.check_left(&self.masked, &self.confirmed)?;
                Ok(Step::Unmask)
            }
            Step::Unmask => {
                self.check_left(&self.shares, &self.unmasked)?;
                let mut doubts = Doubts::default();
                let without_masks = unmasking::unmasked(self, &mut doubts);
                self.doubts = doubts;
                let mut without_masks = without_masks?;
                self.check_word(without_masks.pop())?;
                self.sum = without_masks;
                Ok(Step::Done)
            }
            Step::Done => Err(AbortReason::Over),
        }
    }

    fn build_graph(&mut self) -> Result<Step, AbortReason> {
        let clients: Vec<ClientIndex> = self.keys.keys().copied().collect();
        let error = |why| AbortReason::Config(Step::Advertise, why);
        let parameters = self.config.parameters(clients.len() as u32).map_err(error)?;
        self.graph = Some(Graph::new(&clients, &parameters, SecureRng::new(self.seed).stream("secagg ring", 0)));
        self.parameters = Some(parameters);
        Ok(Step::Share)
    }

    /// That each device in `whose` has enough neighbours in `left`.
    fn check_left<T, U>(
        &self,
        whose: &BTreeMap<ClientIndex, T>,
        left: &BTreeMap<ClientIndex, U>,
    ) -> Result<(), AbortReason> {
        let threshold = self.threshold();
        let count = |client| self.neighbours(client).iter().filter(|other| left.contains_key(other)).count();
        let poor = whose.keys().map(|&client| (client, count(client))).find(|(_, left)| *left < threshold as usize);
        // With nobody in `whose` no neighbourhood is too small, but there is no sum either.
        match poor.or(left.is_empty().then_some((0, 0))) {
            Some((client, left)) => Err(AbortReason::TooFew(self.step, client, left, threshold)),
            None => Ok(()),
        }
    }

    /// That all masks cancelled: each device adds the same word, so their sum is known. Masks of devices that were told
    /// different terms or another model leave noise, which says nothing of any input, nor of whose mask is left.
    fn check_word(&self, found: Option<u32>) -> Result<(), AbortReason> {
        let counted = self.masked.len();
        if found == Some((counted as u32).wrapping_mul(CHECK_WORD)) {
            Ok(())
        } else {
            Err(AbortReason::Residue(counted))
        }
    }

    pub(crate) fn threshold(&self) -> u32 {
        self.parameters.map_or(u32::MAX, |parameters| parameters.threshold)
    }

    /// What a device receives at the beginning of this step, as bytes; `None` if it is not in it.
    pub fn message_for(&self, client: ClientIndex) -> Option<Vec<u8>> {
        if !self.is_participant(client) || self.aborted.is_some() {
            return None;
        }
        let header = Header::new(&self.config, client);
        match self.step {
            Step::Advertise | Step::Done => None,
            Step::Share => Some(self.neighbours_message(header).encode()),
            Step::Mask => Some(self.encrypted_shares(header).encode()),
            Step::Confirm => Some(self.survivors(header).encode()),
            Step::Unmask if self.config.signed => Some(self.confirmations(header).encode()),
            Step::Unmask => Some(self.survivors(header).encode()),
        }
    }

    fn neighbours_message(&self, header: Header) -> Neighbours {
        let keys = |&client: &ClientIndex| Some((client, self.keys.get(&client)?.clone()));
        let peers = self.neighbours(header.client).iter().filter_map(keys).collect();
        Neighbours { header, devices: self.keys.len() as u32, peers }
    }

    /// What each neighbour of a device says of it in its list.
    fn said_by_neighbours<'a, T: Copy + 'a>(
        &'a self,
        about: ClientIndex,
        list: impl Fn(ClientIndex) -> Option<&'a Vec<(ClientIndex, T)>>,
    ) -> Vec<(ClientIndex, T)> {
        let of = |&other: &ClientIndex| Some((other, *find(list(other)?, about)?));
        self.neighbours(about).iter().filter_map(of).collect()
    }

    fn encrypted_shares(&self, header: Header) -> EncryptedShares {
        let list = |other| self.shares.get(&other).map(|shares| &shares.encrypted);
        EncryptedShares { header, encrypted: self.said_by_neighbours(header.client, list) }
    }

    fn survivors(&self, header: Header) -> Survivors {
        let shared = self.neighbours_in(header.client, &self.shares);
        let (survived, dropped) = shared.into_iter().partition(|other| self.masked.contains_key(other));
        Survivors { header, survived, dropped }
    }

    fn confirmations(&self, header: Header) -> Confirmations {
        let list = |other| self.confirmed.get(&other).map(|confirm| &confirm.signatures);
        Confirmations { header, signatures: self.said_by_neighbours(header.client, list) }
    }

    /// Devices that are suspected of lying, once the round is done or aborted: those whose secret could not be
    /// reconstructed, and those that had trouble with more than half of their neighbours, whose fault each time it was
    /// nobody can tell. So fewer than half of its neighbours cannot make a suspect of an honest device.
    pub fn suspects(&self) -> Vec<(ClientIndex, Suspicion)> {
        let lost = match &self.aborted {
            Some(AbortReason::Shares(client)) => Some(*client),
            // Enough neighbours answered, but they could not open what this device had sent them.
            Some(AbortReason::TooFew(Step::Unmask, client, ..))
                if self.answered(*client) >= self.threshold() as usize =>
            {
                Some(*client)
            }
            _ => None,
        };
        let often = |(client, count): (&ClientIndex, &u32)| {
            let many = 2 * *count as usize > self.neighbours(*client).len() && Some(*client) != lost;
            many.then_some((*client, Suspicion::Neighbours))
        };
        let often = self.doubts.iter().filter_map(often);
        lost.map(|client| (client, Suspicion::Shares)).into_iter().chain(often).collect()
    }

    /// Neighbours of a device that are in the last step.
    fn answered(&self, client: ClientIndex) -> usize {
        self.neighbours(client).iter().filter(|other| self.unmasked.contains_key(other)).count()
    }

    /// The sum, once the round is done.
    pub fn sum(&self) -> Option<Sum> {
        let counted = || self.masked.keys().copied().collect();
        (self.step == Step::Done).then(|| Sum { words: self.sum.clone(), counted: counted() })
    }
}

/// The kind that a message says it is of, without a look at the rest.
fn kind_of(bytes: &[u8]) -> Option<u8> {
    bytes.get(1).copied()
}

/// The entry of a device in a list by ascending index.
pub(super) fn find<T>(list: &[(ClientIndex, T)], client: ClientIndex) -> Option<&T> {
    list.binary_search_by_key(&client, |(of, _)| *of).ok().map(|position| &list[position].1)
}

/// How often each device had to do with a box that did not open, or a false share.
pub(super) type Doubts = BTreeMap<ClientIndex, u32>;

/// That a device sent no other message of this step before.
fn unchanged<T: PartialEq>(
    of: &BTreeMap<ClientIndex, T>,
    client: ClientIndex,
    message: &T,
    step: Step,
) -> Result<(), RejectedMessage> {
    match of.get(&client) {
        Some(before) if before != message => Err(RejectedMessage::Changed(client, step)),
        _ => Ok(()),
    }
}

/// Stores a device's message of this step; the same again is accepted, another is not.
fn put<T: PartialEq>(
    into: &mut BTreeMap<ClientIndex, T>,
    client: ClientIndex,
    message: T,
    step: Step,
) -> Result<Receipt, RejectedMessage> {
    match into.get(&client) {
        Some(before) if *before == message => Ok(Receipt::Duplicate),
        Some(_) => Err(RejectedMessage::Changed(client, step)),
        None => {
            into.insert(client, message);
            Ok(Receipt::New)
        }
    }
}
