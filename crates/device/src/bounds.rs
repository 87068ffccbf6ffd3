//! What a device holds at most.

/// Bytes of an item's id.
pub const ID_BYTES: usize = 1024;

/// Bounds on what a device keeps, in memory and in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of single ledger entries; of older ones it is kept how often each row left, some 10 bytes a row. `None` keeps
    /// totals only and forgets them at the end of the process: for fleets, whose devices are nobody's.
    pub ledger_bytes: Option<usize>,
    /// Interactions of the history, unknown items included.
    pub interactions: usize,
    /// Bytes of the shared model's values. While a difference is applied there are two of them.
    pub model_bytes: u64,
    /// Bytes of the catalog's text.
    pub catalog_bytes: u64,
    /// Identities of a roster, 32 bytes each.
    pub roster: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            ledger_bytes: Some(256 << 10),
            interactions: 100_000,
            model_bytes: 64 << 20,
            catalog_bytes: 32 << 20,
            roster: 100_000,
        }
    }
}
