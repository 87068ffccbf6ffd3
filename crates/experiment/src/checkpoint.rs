//! Checkpoints of a training: its state in one file, which is replaced atomically and survives `kill -9`.
//!
//! `train.checkpoint` holds, little-endian: `SVCP`, the format (u32), a JSON header (length u64, then its bytes) that
//! says what is trained on what, the monitor's state (likewise), the model's state up to the end, and the BLAKE3 hash
//! of everything before it. A new state is written to another file, synced and renamed; so there is always a complete
//! one, or none yet.

use crate::journal::{self, FolderError};
use serde::{Deserialize, Serialize};
use sottovoce_models::Milestone;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

const NAME: &str = "train.checkpoint";
const LOCK: &str = "train.lock";
const MAGIC: &[u8; 4] = b"SVCP";
const FORMAT: u32 = 1;
/// Bytes of the hash at the end.
const HASH: u64 = 32;
/// Magic, format, length of the header.
const HEAD: u64 = 16;

/// What a training depends on: a checkpoint of another training is rejected, and the difference named.
pub type Identity = BTreeMap<String, String>;

/// A hash of the contents of a file that a setting names.
pub fn contents(path: &Path) -> String {
    fs::read(path).map_or_else(|error| error.to_string(), |bytes| blake3::hash(&bytes).to_hex()[..16].to_owned())
}

/// How often a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After so many epochs, and after the last.
    Epochs(u64),
    /// After so many rounds, and after the last epoch.
    Rounds(u64),
}

impl Every {
    pub(crate) fn due(self, milestone: &Milestone) -> bool {
        match self {
            _ if milestone.last => true,
            Every::Epochs(epochs) => milestone.epoch_over && (milestone.epochs as u64).is_multiple_of(epochs),
            Every::Rounds(rounds) => milestone.rounds.is_multiple_of(rounds),
        }
    }
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a number of epochs, such as 5, or of rounds, such as 200rounds");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number = digits.trim().parse().ok().filter(|&number: &u64| number > 0).ok_or_else(wrong)?;
        match &text[digits.len()..] {
            "" | "epoch" | "epochs" => Ok(Every::Epochs(number)),
            "round" | "rounds" => Ok(Every::Rounds(number)),
            _ => Err(wrong()),
        }
    }
}

/// What to do where there is a checkpoint, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// Resume from it if there is one.
    #[default]
    Resume,
    /// Resume from it; none is an error.
    MustResume,
    /// Start again in any case.
    Fresh,
}

#[derive(Serialize, Deserialize)]
struct Header {
    identity: Identity,
    epochs: usize,
    rounds: u64,
}

/// A checkpoint.
pub struct Found {
    /// Epochs done.
    pub epochs: usize,
    /// Rounds done.
    pub rounds: u64,
    pub(crate) watch: Vec<u8>,
    pub(crate) model: Box<dyn Read>,
}

/// The folder of a training's checkpoints, locked by this process.
pub struct Store {
    path: PathBuf,
    identity: Identity,
    pub(crate) every: Every,
    /// The checkpoint that training resumes from.
    pub found: Option<Found>,
    _lock: File,
}

impl Store {
    /// Opens a folder, created if need be, and the checkpoint in it.
    ///
    /// # Errors
    /// If another process has locked the folder, or the checkpoint cannot be used.
    pub fn open(folder: &Path, identity: Identity, every: Every, begin: Begin) -> Result<Self, FolderError> {
        fs::create_dir_all(folder).map_err(|reason| FolderError::io(folder, reason))?;
        let lock_path = folder.join(LOCK);
        let lock = journal::lock(&lock_path).map_err(|reason| FolderError::io(&lock_path, reason))?;
        let busy = || FolderError::io(&lock_path, "another process writes its checkpoints here");
        let lock = lock.ok_or_else(busy)?;
        let path = folder.join(NAME);
        let found = match begin {
            Begin::Fresh => None,
            Begin::Resume if !path.exists() => None,
            Begin::MustResume if !path.exists() => {
                return Err(FolderError(format!("there is no checkpoint {} to resume from", path.display())));
            }
            _ => Some(read(&path, &identity)?),
        };
        Ok(Self { path, identity, every, found, _lock: lock })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the checkpoint; the old one stays if that fails.
    pub(crate) fn write(
        &self,
        milestone: &Milestone,
        watch: &[u8],
        model: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        let header = Header { identity: self.identity.clone(), epochs: milestone.epochs, rounds: milestone.rounds };
        let written = journal::replace_file(&self.path, |file| {
            let header = serde_json::to_vec(&header)?;
            let mut out = Hashing { inner: BufWriter::new(file), hasher: blake3::Hasher::new() };
            out.write_all(MAGIC)?;
            out.write_all(&FORMAT.to_le_bytes())?;
            for section in [&header[..], watch] {
                out.write_all(&(section.len() as u64).to_le_bytes())?;
                out.write_all(section)?;
            }
            model(&mut out)?;
            let Hashing { mut inner, hasher } = out;
            inner.write_all(hasher.finalize().as_bytes())?;
            inner.flush()
        });
        written.map_err(|reason| FolderError::io(&self.path, reason))
    }
}

/// Hashes what it passes on.
struct Hashing<W> {
    inner: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reads and verifies a checkpoint.
fn read(path: &Path, identity: &Identity) -> Result<Found, FolderError> {
    let io = |reason: io::Error| FolderError::io(path, reason);
    let wrong = |what: &str| FolderError(format!("{} {what}", path.display()));
    let damaged = || wrong("is damaged or cut short; --fresh starts again");
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let length = file.get_ref().metadata().map_err(io)?.len();
    let mut head = Vec::new();
    file.by_ref().take(8).read_to_end(&mut head).map_err(io)?;
    let format = head.strip_prefix(MAGIC).ok_or_else(|| wrong("is not a checkpoint; --fresh replaces it"))?;
    let found = u32::from_le_bytes(format.try_into().map_err(|_| damaged())?);
    if found != FORMAT {
        return Err(wrong(&format!("has format {found}, this program reads {FORMAT}; --fresh starts again")));
    }
    let content = length.checked_sub(HASH).filter(|&content| content >= HEAD).ok_or_else(damaged)?;
    if !matches_hash(&mut file, content).map_err(io)? {
        return Err(damaged());
    }
    file.seek(SeekFrom::Start(8)).map_err(io)?;
    let mut content = file.take(content - 8);
    let header = section(&mut content).map_err(io)?;
    let header: Header = serde_json::from_slice(&header).map_err(|_| damaged())?;
    let differences = differences(&header.identity, identity);
    if !differences.is_empty() {
        let differences = differences.join(", ");
        return Err(wrong(&format!("is of another training: {differences}; --fresh starts again")));
    }
    let watch = section(&mut content).map_err(io)?;
    Ok(Found { epochs: header.epochs, rounds: header.rounds, watch, model: Box::new(content) })
}

fn matches_hash(file: &mut BufReader<File>, content: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut file.by_ref().take(content), &mut hasher)?;
    let mut hash = [0; HASH as usize];
    file.read_exact(&mut hash)?;
    Ok(hasher.finalize() == hash)
}

/// A length and so many bytes, which a wrong length cannot make more than there are.
fn section(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn differences(stored: &Identity, asked: &Identity) -> Vec<String> {
    let all: BTreeSet<&String> = stored.keys().chain(asked.keys()).collect();
    let word = |identity: &Identity, key: &String| identity.get(key).map_or("absent".to_owned(), Clone::clone);
    all.into_iter()
        .filter(|&key| stored.get(key) != asked.get(key))
        .map(|key| format!("{key} was {} and is {}", word(stored, key), word(asked, key)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(pi: &str) -> Identity {
        [("model", "fpl"), ("pi", pi)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn open(folder: &Path, begin: Begin) -> Result<Store, FolderError> {
        Store::open(folder, identity("0.5"), Every::Epochs(1), begin)
    }

    const AT: Milestone = Milestone { epochs: 3, rounds: 12, epoch_over: true, last: false };

    fn save(store: &Store, state: &[u8]) -> Result<(), FolderError> {
        store.write(&AT, b"watched", &mut |out| out.write_all(state))
    }

    fn message(result: Result<Store, FolderError>) -> String {
        result.err().expect("an error").to_string()
    }

    #[test]
    fn the_newest_checkpoint_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Begin::Resume).unwrap();
        assert!(store.found.is_none());
        save(&store, b"first").unwrap();
        save(&store, &[7; 100_000]).unwrap();
        assert!(message(open(folder.path(), Begin::Resume)).contains("another process"));
        drop(store);
        let mut found = open(folder.path(), Begin::MustResume).unwrap().found.take().unwrap();
        assert_eq!((found.epochs, found.rounds, &found.watch[..]), (3, 12, &b"watched"[..]));
        let mut state = Vec::new();
        found.model.read_to_end(&mut state).unwrap();
        assert_eq!(state, [7; 100_000]);
        assert!(open(folder.path(), Begin::Fresh).unwrap().found.is_none());
        let nothing = tempfile::tempdir().unwrap();
        assert!(message(open(nothing.path(), Begin::MustResume)).starts_with("there is no checkpoint"));
    }

    #[test]
    fn a_failed_write_keeps_the_old_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Begin::Resume).unwrap();
        save(&store, b"good").unwrap();
        let before = fs::read(store.path()).unwrap();
        let full = store.write(&AT, b"", &mut |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        let text = full.unwrap_err().to_string();
        assert!(text.contains("train.checkpoint") && text.contains("no storage space"), "{text}");
        assert_eq!(fs::read(store.path()).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a part was left behind");
    }

    #[test]
    fn detects_every_truncation_and_changed_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        save(&open(folder.path(), Begin::Resume).unwrap(), b"a state of some length").unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            message(open(folder.path(), Begin::Resume));
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            fs::write(&path, &changed).unwrap();
            message(open(folder.path(), Begin::Resume));
        }
        fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
        assert!(message(open(folder.path(), Begin::Resume)).contains("damaged or cut short"));
        fs::write(&path, "user\titem\n").unwrap();
        assert!(message(open(folder.path(), Begin::Resume)).contains("is not a checkpoint"));
        let mut newer = whole.clone();
        newer[4] = 9;
        fs::write(&path, &newer).unwrap();
        assert!(message(open(folder.path(), Begin::Resume)).contains("has format 9"));
        fs::write(&path, &whole).unwrap();
        assert!(open(folder.path(), Begin::Resume).unwrap().found.is_some());
    }

    #[test]
    fn rejects_a_checkpoint_of_another_training() {
        let folder = tempfile::tempdir().unwrap();
        save(&open(folder.path(), Begin::Resume).unwrap(), b"state").unwrap();
        let other = Store::open(folder.path(), identity("0.7"), Every::Epochs(1), Begin::Resume);
        assert!(message(other).contains("is of another training: pi was 0.5 and is 0.7; --fresh"));
    }

    #[test]
    fn parses_and_applies_intervals() {
        assert_eq!("5".parse(), Ok(Every::Epochs(5)));
        assert_eq!("200rounds".parse(), Ok(Every::Rounds(200)));
        for wrong in ["0", "x", "5days", "", "-1"] {
            assert!(wrong.parse::<Every>().is_err(), "{wrong}");
        }
        let at = |epochs, rounds, epoch_over| Milestone { epochs, rounds, epoch_over, last: false };
        assert!(Every::Epochs(2).due(&at(4, 11, true)) && !Every::Epochs(2).due(&at(4, 12, false)));
        assert!(Every::Rounds(6).due(&at(4, 12, false)) && !Every::Rounds(6).due(&at(4, 13, true)));
        assert!(Every::Epochs(7).due(&Milestone { last: true, ..AT }));
    }
}
