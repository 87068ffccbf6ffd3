//! Limits on what a device stores.

/// Longest id of an item, in bytes.
pub(crate) const ID_BYTES: usize = 1024;

/// Limits on what a device holds, in memory and in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of single ledger entries; of older ones the ledger only knows how often each row left, some 10 bytes a
    /// row. `None` counts totals only and does not store them: for fleets of devices without owners.
    pub ledger_bytes: Option<usize>,
    /// Interactions of the history, those with unknown items included.
    pub interactions: usize,
    /// Bytes of the shared model's values. While a difference is applied there are two of them.
    pub model_bytes: u64,
    /// Bytes of the catalog's text.
    pub catalog_bytes: u64,
    /// Pages read last.
    pub pages: usize,
    /// Bytes of their titles.
    pub title_bytes: usize,
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
            pages: 10_000,
            title_bytes: 4 << 20,
            roster: 100_000,
        }
    }
}
