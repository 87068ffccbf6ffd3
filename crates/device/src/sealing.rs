//! A sealed update on its way: what the device says, hears and must not forget until the sum of its round is opened.

use crate::bytes::{Read, Reader, Writer};
use sottovoce_privacy::secagg::{self, Message as _};
use sottovoce_protocol::RoundId;
use std::sync::Arc;

/// A device's part in a round of secure aggregation. Each step is kept before what it says is sent, so that a device that
/// was killed says the very same again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealing {
    pub(crate) round: RoundId,
    /// The state machine, saved.
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
}

const STAGES: [Stage; 4] = [Stage::Advertise, Stage::Share, Stage::Mask, Stage::Unmask];

impl Sealing {
    /// With the first thing to say.
    pub(crate) fn begin(
        terms: secagg::Terms,
        seat: u32,
        seed: [u8; 32],
        words: Vec<u32>,
    ) -> Result<Self, secagg::Refusal> {
        let round = terms.round;
        let device = secagg::Device::new(terms, seat, seed)?;
        let out = Some(device.advertise().encode().into());
        Ok(Self { round, machine: device.save(), words, stage: Stage::Advertise, out })
    }

    /// Whether what is to be sent is the update itself, masked.
    pub(crate) fn sends_update(&self) -> bool {
        self.stage == Stage::Mask
    }

    /// After what the server says next.
    pub(crate) fn hear(&self, bytes: &[u8]) -> Result<Self, secagg::Refusal> {
        let mut device = secagg::Device::restore(&self.machine, None)?;
        let (stage, out) = match self.stage {
            Stage::Advertise => (Stage::Share, device.share(&secagg::Neighbours::decode(bytes)?)?.encode()),
            Stage::Share => (Stage::Mask, device.mask(&secagg::Inbox::decode(bytes)?, &self.words)?.encode()),
            Stage::Mask | Stage::Unmask => {
                (Stage::Unmask, device.unmask(&secagg::Survivors::decode(bytes)?)?.encode())
            }
        };
        // What is masked is never needed in the clear again.
        let words = if stage >= Stage::Mask { Vec::new() } else { self.words.clone() };
        Ok(Self { round: self.round, machine: device.save(), words, stage, out: Some(out.into()) })
    }

    /// The server has what was to be sent; `None` if that was the last of it.
    pub(crate) fn acknowledged(mut self) -> Option<Self> {
        self.out = None;
        (self.stage != Stage::Unmask).then_some(self)
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
