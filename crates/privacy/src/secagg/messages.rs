//! The messages of each step, with strict decoding: one form a message, bounded lengths, nothing after the end.

use super::Seat;
use super::identity::IdentityKey;
use super::keys::BOX;
use super::parameters::MOST_NEIGHBOURS;
use super::sharing::Share;
use super::terms::{MOST_VALUES, Terms};
use super::wire::{Malformed, Reader};
use sottovoce_protocol::{FederationId, RoundId};

const FORM: u8 = 1;

/// What every message begins with: the round, and the device that sends it or is meant by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which federation.
    pub federation: FederationId,
    /// Which round of it.
    pub round: RoundId,
    /// The device, on whichever side of the wire.
    pub seat: Seat,
}

impl Head {
    /// Of a device in a round.
    pub fn new(terms: &Terms, seat: Seat) -> Self {
        Self { federation: terms.federation, round: terms.round, seat }
    }
}

/// Which message bytes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// [`Advertise`]
    Advertise = 1,
    /// [`Neighbours`]
    Neighbours = 2,
    /// [`Shares`]
    Shares = 3,
    /// [`Inbox`]
    Inbox = 4,
    /// [`Masked`]
    Masked = 5,
    /// [`Survivors`]
    Survivors = 6,
    /// [`Confirm`]
    Confirm = 7,
    /// [`Confirmed`]
    Confirmed = 8,
    /// [`Unmask`]
    Unmask = 9,
}

/// A message that can be written as bytes and read from them.
pub trait Message: Sized {
    /// Which it is.
    const KIND: Kind;

    /// The round and the device.
    fn head(&self) -> Head;

    #[doc(hidden)]
    fn write(&self, out: &mut Vec<u8>);

    #[doc(hidden)]
    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// As bytes.
    fn encode(&self) -> Vec<u8> {
        let head = self.head();
        let mut out = vec![FORM, Self::KIND as u8];
        out.extend(head.federation.0.to_le_bytes());
        out.extend(head.round.0.to_le_bytes());
        out.extend(head.seat.to_le_bytes());
        self.write(&mut out);
        out
    }

    /// From bytes that may be anything.
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader::new(bytes);
        let form = from.u8("form")?;
        if form != FORM {
            return Err(from.wrong("form", form.into(), "1"));
        }
        let kind = from.u8("kind")?;
        if kind != Self::KIND as u8 {
            return Err(from.wrong("kind", kind.into(), "that of the message expected"));
        }
        let (federation, round) = (FederationId(from.u64("federation")?), RoundId(from.u64("round")?));
        let message = Self::read(Head { federation, round, seat: from.u32("seat")? }, &mut from)?;
        from.end()?;
        Ok(message)
    }
}

/// A device's public keys for one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKeys {
    /// X25519, for boxes.
    pub boxes: [u8; 32],
    /// X25519, for masks.
    pub masks: [u8; 32],
    /// Whose they are, and that identity's signature.
    pub signed: Option<(IdentityKey, [u8; 64])>,
}

impl PublicKeys {
    const LEAST: usize = 65;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.boxes);
        out.extend(self.masks);
        out.push(self.signed.is_some().into());
        if let Some((identity, signature)) = &self.signed {
            out.extend(identity);
            out.extend(signature);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (boxes, masks) = (from.array("key for boxes")?, from.array("key for masks")?);
        let signed = match from.flag("signed")? {
            true => Some((from.array("identity")?, from.array("signature of the keys")?)),
            false => None,
        };
        Ok(Self { boxes, masks, signed })
    }
}

/// Up, step 1: a device's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// Who sends it.
    pub head: Head,
    /// The keys.
    pub keys: PublicKeys,
}

impl Message for Advertise {
    const KIND: Kind = Kind::Advertise;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.keys.write(out);
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { head, keys: PublicKeys::read(from)? })
    }
}

/// A neighbour as the server tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which device.
    pub seat: Seat,
    /// Its keys.
    pub keys: PublicKeys,
}

/// Down, after step 1: a device's neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// Whom it is for.
    pub head: Head,
    /// How many devices advertised keys; parameters follow from it.
    pub devices: u32,
    /// The neighbours, by ascending seat.
    pub peers: Vec<Peer>,
}

impl Message for Neighbours {
    const KIND: Kind = Kind::Neighbours;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.devices.to_le_bytes());
        write_list(out, &self.peers, |peer, out| {
            out.extend(peer.seat.to_le_bytes());
            peer.keys.write(out);
        });
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let devices = from.u32("devices")?;
        let peer = |seat, from: &mut Reader<'_>| Ok(Peer { seat, keys: PublicKeys::read(from)? });
        Ok(Self { head, devices, peers: read_list("neighbours", PublicKeys::LEAST, from, peer)? })
    }
}

/// Two shares, sealed by one device for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedShare {
    /// On the way up whom it is for, on the way down whom it is from.
    pub seat: Seat,
    /// ChaCha20-Poly1305 of a share of the own mask's seed and a share of the mask key.
    pub sealed: [u8; BOX],
}

/// Up, step 2: a device's boxes for its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Who sends it.
    pub head: Head,
    /// By which the server knows the own mask's seed again when shares give it.
    pub commitment: [u8; 32],
    /// One for each neighbour, by ascending seat.
    pub boxes: Vec<SealedShare>,
}

impl Message for Shares {
    const KIND: Kind = Kind::Shares;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.commitment);
        write_boxes(out, &self.boxes);
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { head, commitment: from.array("commitment")?, boxes: read_boxes(from)? })
    }
}

/// Down, after step 2: the boxes for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbox {
    /// Whom it is for.
    pub head: Head,
    /// One from each neighbour that shared, by ascending seat.
    pub boxes: Vec<SealedShare>,
}

impl Message for Inbox {
    const KIND: Kind = Kind::Inbox;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_boxes(out, &self.boxes);
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { head, boxes: read_boxes(from)? })
    }
}

/// Up, step 3: a device's input under its masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// Who sends it.
    pub head: Head,
    /// As many as the terms say.
    pub words: Vec<u32>,
}

impl Message for Masked {
    const KIND: Kind = Kind::Masked;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.reserve(4 + 4 * self.words.len());
        out.extend((self.words.len() as u32).to_le_bytes());
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count("words", MOST_VALUES as usize, 4)?;
        let words = from.bytes("words", 4 * count)?.as_chunks::<4>().0;
        Ok(Self { head, words: words.iter().map(|word| u32::from_le_bytes(*word)).collect() })
    }
}

/// Down, after step 3: which neighbours' inputs came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// Whom it is for.
    pub head: Head,
    /// Came, by ascending seat.
    pub survived: Vec<Seat>,
    /// Shared, but then fell silent, by ascending seat.
    pub dropped: Vec<Seat>,
}

impl Message for Survivors {
    const KIND: Kind = Kind::Survivors;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        for list in [&self.survived, &self.dropped] {
            write_list(out, list, |seat, out| out.extend(seat.to_le_bytes()));
        }
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let survived = read_list("survived", 0, from, |seat, _| Ok(seat))?;
        Ok(Self { head, survived, dropped: read_list("dropped", 0, from, |seat, _| Ok(seat))? })
    }
}

/// Up, step 4 (with identities): signatures that a device counts its neighbours in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// Who sends it.
    pub head: Head,
    /// For each neighbour that survived, by ascending seat.
    pub signatures: Vec<(Seat, [u8; 64])>,
}

impl Message for Confirm {
    const KIND: Kind = Kind::Confirm;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_signatures(out, &self.signatures);
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { head, signatures: read_signatures(from)? })
    }
}

/// Down, after step 4: what neighbours signed about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Whom it is for.
    pub head: Head,
    /// By whom, by ascending seat.
    pub signatures: Vec<(Seat, [u8; 64])>,
}

impl Message for Confirmed {
    const KIND: Kind = Kind::Confirmed;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_signatures(out, &self.signatures);
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { head, signatures: read_signatures(from)? })
    }
}

/// One share that a device gives back; there is no form for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revealed {
    /// Of the seed of the own mask of a device whose input came.
    OwnMask(Share),
    /// Of the mask key of a device whose input did not.
    MaskKey(Share),
}

/// Up, last step: one share of each neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmask {
    /// Who sends it.
    pub head: Head,
    /// By ascending seat of the neighbour whose secret it is.
    pub shares: Vec<(Seat, Revealed)>,
}

impl Message for Unmask {
    const KIND: Kind = Kind::Unmask;

    fn head(&self) -> Head {
        self.head
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_list(out, &self.shares, |(seat, revealed), out| {
            let (kind, share) = match revealed {
                Revealed::OwnMask(share) => (0, share),
                Revealed::MaskKey(share) => (1, share),
            };
            out.extend(seat.to_le_bytes());
            out.push(kind);
            out.extend(share);
        });
    }

    fn read(head: Head, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let entry = |seat, from: &mut Reader<'_>| {
            let of_key = from.flag("kind of share")?;
            let share = from.array("share")?;
            Ok((seat, if of_key { Revealed::MaskKey(share) } else { Revealed::OwnMask(share) }))
        };
        Ok(Self { head, shares: read_list("shares", 33, from, entry)? })
    }
}

fn write_boxes(out: &mut Vec<u8>, boxes: &[SealedShare]) {
    write_list(out, boxes, |sealed, out| {
        out.extend(sealed.seat.to_le_bytes());
        out.extend(sealed.sealed);
    });
}

fn read_boxes(from: &mut Reader<'_>) -> Result<Vec<SealedShare>, Malformed> {
    read_list("boxes", BOX, from, |seat, from| Ok(SealedShare { seat, sealed: from.array("box")? }))
}

fn write_signatures(out: &mut Vec<u8>, signatures: &[(Seat, [u8; 64])]) {
    write_list(out, signatures, |(seat, signature), out| {
        out.extend(seat.to_le_bytes());
        out.extend(signature);
    });
}

fn read_signatures(from: &mut Reader<'_>) -> Result<Vec<(Seat, [u8; 64])>, Malformed> {
    read_list("signatures", 64, from, |seat, from| Ok((seat, from.array("signature")?)))
}

fn write_list<T>(out: &mut Vec<u8>, list: &[T], entry: impl Fn(&T, &mut Vec<u8>)) {
    out.extend((list.len() as u32).to_le_bytes());
    list.iter().for_each(|item| entry(item, out));
}

/// At most a neighbourhood of entries, each a seat and at least `size` bytes more; seats must ascend, so none is there twice.
fn read_list<T>(
    field: &'static str,
    size: usize,
    from: &mut Reader<'_>,
    entry: impl Fn(Seat, &mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = from.count(field, MOST_NEIGHBOURS as usize, 4 + size)?;
    let mut list = Vec::with_capacity(count);
    let mut last = None;
    for _ in 0..count {
        let seat = from.u32(field)?;
        if last.is_some_and(|last| last >= seat) {
            return Err(from.wrong(field, seat.into(), "a seat above the one before it"));
        }
        last = Some(seat);
        list.push(entry(seat, from)?);
    }
    Ok(list)
}
