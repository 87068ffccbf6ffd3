//! A ledger's totals of entries too old to be stored one by one.

use super::{LedgerEntry, Totals};
use crate::FederationId;
use crate::codec::primitives::{Reader, read_ascending, write_ascending, write_number, write_text};
use crate::error::{DecodeError, Result};
use crate::limits;
use std::collections::BTreeMap;

/// Counts over entries, by federation and table. Grows with the tables, not with time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) totals: Totals,
    tables: BTreeMap<(FederationId, String), RowCounts>,
}

/// How often a table left whole, and each row by itself.
#[derive(Clone, Debug, Default, PartialEq)]
struct RowCounts {
    whole: u64,
    rows: BTreeMap<u32, u64>,
}

impl Summary {
    pub(super) fn is_empty(&self) -> bool {
        self.totals.updates == 0
    }

    pub(super) fn times(&self, federation: FederationId, table: &str, row: u32) -> u64 {
        let times = self.tables.get(&(federation, table.to_owned()));
        times.map_or(0, |times| times.whole + times.rows.get(&row).copied().unwrap_or(0))
    }

    pub(super) fn add(&mut self, entry: &LedgerEntry) {
        self.totals.add(entry.rows(), entry.bytes);
        for left in &entry.tables {
            let times = self.tables.entry((entry.federation, left.name.clone())).or_default();
            match &left.listed {
                None => times.whole += 1,
                Some(rows) => rows.iter().for_each(|&row| *times.rows.entry(row).or_default() += 1),
            }
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for number in [self.totals.updates, self.totals.rows, self.totals.bytes] {
            write_number(number, out);
        }
        write_number(self.tables.len() as u64, out);
        for ((federation, name), times) in &self.tables {
            write_number(federation.0, out);
            write_text(name, out);
            write_number(times.whole, out);
            write_number(times.rows.len() as u64, out);
            let rows: Vec<u32> = times.rows.keys().copied().collect();
            write_ascending(&rows, out);
            times.rows.values().for_each(|&times| write_number(times, out));
        }
    }

    pub(super) fn read(mut from: Reader<'_>) -> Result<Self> {
        let updates = from.number("updates")?;
        let rows = from.number("rows")?;
        let bytes = from.number("bytes")?;
        let mut summary = Self { totals: Totals { updates, rows, bytes }, tables: BTreeMap::new() };
        for _ in 0..from.number("tables")? {
            let at = from.at();
            let key = (FederationId(from.number("federation")?), from.name("table's name")?);
            if summary.tables.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(DecodeError::Order("table", at));
            }
            let times = read_counts(&mut from, updates)?;
            summary.tables.insert(key, times);
        }
        from.end()?;
        Ok(summary)
    }
}

/// No row can have left more often than there were updates.
fn read_counts(from: &mut Reader<'_>, updates: u64) -> Result<RowCounts> {
    let whole = from.number_to("times", updates)?;
    let count = from.number_to("rows", limits::ROWS)?;
    let mut rows = Vec::new();
    read_ascending(from, "row", count, limits::ROWS, &mut rows)?;
    let mut times = RowCounts { whole, rows: BTreeMap::new() };
    for row in rows {
        times.rows.insert(row, from.number_to("times", updates - whole)?);
    }
    Ok(times)
}
