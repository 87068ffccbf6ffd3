//! The folder of a device, its key, and the connection to its server.

use crate::args::Location;
use crate::key_file;
use crate::output::Usage;
use anyhow::{Context, Result, bail};
use sottovoce_device::{Device, FileStore, HttpOptions, HttpTransport, Key, Options, StoreError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// How long to wait for another process that uses the folder; `run` uses it for moments only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Limited,
    Forever,
}

const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// The device's folder.
pub(super) fn folder(location: &Location) -> Result<PathBuf> {
    if let Some(folder) = &location.store {
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
    let data = data.ok_or_else(|| Usage("there is no home folder: give --store DIR".to_owned()))?;
    Ok(data.join("sottovoce").join("device"))
}

/// The file with the device's key.
pub(super) fn key_path(location: &Location, folder: &Path) -> PathBuf {
    location.key_file.clone().unwrap_or_else(|| folder.with_added_extension("key"))
}

/// The key for a new device, and whether it was created.
pub(super) fn create_key(location: &Location, folder: &Path) -> Result<(Key, bool)> {
    let path = key_path(location, folder);
    if let Some(named) = location.key_file.as_ref().filter(|named| !named.exists()) {
        let why = "a new device is given a key that is there; without --key-file one is created beside its store";
        return Err(Usage(format!("there is no key file {}: {why}", named.display())).into());
    }
    if path.exists() {
        return Ok((Key::new(key_file::read(&path)?), false));
    }
    if folder.join("state").exists() {
        bail!("{} holds a device, but its key {} is missing", folder.display(), path.display());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    Ok((Key::new(key_file::create(&path)?), true))
}

/// The store in a folder, locked for this process.
pub(super) fn store(folder: &Path, key: &Key, wait: Wait) -> Result<FileStore> {
    let start = Instant::now();
    loop {
        match FileStore::open(folder, key.clone()) {
            Err(StoreError::InUse(_)) if wait == Wait::Forever || start.elapsed() < WAIT_LIMIT => {
                thread::sleep(Duration::from_millis(100));
            }
            other => return Ok(other?),
        }
    }
}

/// The device in a folder.
pub(super) fn open(location: &Location) -> Result<Device> {
    open_waiting(location, Wait::Limited)
}

/// The device in a folder, with a choice of how long to wait for it.
pub(super) fn open_waiting(location: &Location, wait: Wait) -> Result<Device> {
    let folder = folder(location)?;
    if !folder.join("state").exists() {
        bail!("there is no device in {}: `sottovoce device enrol` creates one", folder.display());
    }
    let key = Key::new(key_file::read(&key_path(location, &folder))?);
    Ok(Device::open(Box::new(store(&folder, &key, wait)?), Options::default())?)
}

/// The connection to a device's server.
pub(super) fn transport(server: &str, ca: &str) -> Result<HttpTransport> {
    let ca = Some(ca.to_owned()).filter(|ca| !ca.is_empty());
    HttpTransport::new(server, &HttpOptions { ca, ..HttpOptions::default() })
        .map_err(|error| Usage(error.to_string()).into())
}
