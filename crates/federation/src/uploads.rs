//! Uploads that a server keeps for an audit, in a folder: what it read, as it came.
//!
//! `terms` and `model` are a round's terms and a shared model as messages of the wire format; `round-N` holds the uploads of
//! round N that were taken, by ascending device:
//! ```text
//! "SOTVUPLD"  round: u64  uploads: u32  (device: u32  length: u32  an update's message) ..  CRC-32 of all before: u32
//! ```
//! Numbers are little-endian. A file is written whole or not at all, and read strictly.

use crate::{Collected, Recorder};
use sottovoce_protocol::{DecodeError, Received, RoundTerms, SharedModel, ValueEncoding, codec};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"SOTVUPLD";
const TERMS: &str = "terms";
const MODEL: &str = "model";
const ROUND: &str = "round-";

/// What is wrong with stored uploads.
#[derive(Debug, Error)]
pub enum UploadsError {
    /// A file that cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

fn unread(path: &Path) -> impl FnOnce(io::Error) -> UploadsError {
    let path = path.to_owned();
    move |error| UploadsError::File { path, error }
}

fn wrong(path: &Path, what: impl Into<String>) -> UploadsError {
    UploadsError::Content { path: path.to_owned(), what: what.into() }
}

/// A folder that uploads are written to.
#[derive(Clone, Debug)]
pub struct UploadWriter {
    folder: PathBuf,
}

impl UploadWriter {
    /// Begins, or goes on with, a folder for the uploads of rounds under such terms.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(folder: impl Into<PathBuf>, terms: &RoundTerms) -> Result<Self, UploadsError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(unread(&folder))?;
        let mut bytes = Vec::new();
        codec::encode_terms(terms, &mut bytes);
        let writer = Self { folder };
        writer.put(TERMS, &bytes)?;
        Ok(writer)
    }

    /// Keeps the shared model that devices were given last.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn model(&self, model: &SharedModel) -> Result<(), UploadsError> {
        let mut bytes = Vec::new();
        codec::encode_model(model, ValueEncoding::F32, &mut bytes)
            .map_err(|error| wrong(&self.folder.join(MODEL), error.to_string()))?;
        self.put(MODEL, &bytes)
    }

    /// Keeps the uploads of a round: devices, ascending, with their messages.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn round(&self, round: u64, uploads: &[(u32, &[u8])]) -> Result<(), UploadsError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&round.to_le_bytes());
        bytes.extend_from_slice(&(uploads.len() as u32).to_le_bytes());
        for (device, message) in uploads {
            bytes.extend_from_slice(&device.to_le_bytes());
            bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
            bytes.extend_from_slice(message);
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        self.put(&format!("{ROUND}{round:010}"), &bytes)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), UploadsError> {
        let (path, whole) = (self.folder.join(format!(".{name}")), self.folder.join(name));
        fs::write(&path, bytes).map_err(unread(&path))?;
        fs::rename(&path, &whole).map_err(unread(&whole))
    }
}

/// Uploads that a server kept.
#[derive(Debug)]
pub struct StoredUploads {
    terms: RoundTerms,
    model: SharedModel,
    /// Rounds with their files, ascending.
    rounds: Vec<(u64, PathBuf)>,
}

impl StoredUploads {
    /// Opens a folder.
    ///
    /// # Errors
    /// If terms, model or list of rounds cannot be read.
    pub fn open(folder: &Path) -> Result<Self, UploadsError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(unread(&path)).map(|bytes| (path, bytes))
        };
        let (path, bytes) = read(TERMS)?;
        let terms = codec::decode_terms(&bytes).map_err(|error| wrong(&path, error.to_string()))?;
        let (path, bytes) = read(MODEL)?;
        let model = codec::decode_model(&bytes).map_err(|error| wrong(&path, error.to_string()))?;
        let mut rounds = Vec::new();
        for entry in fs::read_dir(folder).map_err(unread(folder))? {
            let path = entry.map_err(unread(folder))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let Some(number) = name.strip_prefix(ROUND) else { continue };
            let number =
                number.parse().map_err(|_| wrong(&path, "expected a round's number after round-"))?;
            rounds.push((number, path));
        }
        rounds.sort();
        Ok(Self { terms, model, rounds })
    }

    /// The terms of a round.
    pub fn terms(&self) -> &RoundTerms {
        &self.terms
    }

    /// The shared model.
    pub fn model(&self) -> &SharedModel {
        &self.model
    }

    /// Rounds there are.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Shows a recorder everything, round after round, as the server saw it. The shared model is the last one throughout.
    ///
    /// # Errors
    /// If a file is damaged, or an upload is not one.
    pub fn replay(&self, recorder: &dyn Recorder) -> Result<(), UploadsError> {
        let layout = self.model.parameters.layout();
        let (mut received, mut sum) = (Received::new(&layout), Collected::new(&layout));
        for (round, path) in &self.rounds {
            let bytes = fs::read(path).map_err(unread(path))?;
            let uploads = parse(&bytes, *round).map_err(|what| wrong(path, what))?;
            let devices: Vec<u32> = uploads.iter().map(|(device, _)| *device).collect();
            recorder.begin(*round, &self.model.parameters, &devices);
            for (device, message) in uploads {
                let bad = |error: DecodeError| wrong(path, format!("device {device}: {error}"));
                codec::decode_update(message, &mut received).map_err(bad)?;
                recorder.upload(*round, device, received.update());
                sum.add(received.update());
            }
            sum.settle();
            recorder.sum(*round, &sum);
            sum.clear();
        }
        Ok(())
    }
}

/// The uploads of a round's file.
fn parse(bytes: &[u8], round: u64) -> Result<Vec<(u32, &[u8])>, String> {
    let (content, checksum) = bytes.split_last_chunk::<4>().ok_or("the file is too short")?;
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return Err("the file is damaged: its checksum does not fit".to_owned());
    }
    let mut from = content.strip_prefix(MAGIC).ok_or("these are no stored uploads")?;
    let stated = u64::from_le_bytes(take(&mut from)?);
    if stated != round {
        return Err(format!("the file is of round {stated}, its name says {round}"));
    }
    let count = u32::from_le_bytes(take(&mut from)?);
    let mut uploads: Vec<(u32, &[u8])> = Vec::new();
    for _ in 0..count {
        let device = u32::from_le_bytes(take(&mut from)?);
        if uploads.last().is_some_and(|&(last, _)| last >= device) {
            return Err(format!("device {device} is out of order"));
        }
        let length = u32::from_le_bytes(take(&mut from)?) as usize;
        let message = from.split_off(..length).ok_or("the file ends within an upload")?;
        uploads.push((device, message));
    }
    if from.is_empty() { Ok(uploads) } else { Err(format!("{} bytes too many", from.len())) }
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], String> {
    let (taken, rest) = from.split_first_chunk::<N>().ok_or("the file ends too early")?;
    *from = rest;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;
    use sottovoce_protocol::{
        FederationId, Keyed, Layout, Ledger, Mark, ModelVersion, Parameters, Policy, Shape, Terms, Trained,
        Update,
    };
    use std::sync::Mutex;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Recorder for Heard {
        fn begin(&self, round: u64, _: &Parameters, cohort: &[u32]) {
            self.0.lock().unwrap().push(format!("round {round}: {cohort:?}"));
        }

        fn upload(&self, _: u64, device: u32, update: &Update) {
            let rows: Vec<usize> = update.tables()[0].iter().map(|(row, _)| row).collect();
            self.0.lock().unwrap().push(format!("{device} {rows:?}"));
        }

        fn sealed(&self, _: u64, _: u32) {}

        fn sum(&self, _: u64, collected: &Collected) {
            self.0.lock().unwrap().push(format!("{} uploads", collected.updates));
        }
    }

    fn layout() -> Layout {
        Layout::new(vec![Shape::new("items", 9, 2, Keyed::Items)]).unwrap()
    }

    fn message(row: u32, terms: &RoundTerms) -> Vec<u8> {
        let mut trained = Trained::new(&layout());
        trained.push_row(0, row, Mark::Other).unwrap().fill(0.5);
        let policy = Policy::new(1.0).unwrap();
        let disclosed = trained.disclose(&policy, terms, 0, &mut Ledger::new(), &mut Rng::new(1)).unwrap();
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed, &mut bytes);
        bytes
    }

    fn stored() -> (tempfile::TempDir, RoundTerms) {
        let folder = tempfile::tempdir().unwrap();
        let terms = RoundTerms::freeze(Terms::default()).unwrap();
        let writer = UploadWriter::create(folder.path(), &terms).unwrap();
        let parameters = Parameters::zeros(&layout());
        let model = SharedModel { federation: FederationId(0), version: ModelVersion(3), parameters };
        writer.model(&model).unwrap();
        let (one, other) = (message(1, &terms), message(7, &terms));
        writer.round(12, &[(2, &one), (5, &other)]).unwrap();
        writer.round(3, &[(5, &one)]).unwrap();
        (folder, terms)
    }

    #[test]
    fn what_was_kept_is_shown_in_order() {
        let (folder, terms) = stored();
        let uploads = StoredUploads::open(folder.path()).unwrap();
        assert_eq!(
            (uploads.terms(), uploads.rounds(), uploads.model().version),
            (&terms, 2, ModelVersion(3))
        );
        let heard = Heard::default();
        uploads.replay(&heard).unwrap();
        let expected =
            ["round 3: [5]", "5 [1]", "1 uploads", "round 12: [2, 5]", "2 [1]", "5 [7]", "2 uploads"];
        assert_eq!(*heard.0.lock().unwrap(), expected);
    }

    #[test]
    fn every_damage_is_named() {
        let (folder, _) = stored();
        let path = folder.path().join("round-0000000012");
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let uploads = StoredUploads::open(folder.path()).unwrap();
            let error = uploads.replay(&Heard::default()).unwrap_err().to_string();
            assert!(error.contains("round-0000000012"), "{error}");
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(StoredUploads::open(folder.path()).unwrap().replay(&Heard::default()).is_err());
        }
        fs::write(&path, &whole).unwrap();
        fs::rename(&path, folder.path().join("round-13")).unwrap();
        let error = StoredUploads::open(folder.path()).unwrap().replay(&Heard::default()).unwrap_err();
        assert!(error.to_string().ends_with("the file is of round 12, its name says 13"), "{error}");
        fs::rename(folder.path().join("round-13"), folder.path().join("round-x")).unwrap();
        assert!(StoredUploads::open(folder.path()).unwrap_err().to_string().contains("round-x"));
        fs::remove_file(folder.path().join("model")).unwrap();
        assert!(StoredUploads::open(folder.path()).unwrap_err().to_string().contains("model"));
    }
}
