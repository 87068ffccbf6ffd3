//! Writing uploads into a folder, and taking people's out again.

use super::{MAGIC, ROUND, UploadsError, parse, rounds_in, unread};
use crc32fast::Hasher;
use sottovoce_protocol::{RoundTerms, codec};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder that uploads are written to; it is made with its first round. One writer at a time.
#[derive(Clone, Debug)]
pub struct UploadWriter {
    folder: PathBuf,
}

impl UploadWriter {
    /// For a folder, which need not be there.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Begins to keep a round: its terms, and the message by which devices were given the shared model.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn round(&self, round: u64, terms: &RoundTerms, model: &[u8]) -> Result<RoundWriter, UploadsError> {
        create_private(&self.folder).map_err(unread(&self.folder))?;
        let mut message = Vec::new();
        codec::encode_terms(terms, &mut message);
        let name = format!("{ROUND}{round:010}");
        let (path, whole) = (self.folder.join(format!(".{name}")), self.folder.join(name));
        let file = File::create(&path).map_err(unread(&path))?;
        let (folder, hasher, uploads) = (self.folder.clone(), Hasher::new(), 0);
        let mut writer = RoundWriter { folder, path, whole, file: BufWriter::new(file), hasher, uploads };
        writer.put(MAGIC)?;
        writer.put(&round.to_le_bytes())?;
        writer.block(&message)?;
        writer.block(model)?;
        Ok(writer)
    }

    /// Keeps nothing of a round, nor of an interrupted write of it.
    ///
    /// # Errors
    /// If the file cannot be deleted.
    pub fn remove(&self, round: u64) -> Result<(), UploadsError> {
        let name = format!("{ROUND}{round:010}");
        let there = [delete(&self.folder.join(&name))?, delete(&self.folder.join(format!(".{name}")))?];
        if there.contains(&true) { sync(&self.folder) } else { Ok(()) }
    }

    /// Takes a device's uploads out of all rounds; says how many there were. A round's file that cannot be read is
    /// deleted, since it may hold one, and so is what an interrupted write has left behind.
    ///
    /// # Errors
    /// If a file cannot be written or deleted.
    pub fn forget(&self, device: u32) -> Result<u64, UploadsError> {
        if !self.folder.exists() {
            return Ok(0);
        }
        self.clear_leftovers()?;
        let mut taken_out = 0;
        for (round, path) in rounds_in(&self.folder)? {
            taken_out += u64::from(self.forget_in(round, &path, device)?);
        }
        sync(&self.folder)?;
        Ok(taken_out)
    }

    fn forget_in(&self, round: u64, path: &Path, device: u32) -> Result<bool, UploadsError> {
        let bytes = fs::read(path).map_err(unread(path))?;
        let Ok((stored, terms)) =
            parse(&bytes, round).and_then(|stored| stored.given().map(|(terms, _)| (stored, terms)))
        else {
            return delete(path);
        };
        if !stored.uploads.iter().any(|(each, _)| *each == device) {
            return Ok(false);
        }
        let mut rest = stored.uploads.iter().filter(|(each, _)| *each != device).peekable();
        if rest.peek().is_none() {
            return delete(path);
        }
        let mut writer = self.round(round, &terms, stored.model)?;
        for (device, message) in rest {
            writer.add(*device, message)?;
        }
        writer.finish().map(|()| true)
    }

    fn clear_leftovers(&self) -> Result<(), UploadsError> {
        for entry in fs::read_dir(&self.folder).map_err(unread(&self.folder))? {
            let path = entry.map_err(unread(&self.folder))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.strip_prefix('.').is_some_and(|name| name.starts_with(ROUND)) {
                delete(&path)?;
            }
        }
        Ok(())
    }
}

/// A round whose uploads are being written; they are there when it is finished, and not before.
#[derive(Debug)]
pub struct RoundWriter {
    folder: PathBuf,
    path: PathBuf,
    whole: PathBuf,
    file: BufWriter<File>,
    hasher: Hasher,
    uploads: u32,
}

impl RoundWriter {
    fn put(&mut self, bytes: &[u8]) -> Result<(), UploadsError> {
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(unread(&self.path))
    }

    fn block(&mut self, bytes: &[u8]) -> Result<(), UploadsError> {
        self.put(&(bytes.len() as u32).to_le_bytes())?;
        self.put(bytes)
    }

    /// The upload of a device; devices ascend.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, device: u32, message: &[u8]) -> Result<(), UploadsError> {
        self.uploads += 1;
        self.put(&device.to_le_bytes())?;
        self.block(message)
    }

    /// Renames the file to its final name; it is durable when this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), UploadsError> {
        self.put(&self.uploads.to_le_bytes())?;
        let checksum = self.hasher.clone().finalize();
        self.put(&checksum.to_le_bytes())?;
        let Self { folder, path, whole, file, .. } = self;
        let file = file.into_inner().map_err(|error| unread(&path)(error.into_error()))?;
        file.sync_all().map_err(unread(&path))?;
        fs::rename(&path, &whole).map_err(unread(&whole))?;
        sync(&folder)
    }
}

/// Whether there was such a file.
fn delete(path: &Path) -> Result<bool, UploadsError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unread(path)(error)),
    }
}

/// A folder that only its owner can look into.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Names in a folder are durable where the system lets folders be opened.
fn sync(folder: &Path) -> Result<(), UploadsError> {
    #[cfg(unix)]
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unread(folder))?;
    #[cfg(not(unix))]
    let _nothing_to_do = folder;
    Ok(())
}
