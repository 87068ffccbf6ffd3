//! The messages of each step, with strict decoding: one form a message, bounded lengths, nothing after the end.

use super::ClientIndex;
use super::identity::IdentityKey;
use super::keys::BOX;
use super::parameters::MOST_NEIGHBOURS;
use super::sharing::Share;
use super::terms::{MOST_VALUES, Config};
use super::wire::{Malformed, Reader};
use sottovoce_protocol::{FederationId, RoundId};

const FORM: u8 = 1;

/// What every message begins with: the round, and the device that sends it or is meant by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which federation.
    pub federation: FederationId,
    /// Which round of it.
    pub round: RoundId,
    /// The device, on whichever side of the wire.
    pub client: ClientIndex,
}

impl Header {
    /// Of a device in a round.
    pub fn new(terms: &Config, client: ClientIndex) -> Self {
        Self { federation: terms.federation, round: terms.round, client }
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
    /// [`EncryptedShares`]
    EncryptedShares = 4,
    /// [`Masked`]
    Masked = 5,
    /// [`Survivors`]
    Survivors = 6,
    /// [`Confirm`]
    Confirm = 7,
    /// [`Confirmations`]
    Confirmations = 8,
    /// [`Unmask`]
    Unmask = 9,
}

/// A message that can be written as bytes and read from them.
pub trait Message: Sized {
    /// Which it is.
    const KIND: Kind;

    /// The round and the device.
    fn header(&self) -> Header;

    #[doc(hidden)]
    fn write(&self, out: &mut Vec<u8>);

    #[doc(hidden)]
    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// As bytes.
    fn encode(&self) -> Vec<u8> {
        let header = self.header();
        let mut out = vec![FORM, Self::KIND as u8];
        out.extend(header.federation.0.to_le_bytes());
        out.extend(header.round.0.to_le_bytes());
        out.extend(header.client.to_le_bytes());
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
        let message = Self::read(Header { federation, round, client: from.u32("client")? }, &mut from)?;
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
    pub header: Header,
    /// The keys.
    pub keys: PublicKeys,
}

impl Message for Advertise {
    const KIND: Kind = Kind::Advertise;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.keys.write(out);
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header, keys: PublicKeys::read(from)? })
    }
}

/// A neighbour as the server tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which device.
    pub client: ClientIndex,
    /// Its keys.
    pub keys: PublicKeys,
}

/// Down, after step 1: a device's neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// Whom it is for.
    pub header: Header,
    /// How many devices advertised keys; parameters follow from it.
    pub devices: u32,
    /// The neighbours, by ascending client.
    pub peers: Vec<Peer>,
}

impl Message for Neighbours {
    const KIND: Kind = Kind::Neighbours;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.devices.to_le_bytes());
        write_list(out, &self.peers, |peer, out| {
            out.extend(peer.client.to_le_bytes());
            peer.keys.write(out);
        });
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let devices = from.u32("devices")?;
        let peer = |client, from: &mut Reader<'_>| Ok(Peer { client, keys: PublicKeys::read(from)? });
        Ok(Self { header, devices, peers: read_list("neighbours", PublicKeys::LEAST, from, peer)? })
    }
}

/// Two shares, sealed by one device for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedShare {
    /// On the way up whom it is for, on the way down whom it is from.
    pub client: ClientIndex,
    /// ChaCha20-Poly1305 of a share of the own mask's seed and a share of the mask key.
    pub sealed: [u8; BOX],
}

/// Up, step 2: a device's boxes for its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Who sends it.
    pub header: Header,
    /// By which the server trusts the own mask's seed again when shares give it.
    pub commitment: [u8; 32],
    /// One for each neighbour, by ascending client.
    pub boxes: Vec<EncryptedShare>,
}

impl Message for Shares {
    const KIND: Kind = Kind::Shares;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.commitment);
        write_boxes(out, &self.boxes);
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header, commitment: from.array("commitment")?, boxes: read_boxes(from)? })
    }
}

/// Down, after step 2: the boxes for a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedShares {
    /// Whom it is for.
    pub header: Header,
    /// One from each neighbour that shared, by ascending client.
    pub boxes: Vec<EncryptedShare>,
}

impl Message for EncryptedShares {
    const KIND: Kind = Kind::EncryptedShares;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_boxes(out, &self.boxes);
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header, boxes: read_boxes(from)? })
    }
}

/// Up, step 3: a device's input under its masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// Who sends it.
    pub header: Header,
    /// As many as the terms say.
    pub words: Vec<u32>,
}

impl Message for Masked {
    const KIND: Kind = Kind::Masked;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.reserve(4 + 4 * self.words.len());
        out.extend((self.words.len() as u32).to_le_bytes());
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = from.count("words", MOST_VALUES as usize, 4)?;
        let words = from.bytes("words", 4 * count)?.as_chunks::<4>().0;
        Ok(Self { header, words: words.iter().map(|word| u32::from_le_bytes(*word)).collect() })
    }
}

/// Down, after step 3: which neighbours' inputs came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// Whom it is for.
    pub header: Header,
    /// Came, by ascending client.
    pub survived: Vec<ClientIndex>,
    /// Shared, but then fell silent, by ascending client.
    pub dropped: Vec<ClientIndex>,
}

impl Message for Survivors {
    const KIND: Kind = Kind::Survivors;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        for list in [&self.survived, &self.dropped] {
            write_list(out, list, |client, out| out.extend(client.to_le_bytes()));
        }
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let survived = read_list("survived", 0, from, |client, _| Ok(client))?;
        Ok(Self { header, survived, dropped: read_list("dropped", 0, from, |client, _| Ok(client))? })
    }
}

/// Up, step 4 (with identities): signatures that a device counts its neighbours in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// Who sends it.
    pub header: Header,
    /// For each neighbour that survived, by ascending client.
    pub signatures: Vec<(ClientIndex, [u8; 64])>,
}

impl Message for Confirm {
    const KIND: Kind = Kind::Confirm;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_signatures(out, &self.signatures);
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header, signatures: read_signatures(from)? })
    }
}

/// Down, after step 4: what neighbours signed about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmations {
    /// Whom it is for.
    pub header: Header,
    /// By whom, by ascending client.
    pub signatures: Vec<(ClientIndex, [u8; 64])>,
}

impl Message for Confirmations {
    const KIND: Kind = Kind::Confirmations;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_signatures(out, &self.signatures);
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header, signatures: read_signatures(from)? })
    }
}

/// One share that a device gives back; there is no form for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevealedShare {
    /// Of the seed of the own mask of a device whose input came.
    SelfMask(Share),
    /// Of the mask key of a device whose input did not.
    MaskKey(Share),
}

/// Up, last step: one share of each neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmask {
    /// Who sends it.
    pub header: Header,
    /// By ascending client of the neighbour whose secret it is.
    pub shares: Vec<(ClientIndex, RevealedShare)>,
}

impl Message for Unmask {
    const KIND: Kind = Kind::Unmask;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_list(out, &self.shares, |(client, revealed), out| {
            let (kind, share) = match revealed {
                RevealedShare::SelfMask(share) => (0, share),
                RevealedShare::MaskKey(share) => (1, share),
            };
            out.extend(client.to_le_bytes());
            out.push(kind);
            out.extend(share);
        });
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let entry = |client, from: &mut Reader<'_>| {
            let of_key = from.flag("kind of share")?;
            let share = from.array("share")?;
            Ok((client, if of_key { RevealedShare::MaskKey(share) } else { RevealedShare::SelfMask(share) }))
        };
        Ok(Self { header, shares: read_list("shares", 33, from, entry)? })
    }
}

fn write_boxes(out: &mut Vec<u8>, boxes: &[EncryptedShare]) {
    write_list(out, boxes, |sealed, out| {
        out.extend(sealed.client.to_le_bytes());
        out.extend(sealed.sealed);
    });
}

fn read_boxes(from: &mut Reader<'_>) -> Result<Vec<EncryptedShare>, Malformed> {
    read_list("boxes", BOX, from, |client, from| Ok(EncryptedShare { client, sealed: from.array("box")? }))
}

fn write_signatures(out: &mut Vec<u8>, signatures: &[(ClientIndex, [u8; 64])]) {
    write_list(out, signatures, |(client, signature), out| {
        out.extend(client.to_le_bytes());
        out.extend(signature);
    });
}

fn read_signatures(from: &mut Reader<'_>) -> Result<Vec<(ClientIndex, [u8; 64])>, Malformed> {
    read_list("signatures", 64, from, |client, from| Ok((client, from.array("signature")?)))
}

fn write_list<T>(out: &mut Vec<u8>, list: &[T], entry: impl Fn(&T, &mut Vec<u8>)) {
    out.extend((list.len() as u32).to_le_bytes());
    list.iter().for_each(|item| entry(item, out));
}

/// At most a neighbourhood of entries, each a client and at least `size` bytes more; clients must ascend, so none is there twice.
fn read_list<T>(
    field: &'static str,
    size: usize,
    from: &mut Reader<'_>,
    entry: impl Fn(ClientIndex, &mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = from.count(field, MOST_NEIGHBOURS as usize, 4 + size)?;
    let mut list = Vec::with_capacity(count);
    let mut last = None;
    for _ in 0..count {
        let client = from.u32(field)?;
        if last.is_some_and(|last| last >= client) {
            return Err(from.wrong(field, client.into(), "a client above the one before it"));
        }
        last = Some(client);
        list.push(entry(client, from)?);
    }
    Ok(list)
}
