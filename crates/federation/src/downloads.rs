//! How the shared model gets to devices: whole or by what changed, exact or rounded.
//!
//! Devices train on what they hold after decoding, and the server knows what that is: the *distributed* model, which
//! follows the shared one row by row. A row of it is always the rounded row of some version of the shared model, never
//! a sum of rounded changes, so that errors do not add up; and all devices that have a version hold the same bits,
//! whichever way they came to it. Rows that hardly moved may wait: what they miss stays in the shared model and is sent
//! once it is worth it.

use crate::state::{put_f32s, put_u64s, take_f32s, take_numbers, take_u64s, unfit};
use crate::{Aggregate, FederationError};
use sottovoce_protocol::{
    Difference, Layout, ModelError, ModelVersion, Parameters, SharedModel, Table, ValueEncoding, codec,
};
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// How the shared model gets to devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Downloads {
    /// How values are written.
    pub values: ValueEncoding,
    /// Whether a device gets only the rows that changed since the version it has. With [`ValueEncoding::I8Table`],
    /// whose rows share one scale, it gets all rows anyway.
    pub differences: bool,
    /// With differences: a row none of whose values moved by more than this fraction of the row's largest waits.
    pub min_change: f32,
}

impl Downloads {
    fn by_rows(&self) -> bool {
        self.differences && self.values != ValueEncoding::I8Table
    }

    /// Whether devices always hold the shared model's very bits, whole.
    fn is_plain(&self) -> bool {
        self.values == ValueEncoding::F32 && !self.differences
    }
}

/// Versions since which the server knows what changed. It stores a checksum of each, and no model.
const WINDOW: usize = 1024;

/// The server's knowledge of what devices hold.
pub(crate) struct ModelDistribution {
    how: Downloads,
    /// What a device holds that has the current version; `None` where that is the shared model itself.
    pub(crate) held: Option<SharedModel>,
    /// By table and row: the version that gave the row its present values.
    since: Vec<Vec<u64>>,
    /// Of the latest versions, the current one last.
    checksums: VecDeque<u32>,
    row: Vec<f32>,
}

impl ModelDistribution {
    /// Of the first version.
    pub(crate) fn new(how: Downloads, shared: &SharedModel) -> Result<Self, FederationError> {
        let zeros = |table: &Table| vec![shared.version.0; table.shape().rows as usize];
        let mut new = Self {
            how,
            held: (!how.is_plain()).then(|| shared.clone()),
            since: if how.by_rows() { shared.parameters.tables().iter().map(zeros).collect() } else { Vec::new() },
            checksums: VecDeque::new(),
            row: Vec::new(),
        };
        if let Some(held) = &mut new.held {
            round_all(how.values, &mut held.parameters)?;
        }
        new.note();
        Ok(new)
    }

    /// Whole and exact.
    pub(crate) fn plain() -> Self {
        let (how, since, checksums) = Default::default();
        Self { how, held: None, since, checksums, row: Vec::new() }
    }

    /// What devices hold that have the current version.
    pub(crate) fn held<'a>(&'a self, shared: &'a SharedModel) -> &'a SharedModel {
        self.held.as_ref().unwrap_or(shared)
    }

    /// Follows the shared model to a new version, of which only `changed` rows differ from the one before.
    pub(crate) fn follow(&mut self, shared: &SharedModel, changed: &Aggregate) -> Result<(), FederationError> {
        let Some(held) = &mut self.held else { return Ok(()) };
        held.version = shared.version;
        if !self.how.by_rows() {
            held.parameters.clone_from(&shared.parameters);
            return round_all(self.how.values, &mut held.parameters);
        }
        let tables = held.parameters.tables_mut().iter_mut().zip(shared.parameters.tables());
        for (index, ((held, shared_table), sums)) in tables.zip(changed.tables()).enumerate() {
            for (row, ..) in sums.rows() {
                let target = shared_table.row(row);
                if waits(held.row(row), target, self.how.min_change) {
                    continue;
                }
                self.row.clear();
                self.row.extend_from_slice(target);
                round(self.how.values, &mut self.row, target.len(), index)?;
                if self.row != held.row(row) {
                    held.row_mut(row).copy_from_slice(&self.row);
                    self.since[index][row] = shared.version.0;
                }
            }
        }
        self.note();
        Ok(())
    }

    /// Writes what devices hold.
    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        for table in self.held.iter().flat_map(|held| held.parameters.tables()) {
            put_f32s(out, table.values())?;
        }
        self.since.iter().try_for_each(|since| put_u64s(out, since))?;
        put_u64s(out, &[self.checksums.len() as u64])?;
        self.checksums.iter().try_for_each(|&checksum| put_u64s(out, &[u64::from(checksum)]))
    }

    /// Takes it back, as it was at a version.
    pub(crate) fn restore(&mut self, version: ModelVersion, from: &mut dyn Read) -> io::Result<()> {
        if let Some(held) = &mut self.held {
            held.version = version;
            for table in held.parameters.tables_mut() {
                take_f32s(from, table.values_mut())?;
            }
        }
        self.since.iter_mut().try_for_each(|since| take_u64s(from, since))?;
        let [length] = take_numbers(from)?;
        if length > WINDOW as u64 {
            return Err(unfit(format!("{length} versions, of which at most {WINDOW} are stored")));
        }
        self.checksums.clear();
        for _ in 0..length {
            let [checksum] = take_numbers(from)?;
            self.checksums.push_back(checksum as u32);
        }
        Ok(())
    }

    /// Whoever has another version than the current one gets all of it: the numbers before it are of another line.
    pub(crate) fn forget_past(&mut self) {
        let past = self.checksums.len().saturating_sub(1);
        self.checksums.drain(..past);
    }

    fn note(&mut self) {
        let Some(held) = self.held.as_ref().filter(|_| self.how.by_rows()) else { return };
        if self.checksums.len() == WINDOW {
            self.checksums.pop_front();
        }
        self.checksums.push_back(held.parameters.checksum());
    }

    fn checksum(&self, version: u64, current: u64) -> Option<u32> {
        let back = usize::try_from(current.checked_sub(version)?).ok()?;
        self.checksums.get(self.checksums.len().checked_sub(back + 1)?).copied()
    }
}

fn round_all(values: ValueEncoding, parameters: &mut Parameters) -> Result<(), FederationError> {
    for (index, table) in parameters.tables_mut().iter_mut().enumerate() {
        let cols = table.shape().cols as usize;
        round(values, table.values_mut(), cols, index)?;
    }
    Ok(())
}

fn round(encoding: ValueEncoding, values: &mut [f32], cols: usize, table: usize) -> Result<(), FederationError> {
    if !encoding.carries(values) {
        let error = sottovoce_protocol::ValueError { table, encoding };
        return Err(ModelError::from(error).into());
    }
    encoding.round(values, cols);
    Ok(())
}

/// Whether a row hardly moved.
fn waits(held: &[f32], target: &[f32], min_change: f32) -> bool {
    if min_change == 0.0 {
        return false;
    }
    let most = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0f32, |most, value| most.max(value.abs()));
    let moved = most(&mut held.iter().zip(target).map(|(held, target)| target - held));
    moved <= min_change * most(&mut target.iter().copied())
}

/// What a round offers to devices.
pub struct Offer<'a> {
    model: &'a SharedModel,
    distribution: &'a ModelDistribution,
    layout: &'a Layout,
}

/// What brings a device to the version of a round.
pub enum DownloadMessage {
    /// All of the model.
    Whole,
    /// The rows that changed since the version it has.
    Difference(Difference),
}

impl<'a> Offer<'a> {
    pub(crate) fn new(distribution: &'a ModelDistribution, shared: &'a SharedModel, layout: &'a Layout) -> Self {
        Self { model: distribution.held(shared), distribution, layout }
    }

    /// The model as devices hold it once they have this version.
    pub fn model(&self) -> &'a SharedModel {
        self.model
    }

    /// Whether it matters which version a device has.
    pub fn by_rows(&self) -> bool {
        self.distribution.how.by_rows()
    }

    /// How values are written.
    pub fn values(&self) -> ValueEncoding {
        self.distribution.how.values
    }

    /// The message for a device that has this version, or none: the shorter one of two that lead to the same bits.
    ///
    /// # Errors
    /// If a value cannot be encoded.
    pub fn message(&self, has: Option<ModelVersion>) -> Result<DownloadMessage, FederationError> {
        let ModelDistribution { how, since, .. } = self.distribution;
        let base = has
            .filter(|_| how.by_rows())
            .and_then(|version| Some((version, self.distribution.checksum(version.0, self.model.version.0)?)));
        let Some(base) = base else { return Ok(DownloadMessage::Whole) };
        let changed = |table: usize, row: usize| since[table][row] > base.0.0;
        let difference = Difference::since_version(self.model, base, how.values, changed)?;
        let shorter = codec::difference_bytes(&difference) < self.whole_bytes();
        Ok(if shorter { DownloadMessage::Difference(difference) } else { DownloadMessage::Whole })
    }

    fn whole_bytes(&self) -> u64 {
        codec::model_bytes(self.layout, self.model, self.values())
    }

    /// Bytes of a message on the wire.
    pub fn bytes(&self, message: &DownloadMessage) -> u64 {
        match message {
            DownloadMessage::Whole => self.whole_bytes(),
            DownloadMessage::Difference(difference) => codec::difference_bytes(difference),
        }
    }
}
