//! A device's part in a sealed round, from its first message until the sum is opened.

use crate::bytes::{Read, Reader, Writer};
use sottovoce_privacy::he::HeError;
use sottovoce_privacy::secagg::{self, Message as _};
use sottovoce_privacy::{PrivacyConfig, PrivacyError, PrivacyMechanism, SecureRng};
use sottovoce_protocol::{DecodeError, RoundId, RoundTerms, codec};
use std::sync::Arc;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// A device's part in a sealed round: secure aggregation or encryption. Each step is stored before its message is sent,
/// so that a device that was killed sends the same message again.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealing {
    /// The round.
    pub round: RoundId,
    /// Of secure aggregation: the protocol's state. Of encryption: the round's terms.
    machine: Vec<u8>,
    /// The quantized update: long, so that all states of a round share it.
    words: Arc<Zeroizing<Vec<u32>>>,
    stage: Stage,
    /// The message to be sent, until it is acknowledged.
    pub out: Option<Arc<[u8]>>,
}

/// Without the protocol's secrets and the update.
impl std::fmt::Debug for Sealing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { round, stage, .. } = self;
        f.debug_struct("Sealing").field("round", round).field("stage", stage).finish_non_exhaustive()
    }
}

impl Drop for Sealing {
    fn drop(&mut self) {
        self.machine.zeroize();
    }
}

/// The message sent last, or to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
enum Stage {
    Advertise = 0,
    Share = 1,
    Mask = 2,
    Unmask = 3,
    /// The encrypted update.
    Encrypt = 4,
    /// The decrypted sum.
    Decrypt = 5,
    /// Which neighbours are counted, with identities.
    Confirm = 6,
}

const STAGES: [Stage; 7] =
    [Stage::Advertise, Stage::Share, Stage::Mask, Stage::Unmask, Stage::Encrypt, Stage::Decrypt, Stage::Confirm];

/// Why a device leaves a sealed round.
#[derive(Debug, Error)]
pub enum SealingError {
    /// Secure aggregation refuses to go on.
    #[error(transparent)]
    SecureAggregation(#[from] secagg::DeviceError),
    /// A message that cannot be read.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// Encryption failed.
    #[error(transparent)]
    Encryption(#[from] HeError),
    /// Privacy layers that do not go together.
    #[error(transparent)]
    Privacy(#[from] PrivacyError),
    /// A sum of fewer updates than the owner demands. Fields: how many, at least; the owner's least cohort.
    #[error(
        "the server wants to open a sum of which only {0} updates are certain, this device's included; its owner \
         demands {1}"
    )]
    SmallSum(usize, u32),
    /// The stored terms cannot be read.
    #[error("the stored terms of the round: {0}")]
    Terms(DecodeError),
    /// Encryption needs the key that devices share.
    #[error("this device has no key of the federation")]
    NoKey,
}

/// The neighbours whose updates came, if the sum that is opened with their help is large enough for the owner. What can
/// be opened without the other devices of the round is at least this device's update and those that it names.
fn survivors(bytes: &[u8], least: u32) -> Result<secagg::Survivors, SealingError> {
    let survivors = secagg::Survivors::decode(bytes)?;
    let certain = survivors.survived.len() + 1;
    if certain < least as usize { Err(SealingError::SmallSum(certain, least)) } else { Ok(survivors) }
}

impl Sealing {
    /// Begins secure aggregation; the identity matters only where the terms ask for signatures.
    ///
    /// # Errors
    /// If the configuration is refused.
    pub fn secure_aggregation(
        terms: secagg::Config,
        (client_index, seed): (u32, [u8; 32]),
        identity: Option<secagg::Identity>,
        words: Vec<u32>,
    ) -> Result<Self, secagg::DeviceError> {
        let round = terms.round;
        let identity = identity.filter(|_| terms.signed);
        let device = secagg::Device::new(terms, client_index, seed, identity)?;
        let out = Some(device.advertise().encode().into());
        let words = Arc::new(Zeroizing::new(words));
        Ok(Self { round, machine: device.save(), words, stage: Stage::Advertise, out })
    }

    /// Encrypts an update under the key that devices share.
    ///
    /// # Errors
    /// If the terms ask for no encryption, or it fails.
    pub fn encryption(
        terms: &RoundTerms,
        privacy: &PrivacyMechanism,
        key: &[u8; 32],
        words: &[u32],
        generator: &mut SecureRng,
    ) -> Result<Self, SealingError> {
        let encryption = privacy.encryption().ok_or(SealingError::NoKey)?;
        let out = encryption.seal(key, terms.round, words, generator)?;
        let mut machine = Vec::new();
        codec::encode_terms(terms, &mut machine);
        // Decrypting the sum needs no more than their number.
        let words = Arc::new(Zeroizing::new(vec![words.len() as u32]));
        Ok(Self { round: terms.round, machine, words, stage: Stage::Encrypt, out: Some(out.into()) })
    }

    /// Decrypts the sum.
    fn decrypt(&self, key: Option<&[u8; 32]>, sum: &[u8], generator: &mut SecureRng) -> Result<Self, SealingError> {
        let terms = codec::decode_terms(&self.machine).map_err(SealingError::Terms)?;
        let length = self.words.first().map_or(0, |&length| length as usize);
        let encryption = PrivacyConfig::read(&terms.privacy)?.encryption(length)?.ok_or(SealingError::NoKey)?;
        let words = encryption.open(key.ok_or(SealingError::NoKey)?, self.round, sum, generator)?;
        let out: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut next = self.clone();
        (next.stage, next.out) = (Stage::Decrypt, Some(out.into()));
        Ok(next)
    }

    /// Whether the message to be sent is the update itself, masked or encrypted.
    pub fn sends_update(&self) -> bool {
        matches!(self.stage, Stage::Mask | Stage::Encrypt)
    }

    /// Whether the update is in the sum already, which others may decrypt without this device.
    pub fn is_counted(&self) -> bool {
        matches!(self.stage, Stage::Encrypt | Stage::Decrypt) && (self.stage == Stage::Decrypt || self.out.is_none())
    }

    /// The next step, after a message of the server; for an owner with this identity, who demands that no fewer than
    /// `least` updates are opened together.
    ///
    /// # Errors
    /// If the message is malformed or must not be followed; the device then leaves the round.
    pub fn receive(
        &self,
        bytes: &[u8],
        key: Option<&[u8; 32]>,
        (identity, least): (Option<secagg::Identity>, u32),
        generator: &mut SecureRng,
    ) -> Result<Self, SealingError> {
        if matches!(self.stage, Stage::Encrypt | Stage::Decrypt) {
            return self.decrypt(key, bytes, generator);
        }
        let mut device = secagg::Device::restore(&self.machine, identity)?;
        let (stage, out): (Stage, Arc<[u8]>) = match self.stage {
            Stage::Advertise => (Stage::Share, device.share(&secagg::Neighbours::decode(bytes)?)?.encode().into()),
            Stage::Share => (Stage::Mask, device.mask_message(&secagg::EncryptedShares::decode(bytes)?, &self.words)?),
            Stage::Mask if device.config().signed => {
                (Stage::Confirm, device.confirm(&survivors(bytes, least)?)?.encode().into())
            }
            Stage::Confirm => {
                (Stage::Unmask, device.unmask_confirmed(&secagg::Confirmations::decode(bytes)?)?.encode().into())
            }
            _ => (Stage::Unmask, device.unmask(&survivors(bytes, least)?)?.encode().into()),
        };
        // Once masked, the update is not needed in the clear again.
        let words = if stage >= Stage::Mask { Arc::default() } else { Arc::clone(&self.words) };
        Ok(Self { round: self.round, machine: device.save(), words, stage, out: Some(out) })
    }

    /// After the server has acknowledged the message; `None` if it was the last one.
    pub fn acknowledged(mut self) -> Option<Self> {
        self.out = None;
        (!matches!(self.stage, Stage::Unmask | Stage::Decrypt)).then_some(self)
    }

    /// Stores the state.
    pub fn write(&self, out: &mut Writer) {
        out.number(self.round.0);
        out.byte(self.stage as u8);
        out.block(&self.machine);
        out.number(self.words.len() as u64);
        self.words.iter().for_each(|word| out.0.extend_from_slice(&word.to_le_bytes()));
        out.optional(self.out.as_ref(), |out, bytes| out.block(bytes));
    }

    /// Reads a stored state.
    ///
    /// # Errors
    /// If it is damaged; names the field.
    pub fn read(from: &mut Reader<'_>) -> Read<Self> {
        let round = RoundId(from.number("sealed round")?);
        let code = from.byte("sealed stage")?;
        let stage = STAGES.into_iter().find(|&stage| stage as u8 == code).ok_or("sealed stage")?;
        let machine = from.block("seal")?.to_vec();
        let count = from.count("sealed words")?;
        let word = |_| Ok(u32::from_le_bytes(from.array("sealed words")?));
        let words = Arc::new(Zeroizing::new((0..count).map(word).collect::<Read<Vec<u32>>>()?));
        let out = from.optional("sealed message", |from| Ok(from.block("sealed message")?.into()))?;
        Ok(Self { round, machine, words, stage, out })
    }
}
