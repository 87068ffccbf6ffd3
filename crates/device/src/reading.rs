//! What the owner's clicks say: interests, and the pages read last. Titles stay on the device and are encoded there.

use crate::Items;
use crate::bounds::Bounds;
use crate::device::check_length;
use crate::error::DeviceError;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_core::{History, PageTable, Pages};
use sottovoce_text::{Encoder, HashedNgrams, NgramConfig};

/// A page that the owner read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPage {
    /// Its title.
    pub title: String,
    /// Ids of the categories that it is about.
    pub categories: Vec<String>,
}

/// What a click log says about the owner; `sottovoce-data` computes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Ids of the categories that the owner is interested in.
    pub interests: Vec<String>,
    /// Pages read last, oldest first.
    pub pages: Vec<ReadPage>,
}

/// Result of importing a click log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClickImport {
    /// Interests that the history now has.
    pub interests: usize,
    /// Of those, categories that the catalog does not know. They count as soon as it does.
    pub unknown: usize,
    /// Pages that are kept.
    pub pages: usize,
    /// Interactions that the history had before.
    pub replaced: usize,
}

/// The vectors of the pages that a model reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageVectors {
    table: PageTable,
    pages: Vec<u32>,
}

impl PageVectors {
    /// Encodes titles by the catalog's encoder, or by one that knows no corpus where it has none.
    pub(crate) fn new(pages: &[ReadPage], items: &Items, dim: usize) -> Self {
        let encoder = match items.encoder() {
            Some(encoder) => encoder.with_dim(dim),
            None => HashedNgrams::new(NgramConfig { dim, ..NgramConfig::default() }),
        };
        // Settings of models are within what the encoder can do.
        let Ok(encoder) = encoder else { return Self::default() };
        let mut table = PageTable::new(dim);
        let numbers = pages.iter().map(|page| {
            let categories: Vec<u32> = page.categories.iter().filter_map(|id| items.find(id)).collect();
            table.push(&encoder.vector(&page.title), &categories)
        });
        let pages = numbers.collect();
        Self { table, pages }
    }

    /// With the items, what a model reads.
    pub(crate) fn history<'a>(&'a self, history: impl Into<History<'a>>) -> History<'a> {
        History { pages: Pages::new(&self.table, &self.pages).unwrap_or_default(), ..history.into() }
    }
}

pub(crate) fn check(pages: &[ReadPage], bounds: &Bounds) -> Result<(), DeviceError> {
    check_length("pages", pages.len(), bounds.pages)?;
    check_length("bytes of titles", pages.iter().map(|page| page.title.len()).sum(), bounds.title_bytes)
}

pub(crate) fn write(pages: &[ReadPage], out: &mut Writer) {
    out.number(pages.len() as u64);
    for page in pages {
        out.block(page.title.as_bytes());
        out.texts(page.categories.iter().map(String::as_str));
    }
}

pub(crate) fn read(from: &mut Reader<'_>) -> Read<Vec<ReadPage>> {
    let count = from.count("pages")?;
    let page = |_| {
        let title = from.text("title of a page")?.to_owned();
        let categories: Vec<&str> = from.texts("categories of a page")?;
        Ok(ReadPage { title, categories: categories.into_iter().map(str::to_owned).collect() })
    };
    (0..count).map(page).collect()
}
