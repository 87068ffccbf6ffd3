//! From one version of a shared model to another without sending all of it.
//!
//! Both sides hold the same bits, also where the encoding rounds, because both get to a version in the same way: the
//! server applies to its own copy of what devices hold exactly the difference that it sends.

use crate::error::{ModelError, ValueError};
use crate::parameters::{SharedModel, Table};
use crate::rows::Rows;
use crate::{FederationId, ModelVersion, ValueEncoding};
use sottovoce_core::math::all_finite;

/// What the rows of a difference are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DifferenceKind {
    /// New values. With f32 the device then holds the server's very bits.
    Replace = 0,
    /// To be added (in f32) to the values held. What rounding leaves out is part of the next difference.
    Add = 1,
}

impl DifferenceKind {
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [DifferenceKind::Replace, DifferenceKind::Add].into_iter().find(|&how| how as u8 == code)
    }
}

/// DifferenceKind a server brings devices to a new version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DifferenceOptions {
    /// New values or changes.
    pub how: DifferenceKind,
    /// DifferenceKind values are written.
    pub encoding: ValueEncoding,
    /// Rows none of whose values moved by more than this wait for a later difference; 0: none waits.
    pub min_change: f32,
}

impl DifferenceOptions {
    /// New values as f32: devices get the server's bits.
    pub const EXACT: DifferenceOptions = DifferenceOptions { how: DifferenceKind::Replace, encoding: ValueEncoding::F32, min_change: 0.0 };
}

/// The rows in which a version differs from another.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub(crate) federation: FederationId,
    pub(crate) base: ModelVersion,
    pub(crate) version: ModelVersion,
    pub(crate) layout: u32,
    pub(crate) base_checksum: u32,
    pub(crate) how: DifferenceKind,
    pub(crate) encoding: ValueEncoding,
    pub(crate) tables: Vec<Rows>,
}

impl Difference {
    /// What brings devices that hold `held` to `target`, or as near as the encoding and `min_change` let them.
    /// Apply it to `held` too, and that is what they hold from then on.
    ///
    /// # Errors
    /// If the two are not versions of one model, or a value cannot be encoded.
    pub fn between(held: &SharedModel, target: &SharedModel, settle: DifferenceOptions) -> Result<Self, ModelError> {
        let layout = held.parameters.layout();
        target.parameters.check(&layout)?;
        let pairs = held.parameters.tables().iter().zip(target.parameters.tables());
        let mut tables = Vec::with_capacity(layout.shapes().len());
        for (table, (old, new)) in pairs.enumerate() {
            let mut rows = changed_rows(old, new, settle);
            if !settle.encoding.carries(rows.values()) {
                return Err(ValueError { table, encoding: settle.encoding }.into());
            }
            // What is held here are the values as the wire carries them, so that both sides apply the same.
            let cols = rows.cols();
            settle.encoding.round(&mut rows.values, cols);
            tables.push(rows);
        }
        Ok(Self {
            federation: held.federation,
            base: held.version,
            version: target.version,
            layout: layout.fingerprint(),
            base_checksum: held.parameters.checksum(),
            how: settle.how,
            encoding: settle.encoding,
            tables,
        })
    }

    /// What brings devices that hold an older version, of this checksum, to `held`, by new values of those rows that have
    /// changed since; `changed` is asked by table and row. Both sides hold the same bits if these rows came from rounding
    /// by the same encoding, each row by itself.
    ///
    /// # Errors
    /// If a value cannot be encoded.
    pub fn since_version(
        held: &SharedModel,
        (base, base_checksum): (ModelVersion, u32),
        encoding: ValueEncoding,
        changed: impl Fn(usize, usize) -> bool,
    ) -> Result<Self, ModelError> {
        let layout = held.parameters.layout();
        let mut tables = Rows::of_layout(&layout);
        for ((index, rows), table) in tables.iter_mut().enumerate().zip(held.parameters.tables()) {
            for row in (0..table.shape().rows).filter(|&row| changed(index, row as usize)) {
                rows.indices.push(row);
                rows.values.extend_from_slice(table.row(row as usize));
            }
            if !encoding.carries(&rows.values) {
                return Err(ValueError { table: index, encoding }.into());
            }
            let cols = rows.cols();
            encoding.round(&mut rows.values, cols);
        }
        let (federation, version, layout) = (held.federation, held.version, layout.fingerprint());
        Ok(Self { federation, base, version, layout, base_checksum, how: DifferenceKind::Replace, encoding, tables })
    }

    /// The version it is made for.
    pub fn base(&self) -> ModelVersion {
        self.base
    }

    /// The version it leads to.
    pub fn version(&self) -> ModelVersion {
        self.version
    }

    /// The changed rows of each table.
    pub fn tables(&self) -> &[Rows] {
        &self.tables
    }

    /// Brings the version held to the new one, as the other side will after decoding.
    ///
    /// # Errors
    /// If this was made for another version or other content; the model is unchanged then.
    pub fn apply(&self, held: &mut SharedModel) -> Result<(), ModelError> {
        if (held.federation, held.version) != (self.federation, self.base) {
            let (federation, needed, held) = (self.federation.0, self.base, held.version);
            return Err(ModelError::Base { federation, needed, held });
        }
        let layout = held.parameters.layout();
        if layout.fingerprint() != self.layout {
            return Err(ModelError::Layout { found: layout.fingerprint(), expected: self.layout });
        }
        let found = held.parameters.checksum();
        if found != self.base_checksum {
            return Err(ModelError::Content { held: found, needed: self.base_checksum });
        }
        let tables = held.parameters.tables_mut();
        let mut sums = tables.iter().zip(&self.tables);
        if let Some(table) = sums.position(|(table, rows)| !self.stays_finite(table, rows)) {
            return Err(ValueError { table, encoding: self.encoding }.into());
        }
        for (table, rows) in tables.iter_mut().zip(&self.tables) {
            self.put(table, rows);
        }
        held.version = self.version;
        Ok(())
    }

    fn stays_finite(&self, table: &Table, rows: &Rows) -> bool {
        self.how == DifferenceKind::Replace
            || rows.iter().all(|(row, change)| {
                table.row(row).iter().zip(change).all(|(value, change)| (value + change).is_finite())
            })
    }

    fn put(&self, table: &mut Table, rows: &Rows) {
        for (row, new) in rows.iter() {
            let held = table.row_mut(row);
            match self.how {
                DifferenceKind::Replace => held.copy_from_slice(new),
                DifferenceKind::Add => held.iter_mut().zip(new).for_each(|(value, change)| *value += change),
            }
        }
    }
}

fn changed_rows(old: &Table, new: &Table, settle: DifferenceOptions) -> Rows {
    let mut rows = Rows::new(old.shape());
    let mut sent = Vec::with_capacity(rows.cols());
    for row in 0..old.shape().rows {
        let (was, is) = (old.row(row as usize), new.row(row as usize));
        sent.clear();
        match settle.how {
            DifferenceKind::Replace => sent.extend_from_slice(is),
            DifferenceKind::Add => sent.extend(is.iter().zip(was).map(|(is, was)| is - was)),
        }
        if waits(was, is, settle.min_change) && all_finite(&sent) {
            continue;
        }
        round_alone(&mut sent, settle.encoding);
        let changes = match settle.how {
            DifferenceKind::Replace => was.iter().zip(&sent).any(|(was, sent)| was.to_bits() != sent.to_bits()),
            DifferenceKind::Add => sent.iter().any(|&change| change != 0.0),
        };
        if changes {
            rows.indices.push(row);
            rows.values.extend_from_slice(&sent);
        }
    }
    rows
}

fn waits(was: &[f32], is: &[f32], min_change: f32) -> bool {
    min_change > 0.0 && was.iter().zip(is).all(|(was, is)| (is - was).abs() <= min_change)
}

/// Rounds a row as the wire will, where that does not depend on other rows.
fn round_alone(row: &mut [f32], encoding: ValueEncoding) {
    if encoding != ValueEncoding::I8Table && encoding.carries(row) {
        let cols = row.len();
        encoding.round(row, cols);
    }
}
