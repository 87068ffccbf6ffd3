//! One update in a ledger.

use crate::codec::primitives::{Reader, read_ascending, write_ascending, write_number, write_text};
use crate::error::Result;
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
    /// The sample count reported; 0: none.
    pub samples: u64,
    /// The tables of which something left.
    pub tables: Vec<DisclosedTable>,
    /// Name and value of each criterion reported.
    pub criteria: Vec<(String, f64)>,
    /// Names of the privacy layers applied: under a seal the rows left in a sum only, with noise all rows left.
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
        write_text(&rows.shape.name, out);
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
    // Entries without privacy layers end here, as all did before there were layers.
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

    pub(super) fn read(mut from: Reader<'_>) -> Result<Self> {
        let entry = Self {
            federation: FederationId(from.number("federation")?),
            round: RoundId(from.number("round")?),
            when: from.number("when")?,
            bytes: from.number("bytes")?,
            samples: from.number("samples")?,
            tables: from.list("tables", limits::TABLES, read_table)?,
            criteria: from.list("criteria", limits::CRITERIA, |from| {
                Ok((from.name("criterion's name")?, from.f64("criterion's value")?))
            })?,
            // Entries without privacy layers end here.
            layers: match from.left() {
                0 => Vec::new(),
                _ => from.list("privacy layers", limits::LAYERS, |from| from.name("privacy layer's name"))?,
            },
        };
        from.end()?;
        Ok(entry)
    }
}

fn read_table(from: &mut Reader<'_>) -> Result<DisclosedTable> {
    let name = from.name("table's name")?;
    let rows = from.number_to("rows", limits::ROWS)?;
    let mut listed = from.flag("listed")?.then(Vec::new);
    if let Some(listed) = &mut listed {
        read_ascending(from, "row", rows, limits::ROWS, listed)?;
    }
    Ok(DisclosedTable { name, rows, listed })
}
