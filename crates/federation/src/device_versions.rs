//! The devices' side of downloads in the simulator: which version each device has, and what the next one costs.

use crate::state::{put_u64s, take_numbers, take_u64s, unfit};
use crate::{Delivery, DownloadMessage, FederationError, Offer};
use sottovoce_protocol::{ModelVersion, SharedModel, codec};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

/// A version as a slab keeps it: 0 for none, else one more than the version.
pub(crate) type HeldVersion = u64;

fn held(version: ModelVersion) -> HeldVersion {
    version.0 + 1
}

fn version(held: HeldVersion) -> Option<ModelVersion> {
    held.checked_sub(1).map(ModelVersion)
}

/// What the round's model costs a device, by the version it has.
#[derive(Debug, Default)]
pub(crate) struct DownloadCosts {
    whole: u64,
    by_version: BTreeMap<HeldVersion, u64>,
    current: HeldVersion,
}

impl DownloadCosts {
    /// Takes a device to the current version; returns the bytes of its download. Without versions every
    /// device gets all of the model.
    pub(crate) fn charge(&self, has: Option<&mut HeldVersion>) -> u64 {
        let Some(has) = has else { return self.whole };
        let cost = self.by_version.get(has).copied().unwrap_or(self.whole);
        *has = self.current;
        cost
    }
}

/// What simulated devices keep of shared models.
#[derive(Debug, Default)]
pub(crate) struct DeviceVersions {
    /// One a device; empty where it does not matter which version a device has.
    pub(crate) versions: Vec<HeldVersion>,
    /// For delivery by bytes: what devices hold that have a version.
    copies: BTreeMap<HeldVersion, SharedModel>,
}

impl DeviceVersions {
    /// Writes which version each device has. Copies are not written: they only check delivery by bytes.
    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.versions.len() as u64])?;
        put_u64s(out, &self.versions)
    }

    /// Takes it back, for so many devices.
    pub(crate) fn restore(&mut self, devices: usize, from: &mut dyn Read) -> io::Result<()> {
        let [length] = take_numbers(from)?;
        if length != 0 && length != devices as u64 {
            return Err(unfit(format!("versions of {length} devices, where there are {devices}")));
        }
        self.copies.clear();
        self.versions.resize(length as usize, 0);
        take_u64s(from, &mut self.versions)
    }

    /// Readies a round: what its model costs each of the cohort, and, where it travels in bytes, what they hold then.
    pub(crate) fn prepare(
        &mut self,
        offer: &Offer<'_>,
        (cohort, devices): (&[u32], usize),
        delivery: Delivery,
    ) -> Result<(DownloadCosts, Option<SharedModel>), FederationError> {
        let whole = offer.bytes(&DownloadMessage::Whole);
        let mut costs = DownloadCosts { whole, by_version: BTreeMap::new(), current: held(offer.model().version) };
        if offer.by_rows() {
            self.versions.resize(devices, 0);
            let present: BTreeSet<HeldVersion> = cohort.iter().map(|&device| self.versions[device as usize]).collect();
            for has in present {
                costs.by_version.insert(has, offer.bytes(&offer.message(version(has))?));
            }
        }
        let received = if delivery == Delivery::Bytes { Some(self.receive(offer, &costs)?) } else { None };
        Ok((costs, received))
    }

    /// Carries every message of the round in bytes; returns what devices hold then, in whichever way they came to it.
    fn receive(&mut self, offer: &Offer<'_>, costs: &DownloadCosts) -> Result<SharedModel, FederationError> {
        let mut bytes = Vec::new();
        codec::encode_model(offer.model(), offer.values(), &mut bytes)?;
        check_bytes(costs.whole, &bytes)?;
        let whole = codec::decode_model(&bytes)?;
        for (&has, &cost) in &costs.by_version {
            let DownloadMessage::Difference(difference) = offer.message(version(has))? else { continue };
            let Some(copy) = self.copies.get(&has) else { continue };
            bytes.clear();
            codec::encode_difference(&difference, &mut bytes)?;
            check_bytes(cost, &bytes)?;
            let mut copy = copy.clone();
            codec::apply_difference(&bytes, &mut copy)?;
            if copy.parameters.checksum() != whole.parameters.checksum() {
                return Err(FederationError::Parted(whole.version.0));
            }
        }
        if offer.by_rows() {
            let needed: BTreeSet<HeldVersion> = self.versions.iter().copied().collect();
            self.copies.retain(|has, _| needed.contains(has));
            self.copies.insert(costs.current, whole.clone());
        }
        Ok(whole)
    }
}

fn check_bytes(counted: u64, bytes: &[u8]) -> Result<(), FederationError> {
    let sent = bytes.len() as u64;
    if counted == sent { Ok(()) } else { Err(FederationError::Counted(counted, sent)) }
}
