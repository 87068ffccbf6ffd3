//! The store of versions, in a folder and in an S3-compatible store.

mod s3;

use s3::Server;
use sottovoce_protocol::{Keyed, Parameters, Shape, Table};
use sottovoce_server::versions::{VersionState, VersionStore, VersionStoreError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A store of a test's own.
struct TestStore {
    versions: VersionStore,
    /// Where its objects can be seen and corrupted.
    folder: PathBuf,
    _rest: (TempDir, Option<Server>),
}

impl TestStore {
    fn folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let versions = VersionStore::open(folder.path().join("models").to_str().unwrap()).unwrap();
        Self { versions, folder: folder.path().join("models"), _rest: (folder, None) }
    }

    async fn s3() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bucket")).unwrap();
        let server = Server::start(folder.path()).await;
        let versions = VersionStore::open_with("s3://bucket/some/where", server.environment()).unwrap();
        Self { versions, folder: folder.path().join("bucket/some/where"), _rest: (folder, Some(server)) }
    }
}

macro_rules! cases {
    ($($case:ident,)*) => {
        mod folder {
            $(#[tokio::test] async fn $case() { super::$case(super::TestStore::folder()).await; })*
        }
        mod store {
            $(#[tokio::test] async fn $case() { super::$case(super::TestStore::s3().await).await; })*
        }
    };
}

cases! {
    stores_and_reads_versions,
    current_versions_are_not_overwritten,
    deletes_versions,
    names_corrupt_objects,
}

fn state(federation: u64, version: u64) -> VersionState {
    let items = Table::new(Shape::new("q", 2, 3, Keyed::Items), vec![1.0, -2.5, 0.0, 3e-9, version as f32, 7.0]);
    // Later in the alphabet, earlier in the layout.
    let dense = Table::new(Shape::new("zeta", 1, 2, Keyed::Dense), vec![0.5, -0.0]);
    let shared = Parameters::new(vec![dense.unwrap(), items.unwrap()]).unwrap();
    let state = vec![9, 8, federation as u8];
    VersionState { federation, version, name: "town".into(), model: "fpl".into(), shared, state }
}

async fn stores_and_reads_versions(store: TestStore) {
    let versions = store.versions;
    let bytes = versions.put(&state(3, 1), None).await.unwrap();
    assert_eq!(versions.get(3, 1).await.unwrap(), state(3, 1));
    let path = store.folder.join("federations/3/0000000001.safetensors");
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let mut without = state(3, 2);
    without.state.clear();
    versions.put(&without, Some(1)).await.unwrap();
    assert_eq!(versions.get(3, 2).await.unwrap(), without);
    let missing = versions.get(3, 9).await.unwrap_err();
    assert!(matches!(missing, VersionStoreError::Missing(_)), "{missing}");
    assert!(missing.to_string().ends_with("federations/3/0000000009.safetensors is missing"), "{missing}");
}

async fn current_versions_are_not_overwritten(store: TestStore) {
    let versions = store.versions;
    versions.put(&state(0, 0), None).await.unwrap();
    // Killed before it became current: it may be overwritten.
    let mut again = state(0, 0);
    again.state.push(1);
    versions.put(&again, None).await.unwrap();
    versions.put(&state(0, 1), Some(0)).await.unwrap();
    for version in [0, 1] {
        let error = versions.put(&state(0, version), Some(1)).await.unwrap_err();
        assert!(matches!(error, VersionStoreError::Current { federation: 0, current: 1, .. }), "{error}");
    }
    assert_eq!(versions.get(0, 0).await.unwrap(), again);
}

async fn deletes_versions(store: TestStore) {
    let versions = store.versions;
    for (federation, version) in [(1, 10), (1, 9), (12, 10)] {
        versions.put(&state(federation, version), None).await.unwrap();
    }
    versions.delete(1, 10).await.unwrap();
    versions.delete(1, 10).await.unwrap();
    let deleted = versions.get(1, 10).await;
    assert!(matches!(deleted, Err(VersionStoreError::Missing(_))), "{deleted:?}");
    for (federation, version) in [(1, 9), (12, 10)] {
        assert_eq!(versions.get(federation, version).await.unwrap(), state(federation, version));
    }
}

async fn names_corrupt_objects(store: TestStore) {
    let versions = store.versions;
    versions.put(&state(0, 7), None).await.unwrap();
    let path = store.folder.join("federations/0/0000000007.safetensors");
    let good = fs::read(&path).unwrap();
    let corrupt = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
    };
    for (change, words) in [
        ((|bytes| bytes.truncate(bytes.len() - 5)) as fn(&mut Vec<u8>), "safetensors"),
        (|bytes| bytes.clear(), "safetensors"),
        (|bytes| *bytes.last_mut().unwrap() ^= 1, "digest"),
        (|bytes| replace(bytes, b"\\\"layout\\\":1", b"\\\"layout\\\":7"), "layout 7"),
        (|bytes| replace(bytes, b"\\\"version\\\":7", b"\\\"version\\\":6"), "holds version 6"),
        (|bytes| replace(bytes, b"\\\"items\\\"", b"\\\"weeks\\\""), "weeks"),
        (|bytes| replace(bytes, b"\"sottovoce\"", b"\"something\""), "metadata"),
    ] {
        corrupt(change);
        let error = versions.get(0, 7).await.unwrap_err();
        assert!(matches!(error, VersionStoreError::Corrupt { .. }), "{words}: {error:?}");
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(error.to_string().contains("0000000007.safetensors"), "{error}");
    }
}

/// In store, with as many bytes.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the text is there");
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[tokio::test]
async fn equal_versions_are_equal_files() {
    let (one, other) = (TestStore::folder(), TestStore::folder());
    for store in [&one, &other] {
        store.versions.put(&state(2, 4), None).await.unwrap();
    }
    let read = |store: &TestStore| fs::read(store.folder.join("federations/2/0000000004.safetensors")).unwrap();
    assert_eq!(read(&one), read(&other));
}

#[tokio::test]
async fn removes_partial_files() {
    let store = TestStore::folder();
    store.versions.put(&state(0, 1), None).await.unwrap();
    let folder = store.folder.join("federations/0");
    fs::write(folder.join("0000000002.safetensors#1"), "half").unwrap();
    let again = VersionStore::open(&format!("file://{}", store.folder.display())).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(again.get(0, 1).await.unwrap(), state(0, 1));
}

#[tokio::test]
async fn rejects_wrong_credentials_and_locations() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bucket")).unwrap();
    let server = Server::start(folder.path()).await;
    let mut environment = server.environment();
    for (key, value) in &mut environment {
        if key == "AWS_SECRET_ACCESS_KEY" {
            *value = "guessed".into();
        }
    }
    let versions = VersionStore::open_with("s3://bucket", environment).unwrap();
    let error = versions.put(&state(0, 0), None).await.unwrap_err();
    assert!(matches!(error, VersionStoreError::Store { .. }), "{error:?}");
    assert!(!error.to_string().contains("guessed"), "{error}");
    for wrong in ["s3://", "", "file://"] {
        assert!(matches!(VersionStore::open(wrong), Err(VersionStoreError::Location { .. })), "{wrong}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = VersionStore::open(Path::new(&file).to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("cannot be created"), "{error}");
}
