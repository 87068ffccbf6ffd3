//! Saving and restoring a device: a phone may be stopped between any two steps.

use super::config::Config;
use super::device::{Device, DeviceError, HeldShares};
use super::identity::Identity;
use super::messages::{Message, Neighbours, Survivors, expect_byte};
use super::parameters::MOST_NEIGHBOURS;
use super::{ClientIndex, Malformed};
use sottovoce_protocol::DecodeError;
use sottovoce_protocol::codec::Reader;

const VERSION: u8 = 1;
/// More than the longest message that is saved.
const MOST_BYTES: usize = 1 << 16;

impl Device {
    /// Its state, including secrets: store it with the device's other secrets, and before the answer to a message is sent, so
    /// that a restart cannot make it answer differently.
    pub fn save(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.config.write(&mut out);
        out.extend(self.client.to_le_bytes());
        out.extend(self.seed);
        put(&mut out, self.neighbours.as_ref().map(Message::encode));
        put(&mut out, self.survivors.as_ref().map(Message::encode));
        out.push(self.input.is_some().into());
        out.extend(self.input.iter().flatten());
        let held = self.held.as_deref().unwrap_or_default();
        out.extend((held.len() as u32).to_le_bytes());
        for HeldShares { client, self_mask, mask_key } in held {
            out.extend(client.to_le_bytes());
            out.extend(self_mask);
            out.extend(mask_key);
        }
        out
    }

    /// From [`save`](Self::save), with the identity, which is used only where the configuration asks for signatures.
    pub fn restore(bytes: &[u8], identity: Option<Identity>) -> Result<Self, DeviceError> {
        let saved = Saved::read(bytes).map_err(Malformed)?;
        let mut device = match identity.filter(|_| saved.config.signed) {
            None => Self::new(saved.config, saved.client, saved.seed)?,
            Some(identity) => Self::with_identity(saved.config, saved.client, saved.seed, identity)?,
        };
        device.neighbours = saved.neighbours.map(Neighbours::decode).transpose()?;
        device.survivors = saved.survivors.map(Survivors::decode).transpose()?;
        device.held = saved.input.is_some().then_some(saved.held);
        device.input = saved.input;
        Ok(device)
    }
}

/// The parts of a saved device.
struct Saved<'a> {
    config: Config,
    client: ClientIndex,
    seed: [u8; 32],
    neighbours: Option<&'a [u8]>,
    survivors: Option<&'a [u8]>,
    input: Option<[u8; 32]>,
    held: Vec<HeldShares>,
}

impl<'a> Saved<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        expect_byte(&mut from, "version", VERSION)?;
        let saved = Self {
            config: Config::read(&mut from)?,
            client: from.u32("client")?,
            seed: from.array("seed")?,
            neighbours: take(&mut from, "neighbours")?,
            survivors: take(&mut from, "survivors")?,
            input: if from.flag("input")? { Some(from.array("input's digest")?) } else { None },
            held: read_held(&mut from)?,
        };
        from.end()?;
        Ok(saved)
    }
}

fn read_held(from: &mut Reader<'_>) -> Result<Vec<HeldShares>, DecodeError> {
    let count = from.count("shares held", MOST_NEIGHBOURS as usize, 68)?;
    let one = |_| {
        let client = from.u32("client")?;
        Ok(HeldShares { client, self_mask: from.array("share")?, mask_key: from.array("share")? })
    };
    (0..count).map(one).collect()
}

fn put(out: &mut Vec<u8>, message: Option<Vec<u8>>) {
    let bytes = message.unwrap_or_default();
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn take<'a>(from: &mut Reader<'a>, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
    let count = from.count(field, MOST_BYTES, 1)?;
    let bytes = from.bytes(field, count as u64)?;
    Ok((count > 0).then_some(bytes))
}
