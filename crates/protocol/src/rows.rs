//! Some rows of a table, or all of it, in buffers that are used again and again.

use crate::codec::primitives::{self, Reader};
use crate::error::{DecodeError, Result};
use crate::parameters::{Layout, Shape};
use crate::{ValueEncoding, limits};

/// Some rows of one table, ascending, with their values; or all rows; or none.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub(crate) shape: Shape,
    /// All rows, without an index list.
    pub(crate) whole: bool,
    pub(crate) indices: Vec<u32>,
    pub(crate) values: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { shape: shape.clone(), whole: false, indices: Vec::new(), values: Vec::new() }
    }

    pub(crate) fn of_layout(layout: &Layout) -> Vec<Self> {
        layout.shapes().iter().map(Self::new).collect()
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.shape.name
    }

    /// Whether every row of the table is here.
    pub fn is_whole(&self) -> bool {
        self.whole || self.indices.len() == self.shape.rows as usize
    }

    /// Whether no row is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows here.
    pub fn len(&self) -> usize {
        if self.whole { self.shape.rows as usize } else { self.indices.len() }
    }

    /// Values in a row.
    pub fn cols(&self) -> usize {
        self.shape.cols as usize
    }

    /// The rows' indices, ascending; `None` if all rows are here, in order, without a list.
    pub fn indices(&self) -> Option<&[u32]> {
        if self.whole { None } else { Some(&self.indices) }
    }

    /// The rows' values, one row after the other.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Index and values of each row here, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let rows = self.values.chunks_exact(self.cols()).enumerate();
        rows.map(|(at, values)| (self.indices.get(at).map_or(at, |&row| row as usize), values))
    }

    pub(crate) fn clear(&mut self) {
        self.whole = false;
        self.indices.clear();
        self.values.clear();
    }

    /// Keeps the rows for which `keep`, called with position and row index, is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, u32) -> bool) {
        let cols = self.cols();
        let mut end = 0;
        for position in 0..self.indices.len() {
            let row = self.indices[position];
            if !keep(position, row) {
                continue;
            }
            if end < position {
                self.indices[end] = row;
                self.values.copy_within(position * cols..(position + 1) * cols, end * cols);
            }
            end += 1;
        }
        self.indices.truncate(end);
        self.values.truncate(end * cols);
    }

    /// Bytes that [`write`](Self::write) appends.
    pub(crate) fn encoded_bytes(&self, encoding: ValueEncoding) -> u64 {
        let block = encoding.block_bytes(self.len() as u64, self.shape.cols.into());
        if self.is_whole() {
            return 1 + block;
        }
        let indices = sottovoce_core::simd_dispatch(primitives::AscendingBytes(&self.indices));
        1 + primitives::number_bytes(self.len() as u64) + indices + block
    }

    pub(crate) fn write(&self, encoding: ValueEncoding, out: &mut Vec<u8>) {
        out.push(u8::from(!self.is_whole()));
        if !self.is_whole() {
            primitives::write_number(self.indices.len() as u64, out);
            primitives::write_ascending(&self.indices, out);
        }
        encoding.write(&self.values, self.cols(), out);
    }

    /// Reads into this; the shape stays. Memory grows with the bytes read, whatever they claim.
    pub(crate) fn read(&mut self, encoding: ValueEncoding, from: &mut Reader<'_>) -> Result<()> {
        self.clear();
        self.whole = !from.flag("form")?;
        if !self.whole {
            let count = from.number_to("rows", self.shape.rows.into())?;
            primitives::read_ascending(from, "row", count, self.shape.rows.into(), &mut self.indices)?;
        }
        encoding.read(self.len(), self.cols(), from, &mut self.values)
    }
}

/// Bytes that [`write_all`] appends.
pub(crate) fn all_bytes(tables: &[Rows], encoding: ValueEncoding) -> u64 {
    let present = tables.iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    let (count, bytes) = present.fold((0, 0), |(count, bytes), (index, rows)| {
        (count + 1, bytes + primitives::number_bytes(index as u64) + rows.encoded_bytes(encoding))
    });
    primitives::number_bytes(count) + bytes
}

/// The tables with rows: how many, then each one's index and content.
pub(crate) fn write_all(tables: &[Rows], encoding: ValueEncoding, out: &mut Vec<u8>) {
    primitives::write_number(tables.iter().filter(|rows| !rows.is_empty()).count() as u64, out);
    for (index, rows) in tables.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        primitives::write_number(index as u64, out);
        rows.write(encoding, out);
    }
}

/// Reads what [`write_all`] wrote; tables not mentioned are cleared.
pub(crate) fn read_all(tables: &mut [Rows], encoding: ValueEncoding, from: &mut Reader<'_>) -> Result<()> {
    tables.iter_mut().for_each(Rows::clear);
    let count = from.number_to("tables", (tables.len() as u64).min(limits::TABLES))?;
    let mut next = 0;
    for _ in 0..count {
        let at = from.at();
        let index = from.number_to("table", tables.len() as u64 - 1)?;
        if index < next {
            return Err(DecodeError::Order("table", at));
        }
        tables[index as usize].read(encoding, from)?;
        next = index + 1;
    }
    Ok(())
}
