//! What device, server and keeper send each other. Decoding is strict: one encoding a message, bounded lengths, nothing
//! after the end.

use super::boxes::CIPHERTEXT;
use super::opening::{Fault, OpenError};
use super::{Config, LEAST};
use crate::secagg::{ClientIndex, Header, IdentityKey, MOST_DEVICES, MOST_VALUES, Message, expect_byte};
use sha2::{Digest, Sha256};
use sottovoce_protocol::codec::Reader;
use sottovoce_protocol::{DecodeError, limits};
use zeroize::Zeroizing;

/// The version of messages between server and keeper, and of how masks are derived.
const VERSION: u8 = 1;
const OPENING: u8 = 1;
const OPENED: u8 = 2;
const REFUSED: u8 = 3;

/// The seed of a mask, for the keeper to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSeed {
    /// The public half of a key that is used once: X25519.
    pub ephemeral: [u8; 32],
    /// ChaCha20-Poly1305 of the seed and of the fewest updates that its owner wants opened together.
    pub ciphertext: [u8; CIPHERTEXT],
    /// The identity that signed it, and its signature.
    pub signed: Option<(IdentityKey, [u8; 64])>,
}

impl SealedSeed {
    /// Bytes of one.
    pub fn bytes(signed: bool) -> u64 {
        32 + CIPHERTEXT as u64 + 1 + if signed { 32 + 64 } else { 0 }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.ephemeral);
        out.extend(self.ciphertext);
        out.push(self.signed.is_some().into());
        if let Some((identity, signature)) = &self.signed {
            out.extend(identity);
            out.extend(signature);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (ephemeral, ciphertext) = (from.array("one-time key")?, from.array("sealed seed")?);
        let signed = match from.flag("signed")? {
            true => Some((from.array("identity")?, from.array("signature of the seed")?)),
            false => None,
        };
        Ok(Self { ephemeral, ciphertext, signed })
    }
}

/// From device to server: a masked input and check word, and the mask's seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Who sends it.
    pub header: Header,
    /// The seed of the mask, for the keeper.
    pub sealed: SealedSeed,
    /// The check word, and as many integers as the configuration says.
    pub words: Vec<u32>,
}

impl Upload {
    /// Bytes around the words of an input.
    pub fn overhead_bytes(signed: bool) -> u64 {
        // Version, kind and header; the seed; how many words there are; the check word.
        2 + 20 + SealedSeed::bytes(signed) + 4 + 4
    }
}

impl Message for Upload {
    const KIND: u8 = 10;

    fn header(&self) -> Header {
        self.header
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.sealed.write(out);
        write_words(&self.words, out);
    }

    fn read(header: Header, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { header, sealed: SealedSeed::read(from)?, words: read_words(from)? })
    }
}

fn write_words(words: &[u32], out: &mut Vec<u8>) {
    out.reserve(4 + 4 * words.len());
    out.extend((words.len() as u32).to_le_bytes());
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn read_words(from: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let count = from.count("words", MOST_VALUES as usize + 1, 4)?;
    let words = from.bytes("words", 4 * count as u64)?.as_chunks::<4>().0;
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// A device whose mask is to be added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its index.
    pub client: ClientIndex,
    /// Its masked check word, by which the keeper sees that the seed is that of its mask. What is under the mask
    /// everybody knows.
    pub check: u32,
    /// The seed of its mask.
    pub sealed: SealedSeed,
}

impl From<Upload> for Entry {
    fn from(Upload { header, sealed, words }: Upload) -> Self {
        Self { client: header.client, check: words.first().copied().unwrap_or(0), sealed }
    }
}

/// From server to keeper: which devices' masks to add up.
#[derive(Clone, PartialEq, Eq)]
pub struct Opening {
    /// The round.
    pub config: Config,
    /// What [`Config::opener`] is the digest of.
    pub secret: Zeroizing<[u8; 32]>,
    /// Devices, by ascending index.
    pub entries: Vec<Entry>,
}

/// Without the secret.
impl std::fmt::Debug for Opening {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (config, devices) = (&self.config, self.entries.len());
        out.debug_struct("Opening").field("config", config).field("devices", &devices).finish_non_exhaustive()
    }
}

impl Opening {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, OPENING];
        out.extend(*self.secret);
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.config.write(out);
        out.extend((self.entries.len() as u32).to_le_bytes());
        for Entry { client, check, sealed } in &self.entries {
            out.extend(client.to_le_bytes());
            out.extend(check.to_le_bytes());
            sealed.write(out);
        }
    }

    /// By which the keeper recognises the same request; whoever reads it cannot have the round opened.
    pub fn digest(&self) -> [u8; 32] {
        let mut text = Vec::new();
        self.write(&mut text);
        Sha256::new_with_prefix(b"sottovoce keeper request 1").chain_update(&text).finalize().into()
    }

    /// From untrusted bytes.
    ///
    /// # Errors
    /// If they are no such request; one in which a device is named twice is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        expect_byte(&mut from, "version", VERSION)?;
        expect_byte(&mut from, "kind", OPENING)?;
        let (secret, config) = (Zeroizing::new(from.array("opener's secret")?), Config::read(&mut from)?);
        let count = from.count("devices", MOST_DEVICES as usize, 8 + SealedSeed::bytes(false) as usize)?;
        let mut last = None;
        let entry = |_| {
            let client = next_client(&mut from, &mut last)?;
            Ok(Entry { client, check: from.u32("masked check word")?, sealed: SealedSeed::read(&mut from)? })
        };
        let entries = (0..count).map(entry).collect::<Result<_, _>>()?;
        from.end()?;
        Ok(Self { config, secret, entries })
    }
}

/// Why the keeper opens nothing, as it tells the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// In words.
    pub why: String,
    /// Devices without whose seeds it may be asked again; by ascending index.
    pub faults: Vec<(ClientIndex, Fault)>,
}

impl From<&OpenError> for Refused {
    fn from(error: &OpenError) -> Self {
        let faults = if let OpenError::Faults(faults) = error { faults.clone() } else { Vec::new() };
        Self { why: error.to_string(), faults }
    }
}

/// From keeper to server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The sum of the masks.
    Opened(Vec<u32>),
    /// Nothing, and nothing was spent.
    Refused(Refused),
}

impl Answer {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Opened(words) => {
                let mut out = vec![VERSION, OPENED];
                write_words(words, &mut out);
                out
            }
            Self::Refused(Refused { why, faults }) => {
                let mut out = vec![VERSION, REFUSED];
                out.extend((why.len() as u32).to_le_bytes());
                out.extend(why.as_bytes());
                out.extend((faults.len() as u32).to_le_bytes());
                for (client, fault) in faults {
                    out.extend(client.to_le_bytes());
                    out.push(*fault as u8);
                }
                out
            }
        }
    }

    /// From untrusted bytes.
    ///
    /// # Errors
    /// If they are no answer.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        expect_byte(&mut from, "version", VERSION)?;
        let at = from.at();
        let answer = match from.byte("kind")? {
            OPENED => Self::Opened(read_words(&mut from)?),
            REFUSED => {
                let length = from.count("reason", limits::TEXT_BYTES as usize, 1)?;
                let why = String::from_utf8_lossy(from.bytes("reason", length as u64)?).into_owned();
                let count = from.count("faults", MOST_DEVICES as usize, 5)?;
                let mut last = None;
                let fault = |_| {
                    let client = next_client(&mut from, &mut last)?;
                    let (at, code) = (from.at(), from.byte("fault")?);
                    Ok((client, Fault::of(code).ok_or(DecodeError::Code("fault", at, code))?))
                };
                let faults = (0..count).map(fault).collect::<Result<_, _>>()?;
                Self::Refused(Refused { why, faults })
            }
            found => return Err(DecodeError::Code("kind", at, found)),
        };
        from.end()?;
        Ok(answer)
    }
}

/// The next of some devices, of which each is named once.
fn next_client(from: &mut Reader<'_>, last: &mut Option<ClientIndex>) -> Result<ClientIndex, DecodeError> {
    let (at, client) = (from.at(), from.u32("device")?);
    match last.replace(client).is_some_and(|last| last >= client) {
        true => Err(DecodeError::Order("device", at)),
        false => Ok(client),
    }
}

impl Opening {
    /// The longest request for a round of so many devices.
    pub fn most_bytes(devices: u32) -> u64 {
        512 + u64::from(devices) * (8 + SealedSeed::bytes(true))
    }

    /// The fewest updates that may be opened together, whoever asks.
    pub(super) fn floor(&self, own: u32) -> u32 {
        self.config.least.max(own).max(LEAST)
    }
}
