//! Saving and restoring a device: a phone may be stopped between any two steps.

use super::config::Config;
use super::device::{Device, DeviceError, HeldShares};
use super::identity::Identity;
use super::messages::{Message, Neighbours, Survivors, expect_byte};
use super::parameters::MOST_NEIGHBOURS;
use sottovoce_protocol::DecodeError;
use sottovoce_protocol::codec::Reader;

const VERSION: u8 = 2;
/// More than the longest message that is saved.
const MOST_BYTES: usize = 1 << 16;

impl Device {
    /// Its state, including secrets: store it with the device's other secrets, and before the answer to a message is
    /// sent, so that a restart cannot make it answer differently.
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
        let mut from = Reader::new(bytes);
        expect_byte(&mut from, "version", VERSION)?;
        let config = Config::read(&mut from)?;
        let (client, seed) = (from.u32("client")?, from.array("seed")?);
        let identity = identity.filter(|_| config.signed);
        let mut device = Self::new(config, client, seed, identity)?;
        device.neighbours = take(&mut from, "neighbours")?.map(Neighbours::decode).transpose()?;
        device.survivors = take(&mut from, "survivors")?.map(Survivors::decode).transpose()?;
        device.input = if from.flag("input")? { Some(from.array("input's digest")?) } else { None };
        device.held = Some(read_held(&mut from)?).filter(|_| device.input.is_some());
        from.end()?;
        Ok(device)
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
