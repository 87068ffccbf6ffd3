//! Uploads that a server keeps for an audit, in a folder: what it read, as it came.
//!
//! `round-N` holds the uploads of round N that were taken, by ascending device, with the terms and the model of that
//! round:
//! ```text
//! "SOTVUPLD"  round: u64  (length: u32  the round's terms)  (length: u32  the shared model)
//!             (device: u32  length: u32  an update) ..  uploads: u32  CRC-32 of all before: u32
//! ```
//! Terms, model and updates are messages of the wire format; numbers are little-endian. A file is written whole or not
//! at all, and read strictly.

mod writer;

pub use writer::{RoundWriter, UploadWriter};

use crate::worker::as_seen;
use crate::{Aggregate, Recorder};
use sottovoce_privacy::{PrivacyConfig, PrivacyMechanism};
use sottovoce_protocol::{Received, RoundTerms, SharedModel, codec};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &[u8; 8] = b"SOTVUPLD";
const ROUND: &str = "round-";

/// A file of stored uploads that cannot be read or written, or is not what it should be.
#[derive(Debug, Error)]
#[error("{}: {what}", path.display())]
pub struct UploadsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

fn unread(path: &Path) -> impl FnOnce(io::Error) -> UploadsError {
    move |error| wrong(path, error.to_string())
}

fn wrong(path: &Path, what: impl Into<String>) -> UploadsError {
    UploadsError { path: path.to_owned(), what: what.into() }
}

/// Rounds with their files, ascending.
fn rounds_in(folder: &Path) -> Result<Vec<(u64, PathBuf)>, UploadsError> {
    let mut rounds = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread(folder))? {
        let path = entry.map_err(unread(folder))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(number) = name.strip_prefix(ROUND) else { continue };
        let number = number.parse().map_err(|_| wrong(&path, "expected a round's number after round-"))?;
        rounds.push((number, path));
    }
    rounds.sort();
    Ok(rounds)
}

/// Uploads that a server stored.
#[derive(Debug)]
pub struct StoredUploads {
    /// Of the last round.
    terms: RoundTerms,
    model: SharedModel,
    /// Rounds with their files, ascending.
    rounds: Vec<(u64, PathBuf)>,
}

impl StoredUploads {
    /// Opens a folder.
    ///
    /// # Errors
    /// If there is no round in it, or the last one cannot be read.
    pub fn open(folder: &Path) -> Result<Self, UploadsError> {
        let rounds = rounds_in(folder)?;
        let (round, path) = rounds.last().ok_or_else(|| wrong(folder, "no uploads are stored here"))?;
        let bytes = fs::read(path).map_err(unread(path))?;
        let (terms, model) =
            parse(&bytes, *round).and_then(|stored| stored.given()).map_err(|what| wrong(path, what))?;
        Ok(Self { terms, model, rounds })
    }

    /// The terms of the last round.
    pub fn terms(&self) -> &RoundTerms {
        &self.terms
    }

    /// The shared model that devices were given in the last round.
    pub fn model(&self) -> &SharedModel {
        &self.model
    }

    /// Rounds there are.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Shows a recorder everything, round after round, as the server saw it.
    ///
    /// # Errors
    /// If a file is damaged, or an upload is not one.
    pub fn replay(&self, recorder: &dyn Recorder) -> Result<(), UploadsError> {
        let layout = self.model.parameters.layout();
        let mut reading = Reading { received: Received::new(&layout), sum: Aggregate::new(&layout) };
        for (round, path) in &self.rounds {
            let bytes = fs::read(path).map_err(unread(path))?;
            let stored = parse(&bytes, *round).map_err(|what| wrong(path, what))?;
            reading.round(*round, &stored, recorder).map_err(|what| wrong(path, what))?;
        }
        Ok(())
    }
}

/// Memory that one round after the other is read in.
struct Reading {
    received: Received,
    sum: Aggregate,
}

impl Reading {
    fn round(&mut self, round: u64, stored: &Stored<'_>, recorder: &dyn Recorder) -> Result<(), String> {
        let (terms, model) = stored.given()?;
        let layout = model.parameters.layout();
        if layout.fingerprint() != self.received.update().layout() {
            return Err("the model is another than in the last round".to_owned());
        }
        let protection = PrivacyConfig::read(&terms.privacy).map_err(|error| error.to_string())?;
        let protected = PrivacyMechanism::new(&protection, &layout, terms.cohort_size);
        let protected = protected.map_err(|error| error.to_string())?.filter(PrivacyMechanism::sends_quantized);
        if protected.as_ref().is_some_and(PrivacyMechanism::is_sealed) {
            return Err("its updates are sealed: they say nothing one by one".to_owned());
        }
        let devices: Vec<u32> = stored.uploads.iter().map(|(device, _)| *device).collect();
        recorder.begin(round, &model.parameters, &devices);
        for &(device, message) in &stored.uploads {
            let bad = |error: sottovoce_protocol::DecodeError| format!("device {device}: {error}");
            match &protected {
                None => {
                    codec::decode_update(message, &mut self.received).map_err(bad)?;
                    recorder.upload(round, device, self.received.update());
                    self.sum.add(self.received.update());
                }
                Some(protected) => {
                    let length = protected.quantizer().length();
                    let words = codec::decode_quantized(message, layout.fingerprint(), length).map_err(bad)?;
                    let seen = as_seen(&words.words, protected, &model.parameters);
                    recorder.upload(round, device, seen.update());
                    self.sum.add(seen.update());
                }
            }
        }
        self.sum.finish();
        recorder.sum(round, &self.sum);
        self.sum.clear();
        Ok(())
    }
}

/// What a round's file says.
struct Stored<'a> {
    terms: &'a [u8],
    model: &'a [u8],
    uploads: Vec<(u32, &'a [u8])>,
}

impl Stored<'_> {
    /// The terms and the model that devices were given.
    fn given(&self) -> Result<(RoundTerms, SharedModel), String> {
        let terms = codec::decode_terms(self.terms).map_err(|error| format!("the terms: {error}"))?;
        let model = codec::decode_model(self.model).map_err(|error| format!("the shared model: {error}"))?;
        Ok((terms, model))
    }
}

/// Reads a round's file.
fn parse(bytes: &[u8], round: u64) -> Result<Stored<'_>, String> {
    let (content, checksum) = bytes.split_last_chunk::<4>().ok_or("the file is too short")?;
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return Err("the file is damaged: its checksum does not fit".to_owned());
    }
    let (content, count) = content.split_last_chunk::<4>().ok_or("the file is too short")?;
    let mut from = content.strip_prefix(MAGIC).ok_or("these are no stored uploads")?;
    let stated = u64::from_le_bytes(take(&mut from)?);
    if stated != round {
        return Err(format!("the file is of round {stated}, its name says {round}"));
    }
    let (terms, model) = (block(&mut from)?, block(&mut from)?);
    let mut uploads: Vec<(u32, &[u8])> = Vec::new();
    while !from.is_empty() {
        let device = u32::from_le_bytes(take(&mut from)?);
        if uploads.last().is_some_and(|&(last, _)| last >= device) {
            return Err(format!("device {device} is out of order"));
        }
        uploads.push((device, block(&mut from)?));
    }
    let count = u32::from_le_bytes(*count);
    if uploads.len() as u64 != u64::from(count) {
        return Err(format!("{} uploads, but the file says {count}", uploads.len()));
    }
    Ok(Stored { terms, model, uploads })
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], String> {
    let (taken, rest) = from.split_first_chunk::<N>().ok_or("the file ends too early")?;
    *from = rest;
    Ok(*taken)
}

fn block<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = u32::from_le_bytes(take(from)?) as usize;
    from.split_off(..length).ok_or_else(|| "the file ends within a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;
    use sottovoce_protocol::{
        DisclosureSeeds, FederationId, Keyed, Layout, Ledger, ModelVersion, Parameters, Policy, RowOrigin, Shape,
        TermsDraft, Trained, Update, ValueEncoding,
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

        fn sum(&self, _: u64, aggregate: &Aggregate) {
            self.0.lock().unwrap().push(format!("{} uploads", aggregate.updates));
        }
    }

    fn layout() -> Layout {
        Layout::new(vec![Shape::new("items", 9, 2, Keyed::Items)]).unwrap()
    }

    fn message(row: u32, terms: &RoundTerms) -> Vec<u8> {
        let mut trained = Trained::new(&layout());
        trained.push_row(0, row, RowOrigin::Other).unwrap().fill(0.5);
        let policy = Policy::new(1.0).unwrap();
        let disclosed =
            trained.disclose(&policy, terms, 0, &mut Ledger::new(), DisclosureSeeds::once(&mut Rng::new(1))).unwrap();
        let mut bytes = Vec::new();
        codec::encode_update(&disclosed, &mut bytes);
        bytes
    }

    fn stored() -> (tempfile::TempDir, RoundTerms) {
        let folder = tempfile::tempdir().unwrap();
        let terms = RoundTerms::freeze(TermsDraft::default()).unwrap();
        let (one, other) = (message(1, &terms), message(7, &terms));
        keep(folder.path(), 12, &[(2, &one), (5, &other)]);
        keep(folder.path(), 3, &[(5, &one)]);
        (folder, terms)
    }

    fn keep(folder: &Path, round: u64, uploads: &[(u32, &[u8])]) {
        let parameters = Parameters::zeros(&layout());
        let model = SharedModel { federation: FederationId(0), version: ModelVersion(round), parameters };
        let mut message = Vec::new();
        codec::encode_model(&model, ValueEncoding::F32, &mut message).unwrap();
        let terms = RoundTerms::freeze(TermsDraft::default()).unwrap();
        let mut writer = UploadWriter::new(folder).round(round, &terms, &message).unwrap();
        for (device, message) in uploads {
            writer.add(*device, message).unwrap();
        }
        writer.finish().unwrap();
    }

    fn heard(folder: &Path) -> Vec<String> {
        let heard = Heard::default();
        StoredUploads::open(folder).unwrap().replay(&heard).unwrap();
        heard.0.into_inner().unwrap()
    }

    #[test]
    fn replays_stored_uploads_in_order() {
        let (folder, terms) = stored();
        let uploads = StoredUploads::open(folder.path()).unwrap();
        assert_eq!((uploads.terms(), uploads.rounds(), uploads.model().version), (&terms, 2, ModelVersion(12)));
        let expected = ["round 3: [5]", "5 [1]", "1 uploads", "round 12: [2, 5]", "2 [1]", "5 [7]", "2 uploads"];
        assert_eq!(heard(folder.path()), expected);
    }

    #[test]
    fn storing_a_round_again_changes_nothing_and_unfinished_rounds_are_absent() {
        let (folder, terms) = stored();
        let path = folder.path().join("round-0000000003");
        let before = fs::read(&path).unwrap();
        keep(folder.path(), 3, &[(5, &message(1, &terms))]);
        assert_eq!(fs::read(&path).unwrap(), before);
        let writer = UploadWriter::new(folder.path());
        let model = message(1, &terms);
        writer.round(40, &terms, &model).unwrap().add(1, &model).unwrap();
        assert_eq!(StoredUploads::open(folder.path()).unwrap().rounds(), 2);
        for round in [12, 13, 40] {
            writer.remove(round).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(heard(folder.path()), ["round 3: [5]", "5 [1]", "1 uploads"]);
    }

    #[test]
    fn removes_all_uploads_of_a_device() {
        let (folder, terms) = stored();
        let writer = UploadWriter::new(folder.path());
        let mine = message(1, &terms);
        writer.round(40, &terms, &mine).unwrap().add(5, &mine).unwrap();
        fs::write(folder.path().join("round-0000000050"), b"damaged").unwrap();
        assert_eq!(writer.forget(5).unwrap(), 3);
        assert_eq!(heard(folder.path()), ["round 12: [2]", "2 [1]", "1 uploads"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!((writer.forget(5).unwrap(), writer.forget(2).unwrap()), (0, 1));
        let error = StoredUploads::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no uploads are stored here"), "{error}");
        assert_eq!(UploadWriter::new(folder.path().join("nowhere")).forget(1).unwrap(), 0);
    }

    #[test]
    fn names_every_damage() {
        let (folder, _) = stored();
        let path = folder.path().join("round-0000000012");
        let whole = fs::read(&path).unwrap();
        for index in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let error = StoredUploads::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("round-0000000012"), "{error}");
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(StoredUploads::open(folder.path()).is_err());
        }
        fs::write(&path, &whole).unwrap();
        fs::rename(&path, folder.path().join("round-13")).unwrap();
        let error = StoredUploads::open(folder.path()).unwrap_err();
        assert!(error.to_string().ends_with("the file is of round 12, its name says 13"), "{error}");
        fs::rename(folder.path().join("round-13"), folder.path().join("round-x")).unwrap();
        assert!(StoredUploads::open(folder.path()).unwrap_err().to_string().contains("round-x"));
    }
}
