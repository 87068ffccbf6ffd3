//! SQLite files: their mode, deleted data, and invalid files.

use crate::fixtures::{body, create, upload, with_open_round};
use sottovoce_server::storage::{Change, Storage, StorageError, open};
use std::fs;
use std::path::{Path, PathBuf};

fn try_open(path: &Path) -> Result<Box<dyn Storage>, StorageError> {
    open(path.to_str().unwrap())
}

fn fails(path: &Path) -> StorageError {
    try_open(path).err().expect("it should be rejected")
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

#[cfg(unix)]
#[test]
fn files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let storage = try_open(&folder.path().join("server.db")).unwrap();
    storage.commit(&with_open_round()).unwrap();
    let files = contents(folder.path());
    assert!(files.len() >= 3, "database, log and lock: {files:?}");
    for (path, _) in files {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn data_of_withdrawn_devices_are_wiped() {
    let folder = tempfile::tempdir().unwrap();
    let storage = try_open(&folder.path().join("server.db")).unwrap();
    storage.commit(&with_open_round()).unwrap();
    storage.commit(&[upload(0, 0, 0), upload(0, 0, 1), upload(0, 0, 2)]).unwrap();
    let within = |device: u32| {
        let text = format!("device {device:06}");
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        contents(folder.path()).iter().any(|(_, bytes)| holds(bytes))
    };
    assert!(body(1).starts_with(b"update of device 000001;"));
    assert!(within(0) && within(1) && within(2));
    storage.commit(&[Change::Withdraw { federation: 0, device: 1, unlearn: true }]).unwrap();
    assert!(within(0) && !within(1) && within(2));
    storage.commit(&[Change::Revoke { federation: 0, device: 2 }]).unwrap();
    assert!(within(0) && !within(2));
}

#[test]
fn rejects_files_that_are_no_databases() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "Dear diary, ".repeat(3_000);
    fs::write(&path, &text).unwrap();
    let error = fails(&path);
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("notes.txt") && error.to_string().contains("not a SQLite database"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn rejects_databases_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Nessun dorma')").unwrap();
    drop(other);
    let error = fails(&path);
    assert!(error.to_string().ends_with("is another program's database"), "{error}");
    let other = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(other.query_row("SELECT count(*) FROM songs", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn rejects_newer_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.db");
    try_open(&path).unwrap().commit(&[create(0)]).unwrap();
    let newer = |layout: i32| {
        rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", layout).unwrap();
    };
    let known = rusqlite::Connection::open(&path).unwrap();
    let known: i32 = known.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    newer(known + 7);
    let error = fails(&path);
    let (next, last) = (known as u32 + 7, known as u32);
    assert!(matches!(error, StorageError::Newer { found, known, .. } if (found, known) == (next, last)), "{error:?}");
    newer(known);
    assert_eq!(try_open(&path).unwrap().load().unwrap().federations.len(), 1);
}

#[test]
fn truncated_file_is_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.db");
    let storage = try_open(&path).unwrap();
    storage.commit(&with_open_round()).unwrap();
    drop(storage);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let found = try_open(&path).and_then(|storage| storage.load().map(drop));
    assert!(matches!(found, Err(StorageError::Corrupt { .. })), "{found:?}");
}

#[test]
fn inconsistent_rows_are_corrupt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.db");
    for (spoil, words) in [
        ("UPDATE federation SET standing = 'asleep'", "asleep"),
        ("UPDATE device SET credential = x'00'", "1 bytes"),
        ("UPDATE open_round SET cohort = x'0011223344'", "cohort"),
        ("UPDATE device SET number = -3 WHERE number = 0", "-3"),
        ("UPDATE token SET role = 'admin'", "token"),
        ("DELETE FROM server", "counters"),
    ] {
        let storage = try_open(&path).unwrap();
        storage.commit(&with_open_round()).unwrap();
        drop(storage);
        rusqlite::Connection::open(&path).unwrap().execute_batch(spoil).unwrap();
        let error = try_open(&path).unwrap().load().unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{spoil}: {error:?}");
        assert!(error.to_string().contains(words), "{spoil}: {error}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn names_missing_folders() {
    let folder = tempfile::tempdir().unwrap();
    let error = fails(&folder.path().join("no-such-folder").join("server.db"));
    assert!(matches!(error, StorageError::Database { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-folder"), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(fails(&file.join("server.db")).to_string().contains("cannot be created"));
}

#[cfg(target_os = "linux")]
#[test]
fn names_read_only_folders() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    // Permissions do not bind the superuser; the kernel's own folder does.
    let superuser = fs::write(folder.path().join("probe"), "").is_ok();
    let read_only = if superuser { Path::new("/sys/kernel") } else { folder.path() };
    let error = fails(&read_only.join("server.db"));
    assert!(error.to_string().contains("cannot be created"), "{error}");
}
