//! Where a device lies, and the key that it is sealed with.

use crate::args::Place;
use crate::output::Usage;
use anyhow::{Context, Result, bail};
use sottovoce_device::{Device, FileStore, HttpOptions, HttpTransport, Key, Options, StoreError};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Whether to wait for another process that uses the folder: `run` does so for moments only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Some,
    Endless,
}

const PATIENCE: Duration = Duration::from_secs(20);

/// The device's folder.
pub(super) fn folder(place: &Place) -> Result<PathBuf> {
    if let Some(folder) = &place.store {
        return Ok(folder.clone());
    }
    let home = |name: &str| env::var_os("HOME").map(|home| PathBuf::from(home).join(name));
    let data = if cfg!(target_os = "macos") {
        home("Library/Application Support")
    } else if cfg!(windows) {
        env::var_os("LOCALAPPDATA").map(PathBuf::from)
    } else {
        let given = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        given.or_else(|| home(".local/share"))
    };
    let data = data.ok_or_else(|| Usage("there is no home folder: say --store DIR".to_owned()))?;
    Ok(data.join("sottovoce").join("device"))
}

/// Where the key lies.
pub(super) fn key_file(place: &Place, folder: &Path) -> PathBuf {
    place.key_file.clone().unwrap_or_else(|| folder.with_added_extension("key"))
}

/// Reads the key.
pub(super) fn read_key(path: &Path) -> Result<Key> {
    let text = fs::read_to_string(path).with_context(|| format!("reading the key {}", path.display()))?;
    let key = hexadecimal(text.trim()).map(Key::new);
    key.with_context(|| format!("{}: expected 64 hexadecimal digits", path.display()))
}

fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..][..2], 16).ok()?;
    }
    Some(bytes)
}

/// The key of a folder that is to be enrolled: made where there is none; says whether it was.
pub(super) fn make_key(place: &Place, folder: &Path) -> Result<(Key, bool)> {
    let path = key_file(place, folder);
    if path.exists() || place.key_file.is_some() {
        return Ok((read_key(&path)?, false));
    }
    if folder.join("state").exists() {
        bail!("{} holds a device, but its key {} is not there", folder.display(), path.display());
    }
    let key = Key::random()?;
    let text: String = key.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).with_context(|| format!("making {}", path.display()))?;
    writeln!(file, "{text}")
        .and_then(|()| file.sync_all())
        .with_context(|| format!("writing {}", path.display()))?;
    Ok((key, true))
}

/// The folder's store, for this process alone.
pub(super) fn store(folder: &Path, key: &Key, patience: Patience) -> Result<FileStore> {
    let begin = Instant::now();
    loop {
        match FileStore::open(folder, key.clone()) {
            Err(StoreError::InUse { .. }) if patience == Patience::Endless || begin.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(100));
            }
            other => return Ok(other?),
        }
    }
}

/// The device of a folder.
pub(super) fn open(place: &Place, patience: Patience) -> Result<Device> {
    let folder = folder(place)?;
    if !folder.join("state").exists() {
        bail!("there is no device in {}: `sottovoce device enrol` makes one", folder.display());
    }
    let key = read_key(&key_file(place, &folder))?;
    let store = store(&folder, &key, patience)?;
    Ok(Device::open(Box::new(store), Options::default())?)
}

/// The way to a device's server.
pub(super) fn transport(server: &str, ca: &str) -> Result<HttpTransport> {
    let ca = Some(ca.to_owned()).filter(|ca| !ca.is_empty());
    HttpTransport::new(server, &HttpOptions { ca, ..HttpOptions::default() })
        .map_err(|error| Usage(error.to_string()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sixty_four_digits() {
        assert_eq!(hexadecimal(&"0aF1".repeat(16)).unwrap()[..2], [0x0a, 0xf1]);
        for wrong in ["", "0a", &"g0".repeat(32), &"+1".repeat(32), &"é".repeat(32)] {
            assert_eq!(hexadecimal(wrong), None, "{wrong}");
        }
    }
}
