//! A store in a folder, sealed.
//!
//! Three files, each replaced whole: `state`, `model`, `catalog`; and `lock`, which one process at a time holds. A file is
//! magic (`SVDS`), a version byte, 8 bytes that tell a wrong key from damage, a random nonce of 24 bytes, and the content
//! under XChaCha20-Poly1305 with everything before it and the file's name as associated data: files cannot be swapped for
//! each other. Sealing does not show that somebody put back an older file of the same name.

use crate::Items;
use crate::store::{Store, StoreError};
use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};
use sottovoce_protocol::{SharedModel, ValueEncoding, codec};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8] = b"SVDS\x01";
const KEY_MARK: usize = 8;
const NONCE: usize = 24;
const HEAD: usize = MAGIC.len() + KEY_MARK + NONCE;

/// The key that files are sealed with: 32 random bytes that the embedder keeps, best in the system's key store.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// From random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new one, from the machine's random numbers.
    ///
    /// # Errors
    /// If the machine gives none.
    pub fn random() -> Result<Self, StoreError> {
        let mut bytes = [0; 32];
        fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The bytes, to be kept somewhere safe.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Tells keys apart without telling anything about them.
    fn mark(&self) -> [u8; KEY_MARK] {
        let hash = blake3::keyed_hash(&self.0, b"sottovoce device store: which key");
        std::array::from_fn(|place| hash.as_bytes()[place])
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), StoreError> {
    getrandom::fill(bytes).map_err(|error| StoreError::Random { what: error.to_string() })
}

/// Keeps a device in a folder, each file sealed with a key and replaced whole.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    key: Key,
    /// Held as long as the store is.
    _lock: File,
}

impl FileStore {
    /// Opens a folder, which is made if it is not there, for this process alone.
    ///
    /// # Errors
    /// If it cannot be made or another process uses it.
    pub fn open(folder: &Path, key: Key) -> Result<Self, StoreError> {
        let failed = |doing, path: &Path| {
            let path = path.display().to_string();
            move |error| StoreError::Io { doing, path, error }
        };
        make_folder(folder).map_err(failed("making", folder))?;
        let path = folder.join("lock");
        let lock = private_file(OpenOptions::new().create(true).truncate(false), &path)
            .map_err(failed("opening", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), key, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => {
                Err(StoreError::InUse { path: folder.display().to_string() })
            }
            Err(fs::TryLockError::Error(error)) => Err(failed("locking", &path)(error)),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Ok(bytes) => self.unseal(name, bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::Io { doing: "reading", path: path.display().to_string(), error }),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let sealed = self.seal(name, content)?;
        let path = self.folder.join(name);
        replace(&self.folder, &path, &sealed).map_err(|error| StoreError::Io {
            doing: "writing",
            path: path.display().to_string(),
            error,
        })
    }

    fn seal(&self, name: &str, content: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut nonce = [0; NONCE];
        fill(&mut nonce)?;
        let mut sealed = Vec::with_capacity(HEAD + content.len() + 16);
        sealed.extend_from_slice(MAGIC);
        sealed.extend_from_slice(&self.key.mark());
        sealed.extend_from_slice(&nonce);
        let associated = associated(&sealed, name);
        let mut body = content.to_vec();
        self.cipher()
            .encrypt_in_place(&nonce.into(), &associated, &mut body)
            .map_err(|_| self.damaged(name, "it is too large to be sealed"))?;
        sealed.append(&mut body);
        Ok(sealed)
    }

    fn unseal(&self, name: &str, mut sealed: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        if sealed.len() < HEAD {
            return Err(self.damaged(name, "it ends too early"));
        }
        let (head, _) = sealed.split_at(HEAD);
        if !head.starts_with(MAGIC) {
            return Err(self.damaged(name, "it does not begin as a sealed file of this version does"));
        }
        if head[MAGIC.len()..][..KEY_MARK] != self.key.mark() {
            return Err(StoreError::Key { path: self.folder.join(name).display().to_string() });
        }
        let nonce: [u8; NONCE] = std::array::from_fn(|place| head[MAGIC.len() + KEY_MARK + place]);
        let associated = associated(head, name);
        let mut body = sealed.split_off(HEAD);
        self.cipher()
            .decrypt_in_place(&nonce.into(), &associated, &mut body)
            .map_err(|_| self.damaged(name, "its seal does not fit its content"))?;
        Ok(body)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.key.0.into())
    }

    fn damaged(&self, name: &str, what: &str) -> StoreError {
        StoreError::Damaged { path: self.folder.join(name).display().to_string(), what: what.to_owned() }
    }
}

fn associated(head: &[u8], name: &str) -> Vec<u8> {
    [b"sottovoce device store:", name.as_bytes(), b":", head].concat()
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// A file that only its owner can read.
fn private_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.write(true).open(path)
}

/// Puts a file in the place of another, so that whatever happens one of them is there, whole.
fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = private_file(OpenOptions::new().create(true).truncate(true), &fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&fresh, path)?;
    sync_folder(folder)
}

/// Makes a rename survive a loss of power.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

impl Store for FileStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        self.read("state")
    }

    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.write("state", state)
    }

    fn model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        let Some(bytes) = self.read("model")? else { return Ok(None) };
        let model = codec::decode_model(&bytes).map_err(|error| self.damaged("model", &error.to_string()))?;
        Ok(Some(Arc::new(model)))
    }

    fn keep_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        codec::encode_model(model, ValueEncoding::F32, &mut bytes)
            .map_err(|error| self.damaged("model", &error.to_string()))?;
        self.write("model", &bytes)
    }

    fn forget(&mut self) -> Result<(), StoreError> {
        for name in ["model", "catalog"] {
            let path = self.folder.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::Io {
                        doing: "removing",
                        path: path.display().to_string(),
                        error,
                    });
                }
                _ => (),
            }
        }
        sync_folder(&self.folder).map_err(|error| StoreError::Io {
            doing: "writing",
            path: self.folder.display().to_string(),
            error,
        })
    }

    fn items(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        let Some(bytes) = self.read("catalog")? else { return Ok(None) };
        let items = Items::parse(bytes).map_err(|error| self.damaged("catalog", &error.to_string()))?;
        Ok(Some(Arc::new(items)))
    }

    fn keep_items(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        self.write("catalog", items.text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, key: u8) -> FileStore {
        FileStore::open(folder, Key::new([key; 32])).unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_and_cannot_be_read_from_outside() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        let mut store = open(&folder, 1);
        assert!(store.load().unwrap().is_none() && store.model().unwrap().is_none());
        store.commit(b"what the owner liked").unwrap();
        let first = fs::read(folder.join("state")).unwrap();
        store.commit(b"what the owner liked").unwrap();
        let second = fs::read(folder.join("state")).unwrap();
        assert_ne!(first, second, "a nonce is used once");
        assert!(!first.windows(5).any(|window| window == b"liked"));
        let items = Arc::new(Items::parse(b"item\ttitle\tcategories\na\tA\t\n".to_vec()).unwrap());
        store.keep_items(&items).unwrap();
        drop(store);
        let mut store = open(&folder, 1);
        assert_eq!(store.load().unwrap().unwrap(), b"what the owner liked");
        assert_eq!(store.items().unwrap(), Some(items));
        #[cfg(unix)]
        for name in ["state", "catalog", "lock"] {
            let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(folder.join(name)).unwrap());
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn wrong_keys_damage_and_swapped_files_are_told_apart_and_nothing_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let state = place.path().join("state");
        let mut store = open(place.path(), 1);
        store.commit(b"precious").unwrap();
        let bytes = fs::read(&state).unwrap();
        drop(store);
        let said = |store: &mut FileStore| store.load().unwrap_err().to_string();

        assert!(said(&mut open(place.path(), 2)).ends_with("was sealed with another key than the one given"));
        for length in [0, 3, HEAD - 1, HEAD, bytes.len() - 1] {
            fs::write(&state, &bytes[..length]).unwrap();
            assert!(said(&mut open(place.path(), 1)).contains("is damaged"), "{length}");
        }
        for at in [0, MAGIC.len() + KEY_MARK, HEAD, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(&state, &changed).unwrap();
            assert!(said(&mut open(place.path(), 1)).contains("is damaged"), "{at}");
            assert_eq!(fs::read(&state).unwrap(), changed);
        }
        fs::write(place.path().join("catalog"), &bytes).unwrap();
        let swapped = open(place.path(), 1).items().unwrap_err().to_string();
        assert!(swapped.contains("its seal does not fit its content"), "{swapped}");
        fs::write(&state, &bytes).unwrap();
        assert_eq!(open(place.path(), 1).load().unwrap().unwrap(), b"precious");
    }

    #[test]
    fn a_folder_is_one_processs() {
        let place = tempfile::tempdir().unwrap();
        let first = open(place.path(), 1);
        let error = FileStore::open(place.path(), Key::new([1; 32])).unwrap_err();
        assert!(error.to_string().ends_with("is in use by another process"));
        drop(first);
        open(place.path(), 1);
    }

    #[test]
    fn a_write_that_was_cut_short_leaves_the_state_before() {
        let place = tempfile::tempdir().unwrap();
        let mut store = open(place.path(), 1);
        store.commit(b"one").unwrap();
        fs::write(place.path().join("state.new"), b"half of it").unwrap();
        assert_eq!(store.load().unwrap().unwrap(), b"one");
        store.commit(b"two").unwrap();
        assert_eq!(store.load().unwrap().unwrap(), b"two");
    }
}
