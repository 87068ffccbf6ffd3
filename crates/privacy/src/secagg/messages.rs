//! The messages of each step. Decoding is strict: one encoding a message, bounded lengths, nothing after the end.

use super::ClientIndex;
use super::config::{Config, MOST_VALUES};
use super::identity::IdentityKey;
use super::keys::CIPHERTEXT;
use super::parameters::MOST_NEIGHBOURS;
use super::shamir::Share;
use sottovoce_protocol::codec::Reader;
use sottovoce_protocol::{DecodeError, FederationId, RoundId};

/// The version of this encoding, and of how masks are derived: with another version they would not cancel.
const VERSION: u8 = 2;

/// What every message begins with: the round, and the device that sends or receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The federation.
    pub federation: FederationId,
    /// The round.
    pub round: RoundId,
    /// The device, whether it sends or receives the message.
    pub client: ClientIndex,
}

impl Header {
    /// Of a device in a round.
    pub fn new(config: &Config, client: ClientIndex) -> Self {
        Self { federation: config.federation, round: config.round, client }
    }
}

/// A message that can be encoded and decoded.
pub trait Message: Sized {
    /// The number of its kind.
    const KIND: u8;

    /// The round and the device.
    fn header(&self) -> Header;

    #[doc(hidden)]
    fn write(&self, out: &mut Vec<u8>);

    #[doc(hidden)]
    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// As bytes.
    fn encode(&self) -> Vec<u8> {
        let header = self.header();
        let mut out = vec![VERSION, Self::KIND];
        out.extend(header.federation.0.to_le_bytes());
        out.extend(header.round.0.to_le_bytes());
        header.client.write(&mut out);
        self.write(&mut out);
        out
    }

    /// From untrusted bytes.
    ///
    /// # Errors
    /// If they are not this message.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        expect_byte(&mut from, "version", VERSION)?;
        expect_byte(&mut from, "kind", Self::KIND)?;
        let (federation, round) = (FederationId(from.u64("federation")?), RoundId(from.u64("round")?));
        let message = Self::read(Header { federation, round, client: from.u32("client")? }, &mut from)?;
        from.end()?;
        Ok(message)
    }
}

/// Reads a byte that must have this value.
pub(crate) fn expect_byte(from: &mut Reader<'_>, field: &'static str, expected: u8) -> Result<(), DecodeError> {
    let at = from.at();
    let found = from.byte(field)?;
    if found == expected { Ok(()) } else { Err(DecodeError::Code(field, at, found)) }
}

/// Part of a message.
trait Field: Sized {
    /// Bytes, at least.
    const LEAST: usize;
    fn write(&self, out: &mut Vec<u8>);
    fn read(name: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

impl Field for () {
    const LEAST: usize = 0;

    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &'static str, _: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Field for u32 {
    const LEAST: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn read(name: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        from.u32(name)
    }
}

impl<const N: usize> Field for [u8; N] {
    const LEAST: usize = N;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }

    fn read(name: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        from.array(name)
    }
}

/// What a message says of each of some devices: at most a neighbourhood, by ascending index, so that none is listed
/// twice.
impl<T: Field> Field for Vec<(ClientIndex, T)> {
    const LEAST: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        for (client, value) in self {
            client.write(out);
            value.write(out);
        }
    }

    fn read(field: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = from.count(field, MOST_NEIGHBOURS as usize, 4 + T::LEAST)?;
        let mut last = None;
        let entry = |_| {
            let (at, client) = (from.at(), from.u32(field)?);
            if last.replace(client).is_some_and(|last| last >= client) {
                return Err(DecodeError::Order(field, at));
            }
            Ok((client, T::read(field, from)?))
        };
        (0..count).map(entry).collect()
    }
}

/// Some devices, with nothing said of them.
impl Field for Vec<ClientIndex> {
    const LEAST: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.iter().map(|client| (*client, ())).collect::<Vec<_>>().write(out);
    }

    fn read(field: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Vec::<(ClientIndex, ())>::read(field, from)?.into_iter().map(|(client, ())| client).collect())
    }
}

/// A device's public keys for one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKeys {
    /// X25519, for encrypting shares.
    pub encryption: [u8; 32],
    /// X25519, for pairwise masks.
    pub masks: [u8; 32],
    /// The identity that signed them, and its signature.
    pub signed: Option<(IdentityKey, [u8; 64])>,
}

impl Field for PublicKeys {
    const LEAST: usize = 65;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.encryption);
        out.extend(self.masks);
        out.push(self.signed.is_some().into());
        if let Some((identity, signature)) = &self.signed {
            out.extend(identity);
            out.extend(signature);
        }
    }

    fn read(_: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (encryption, masks) = (from.array("encryption key")?, from.array("mask key")?);
        let signed = match from.flag("signed")? {
            true => Some((from.array("identity")?, from.array("signature of the keys")?)),
            false => None,
        };
        Ok(Self { encryption, masks, signed })
    }
}

/// One share that a device reveals; a message cannot hold both of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevealedShare {
    /// Of the self-mask seed of a device whose input came.
    SelfMask(Share),
    /// Of the mask key of a device whose input did not.
    MaskKey(Share),
}

impl Field for RevealedShare {
    const LEAST: usize = 33;

    fn write(&self, out: &mut Vec<u8>) {
        let (kind, share) = match self {
            RevealedShare::SelfMask(share) => (0, share),
            RevealedShare::MaskKey(share) => (1, share),
        };
        out.push(kind);
        out.extend(share);
    }

    fn read(_: &'static str, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let of_key = from.flag("kind of share")?;
        let share = from.array("share")?;
        Ok(if of_key { RevealedShare::MaskKey(share) } else { RevealedShare::SelfMask(share) })
    }
}

/// Messages whose encoding is that of their fields in order.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$about:meta])* $field:ident: $type:ty = $label:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// The round, and who sends it or whom it is for.
            pub header: Header,
            $($(#[$about])* pub $field: $type,)+
        }

        impl Message for $name {
            const KIND: u8 = $kind;

            fn header(&self) -> Header {
                self.header
            }

            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)+
            }

            fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self { header, $($field: Field::read($label, from)?,)+ })
            }
        }
    )+};
}

messages! {
    /// Up, step 1: a device's keys.
    Advertise = 1 {
        /// The keys.
        keys: PublicKeys = "keys",
    }

    /// Down, after step 1: a device's neighbours.
    Neighbours = 2 {
        /// How many devices advertised keys; the parameters follow from it.
        devices: u32 = "devices",
        /// The neighbours' keys, by ascending index.
        peers: Vec<(ClientIndex, PublicKeys)> = "neighbours",
    }

    /// Up, step 2: a device's encrypted shares for its neighbours.
    Shares = 3 {
        /// Commitment to the self-mask seed, by which the server checks its reconstruction.
        commitment: [u8; 32] = "commitment",
        /// For each neighbour, by ascending index: ChaCha20-Poly1305 of a share of the self-mask seed and one of the
        /// mask key.
        encrypted: Vec<(ClientIndex, [u8; CIPHERTEXT])> = "encrypted shares",
    }

    /// Down, after step 2: the encrypted shares for a device.
    EncryptedShares = 4 {
        /// From each neighbour that shared, by ascending index.
        encrypted: Vec<(ClientIndex, [u8; CIPHERTEXT])> = "encrypted shares",
    }

    /// Down, after step 3: which neighbours' inputs came.
    Survivors = 6 {
        /// Came, by ascending index.
        survived: Vec<ClientIndex> = "survived",
        /// Shared, but then dropped out, by ascending index.
        dropped: Vec<ClientIndex> = "dropped",
    }
    /// Up, step 4 (with identities): signatures that a device counts its neighbours in.
    Confirm = 7 {
        /// For each neighbour that survived, by ascending index.
        signatures: Vec<(ClientIndex, [u8; 64])> = "signatures",
    }

    /// Down, after step 4: what neighbours signed about a device.
    Confirmations = 8 {
        /// By ascending index of the signer.
        signatures: Vec<(ClientIndex, [u8; 64])> = "signatures",
    }

    /// Up, last step: one share of each neighbour; a neighbour that is left out sent a box that did not open.
    Unmask = 9 {
        /// By ascending index of the neighbour whose secret it is.
        shares: Vec<(ClientIndex, RevealedShare)> = "shares",
    }
}

/// Up, step 3: a device's masked input and check word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// Who sends it.
    pub header: Header,
    /// As many integers as the configuration says, and the check word.
    pub words: Vec<u32>,
}

impl Message for Masked {
    const KIND: u8 = 5;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.reserve(4 + 4 * self.words.len());
        (self.words.len() as u32).write(out);
        out.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = from.count("words", MOST_VALUES as usize + 1, 4)?;
        let words = from.bytes("words", 4 * count as u64)?.as_chunks::<4>().0;
        Ok(Self { header, words: words.iter().map(|word| u32::from_le_bytes(*word)).collect() })
    }
}
