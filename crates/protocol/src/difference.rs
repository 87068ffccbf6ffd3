//! From one version of a shared model to another without sending all of it.
//!
//! Both sides hold the same bits, also where the encoding rounds, because both get to a version in the same way: the
//! server applies to its own copy of what devices hold exactly the difference that it sends.

use crate::error::{ModelError, ValueError};
use crate::parameters::{SharedModel, Table};
use crate::rows::Rows;
use crate::{FederationId, ModelVersion, ValueEncoding};

/// What the rows of a difference are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DifferenceKind {
    /// New values. With f32 the device then holds the server's very bits.
    Replace = 0,
    /// To be added (in f32) to the values held. What rounding leaves out is part of the next difference.
    Add = 1,
}

/// The rows in which a version differs from another.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub(crate) federation: FederationId,
    pub(crate) base: ModelVersion,
    pub(crate) version: ModelVersion,
    pub(crate) layout: u32,
    pub(crate) base_checksum: u32,
    pub(crate) kind: DifferenceKind,
    pub(crate) encoding: ValueEncoding,
    pub(crate) tables: Vec<Rows>,
}

impl Difference {
    /// From an older version, given by its number and checksum, to `held`: the new values of the rows for which
    /// `changed` (called with table and row) is true. Both sides hold the same bits if those rows were rounded by the
    /// same encoding, each row by itself.
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
            // As the wire carries them, so that server and devices apply the same.
            let cols = rows.cols();
            encoding.round(&mut rows.values, cols);
        }
        let (federation, version, layout) = (held.federation, held.version, layout.fingerprint());
        Ok(Self { federation, base, version, layout, base_checksum, kind: DifferenceKind::Replace, encoding, tables })
    }

    /// Brings the version held to the new one, as the other side will after decoding.
    ///
    /// # Errors
    /// If this was made for another version or other content; the model is unchanged then.
    pub fn apply(&self, held: &mut SharedModel) -> Result<(), ModelError> {
        if (held.federation, held.version) != (self.federation, self.base) {
            let (federation, needed, held) = (self.federation.0, self.base, held.version);
            return Err(ModelError::Base(federation, needed, held));
        }
        let layout = held.parameters.layout();
        if layout.fingerprint() != self.layout {
            return Err(ModelError::Layout(layout.fingerprint(), self.layout));
        }
        let found = held.parameters.checksum();
        if found != self.base_checksum {
            return Err(ModelError::Content(found, self.base_checksum));
        }
        let tables = held.parameters.tables_mut();
        let mut sums = tables.iter().zip(&self.tables);
        if let Some(table) = sums.position(|(table, rows)| !self.stays_finite(table, rows)) {
            return Err(ValueError { table, encoding: self.encoding }.into());
        }
        for (table, rows) in tables.iter_mut().zip(&self.tables) {
            self.update_table(table, rows);
        }
        held.version = self.version;
        Ok(())
    }

    fn stays_finite(&self, table: &Table, rows: &Rows) -> bool {
        self.kind == DifferenceKind::Replace
            || rows.iter().all(|(row, change)| {
                table.row(row).iter().zip(change).all(|(value, change)| (value + change).is_finite())
            })
    }

    fn update_table(&self, table: &mut Table, rows: &Rows) {
        for (row, new) in rows.iter() {
            let held = table.row_mut(row);
            match self.kind {
                DifferenceKind::Replace => held.copy_from_slice(new),
                DifferenceKind::Add => held.iter_mut().zip(new).for_each(|(value, change)| *value += change),
            }
        }
    }
}
