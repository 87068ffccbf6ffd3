//! A folder, on disk or in memory, whose files are decompressed as they are read.

use crate::error::{DataError, Result};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

/// Where the files of a data set are.
pub(crate) enum Files<'a> {
    /// A folder on disk.
    Disk(PathBuf),
    /// Named contents.
    Memory(&'a [(&'a str, &'a [u8])]),
}

/// The unpacked beginning of a file.
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    /// Whether the file ends there.
    pub(crate) whole: bool,
}

/// How many bytes are examined to detect a format.
const HEAD: u64 = 64 << 10;

impl<'a> Files<'a> {
    /// The names of the files, sorted; sub-folders and hidden files are left out.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = match self {
            Files::Disk(folder) => names_on_disk(folder).map_err(|error| DataError::io(folder.display(), error))?,
            Files::Memory(files) => files.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        names.retain(|name| !name.starts_with('.'));
        names.sort_unstable();
        Ok(names)
    }

    /// The name to show for a file.
    pub(crate) fn label(&self, name: &str) -> String {
        match self {
            Files::Disk(folder) => folder.join(name).display().to_string(),
            Files::Memory(_) => name.to_owned(),
        }
    }

    /// A file's bytes as they are.
    pub(crate) fn open_raw(&self, name: &str) -> Result<Box<dyn Read + 'a>> {
        match self {
            Files::Disk(folder) => {
                let file = File::open(folder.join(name)).map_err(|error| DataError::io(self.label(name), error))?;
                Ok(Box::new(file))
            }
            Files::Memory(files) => match files.iter().find(|(known, _)| *known == name) {
                Some((_, bytes)) => Ok(Box::new(*bytes)),
                None => Err(DataError::io(name, io::ErrorKind::NotFound.into())),
            },
        }
    }

    /// A file's bytes, unpacked if they are gzip or zstd.
    pub(crate) fn open(&self, name: &str) -> Result<Box<dyn Read + 'a>> {
        unpack(self.open_raw(name)?).map_err(|error| DataError::io(self.label(name), error))
    }

    /// The beginning of a file, unpacked.
    pub(crate) fn head(&self, name: &str) -> Result<Head> {
        let mut bytes = Vec::new();
        let read = self.open(name)?.take(HEAD).read_to_end(&mut bytes);
        read.map_err(|error| DataError::io(self.label(name), error))?;
        let whole = (bytes.len() as u64) < HEAD;
        Ok(Head { bytes, whole })
    }
}

fn names_on_disk(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_file = std::fs::metadata(entry.path()).is_ok_and(|about| about.is_file());
        if let (true, Ok(name)) = (is_file, entry.file_name().into_string()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Unpacks by the magic bytes, whatever the name.
pub(crate) fn unpack<'a>(mut source: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = Vec::with_capacity(4);
    source.by_ref().take(4).read_to_end(&mut magic)?;
    let kind = [magic.starts_with(&[0x1f, 0x8b]), magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])];
    let all = Cursor::new(magic).chain(source);
    Ok(match kind {
        [true, _] => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(64 << 10, all))),
        [_, true] => Box::new(zstd::Decoder::new(all)?),
        _ => Box::new(all),
    })
}

/// A file's name without the ending of its compression, in lower case.
pub(crate) fn unpacked_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let stripped = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst"));
    stripped.map_or(lower.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn decompresses_gzip_and_zstd() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"1\t2\n").unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(&b"1\t2\n"[..], 1).unwrap();
        let listed: [(&str, &[u8]); 3] = [("a", b"1\t2\n"), ("b", &gzip), ("c", &zstd)];
        let files = Files::Memory(&listed);
        for name in ["a", "b", "c"] {
            assert_eq!(files.head(name).unwrap().bytes, b"1\t2\n", "{name}");
        }
        assert!(files.head("d").is_err());
        let cut: [(&str, &[u8]); 1] = [("a", &gzip[..12])];
        assert!(Files::Memory(&cut).head("a").is_err());
    }
}
