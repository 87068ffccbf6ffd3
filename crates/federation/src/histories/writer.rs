//! Writing a file of histories, one person after the other.

use super::file::{BLOCK, HEADER_BYTES, HistoryFileError, MAGIC, VERSION, is_history};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Writes a file of histories in one pass; memory grows by 8 bytes for every 256 people.
///
/// The file appears under its name when it is complete: until then it has another, and one that is not finished is
/// removed.
#[derive(Debug)]
pub struct HistoryWriter {
    out: BufWriter<File>,
    path: PathBuf,
    unfinished: Unfinished,
    items: usize,
    users: usize,
    interactions: u64,
    /// The block under way.
    lengths: Vec<u32>,
    own: Vec<u32>,
    bytes: Vec<u8>,
    index: Vec<u8>,
}

/// A file that goes when this does.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After a finished file is renamed there is nothing here, and a failure does not matter.
        let _ = fs::remove_file(&self.0);
    }
}

impl HistoryWriter {
    /// Begins a file for a catalog of this size.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, catalog_size: usize) -> Result<Self, HistoryFileError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".unfinished-{}", std::process::id()));
        let unfinished = Unfinished(path.with_file_name(name));
        let begin = || {
            let mut out = BufWriter::with_capacity(1 << 18, File::create(&unfinished.0)?);
            out.write_all(&[0; HEADER_BYTES])?;
            Ok(out)
        };
        let out = begin().map_err(failed(path))?;
        let (lengths, own, bytes, index) = Default::default();
        let (users, interactions) = (0, 0);
        let path = path.to_owned();
        Ok(Self {
            out,
            path,
            unfinished,
            items: catalog_size,
            users,
            interactions,
            lengths,
            own,
            bytes,
            index,
        })
    }

    /// Adds the next person: items ascending, each once.
    ///
    /// # Errors
    /// If they are not, or an item is not in the catalog, or writing fails.
    pub fn push(&mut self, history: &[u32]) -> Result<(), HistoryFileError> {
        let wrong = |what: &str| HistoryFileError::History { user: self.users, what: what.to_owned() };
        if !is_history(history, self.items) {
            return Err(wrong("items are not ascending, each once, within the catalog"));
        }
        if self.own.len() + history.len() > u32::MAX as usize || self.users >= u32::MAX as usize {
            return Err(wrong("more than 32 bits can count"));
        }
        self.lengths.push(history.len() as u32);
        self.own.extend_from_slice(history);
        self.users += 1;
        if self.lengths.len() == BLOCK { self.end_block().map_err(failed(&self.path)) } else { Ok(()) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.bytes.clear();
        self.bytes.extend(self.lengths.iter().chain(&self.own).flat_map(|number| number.to_le_bytes()));
        self.out.write_all(&self.bytes)?;
        self.index.extend((self.own.len() as u32).to_le_bytes());
        self.index.extend(crc32fast::hash(&self.bytes).to_le_bytes());
        self.interactions += self.own.len() as u64;
        self.lengths.clear();
        self.own.clear();
        Ok(())
    }

    /// Completes the file and gives it its name; returns the number of interactions.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> Result<u64, HistoryFileError> {
        let path = std::mem::take(&mut self.path);
        self.complete(&path).map_err(failed(&path))?;
        Ok(self.interactions)
    }

    fn complete(&mut self, path: &Path) -> io::Result<()> {
        if !self.lengths.is_empty() {
            self.end_block()?;
        }
        self.out.write_all(&self.index)?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&self.header())?;
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.unfinished.0, path)
    }

    fn header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((BLOCK as u32).to_le_bytes());
        for number in [self.users as u64, self.items as u64, self.interactions] {
            header.extend(number.to_le_bytes());
        }
        header.extend(crc32fast::hash(&self.index).to_le_bytes());
        header.extend(crc32fast::hash(&header).to_le_bytes());
        header
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> HistoryFileError {
    let path = path.to_owned();
    move |source| HistoryFileError::Io { path: path.clone(), source }
}
