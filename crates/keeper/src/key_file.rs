//! The keeper's folder: its secret key in a file that only its owner can read, beside its journal.

use sottovoce_privacy::tokens::{from_hex, to_hex};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The file of the key.
const KEY: &str = "keeper.key";
/// The file of the journal.
const JOURNAL: &str = "journal.db";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file or folder.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system reports.
        error: io::Error,
    },
    /// Not a key.
    #[error("{}: expected 64 hexadecimal digits", .0.display())]
    Digits(PathBuf),
    /// A key without what it has opened.
    #[error(
        "{} is missing, the journal of the rounds that were opened with {KEY}: without it every round could be opened \
         a second time. Put it back, or begin anew with another key in another folder", .0.display()
    )]
    NoJournal(PathBuf),
    /// A journal without its key.
    #[error("{} is missing, the key of the journal beside it", .0.display())]
    NoKey(PathBuf),
    /// No randomness.
    #[error("the system provides no random numbers: {0}")]
    Randomness(getrandom::Error),
}

/// The secret key of a keeper with this folder and the path of its journal; both are made if there is neither.
pub(crate) fn open(folder: &Path) -> Result<(Zeroizing<[u8; 32]>, PathBuf), KeyError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |error| KeyError::File { path, error }
    };
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder).map_err(failed(folder))?;
    let (key, journal) = (folder.join(KEY), folder.join(JOURNAL));
    match (key.exists(), journal.exists()) {
        (true, false) => return Err(KeyError::NoJournal(journal)),
        (false, true) => return Err(KeyError::NoKey(key)),
        (false, false) => {
            let secret = create(&key)?;
            return Ok((secret, journal));
        }
        (true, true) => (),
    }
    let text = Zeroizing::new(std::fs::read_to_string(&key).map_err(failed(&key))?);
    let secret = from_hex(text.trim()).map(Zeroizing::new).and_then(|bytes| bytes.as_slice().try_into().ok());
    Ok((Zeroizing::new(secret.ok_or(KeyError::Digits(key))?), journal))
}

fn create(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).map_err(KeyError::Randomness)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let text = Zeroizing::new(format!("{}\n", to_hex(&*secret)));
    let written =
        options.open(path).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| KeyError::File { path: path.to_owned(), error })?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_a_key_once_and_none_without_its_journal() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("keeper");
        let (secret, journal) = open(&place).unwrap();
        let lost = open(&place).unwrap_err().to_string();
        assert!(lost.contains("opened a second time"), "{lost}");
        std::fs::write(&journal, "").unwrap();
        assert_eq!(*open(&place).unwrap().0, *secret);
        std::fs::write(place.join(KEY), "0a").unwrap();
        assert!(matches!(open(&place), Err(KeyError::Digits(_))));
        std::fs::remove_file(place.join(KEY)).unwrap();
        assert!(matches!(open(&place), Err(KeyError::NoKey(_))));
    }
}
