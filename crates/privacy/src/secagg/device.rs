//! The device's half: what it sends at each step, and what it refuses.

use super::identity::{Identity, IdentityKey, signed};
use super::keys::{self, Secrets};
use super::mask::{Sign, apply, digest};
use super::messages::{
    Advertise, Confirm, Confirmed, Head, Inbox, Masked, Message, Neighbours, Peer, PublicKeys, Revealed,
    SealedShare, Shares, Survivors, Unmask,
};
use super::sharing::{self, Share};
use super::{Malformed, Parameters, Seat, Terms, TermsError};
use crate::tokens::to_hex;
use std::collections::BTreeSet;

/// Why a device does not go on. It has then sent nothing in answer, and its state is as before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Terms that cannot be.
    #[error("the terms: {0}")]
    Terms(#[from] TermsError),
    /// Bytes that are no message.
    #[error("not a message: {0}")]
    Malformed(#[from] Malformed),
    /// A message for another federation, round or device.
    #[error("a message for {found:?}, while this device is {expected:?}")]
    Elsewhere {
        /// Where it belongs.
        found: Head,
        /// Who this is.
        expected: Head,
    },
    /// A seat that the round does not have.
    #[error("seat {seat} in a round of {devices} devices")]
    Seat {
        /// Which.
        seat: Seat,
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
    #[error("seat {seat} has no place among the {list}")]
    Stranger {
        /// Who.
        seat: Seat,
        /// Where.
        list: &'static str,
    },
    /// One key for two devices, or one that gives no secret.
    #[error("the key of seat {0} is another device's too, or no key")]
    Key(Seat),
    /// Keys without an identity's signature, or with a false one.
    #[error("the keys of seat {0} are not signed by the identity that they name for the terms of this round")]
    Unsigned(Seat),
    /// An identity that this device has not heard of from elsewhere.
    #[error("seat {seat} has the identity {}, which is not in this device's roster: somebody who is not listed yet, or nobody at all", to_hex(.identity))]
    Unknown {
        /// Whose keys.
        seat: Seat,
        /// The identity.
        identity: IdentityKey,
    },
    /// One identity in two seats.
    #[error("the identity of seat {0} has another seat too")]
    Twice(Seat),
    /// A box that its sender did not seal for this device and round.
    #[error("the box from seat {0} does not open")]
    Box(Seat),
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
    /// Terms with signatures, but no identity was given; or the other way round.
    #[error("the terms and this device do not agree on signatures")]
    Identity,
}

/// A neighbour's two shares that this device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) seat: Seat,
    pub(crate) own: Share,
    pub(crate) mask: Share,
}

/// One device in one round.
pub struct Device {
    pub(crate) terms: Terms,
    pub(crate) seat: Seat,
    pub(crate) seed: [u8; 32],
    pub(crate) identity: Option<Identity>,
    pub(crate) neighbours: Option<Neighbours>,
    pub(crate) held: Option<Vec<Held>>,
    /// Of the input: a second one under the same masks would give away the difference.
    pub(crate) input: Option<[u8; 32]>,
    /// The one list that this device answers.
    pub(crate) survivors: Option<Survivors>,
}

impl Device {
    /// A device that takes a seat in a round. The seed must be fresh for every round and secret; everything secret follows from it.
    pub fn new(terms: Terms, seat: Seat, seed: [u8; 32]) -> Result<Self, Refusal> {
        terms.check()?;
        if seat >= terms.devices {
            return Err(Refusal::Seat { seat, devices: terms.devices });
        }
        if terms.signed {
            return Err(Refusal::Identity);
        }
        Ok(Self {
            terms,
            seat,
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
        terms: Terms,
        seat: Seat,
        seed: [u8; 32],
        identity: Identity,
    ) -> Result<Self, Refusal> {
        if !terms.signed {
            return Err(Refusal::Identity);
        }
        let unsigned = Self::new(Terms { signed: false, ..terms.clone() }, seat, seed)?;
        Ok(Self { terms, identity: Some(identity), ..unsigned })
    }

    /// The terms it takes part by.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Its seat.
    pub fn seat(&self) -> Seat {
        self.seat
    }

    fn head(&self) -> Head {
        Head::new(&self.terms, self.seat)
    }

    fn mine(&self, message: &impl Message) -> Result<(), Refusal> {
        let (found, expected) = (message.head(), self.head());
        if found == expected { Ok(()) } else { Err(Refusal::Elsewhere { found, expected }) }
    }

    /// Step 1: its keys.
    pub fn advertise(&self) -> Advertise {
        let head = self.head();
        let (boxes, masks) = Secrets::new(self.seed).public();
        let mut keys = PublicKeys { boxes, masks, signed: None };
        keys.signed = self
            .identity
            .as_ref()
            .map(|own| (own.public(), own.sign(&keys::keys_text(&self.terms, self.seat, &keys))));
        Advertise { head, keys }
    }

    /// Step 2: looks at its neighbours' keys and shares its secrets among them.
    pub fn share(&mut self, neighbours: &Neighbours) -> Result<Shares, Refusal> {
        self.mine(neighbours)?;
        if self.neighbours.as_ref().is_some_and(|before| before != neighbours) {
            return Err(Refusal::Changed("the list of neighbours"));
        }
        let parameters = self.check_neighbours(neighbours)?;
        let shares = self.seal_shares(&parameters, &neighbours.peers)?;
        self.neighbours = Some(neighbours.clone());
        Ok(shares)
    }

    fn check_neighbours(&self, neighbours: &Neighbours) -> Result<Parameters, Refusal> {
        let parameters = self.terms.parameters(neighbours.devices)?;
        let (found, expected) = (neighbours.peers.len(), parameters.neighbours);
        if found != expected as usize {
            return Err(Refusal::Neighbours { found, devices: neighbours.devices, expected });
        }
        let own = self.advertise().keys;
        let mut seen = BTreeSet::from([own.boxes, own.masks]);
        let mut identities: BTreeSet<_> = own.signed.map(|(identity, _)| identity).into_iter().collect();
        let mut last = None;
        for Peer { seat, keys } in &neighbours.peers {
            if *seat == self.seat || *seat >= self.terms.devices || last.is_some_and(|last| last >= *seat) {
                return Err(Refusal::Stranger { seat: *seat, list: "neighbours" });
            }
            last = Some(*seat);
            if !seen.insert(keys.boxes) || !seen.insert(keys.masks) {
                return Err(Refusal::Key(*seat));
            }
            self.check_identity(*seat, keys, &mut identities)?;
        }
        Ok(parameters)
    }

    /// Without identities, keys are taken as the server gives them.
    fn check_identity(
        &self,
        seat: Seat,
        keys: &PublicKeys,
        seen: &mut BTreeSet<IdentityKey>,
    ) -> Result<(), Refusal> {
        let Some(own) = &self.identity else { return Ok(()) };
        let Some((identity, signature)) = keys.signed else { return Err(Refusal::Unsigned(seat)) };
        if !own.knows(&identity) {
            return Err(Refusal::Unknown { seat, identity });
        }
        if !seen.insert(identity) {
            return Err(Refusal::Twice(seat));
        }
        let text = keys::keys_text(&self.terms, seat, keys);
        if signed(&identity, &text, &signature) { Ok(()) } else { Err(Refusal::Unsigned(seat)) }
    }

    fn seal_shares(&self, parameters: &Parameters, peers: &[Peer]) -> Result<Shares, Refusal> {
        let (secrets, head) = (Secrets::new(self.seed), self.head());
        let (threshold, count) = (parameters.threshold as usize, peers.len());
        let split = |secret: &[u8; 32], which| {
            let wrong = Refusal::TooFew { what: "are there", found: count, threshold: parameters.threshold };
            sharing::split(secret, threshold, count, &mut secrets.polynomial(which)).ok_or(wrong)
        };
        let (own, mask) = (split(&secrets.own, 0)?, split(secrets.masks.as_bytes(), 1)?);
        let seal = |(peer, (own, mask)): (&Peer, (&Share, &Share))| {
            let sealed =
                keys::seal(&head, &secrets.boxes, self.seat, (peer.seat, &peer.keys.boxes), (own, mask));
            sealed.map(|sealed| SealedShare { seat: peer.seat, sealed }).ok_or(Refusal::Key(peer.seat))
        };
        let boxes: Result<_, _> = peers.iter().zip(own.iter().zip(&mask)).map(seal).collect();
        Ok(Shares { head, commitment: keys::commitment(&secrets.own), boxes: boxes? })
    }

    /// Step 3: opens its boxes and masks its input with every neighbour that shared. Once a round: of the same input it
    /// gives the same message again, another it refuses.
    pub fn mask(&mut self, inbox: &Inbox, input: &[u32]) -> Result<Masked, Refusal> {
        self.mine(inbox)?;
        if input.len() != self.terms.length as usize {
            return Err(Refusal::Length { found: input.len(), expected: self.terms.length });
        }
        let digest = digest(input);
        if self.input.is_some_and(|before| before != digest) {
            return Err(Refusal::Changed("the input"));
        }
        let held = self.open_boxes(inbox)?;
        if self.held.as_ref().is_some_and(|before| *before != held) {
            return Err(Refusal::Changed("the inbox"));
        }
        let words = self.masked(&held, input)?;
        (self.held, self.input) = (Some(held), Some(digest));
        Ok(Masked { head: self.head(), words })
    }

    pub(crate) fn met(&self, before: &'static str) -> Result<(&Neighbours, Parameters), Refusal> {
        let neighbours = self.neighbours.as_ref().ok_or(Refusal::TooEarly(before))?;
        Ok((neighbours, self.terms.parameters(neighbours.devices)?))
    }

    fn peer(&self, seat: Seat, list: &'static str) -> Result<&Peer, Refusal> {
        let peers = &self.neighbours.as_ref().ok_or(Refusal::TooEarly(list))?.peers;
        let place = peers.binary_search_by_key(&seat, |peer| peer.seat);
        place.map(|place| &peers[place]).map_err(|_| Refusal::Stranger { seat, list })
    }

    fn open_boxes(&self, inbox: &Inbox) -> Result<Vec<Held>, Refusal> {
        let threshold = self.met("the inbox")?.1.threshold;
        let (secrets, head) = (Secrets::new(self.seed), self.head());
        let open = |sealed: &SealedShare| {
            let peer = self.peer(sealed.seat, "boxes")?;
            let opened =
                keys::open(&head, &secrets.boxes, self.seat, (peer.seat, &peer.keys.boxes), &sealed.sealed);
            let (own, mask) = opened.ok_or(Refusal::Box(peer.seat))?;
            Ok(Held { seat: peer.seat, own, mask })
        };
        let held: Vec<Held> = inbox.boxes.iter().map(open).collect::<Result<_, Refusal>>()?;
        if let Some(twice) = held.windows(2).find(|pair| pair[0].seat >= pair[1].seat) {
            return Err(Refusal::Stranger { seat: twice[1].seat, list: "boxes" });
        }
        enough("shared", held.len(), threshold)?;
        Ok(held)
    }

    fn masked(&self, held: &[Held], input: &[u32]) -> Result<Vec<u32>, Refusal> {
        let mut words = input.to_vec();
        for (key, sign) in self.mask_keys(held)? {
            apply(&key, sign, &mut words);
        }
        Ok(words)
    }

    /// Of the own mask first, then of those shared with each neighbour; the lower seat adds, the higher subtracts.
    pub(crate) fn mask_keys(&self, held: &[Held]) -> Result<Vec<([u8; 32], Sign)>, Refusal> {
        let (secrets, head) = (Secrets::new(self.seed), self.head());
        let pair = |held: &Held| {
            let peer = self.peer(held.seat, "boxes")?;
            let key = keys::pair_key(&head, (self.seat, &secrets.masks), (peer.seat, &peer.keys.masks));
            let sign = if self.seat < peer.seat { Sign::Plus } else { Sign::Minus };
            Ok((key.ok_or(Refusal::Key(peer.seat))?, sign))
        };
        let own = Ok((keys::own_key(&head, self.seat, &secrets.own), Sign::Plus));
        std::iter::once(own).chain(held.iter().map(pair)).collect()
    }

    /// Step 4, where the terms ask for signatures: signs that it counts in the neighbours whose inputs came.
    pub fn confirm(&mut self, survivors: &Survivors) -> Result<Confirm, Refusal> {
        let Some(identity) = self.identity.clone() else { return Err(Refusal::Identity) };
        self.accept(survivors)?;
        let head = self.head();
        let sign = |&seat: &Seat| (seat, identity.sign(&keys::included_text(&head, self.seat, seat)));
        Ok(Confirm { head, signatures: survivors.survived.iter().map(sign).collect() })
    }

    /// The last step: one share of each neighbour, of the own mask's seed of those whose inputs came, of the mask key of the
    /// others. The list is remembered: no other is ever answered, so never both for one peer.
    pub fn unmask(&mut self, survivors: &Survivors) -> Result<Unmask, Refusal> {
        if self.identity.is_some() {
            return Err(Refusal::Identity);
        }
        self.accept(survivors)?;
        self.reveal()
    }

    /// The last step after [`confirm`](Self::confirm): only when enough neighbours have signed that they count this device in.
    pub fn unmask_confirmed(&mut self, confirmed: &Confirmed) -> Result<Unmask, Refusal> {
        self.mine(confirmed)?;
        if self.identity.is_none() {
            return Err(Refusal::Identity);
        }
        let survivors = self.survivors.as_ref().ok_or(Refusal::TooEarly("the confirmations"))?;
        let head = self.head();
        let valid = |(seat, signature): &&(Seat, [u8; 64])| {
            let by = self.peer(*seat, "confirmations").ok().and_then(|peer| peer.keys.signed);
            let among = survivors.survived.binary_search(seat).is_ok();
            among
                && by.is_some_and(|(by, _)| {
                    signed(&by, &keys::included_text(&head, *seat, self.seat), signature)
                })
        };
        let by: BTreeSet<Seat> = confirmed.signatures.iter().filter(valid).map(|(seat, _)| *seat).collect();
        enough(
            "confirmed that they count this device in",
            by.len(),
            self.met("the confirmations")?.1.threshold,
        )?;
        self.reveal()
    }

    /// Takes a list of survivors for the only one, if it agrees with what this device saw.
    fn accept(&mut self, survivors: &Survivors) -> Result<(), Refusal> {
        self.mine(survivors)?;
        let held = self.held.as_ref().ok_or(Refusal::TooEarly("the list of survivors"))?;
        if self.survivors.as_ref().is_some_and(|before| before != survivors) {
            return Err(Refusal::Changed("the list of survivors"));
        }
        let mut named: Vec<Seat> = survivors.survived.iter().chain(&survivors.dropped).copied().collect();
        named.sort_unstable();
        let known: Vec<Seat> = held.iter().map(|held| held.seat).collect();
        if named != known || !survivors.survived.is_sorted() || !survivors.dropped.is_sorted() {
            return Err(Refusal::Changed("who shared, by the list of survivors,"));
        }
        enough("survived", survivors.survived.len(), self.met("the list of survivors")?.1.threshold)?;
        self.survivors = Some(survivors.clone());
        Ok(())
    }

    fn reveal(&self) -> Result<Unmask, Refusal> {
        let (Some(held), Some(survivors)) = (&self.held, &self.survivors) else {
            return Err(Refusal::TooEarly("unmasking"));
        };
        let one = |held: &Held| {
            let survived = survivors.survived.binary_search(&held.seat).is_ok();
            (held.seat, if survived { Revealed::OwnMask(held.own) } else { Revealed::MaskKey(held.mask) })
        };
        Ok(Unmask { head: self.head(), shares: held.iter().map(one).collect() })
    }
}

/// Says nothing of what is secret.
impl std::fmt::Debug for Device {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Device").field("head", &self.head()).finish_non_exhaustive()
    }
}

fn enough(what: &'static str, found: usize, threshold: u32) -> Result<(), Refusal> {
    if found >= threshold as usize { Ok(()) } else { Err(Refusal::TooFew { what, found, threshold }) }
}
