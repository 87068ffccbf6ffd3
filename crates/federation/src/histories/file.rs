//! A file of histories, read a block of users at a time in any order.
//!
//! ```text
//! header   "SOTTOHIS", version u32, people a block u32, people u64, items u64, interactions u64,
//!          CRC-32 of the index u32, CRC-32 of all before u32
//! blocks   for each person the number of items u32; then their items u32, person after person, ascending, each once
//! index    for each block the number of its interactions u32 and its CRC-32 u32
//! ```
//! All numbers are little-endian. Only the index is held in memory: 8 bytes for every block of 256 people.

use sottovoce_core::Histories;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub(super) const MAGIC: &[u8; 8] = b"SOTTOHIS";
pub(super) const VERSION: u32 = 1;
/// People in a block: some ten kilobytes, which are worth reading at once and fit a near cache.
pub(super) const BLOCK: usize = 256;
pub(super) const HEADER_BYTES: usize = 48;

/// Why a file of histories cannot be written or read.
#[derive(Debug, Error)]
pub enum HistoryFileError {
    /// The system failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a whole file of histories.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that was seen.
        what: String,
    },
    /// A history that cannot be stored.
    #[error("person {user}: {what}")]
    History {
        /// Who, from 0.
        user: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// A file of histories, open for reading by any number of threads.
#[derive(Debug)]
pub struct HistoryFile {
    file: File,
    path: PathBuf,
    users: usize,
    items: usize,
    interactions: u64,
    blocks: Vec<Block>,
}

/// One entry of the index.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Where it begins in the file.
    start: u64,
    interactions: u32,
    checksum: u32,
}

/// The block that was read last; one for each thread that reads.
#[derive(Debug, Default)]
pub struct Page {
    /// Which block this is, if any was read.
    block: Option<usize>,
    bytes: Vec<u8>,
    /// Where each person's items end.
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Page {
    fn of(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start as usize..self.ends[index] as usize]
    }
}

/// What the first bytes of a file say.
struct Header {
    users: u64,
    items: u64,
    interactions: u64,
    index_checksum: u32,
}

impl HistoryFile {
    /// Whether a file begins like one of histories.
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; MAGIC.len()];
        File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *MAGIC
    }

    /// Opens a file and reads its index.
    ///
    /// # Errors
    /// If it cannot be read, is of another version, partition short or damaged.
    pub fn open(path: &Path) -> Result<Self, HistoryFileError> {
        let failed = |source| HistoryFileError::Io { path: path.to_owned(), source };
        let damaged = |what: String| HistoryFileError::Damaged { path: path.to_owned(), what };
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut bytes = [0; HEADER_BYTES];
        if length < HEADER_BYTES as u64 {
            return Err(damaged(format!("{length} bytes are too few for a file of histories")));
        }
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let header = Header::read(&bytes).map_err(damaged)?;
        let expected = header.file_bytes();
        if expected != Some(length) {
            let expected = expected.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string());
            return Err(damaged(format!("has {length} bytes where its header says {expected}")));
        }
        // The file has the expected length, so that the index fits memory as it fits the file.
        let mut index = vec![0; header.blocks() as usize * 8];
        let index_start = length - index.len() as u64;
        file.read_exact_at(&mut index, index_start).map_err(failed)?;
        let blocks = header.index(&index).map_err(damaged)?;
        let (users, items) = (header.users as usize, header.items as usize);
        Ok(Self { file, path: path.to_owned(), users, items, interactions: header.interactions, blocks })
    }

    /// Number of people.
    pub fn users(&self) -> usize {
        self.users
    }

    /// Number of items in the catalog.
    pub fn catalog_size(&self) -> usize {
        self.items
    }

    /// Number of interactions of all people.
    pub fn interactions(&self) -> u64 {
        self.interactions
    }

    /// One person's items, ascending. Reads from the file only if the person is not of the page's block.
    ///
    /// # Errors
    /// If the block cannot be read or is damaged.
    ///
    /// # Panics
    /// If there is no such person.
    #[inline]
    pub fn of<'a>(&self, user: usize, page: &'a mut Page) -> Result<&'a [u32], HistoryFileError> {
        assert!(user < self.users, "there are {} people", self.users);
        if page.block != Some(user / BLOCK) {
            self.turn_to(user / BLOCK, page)?;
        }
        Ok(page.of(user % BLOCK))
    }

    /// All histories, in memory.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged.
    pub fn read_all(&self) -> Result<Histories, HistoryFileError> {
        let mut items = Vec::with_capacity(self.interactions as usize);
        let mut offsets = Vec::with_capacity(self.users + 1);
        offsets.push(0);
        let mut page = Page::default();
        for user in 0..self.users {
            items.extend_from_slice(self.of(user, &mut page)?);
            offsets.push(items.len());
        }
        Histories::from_columns(offsets, items, Vec::new(), Vec::new(), self.items)
            .map_err(|error| self.damaged(error.to_string()))
    }

    fn damaged(&self, what: String) -> HistoryFileError {
        HistoryFileError::Damaged { path: self.path.clone(), what }
    }

    #[cold]
    fn turn_to(&self, number: usize, page: &mut Page) -> Result<(), HistoryFileError> {
        page.block = None;
        let block = self.blocks[number];
        let people = BLOCK.min(self.users - number * BLOCK);
        page.bytes.resize(4 * (people + block.interactions as usize), 0);
        self.file
            .read_exact_at(&mut page.bytes, block.start)
            .map_err(|source| HistoryFileError::Io { path: self.path.clone(), source })?;
        if crc32fast::hash(&page.bytes) != block.checksum {
            return Err(self.damaged(format!("block {number} does not have its checksum")));
        }
        self.unpack(people, page)
            .map_err(|(index, what)| self.damaged(format!("person {}: {what}", number * BLOCK + index)))?;
        page.block = Some(number);
        Ok(())
    }

    /// Takes a block's bytes apart; says whose history is none.
    fn unpack(&self, people: usize, page: &mut Page) -> Result<(), (usize, &'static str)> {
        let mut numbers = page.bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        page.ends.clear();
        let mut end = 0u32;
        for (index, length) in numbers.by_ref().take(people).enumerate() {
            end = end.checked_add(length).ok_or((index, "too many items"))?;
            page.ends.push(end);
        }
        page.items.clear();
        page.items.extend(numbers);
        if end as usize != page.items.len() {
            return Err((people.saturating_sub(1), "the lengths do not come to the block's interactions"));
        }
        match (0..people).find(|&index| !is_history(page.of(index), self.items)) {
            Some(index) => Err((index, "items are not ascending or not in the catalog")),
            None => Ok(()),
        }
    }
}

/// Whether these are items of the catalog, ascending, each once.
pub(super) fn is_history(items: &[u32], catalog: usize) -> bool {
    items.is_sorted_by(|one, next| one < next) && items.last().is_none_or(|&last| (last as usize) < catalog)
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if bytes[..8] != *MAGIC {
            return Err("is not a file of histories".to_owned());
        }
        if word(8) != VERSION {
            return Err(format!("is of version {}; this program reads version {VERSION}", word(8)));
        }
        if crc32fast::hash(&bytes[..44]) != word(44) || word(12) != BLOCK as u32 {
            return Err("its header is damaged".to_owned());
        }
        Ok(Self { users: long(16), items: long(24), interactions: long(32), index_checksum: word(40) })
    }

    fn blocks(&self) -> u64 {
        self.users.div_ceil(BLOCK as u64)
    }

    /// Bytes of the whole file; `None` if there is no such number, or people or items are too many to have numbers.
    fn file_bytes(&self) -> Option<u64> {
        if self.users > u64::from(u32::MAX) || self.items > u64::from(u32::MAX) {
            return None;
        }
        let words = self.users.checked_add(self.interactions)?.checked_add(2 * self.blocks())?;
        words.checked_mul(4)?.checked_add(HEADER_BYTES as u64)
    }

    fn index(&self, bytes: &[u8]) -> Result<Vec<Block>, String> {
        if crc32fast::hash(bytes) != self.index_checksum {
            return Err("its index does not have its checksum".to_owned());
        }
        let numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let numbers: Vec<u32> = numbers.collect();
        let (mut start, mut interactions) = (HEADER_BYTES as u64, 0);
        let entry = |(number, pair): (u64, &[u32; 2])| {
            let block = Block { start, interactions: pair[0], checksum: pair[1] };
            let people = (self.users - number * BLOCK as u64).min(BLOCK as u64);
            start += 4 * (people + u64::from(pair[0]));
            interactions += u64::from(pair[0]);
            block
        };
        let blocks = (0..).zip(numbers.as_chunks::<2>().0).map(entry).collect();
        if interactions != self.interactions {
            return Err(format!("its blocks have {interactions} interactions, not {}", self.interactions));
        }
        Ok(blocks)
    }
}
