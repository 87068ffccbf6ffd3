//! The device's half: what it sends at each step, and what it refuses.

use super::identity::{Identity, IdentityKey, signed};
use super::keys::{self, Secrets};
use super::mask::{Sign, apply, digest};
use super::messages::{
    Advertise, Confirm, Confirmations, Header, EncryptedShares, Masked, Message, Neighbours, Peer, PublicKeys, RevealedShare,
    EncryptedShare, Shares, Survivors, Unmask,
};
use super::sharing::{self, Share};
use super::{Malformed, Parameters, ClientIndex, Config, ConfigError};
use crate::tokens::to_hex;
use std::collections::BTreeSet;

/// Why a device does not go on. It has then sent nothing in answer, and its state is as before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// Config that cannot be.
    #[error("the terms: {0}")]
    Config(#[from] ConfigError),
    /// Bytes that are no message.
    #[error("not a message: {0}")]
    Malformed(#[from] Malformed),
    /// A message for another federation, round or device.
    #[error("a message for {found:?}, while this device is {expected:?}")]
    Elsewhere {
        /// Where it belongs.
        found: Header,
        /// Who this is.
        expected: Header,
    },
    /// A client that the round does not have.
    #[error("client {client} in a round of {devices} devices")]
    ClientIndex {
        /// Which.
        client: ClientIndex,
        /// How many there are.
        devices: u32,
    },
    /// A step before its turn.
    #[error("{0} before the step that comes first")]
    TooEarly(&'static str),
    /// Something else than what was received or given before in its place.
    #[error("{0} differs from what this device saw before")]
    Changed(&'static str),
    /// A neighbourhood of the wrong size.
    #[error("{found} neighbours, but {devices} devices make it {expected}")]
    Neighbours {
        /// How many there are.
        found: usize,
        /// How many devices the server says advertised.
        devices: u32,
        /// How many there must be.
        expected: u32,
    },
    /// A list that names this device, a device that is not, or one twice.
    #[error("client {client} has no place among the {list}")]
    Stranger {
        /// Who.
        client: ClientIndex,
        /// Where.
        list: &'static str,
    },
    /// One key for two devices, or one that gives no secret.
    #[error("the key of client {0} is another device's too, or no key")]
    Key(ClientIndex),
    /// Keys without an identity's signature, or with a false one.
    #[error("the keys of client {0} are not signed by the identity that they name for the terms of this round")]
    Unsigned(ClientIndex),
    /// An identity that this device has not heard of from elsewhere.
    #[error("client {client} has the identity {}, which is not in this device's roster: somebody who is not listed yet, or nobody at all", to_hex(.identity))]
    Unknown {
        /// Whose keys.
        client: ClientIndex,
        /// The identity.
        identity: IdentityKey,
    },
    /// One identity in two clients.
    #[error("the identity of client {0} has another client too")]
    Twice(ClientIndex),
    /// A box that its sender did not seal for this device and round.
    #[error("the box from client {0} does not open")]
    Box(ClientIndex),
    /// Too few neighbours.
    #[error("{found} neighbours {what}, but {threshold} are needed")]
    TooFew {
        /// Who did what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The threshold.
        threshold: u32,
    },
    /// An input of the wrong length.
    #[error("{found} values, but the terms say {expected}")]
    Length {
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: u32,
    },
    /// Config with signatures, but no identity was given; or the other way round.
    #[error("the terms and this device do not agree on signatures")]
    Identity,
}

/// A neighbour's two shares that this device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldShares {
    pub(crate) client: ClientIndex,
    pub(crate) own: Share,
    pub(crate) mask: Share,
}

/// One device in one round.
pub struct Device {
    pub(crate) terms: Config,
    pub(crate) client: ClientIndex,
    pub(crate) seed: [u8; 32],
    pub(crate) identity: Option<Identity>,
    pub(crate) neighbours: Option<Neighbours>,
    pub(crate) held: Option<Vec<HeldShares>>,
    /// Of the input: a second one under the same masks would give away the difference.
    pub(crate) input: Option<[u8; 32]>,
    /// The one list that this device answers.
    pub(crate) survivors: Option<Survivors>,
}

impl Device {
    /// A device that takes a client in a round. The seed must be fresh for every round and secret; everything secret follows from it.
    pub fn new(terms: Config, client: ClientIndex, seed: [u8; 32]) -> Result<Self, DeviceError> {
        terms.check()?;
        if client >= terms.devices {
            return Err(DeviceError::ClientIndex { client, devices: terms.devices });
        }
        if terms.signed {
            return Err(DeviceError::Identity);
        }
        Ok(Self {
            terms,
            client,
            seed,
            identity: None,
            neighbours: None,
            held: None,
            input: None,
            survivors: None,
        })
    }

    /// The same where the terms ask for signatures.
    pub fn with_identity(
        terms: Config,
        client: ClientIndex,
        seed: [u8; 32],
        identity: Identity,
    ) -> Result<Self, DeviceError> {
        if !terms.signed {
            return Err(DeviceError::Identity);
        }
        let unsigned = Self::new(Config { signed: false, ..terms.clone() }, client, seed)?;
        Ok(Self { terms, identity: Some(identity), ..unsigned })
    }

    /// The terms it takes part by.
    pub fn terms(&self) -> &Config {
        &self.terms
    }

    /// Its client.
    pub fn client(&self) -> ClientIndex {
        self.client
    }

    fn header(&self) -> Header {
        Header::new(&self.terms, self.client)
    }

    fn mine(&self, message: &impl Message) -> Result<(), DeviceError> {
        let (found, expected) = (message.header(), self.header());
        if found == expected { Ok(()) } else { Err(DeviceError::Elsewhere { found, expected }) }
    }

    /// Step 1: its keys.
    pub fn advertise(&self) -> Advertise {
        let header = self.header();
        let (boxes, masks) = Secrets::new(self.seed).public();
        let mut keys = PublicKeys { boxes, masks, signed: None };
        keys.signed = self
            .identity
            .as_ref()
            .map(|own| (own.public(), own.sign(&keys::keys_text(&self.terms, self.client, &keys))));
        Advertise { header, keys }
    }

    /// Step 2: looks at its neighbours' keys and shares its secrets among them.
    pub fn share(&mut self, neighbours: &Neighbours) -> Result<Shares, DeviceError> {
        self.mine(neighbours)?;
        if self.neighbours.as_ref().is_some_and(|before| before != neighbours) {
            return Err(DeviceError::Changed("the list of neighbours"));
        }
        let parameters = self.check_neighbours(neighbours)?;
        let shares = self.seal_shares(&parameters, &neighbours.peers)?;
        self.neighbours = Some(neighbours.clone());
        Ok(shares)
    }

    fn check_neighbours(&self, neighbours: &Neighbours) -> Result<Parameters, DeviceError> {
        let parameters = self.terms.parameters(neighbours.devices)?;
        let (found, expected) = (neighbours.peers.len(), parameters.neighbours);
        if found != expected as usize {
            return Err(DeviceError::Neighbours { found, devices: neighbours.devices, expected });
        }
        let own = self.advertise().keys;
        let mut seen = BTreeSet::from([own.boxes, own.masks]);
        let mut identities: BTreeSet<_> = own.signed.map(|(identity, _)| identity).into_iter().collect();
        let mut last = None;
        for Peer { client, keys } in &neighbours.peers {
            if *client == self.client || *client >= self.terms.devices || last.is_some_and(|last| last >= *client) {
                return Err(DeviceError::Stranger { client: *client, list: "neighbours" });
            }
            last = Some(*client);
            if !seen.insert(keys.boxes) || !seen.insert(keys.masks) {
                return Err(DeviceError::Key(*client));
            }
            self.check_identity(*client, keys, &mut identities)?;
        }
        Ok(parameters)
    }

    /// Without identities, keys are taken as the server gives them.
    fn check_identity(
        &self,
        client: ClientIndex,
        keys: &PublicKeys,
        seen: &mut BTreeSet<IdentityKey>,
    ) -> Result<(), DeviceError> {
        let Some(own) = &self.identity else { return Ok(()) };
        let Some((identity, signature)) = keys.signed else { return Err(DeviceError::Unsigned(client)) };
        if !own.trusts(&identity) {
            return Err(DeviceError::Unknown { client, identity });
        }
        if !seen.insert(identity) {
            return Err(DeviceError::Twice(client));
        }
        let text = keys::keys_text(&self.terms, client, keys);
        if signed(&identity, &text, &signature) { Ok(()) } else { Err(DeviceError::Unsigned(client)) }
    }

    fn seal_shares(&self, parameters: &Parameters, peers: &[Peer]) -> Result<Shares, DeviceError> {
        let (secrets, header) = (Secrets::new(self.seed), self.header());
        let (threshold, count) = (parameters.threshold as usize, peers.len());
        let split = |secret: &[u8; 32], which| {
            let wrong = DeviceError::TooFew { what: "are there", found: count, threshold: parameters.threshold };
            sharing::split(secret, threshold, count, &mut secrets.polynomial(which)).ok_or(wrong)
        };
        let (own, mask) = (split(&secrets.own, 0)?, split(secrets.masks.as_bytes(), 1)?);
        let seal = |(peer, (own, mask)): (&Peer, (&Share, &Share))| {
            let sealed =
                keys::seal(&header, &secrets.boxes, self.client, (peer.client, &peer.keys.boxes), (own, mask));
            sealed.map(|sealed| EncryptedShare { client: peer.client, sealed }).ok_or(DeviceError::Key(peer.client))
        };
        let boxes: Result<_, _> = peers.iter().zip(own.iter().zip(&mask)).map(seal).collect();
        Ok(Shares { header, commitment: keys::commitment(&secrets.own), boxes: boxes? })
    }

    /// Step 3: opens its boxes and masks its input with every neighbour that shared. Once a round: of the same input it
    /// gives the same message again, another it refuses.
    pub fn mask(&mut self, inbox: &EncryptedShares, input: &[u32]) -> Result<Masked, DeviceError> {
        self.mine(inbox)?;
        if input.len() != self.terms.length as usize {
            return Err(DeviceError::Length { found: input.len(), expected: self.terms.length });
        }
        let digest = digest(input);
        if self.input.is_some_and(|before| before != digest) {
            return Err(DeviceError::Changed("the input"));
        }
        let held = self.open_boxes(inbox)?;
        if self.held.as_ref().is_some_and(|before| *before != held) {
            return Err(DeviceError::Changed("the inbox"));
        }
        let words = self.masked(&held, input)?;
        (self.held, self.input) = (Some(held), Some(digest));
        Ok(Masked { header: self.header(), words })
    }

    pub(crate) fn met(&self, before: &'static str) -> Result<(&Neighbours, Parameters), DeviceError> {
        let neighbours = self.neighbours.as_ref().ok_or(DeviceError::TooEarly(before))?;
        Ok((neighbours, self.terms.parameters(neighbours.devices)?))
    }

    fn peer(&self, client: ClientIndex, list: &'static str) -> Result<&Peer, DeviceError> {
        let peers = &self.neighbours.as_ref().ok_or(DeviceError::TooEarly(list))?.peers;
        let place = peers.binary_search_by_key(&client, |peer| peer.client);
        place.map(|place| &peers[place]).map_err(|_| DeviceError::Stranger { client, list })
    }

    fn open_boxes(&self, inbox: &EncryptedShares) -> Result<Vec<HeldShares>, DeviceError> {
        let threshold = self.met("the inbox")?.1.threshold;
        let (secrets, header) = (Secrets::new(self.seed), self.header());
        let open = |sealed: &EncryptedShare| {
            let peer = self.peer(sealed.client, "boxes")?;
            let opened =
                keys::open(&header, &secrets.boxes, self.client, (peer.client, &peer.keys.boxes), &sealed.sealed);
            let (own, mask) = opened.ok_or(DeviceError::Box(peer.client))?;
            Ok(HeldShares { client: peer.client, own, mask })
        };
        let held: Vec<HeldShares> = inbox.boxes.iter().map(open).collect::<Result<_, DeviceError>>()?;
        if let Some(twice) = held.windows(2).find(|pair| pair[0].client >= pair[1].client) {
            return Err(DeviceError::Stranger { client: twice[1].client, list: "boxes" });
        }
        enough("shared", held.len(), threshold)?;
        Ok(held)
    }

    fn masked(&self, held: &[HeldShares], input: &[u32]) -> Result<Vec<u32>, DeviceError> {
        let mut words = input.to_vec();
        for (key, sign) in self.mask_keys(held)? {
            apply(&key, sign, &mut words);
        }
        Ok(words)
    }

    /// Of the own mask first, then of those shared with each neighbour; the lower client adds, the higher subtracts.
    pub(crate) fn mask_keys(&self, held: &[HeldShares]) -> Result<Vec<([u8; 32], Sign)>, DeviceError> {
        let (secrets, header) = (Secrets::new(self.seed), self.header());
        let pair = |held: &HeldShares| {
            let peer = self.peer(held.client, "boxes")?;
            let key = keys::pair_key(&header, (self.client, &secrets.masks), (peer.client, &peer.keys.masks));
            let sign = if self.client < peer.client { Sign::Plus } else { Sign::Minus };
            Ok((key.ok_or(DeviceError::Key(peer.client))?, sign))
        };
        let own = Ok((keys::own_key(&header, self.client, &secrets.own), Sign::Plus));
        std::iter::once(own).chain(held.iter().map(pair)).collect()
    }

    /// Step 4, where the terms ask for signatures: signs that it counts in the neighbours whose inputs came.
    pub fn confirm(&mut self, survivors: &Survivors) -> Result<Confirm, DeviceError> {
        let Some(identity) = self.identity.clone() else { return Err(DeviceError::Identity) };
        self.accept(survivors)?;
        let header = self.header();
        let sign = |&client: &ClientIndex| (client, identity.sign(&keys::included_text(&header, self.client, client)));
        Ok(Confirm { header, signatures: survivors.survived.iter().map(sign).collect() })
    }

    /// The last step: one share of each neighbour, of the own mask's seed of those whose inputs came, of the mask key of the
    /// others. The list is remembered: no other is ever answered, so never both for one peer.
    pub fn unmask(&mut self, survivors: &Survivors) -> Result<Unmask, DeviceError> {
        if self.identity.is_some() {
            return Err(DeviceError::Identity);
        }
        self.accept(survivors)?;
        self.reveal()
    }

    /// The last step after [`confirm`](Self::confirm): only when enough neighbours have signed that they count this device in.
    pub fn unmask_confirmed(&mut self, confirmed: &Confirmations) -> Result<Unmask, DeviceError> {
        self.mine(confirmed)?;
        if self.identity.is_none() {
            return Err(DeviceError::Identity);
        }
        let survivors = self.survivors.as_ref().ok_or(DeviceError::TooEarly("the confirmations"))?;
        let header = self.header();
        let valid = |(client, signature): &&(ClientIndex, [u8; 64])| {
            let by = self.peer(*client, "confirmations").ok().and_then(|peer| peer.keys.signed);
            let among = survivors.survived.binary_search(client).is_ok();
            among
                && by.is_some_and(|(by, _)| {
                    signed(&by, &keys::included_text(&header, *client, self.client), signature)
                })
        };
        let by: BTreeSet<ClientIndex> = confirmed.signatures.iter().filter(valid).map(|(client, _)| *client).collect();
        enough(
            "confirmed that they count this device in",
            by.len(),
            self.met("the confirmations")?.1.threshold,
        )?;
        self.reveal()
    }

    /// Takes a list of survivors for the only one, if it agrees with what this device saw.
    fn accept(&mut self, survivors: &Survivors) -> Result<(), DeviceError> {
        self.mine(survivors)?;
        let held = self.held.as_ref().ok_or(DeviceError::TooEarly("the list of survivors"))?;
        if self.survivors.as_ref().is_some_and(|before| before != survivors) {
            return Err(DeviceError::Changed("the list of survivors"));
        }
        let mut named: Vec<ClientIndex> = survivors.survived.iter().chain(&survivors.dropped).copied().collect();
        named.sort_unstable();
        let known: Vec<ClientIndex> = held.iter().map(|held| held.client).collect();
        if named != known || !survivors.survived.is_sorted() || !survivors.dropped.is_sorted() {
            return Err(DeviceError::Changed("who shared, by the list of survivors,"));
        }
        enough("survived", survivors.survived.len(), self.met("the list of survivors")?.1.threshold)?;
        self.survivors = Some(survivors.clone());
        Ok(())
    }

    fn reveal(&self) -> Result<Unmask, DeviceError> {
        let (Some(held), Some(survivors)) = (&self.held, &self.survivors) else {
            return Err(DeviceError::TooEarly("unmasking"));
        };
        let one = |held: &HeldShares| {
            let survived = survivors.survived.binary_search(&held.client).is_ok();
            (held.client, if survived { RevealedShare::SelfMask(held.own) } else { RevealedShare::MaskKey(held.mask) })
        };
        Ok(Unmask { header: self.header(), shares: held.iter().map(one).collect() })
    }
}

/// Says nothing of what is secret.
impl std::fmt::Debug for Device {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Device").field("header", &self.header()).finish_non_exhaustive()
    }
}

fn enough(what: &'static str, found: usize, threshold: u32) -> Result<(), DeviceError> {
    if found >= threshold as usize { Ok(()) } else { Err(DeviceError::TooFew { what, found, threshold }) }
}
