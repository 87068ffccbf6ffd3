//! One update in a ledger.

use crate::codec::wire::{Reader, read_ascending, write_ascending, write_number, write_text};
use crate::error::DecodeError;
use crate::{Disclosed, FederationId, RoundId, RoundTerms, limits};

/// One update that left.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerEntry {
    /// To which federation.
    pub federation: FederationId,
    /// In which round.
    pub round: RoundId,
    /// When, by the caller's clock.
    pub when: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// The sample count said; 0: none.
    pub samples: u64,
    /// The tables of which something left.
    pub tables: Vec<DisclosedTable>,
    /// Name and value of each criterion said.
    pub criteria: Vec<(String, f64)>,
    /// Names of the privacy layers that were around it: with a seal rows left in a sum only, with noise as all rows.
    pub layers: Vec<String>,
}

/// What left of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisclosedTable {
    /// The table's name.
    pub name: String,
    /// How many rows.
    pub rows: u64,
    /// Which rows, ascending; `None`: all of them.
    pub listed: Option<Vec<u32>>,
}

impl DisclosedTable {
    fn has(&self, row: u32) -> bool {
        match &self.listed {
            Some(rows) => rows.binary_search(&row).is_ok(),
            None => u64::from(row) < self.rows,
        }
    }
}

pub(super) fn write(disclosed: &Disclosed, terms: &RoundTerms, when: u64, bytes: u64, out: &mut Vec<u8>) {
    let update = &disclosed.update;
    for number in [disclosed.federation.0, disclosed.round.0, when, bytes, update.samples] {
        write_number(number, out);
    }
    write_number(update.tables.iter().filter(|rows| !rows.is_empty()).count() as u64, out);
    for rows in update.tables.iter().filter(|rows| !rows.is_empty()) {
        write_text(&rows.name, out);
        write_number(rows.len() as u64, out);
        out.push(u8::from(!rows.is_whole()));
        if !rows.is_whole() {
            write_ascending(&rows.indices, out);
        }
    }
    write_number(update.criteria.len() as u64, out);
    for &(index, value) in &update.criteria {
        write_text(&terms.criteria[index as usize].name, out);
        out.extend_from_slice(&value.to_le_bytes());
    }
    // Entries without layers end here, as all did before there were any.
    if !terms.privacy.layers.is_empty() {
        write_number(terms.privacy.layers.len() as u64, out);
        terms.privacy.layers.iter().for_each(|layer| write_text(&layer.name, out));
    }
}

impl LedgerEntry {
    pub(super) fn has(&self, table: &str, row: u32) -> bool {
        self.tables.iter().any(|left| left.name == table && left.has(row))
    }

    pub(super) fn rows(&self) -> u64 {
        self.tables.iter().map(|left| left.rows).sum()
    }

    pub(super) fn read(mut from: Reader<'_>) -> Result<Self, DecodeError> {
        let entry = Self {
            federation: FederationId(from.number("federation")?),
            round: RoundId(from.number("round")?),
            when: from.number("when")?,
            bytes: from.number("bytes")?,
            samples: from.number("samples")?,
            tables: read_tables(&mut from)?,
            criteria: read_criteria(&mut from)?,
            layers: read_layers(&mut from)?,
        };
        from.end()?;
        Ok(entry)
    }
}

fn read_tables(from: &mut Reader<'_>) -> Result<Vec<DisclosedTable>, DecodeError> {
    let count = from.number_to("tables", limits::TABLES)?;
    let mut tables = Vec::new();
    for _ in 0..count {
        let name = from.name("table's name")?;
        let rows = from.number_to("rows", limits::ROWS)?;
        let is_listed = from.code("listed", |code| (code < 2).then_some(code == 1))?;
        let mut listed = is_listed.then(Vec::new);
        if let Some(listed) = &mut listed {
            read_ascending(from, "row", rows, limits::ROWS, |row| listed.push(row))?;
        }
        tables.push(DisclosedTable { name, rows, listed });
    }
    Ok(tables)
}

fn read_criteria(from: &mut Reader<'_>) -> Result<Vec<(String, f64)>, DecodeError> {
    let count = from.number_to("criteria", limits::CRITERIA)?;
    let mut criteria = Vec::new();
    for _ in 0..count {
        criteria.push((from.name("criterion's name")?, from.f64("criterion's value")?));
    }
    Ok(criteria)
}

fn read_layers(from: &mut Reader<'_>) -> Result<Vec<String>, DecodeError> {
    if from.left() == 0 {
        return Ok(Vec::new());
    }
    let count = from.number_to("privacy layers", limits::LAYERS)?;
    (0..count).map(|_| from.name("privacy layer's name")).collect()
}
