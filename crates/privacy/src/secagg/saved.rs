//! A device as bytes: a phone may be stopped between any two steps.

use super::device::{Device, HeldShares, DeviceError};
use super::identity::Identity;
use super::messages::{Message, Neighbours, Survivors};
use super::parameters::MOST_NEIGHBOURS;
use super::terms::Config;
use super::wire::{Malformed, Reader};

const FORM: u8 = 1;
/// More than the longest message that is kept.
const MOST_BYTES: usize = 1 << 16;

impl Device {
    /// Its state. It holds secrets of the round: keep it where the device's other secrets are, and write it down before the
    /// answer to a message is sent, so that a restart cannot make it answer otherwise.
    pub fn save(&self) -> Vec<u8> {
        let mut out = vec![FORM];
        self.terms.write(&mut out);
        out.extend(self.client.to_le_bytes());
        out.extend(self.seed);
        put(&mut out, self.neighbours.as_ref().map(Message::encode));
        put(&mut out, self.survivors.as_ref().map(Message::encode));
        out.push(self.input.is_some().into());
        out.extend(self.input.iter().flatten());
        let held = self.held.as_deref().unwrap_or_default();
        out.extend((held.len() as u32).to_le_bytes());
        for HeldShares { client, own, mask } in held {
            out.extend(client.to_le_bytes());
            out.extend(own);
            out.extend(mask);
        }
        out
    }

    /// From [`save`](Self::save), with the identity, which matters only where the terms ask for signatures.
    pub fn restore(bytes: &[u8], identity: Option<Identity>) -> Result<Self, DeviceError> {
        let mut from = Reader::new(bytes);
        let form = from.u8("form")?;
        if form != FORM {
            return Err(from.wrong("form", form.into(), "1").into());
        }
        let terms = Config::read(&mut from)?;
        let (client, seed) = (from.u32("client")?, from.array("seed")?);
        let mut device = match identity.filter(|_| terms.signed) {
            None => Self::new(terms, client, seed)?,
            Some(identity) => Self::with_identity(terms, client, seed, identity)?,
        };
        device.neighbours = take(&mut from, "neighbours")?.map(Neighbours::decode).transpose()?;
        device.survivors = take(&mut from, "survivors")?.map(Survivors::decode).transpose()?;
        if from.flag("input")? {
            device.input = Some(from.array("input's digest")?);
        }
        let held = read_held(&mut from)?;
        device.held = device.input.is_some().then_some(held);
        from.end()?;
        Ok(device)
    }
}

fn read_held(from: &mut Reader<'_>) -> Result<Vec<HeldShares>, Malformed> {
    let count = from.count("shares held", MOST_NEIGHBOURS as usize, 68)?;
    let one = |_| Ok(HeldShares { client: from.u32("client")?, own: from.array("share")?, mask: from.array("share")? });
    (0..count).map(one).collect()
}

fn put(out: &mut Vec<u8>, message: Option<Vec<u8>>) {
    let bytes = message.unwrap_or_default();
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

fn take<'a>(from: &mut Reader<'a>, field: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
    let count = from.count(field, MOST_BYTES, 1)?;
    let bytes = from.bytes(field, count)?;
    Ok((count > 0).then_some(bytes))
}
