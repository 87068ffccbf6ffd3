//! A store in a folder, encrypted.
//!
//! Three files, each replaced atomically: `state`, `model`, `catalog`; and `lock`, which one process at a time holds. A
//! file is magic (`SVDS`), a version byte, 8 bytes that tell a wrong key from damage, a random nonce of 24 bytes, and
//! the content under XChaCha20-Poly1305 with everything before it and the file's name as associated data: files cannot
//! be swapped for each other. Encryption does not detect that somebody put back an older file of the same name.

use crate::Items;
use crate::store::{Store, StoreError, random_bytes};
use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};
use sottovoce_protocol::{SharedModel, ValueEncoding, codec};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroize;

const MAGIC: &[u8] = b"SVDS\x01";
const FINGERPRINT: usize = 8;
const NONCE: usize = 24;
const HEADER: usize = MAGIC.len() + FINGERPRINT + NONCE;

/// The key that files are encrypted under: 32 random bytes, best held in the system's key store.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Key {
    /// From random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key, from the operating system's random numbers.
    ///
    /// # Errors
    /// If it gives none.
    pub fn random() -> Result<Self, StoreError> {
        random_bytes().map(Self)
    }

    /// The bytes, to be stored somewhere safe.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Tells keys apart without revealing anything about them.
    fn fingerprint(&self) -> [u8; FINGERPRINT] {
        let hash = blake3::keyed_hash(&self.0, b"sottovoce device store: which key");
        std::array::from_fn(|index| hash.as_bytes()[index])
    }
}

/// Stores a device in a folder, each file encrypted under a key and replaced atomically.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    key: Key,
    /// Locked for as long as the store is open.
    _lock: File,
}

impl FileStore {
    /// Opens a folder for this process alone; creates it if necessary.
    ///
    /// # Errors
    /// If it cannot be created or another process uses it.
    pub fn open(folder: &Path, key: Key) -> Result<Self, StoreError> {
        create_folder(folder).map_err(failed("making", folder))?;
        let path = folder.join("lock");
        let lock =
            private_file(OpenOptions::new().create(true).truncate(false), &path).map_err(failed("opening", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), key, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(StoreError::InUse(folder.display().to_string())),
            Err(fs::TryLockError::Error(error)) => Err(failed("locking", &path)(error)),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Ok(bytes) => self.decrypt(name, bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("reading", &path)(error)),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.join(name);
        replace(&self.folder, &path, &self.encrypt(name, content)?).map_err(failed("writing", &path))
    }

    fn encrypt(&self, name: &str, content: &[u8]) -> Result<Vec<u8>, StoreError> {
        let nonce: [u8; NONCE] = random_bytes()?;
        let mut encrypted = [MAGIC, &self.key.fingerprint(), &nonce].concat();
        let mut body = content.to_vec();
        self.cipher()
            .encrypt_in_place(&nonce.into(), &associated(&encrypted, name), &mut body)
            .map_err(|_| self.damaged(name, "it is too large to be encrypted"))?;
        encrypted.append(&mut body);
        Ok(encrypted)
    }

    fn decrypt(&self, name: &str, mut encrypted: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let Some((header, _)) = encrypted.split_at_checked(HEADER) else {
            return Err(self.damaged(name, "it ends too early"));
        };
        if !header.starts_with(MAGIC) {
            return Err(self.damaged(name, "it does not begin as an encrypted file of this version does"));
        }
        if header[MAGIC.len()..][..FINGERPRINT] != self.key.fingerprint() {
            return Err(StoreError::Key(self.folder.join(name).display().to_string()));
        }
        let nonce: [u8; NONCE] = std::array::from_fn(|index| header[MAGIC.len() + FINGERPRINT + index]);
        let associated = associated(header, name);
        let mut body = encrypted.split_off(HEADER);
        self.cipher()
            .decrypt_in_place(&nonce.into(), &associated, &mut body)
            .map_err(|_| self.damaged(name, "its content is not authentic"))?;
        Ok(body)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.key.0.into())
    }

    #[allow(clippy::needless_pass_by_value, reason = "errors and texts alike")]
    fn damaged(&self, name: &str, what: impl ToString) -> StoreError {
        StoreError::Damaged { path: self.folder.join(name).display().to_string(), what: what.to_string() }
    }
}

/// An error of the file system, with what was being done to which file.
fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |error| StoreError::Io { doing, path, error }
}

fn associated(header: &[u8], name: &str) -> Vec<u8> {
    [b"sottovoce device store:", name.as_bytes(), b":", header].concat()
}

fn create_folder(folder: &Path) -> io::Result<()> {
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

/// Replaces a file atomically: written beside, flushed, renamed.
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

    fn load_model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        let Some(bytes) = self.read("model")? else { return Ok(None) };
        let model = codec::decode_model(&bytes).map_err(|error| self.damaged("model", error))?;
        Ok(Some(Arc::new(model)))
    }

    fn save_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        codec::encode_model(model, ValueEncoding::F32, &mut bytes).map_err(|error| self.damaged("model", error))?;
        self.write("model", &bytes)
    }

    fn load_catalog(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        let Some(bytes) = self.read("catalog")? else { return Ok(None) };
        let items = Items::parse(bytes).map_err(|error| self.damaged("catalog", error))?;
        Ok(Some(Arc::new(items)))
    }

    fn save_catalog(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        self.write("catalog", items.text().as_bytes())
    }

    fn clear_downloads(&mut self) -> Result<(), StoreError> {
        for name in ["model", "catalog"] {
            let path = self.folder.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("removing", &path)(error));
                }
                _ => (),
            }
        }
        sync_folder(&self.folder).map_err(failed("writing", &self.folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, key: u8) -> FileStore {
        FileStore::open(folder, Key::new([key; 32])).unwrap()
    }

    #[test]
    fn files_are_encrypted_private_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        let mut store = open(&folder, 1);
        assert!(store.load().unwrap().is_none() && store.load_model().unwrap().is_none());
        store.commit(b"what the owner liked").unwrap();
        let first = fs::read(folder.join("state")).unwrap();
        store.commit(b"what the owner liked").unwrap();
        let second = fs::read(folder.join("state")).unwrap();
        assert_ne!(first, second, "a nonce is used once");
        assert!(!first.windows(5).any(|window| window == b"liked"));
        let items = Arc::new(Items::parse(b"item\ttitle\tcategories\na\tA\t\n".to_vec()).unwrap());
        store.save_catalog(&items).unwrap();
        drop(store);
        let mut store = open(&folder, 1);
        assert_eq!(store.load().unwrap().unwrap(), b"what the owner liked");
        assert_eq!(store.load_catalog().unwrap(), Some(items));
        #[cfg(unix)]
        for name in ["state", "catalog", "lock"] {
            let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(folder.join(name)).unwrap());
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn detects_wrong_keys_damage_and_swapped_files_and_overwrites_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let mut store = open(dir.path(), 1);
        store.commit(b"precious").unwrap();
        let bytes = fs::read(&state).unwrap();
        drop(store);
        let error = |store: &mut FileStore| store.load().unwrap_err().to_string();

        assert!(error(&mut open(dir.path(), 2)).ends_with("was encrypted under another key than the one given"));
        for length in [0, 3, HEADER - 1, HEADER, bytes.len() - 1] {
            fs::write(&state, &bytes[..length]).unwrap();
            assert!(error(&mut open(dir.path(), 1)).contains("is damaged"), "{length}");
        }
        for at in [0, MAGIC.len() + FINGERPRINT, HEADER, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(&state, &changed).unwrap();
            assert!(error(&mut open(dir.path(), 1)).contains("is damaged"), "{at}");
            assert_eq!(fs::read(&state).unwrap(), changed);
        }
        fs::write(dir.path().join("catalog"), &bytes).unwrap();
        let swapped = open(dir.path(), 1).load_catalog().unwrap_err().to_string();
        assert!(swapped.contains("its content is not authentic"), "{swapped}");
        fs::write(&state, &bytes).unwrap();
        assert_eq!(open(dir.path(), 1).load().unwrap().unwrap(), b"precious");
    }

    #[test]
    fn a_folder_is_locked_while_open() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path(), 1);
        let error = FileStore::open(dir.path(), Key::new([1; 32])).unwrap_err();
        assert!(error.to_string().ends_with("is in use by another process"));
        drop(first);
        open(dir.path(), 1);
    }

    #[test]
    fn an_interrupted_write_leaves_the_earlier_state() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), 1);
        store.commit(b"one").unwrap();
        fs::write(dir.path().join("state.new"), b"half of it").unwrap();
        assert_eq!(store.load().unwrap().unwrap(), b"one");
        store.commit(b"two").unwrap();
        assert_eq!(store.load().unwrap().unwrap(), b"two");
    }
}
