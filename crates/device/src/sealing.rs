//! A sealed update on its way: what the device says, hears and must not forget until the sum of its round is opened.

use crate::bytes::{Read, Reader, Writer};
use sottovoce_privacy::he::HeError;
use sottovoce_privacy::secagg::{self, Message as _};
use sottovoce_privacy::{SecureRng, PrivacyMechanism, PrivacyConfig, PrivacyError};
use sottovoce_protocol::{DecodeError, RoundId, RoundTerms, codec};
use std::sync::Arc;
use thiserror::Error;

/// A device's part in a sealed round. Each step is kept before what it says is sent, so that a device that
/// was killed says the very same again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealing {
    pub(crate) round: RoundId,
    /// Of masks: the state machine, saved. Of encryption: the round's terms.
    machine: Vec<u8>,
    /// What goes into the sum.
    words: Vec<u32>,
    stage: Stage,
    /// What is to be sent and was not acknowledged.
    pub(crate) out: Option<Arc<[u8]>>,
}

/// What was said last, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
enum Stage {
    Advertise = 0,
    Share = 1,
    Mask = 2,
    Unmask = 3,
    /// Encrypted words.
    Lock = 4,
    /// What the encrypted sum opens to.
    Open = 5,
    /// Which neighbours are counted in, with identities.
    Confirm = 6,
}

const STAGES: [Stage; 7] =
    [Stage::Advertise, Stage::Share, Stage::Mask, Stage::Unmask, Stage::Lock, Stage::Open, Stage::Confirm];

/// Why a device takes no more part in a sealed round.
#[derive(Debug, Error)]
pub(crate) enum Leaves {
    #[error(transparent)]
    Masks(#[from] secagg::DeviceError),
    #[error(transparent)]
    Malformed(#[from] secagg::Malformed),
    #[error(transparent)]
    Encryption(#[from] HeError),
    #[error(transparent)]
    Protection(#[from] PrivacyError),
    #[error("the round's terms as they were kept: {0}")]
    Terms(#[from] DecodeError),
    #[error("this device has no key of the federation")]
    NoKey,
}

impl Sealing {
    /// With the first thing to say; the identity matters only where the terms ask for signatures.
    pub(crate) fn begin(
        terms: secagg::Config,
        (seat, seed): (u32, [u8; 32]),
        identity: Option<secagg::Identity>,
        words: Vec<u32>,
    ) -> Result<Self, secagg::DeviceError> {
        let round = terms.round;
        let device = match identity.filter(|_| terms.signed) {
            Some(identity) => secagg::Device::with_identity(terms, seat, seed, identity)?,
            None => secagg::Device::new(terms, seat, seed)?,
        };
        let out = Some(device.advertise().encode().into());
        Ok(Self { round, machine: device.save(), words, stage: Stage::Advertise, out })
    }

    /// With encrypted words to say.
    pub(crate) fn lock(
        terms: &RoundTerms,
        protected: &PrivacyMechanism,
        key: &[u8; 32],
        words: &[u32],
        generator: &mut SecureRng,
    ) -> Result<Self, Leaves> {
        let lock = protected.encryption().ok_or(Leaves::NoKey)?;
        let out = lock.seal(key, terms.round, words, generator)?;
        let mut machine = Vec::new();
        codec::encode_terms(terms, &mut machine);
        // Their number is all that opening the sum needs to know of them.
        let words = vec![words.len() as u32];
        Ok(Self { round: terms.round, machine, words, stage: Stage::Lock, out: Some(out.into()) })
    }

    /// Opens the encrypted sum.
    fn open(&self, key: Option<&[u8; 32]>, sum: &[u8], generator: &mut SecureRng) -> Result<Self, Leaves> {
        let terms = codec::decode_terms(&self.machine)?;
        let length = self.words.first().map_or(0, |&length| length as usize);
        let lock = PrivacyConfig::read(&terms.privacy)?.encryption(length)?.ok_or(Leaves::NoKey)?;
        let words = lock.open(key.ok_or(Leaves::NoKey)?, self.round, sum, generator)?;
        let out: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        Ok(Self { stage: Stage::Open, out: Some(out.into()), ..self.clone() })
    }

    /// Whether what is to be sent is the update itself, masked or encrypted.
    pub(crate) fn sends_update(&self) -> bool {
        matches!(self.stage, Stage::Mask | Stage::Lock)
    }

    /// Whether the update is in the sum already, and others may open that without this device.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.stage, Stage::Lock | Stage::Open) && (self.stage == Stage::Open || self.out.is_none())
    }

    /// After what the server says next.
    pub(crate) fn hear(
        &self,
        bytes: &[u8],
        key: Option<&[u8; 32]>,
        identity: Option<secagg::Identity>,
        generator: &mut SecureRng,
    ) -> Result<Self, Leaves> {
        if matches!(self.stage, Stage::Lock | Stage::Open) {
            return self.open(key, bytes, generator);
        }
        let mut device = secagg::Device::restore(&self.machine, identity)?;
        let (stage, out) = match self.stage {
            Stage::Advertise => (Stage::Share, device.share(&secagg::Neighbours::decode(bytes)?)?.encode()),
            Stage::Share => (Stage::Mask, device.mask(&secagg::EncryptedShares::decode(bytes)?, &self.words)?.encode()),
            Stage::Mask if device.config().signed => {
                (Stage::Confirm, device.confirm(&secagg::Survivors::decode(bytes)?)?.encode())
            }
            Stage::Confirm => {
                (Stage::Unmask, device.unmask_confirmed(&secagg::Confirmations::decode(bytes)?)?.encode())
            }
            _ => (Stage::Unmask, device.unmask(&secagg::Survivors::decode(bytes)?)?.encode()),
        };
        // What is masked is never needed in the clear again.
        let words = if stage >= Stage::Mask { Vec::new() } else { self.words.clone() };
        Ok(Self { round: self.round, machine: device.save(), words, stage, out: Some(out.into()) })
    }

    /// The server has what was to be sent; `None` if that was the last of it.
    pub(crate) fn acknowledged(mut self) -> Option<Self> {
        self.out = None;
        (!matches!(self.stage, Stage::Unmask | Stage::Open)).then_some(self)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.round.0);
        out.byte(self.stage as u8);
        out.block(&self.machine);
        out.number(self.words.len() as u64);
        self.words.iter().for_each(|word| out.0.extend_from_slice(&word.to_le_bytes()));
        out.optional(self.out.as_ref(), |out, bytes| out.block(bytes));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Self> {
        let round = RoundId(from.number("sealed round")?);
        let code = from.byte("sealed stage")?;
        let stage = STAGES.into_iter().find(|&stage| stage as u8 == code).ok_or("sealed stage")?;
        let machine = from.block("seal")?.to_vec();
        let count = from.count("sealed words")?;
        let word = |_| Ok(u32::from_le_bytes(from.array("sealed words")?));
        let words = (0..count).map(word).collect::<Read<Vec<u32>>>()?;
        let out = from.optional("sealed message", |from| Ok(from.block("sealed message")?.into()))?;
        Ok(Self { round, machine, words, stage, out })
    }
}
