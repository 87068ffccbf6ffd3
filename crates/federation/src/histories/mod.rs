//! Where simulated devices' histories are: in memory, or in a file from which they are read as they are needed.

mod file;
mod writer;

pub use file::{HistoryFile, HistoryFileError, Page};
pub use writer::HistoryWriter;

use sottovoce_core::{Histories, History};

/// Everyone's history; items ascending, each once.
#[derive(Debug)]
pub enum HistorySource {
    /// All of them in memory.
    Memory(Histories),
    /// In a file: a worker holds one block of people at a time.
    File(HistoryFile),
}

impl HistorySource {
    /// Number of people.
    pub fn users(&self) -> usize {
        match self {
            Self::Memory(histories) => histories.users(),
            Self::File(file) => file.users(),
        }
    }

    /// Number of items in the catalog.
    pub fn catalog_size(&self) -> usize {
        match self {
            Self::Memory(histories) => histories.catalog_size(),
            Self::File(file) => file.catalog_size(),
        }
    }

    /// One person's items, and the pages they read last where they are known; `page` is used where items are in a file.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    #[inline]
    pub fn of<'a>(&'a self, user: usize, page: &'a mut Page) -> Result<History<'a>, HistoryFileError> {
        match self {
            Self::Memory(histories) => Ok(histories.history(user)),
            Self::File(file) => file.of(user, page).map(History::from),
        }
    }

    /// How many items each person has. Goes through all of a file, and so finds out whether it is whole.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn lengths(&self) -> Result<Vec<u32>, HistoryFileError> {
        let mut page = Page::default();
        (0..self.users()).map(|user| Ok(self.of(user, &mut page)?.len() as u32)).collect()
    }
}

impl Default for HistorySource {
    /// Nobody's.
    fn default() -> Self {
        Self::Memory(Histories::default())
    }
}

impl From<Histories> for HistorySource {
    fn from(histories: Histories) -> Self {
        Self::Memory(histories)
    }
}

impl From<HistoryFile> for HistorySource {
    fn from(file: HistoryFile) -> Self {
        Self::File(file)
    }
}
