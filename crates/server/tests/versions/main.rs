//! Versions in a folder and in an S3-compatible store.

mod s3;

use s3::Server;
use sottovoce_protocol::{Keyed, Parameters, Shape, Table};
use sottovoce_server::versions::{VersionState, Versions, VersionsError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A place of a test's own.
struct Place {
    versions: Versions,
    /// Where its objects can be seen and spoilt.
    folder: PathBuf,
    _rest: (TempDir, Option<Server>),
}

impl Place {
    fn folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let versions = Versions::open(folder.path().join("models").to_str().unwrap()).unwrap();
        Self { versions, folder: folder.path().join("models"), _rest: (folder, None) }
    }

    async fn s3() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bucket")).unwrap();
        let server = Server::start(folder.path()).await;
        let versions = Versions::open_with("s3://bucket/some/where", server.environment()).unwrap();
        Self { versions, folder: folder.path().join("bucket/some/where"), _rest: (folder, Some(server)) }
    }
}

macro_rules! cases {
    ($($case:ident,)*) => {
        mod folder {
            $(#[tokio::test] async fn $case() { super::$case(super::Place::folder()).await; })*
        }
        mod store {
            $(#[tokio::test] async fn $case() { super::$case(super::Place::s3().await).await; })*
        }
    };
}

cases! {
    what_is_put_is_got,
    a_version_that_is_or_was_current_is_not_written_again,
    versions_are_listed_and_deleted,
    a_spoilt_object_is_named,
}

fn state(federation: u64, version: u64) -> VersionState {
    let items =
        Table::new(Shape::new("q", 2, 3, Keyed::Items), vec![1.0, -2.5, 0.0, 3e-9, version as f32, 7.0]);
    // Later in the alphabet, earlier in the layout.
    let dense = Table::new(Shape::new("zeta", 1, 2, Keyed::Dense), vec![0.5, -0.0]);
    let shared = Parameters::new(vec![dense.unwrap(), items.unwrap()]).unwrap();
    let state = vec![9, 8, federation as u8];
    VersionState { federation, version, name: "town".into(), model: "fpl".into(), shared, state }
}

async fn what_is_put_is_got(place: Place) {
    let versions = place.versions;
    let bytes = versions.put(&state(3, 1), None).await.unwrap();
    assert_eq!(versions.get(3, 1).await.unwrap(), state(3, 1));
    let path = place.folder.join("federations/3/0000000001.safetensors");
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    let mut without = state(3, 2);
    without.state.clear();
    versions.put(&without, Some(1)).await.unwrap();
    assert_eq!(versions.get(3, 2).await.unwrap(), without);
    let missing = versions.get(3, 9).await.unwrap_err();
    assert!(matches!(missing, VersionsError::Missing { .. }), "{missing}");
    assert!(missing.to_string().ends_with("federations/3/0000000009.safetensors is missing"), "{missing}");
}

async fn a_version_that_is_or_was_current_is_not_written_again(place: Place) {
    let versions = place.versions;
    versions.put(&state(0, 0), None).await.unwrap();
    // Killed before it became current: other bytes may take its place.
    let mut again = state(0, 0);
    again.state.push(1);
    versions.put(&again, None).await.unwrap();
    versions.put(&state(0, 1), Some(0)).await.unwrap();
    for version in [0, 1] {
        let error = versions.put(&state(0, version), Some(1)).await.unwrap_err();
        assert!(matches!(error, VersionsError::Current { federation: 0, current: 1, .. }), "{error}");
    }
    assert_eq!(versions.get(0, 0).await.unwrap(), again);
}

async fn versions_are_listed_and_deleted(place: Place) {
    let versions = place.versions;
    assert_eq!(versions.list(1).await.unwrap(), [0u64; 0]);
    for (federation, version) in [(1, 10), (1, 9), (12, 5), (1, 100)] {
        versions.put(&state(federation, version), None).await.unwrap();
    }
    assert_eq!(versions.list(1).await.unwrap(), [9, 10, 100]);
    versions.delete(1, 10).await.unwrap();
    versions.delete(1, 10).await.unwrap();
    assert_eq!(versions.list(1).await.unwrap(), [9, 100]);
    assert_eq!(versions.list(12).await.unwrap(), [5]);
}

async fn a_spoilt_object_is_named(place: Place) {
    let versions = place.versions;
    versions.put(&state(0, 7), None).await.unwrap();
    let path = place.folder.join("federations/0/0000000007.safetensors");
    let good = fs::read(&path).unwrap();
    let spoil = |change: fn(&mut Vec<u8>)| {
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
        spoil(change);
        let error = versions.get(0, 7).await.unwrap_err();
        assert!(matches!(error, VersionsError::Damaged { .. }), "{words}: {error:?}");
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(error.to_string().contains("0000000007.safetensors"), "{error}");
    }
}

/// In place, with as many bytes.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the text is there");
    bytes[at..at + new.len()].copy_from_slice(new);
}

#[tokio::test]
async fn the_same_version_is_the_same_bytes() {
    let (one, other) = (Place::folder(), Place::folder());
    for place in [&one, &other] {
        place.versions.put(&state(2, 4), None).await.unwrap();
    }
    let read = |place: &Place| fs::read(place.folder.join("federations/2/0000000004.safetensors")).unwrap();
    assert_eq!(read(&one), read(&other));
}

#[tokio::test]
async fn what_a_killed_server_left_half_written_goes() {
    let place = Place::folder();
    place.versions.put(&state(0, 1), None).await.unwrap();
    let folder = place.folder.join("federations/0");
    fs::write(folder.join("0000000002.safetensors#1"), "half").unwrap();
    assert_eq!(place.versions.list(0).await.unwrap(), [1]);
    let again = Versions::open(&format!("file://{}", place.folder.display())).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert_eq!(again.get(0, 1).await.unwrap(), state(0, 1));
}

#[tokio::test]
async fn wrong_credentials_and_wrong_places_are_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("bucket")).unwrap();
    let server = Server::start(folder.path()).await;
    let mut environment = server.environment();
    for (key, value) in &mut environment {
        if key == "AWS_SECRET_ACCESS_KEY" {
            *value = "guessed".into();
        }
    }
    let versions = Versions::open_with("s3://bucket", environment).unwrap();
    let error = versions.put(&state(0, 0), None).await.unwrap_err();
    assert!(matches!(error, VersionsError::Store { .. }), "{error:?}");
    assert!(!error.to_string().contains("guessed"), "{error}");
    for wrong in ["s3://", "", "file://"] {
        assert!(matches!(Versions::open(wrong), Err(VersionsError::Place { .. })), "{wrong}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Versions::open(Path::new(&file).to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("cannot be created"), "{error}");
}
