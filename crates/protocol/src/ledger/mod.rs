//! The device's own record of everything that left it.

mod entry;
mod summary;

use crate::codec::primitives::Reader;
use crate::codec::{Kind, next, seal};
use crate::error::{DecodeError, Result};
use crate::{Disclosed, FederationId, RoundId, RoundTerms};
pub use entry::{DisclosedTable, LedgerEntry};
use summary::Summary;

/// How much left, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Updates.
    pub updates: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// What left about one row of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowDisclosures {
    /// In how many updates.
    pub times: u64,
    /// Round and time of the last one, if that entry is still stored.
    pub last: Option<(RoundId, u64)>,
}

/// What a ledger stores.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Retention {
    Everything,
    /// Entries in at most this many bytes; of older ones, counts by row.
    Bytes(usize),
    TotalsOnly,
}

/// Append-only record of what left: which rows, which criteria, how many bytes, for whom, when.
///
/// Entries are held in their stored form, about as large as the row lists they describe.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    retention: Retention,
    /// Messages of kind [`Kind::LedgerEntry`], oldest first; checked when they came in.
    entries: Vec<u8>,
    totals: Totals,
    /// Counts of entries no longer stored.
    summary: Summary,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Stores every entry.
    pub fn new() -> Self {
        Self::with(Retention::Everything)
    }

    /// Stores entries in at most `bytes` bytes; of older ones it stores how often each row left.
    pub fn bounded(bytes: usize) -> Self {
        Self::with(Retention::Bytes(bytes))
    }

    /// Stores totals only and never allocates: for simulated devices.
    pub fn totals_only() -> Self {
        Self::with(Retention::TotalsOnly)
    }

    fn with(retention: Retention) -> Self {
        Self { retention, entries: Vec::new(), totals: Totals::default(), summary: Summary::default() }
    }

    /// How much left, in all.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The stored entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = LedgerEntry> {
        let mut rest = &self.entries[..];
        std::iter::from_fn(move || {
            let (_, payload, length) = next(rest).ok()?;
            rest = &rest[length..];
            LedgerEntry::read(Reader::new(payload)).ok()
        })
    }

    /// What left about one row of a table: an item, if the table is keyed by items.
    pub fn row(&self, federation: FederationId, table: &str, row: u32) -> RowDisclosures {
        let mut found = RowDisclosures { times: self.summary.times(federation, table, row), last: None };
        for entry in self.entries().filter(|entry| entry.federation == federation && entry.has(table, row)) {
            found = RowDisclosures { times: found.times + 1, last: Some((entry.round, entry.when)) };
        }
        found
    }

    /// What left about each of a table's rows: [`row`](Self::row) for all of them, reading entries once.
    pub fn by_row(&self, federation: FederationId, table: &str, rows: u32) -> Vec<RowDisclosures> {
        let of_older = |row| RowDisclosures { times: self.summary.times(federation, table, row), last: None };
        let mut all: Vec<RowDisclosures> = (0..rows).map(of_older).collect();
        for entry in self.entries().filter(|entry| entry.federation == federation) {
            let mut count = |row: u32| {
                if let Some(left) = all.get_mut(row as usize) {
                    *left = RowDisclosures { times: left.times + 1, last: Some((entry.round, entry.when)) };
                }
            };
            for left in entry.tables.iter().filter(|left| left.name == table) {
                match &left.listed {
                    Some(listed) => listed.iter().copied().for_each(&mut count),
                    None => (0..rows.min(left.rows as u32)).for_each(&mut count),
                }
            }
        }
        all
    }

    pub(crate) fn record(&mut self, disclosed: &Disclosed, terms: &RoundTerms, when: u64, bytes: u64) {
        self.totals.add(disclosed.update.rows() as u64, bytes);
        if self.retention == Retention::TotalsOnly {
            return;
        }
        seal(Kind::LedgerEntry, &mut self.entries, |out| entry::write(disclosed, terms, when, bytes, out));
        self.summarise_oldest();
    }

    /// Past the bound, summarises the oldest quarter, so that bytes are not moved at every entry.
    fn summarise_oldest(&mut self) {
        let Retention::Bytes(most) = self.retention else { return };
        if self.entries.len() <= most {
            return;
        }
        let mut gone = 0;
        while self.entries.len() - gone > most / 4 * 3 {
            let Ok((_, payload, length)) = next(&self.entries[gone..]) else { break };
            if let Ok(entry) = LedgerEntry::read(Reader::new(payload)) {
                self.summary.add(&entry);
            }
            gone += length;
        }
        self.entries.drain(..gone);
    }

    /// Appends the ledger's stored form: the summary of older entries if there are any, then the entries.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if !self.summary.is_empty() {
            seal(Kind::LedgerSummary, out, |out| self.summary.write(out));
        }
        out.extend_from_slice(&self.entries);
    }

    /// Reads the stored form, as a ledger without a bound.
    ///
    /// # Errors
    /// Says what is wrong and where in the message it is in.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut ledger = Self::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (kind, payload, length) = next(rest)?;
            match kind {
                Kind::LedgerSummary if rest.len() == bytes.len() => {
                    ledger.summary = Summary::read(Reader::new(payload))?;
                    ledger.totals = ledger.summary.totals;
                }
                Kind::LedgerEntry => {
                    let entry = LedgerEntry::read(Reader::new(payload))?;
                    ledger.totals.add(entry.rows(), entry.bytes);
                    ledger.entries.extend_from_slice(&rest[..length]);
                }
                _ => {
                    let (found, expected) = (kind as u8, Kind::LedgerEntry as u8);
                    return Err(DecodeError::Kind(found, expected));
                }
            }
            rest = &rest[length..];
        }
        Ok(ledger)
    }

    /// The same ledger with this bound from now on.
    #[must_use]
    pub fn bound_to(mut self, bytes: usize) -> Self {
        self.retention = Retention::Bytes(bytes);
        self.summarise_oldest();
        self
    }
}

impl Totals {
    fn add(&mut self, rows: u64, bytes: u64) {
        self.updates = self.updates.saturating_add(1);
        self.rows = self.rows.saturating_add(rows);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
