//! The run folder: finished trials survive a crash.
//!
//! `journal.jsonl` starts with a line that names the experiment; each finished trial appends one line, which is synced
//! to disk before the trial counts. A process killed while it writes leaves at most one torn line at the end, which is
//! detected and dropped: that trial runs again. The large columns of a trial are in `values/`, one file each, written
//! before the line. `checkpoints/` has the state of trials that are under way.

use crate::outcome::{DataCard, Outcome, Summary, Values};
use crate::values;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

const JOURNAL: &str = "journal.jsonl";
const CHECKPOINTS: &str = "checkpoints";
const FORMAT: u32 = 1;

/// What to do with a run folder that has a journal already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Resume the same experiment; refuse another.
    #[default]
    Resume,
    /// Resume although the file has changed, keeping the trials that are still asked for.
    Amend,
    /// Delete the old trials.
    Fresh,
}

/// Why a journal or a checkpoint cannot be used: the file, what is wrong, and what helps.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct FolderError(pub(crate) String);

impl FolderError {
    pub(crate) fn io(path: &Path, reason: impl Display) -> Self {
        Self(format!("{}: {reason}", path.display()))
    }
}

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Experiment { format: u32, fingerprint: String, title: String, program: String },
    Data { key: String, card: DataCard },
    Trial { key: String, what: String, values: bool, outcome: Recorded },
}

/// How a recorded trial ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "nearly all trials have a result")]
pub enum Recorded {
    /// With a result.
    Done(Summary),
    /// Without: the reason.
    Failed(String),
}

/// An open journal, locked by this process.
pub(crate) struct Journal {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    trials: HashMap<String, Recorded>,
    data: BTreeMap<String, DataCard>,
    /// Whether a torn line was found at the end and dropped.
    pub(crate) torn: bool,
}

impl Journal {
    /// Opens or creates the journal of a run folder.
    ///
    /// # Errors
    /// If another process has locked it, it belongs to another experiment, or it cannot be read.
    pub(crate) fn open(folder: &Path, title: &str, fingerprint: &str, existing: Existing) -> Result<Self, FolderError> {
        let path = folder.join(JOURNAL);
        let io = |reason: io::Error| FolderError::io(&path, reason);
        let values = folder.join("values");
        fs::create_dir_all(&values).map_err(io)?;
        let file = lock(&path)
            .map_err(io)?
            .ok_or_else(|| FolderError::io(&path, "another process is running this experiment"))?;
        if existing == Existing::Fresh {
            file.set_len(0).map_err(io)?;
            fs::remove_dir_all(&values).and_then(|()| fs::create_dir(&values)).map_err(io)?;
            remove_folder(&folder.join(CHECKPOINTS)).map_err(io)?;
        }
        let (trials, data) = (HashMap::new(), BTreeMap::new());
        let mut journal = Self { folder: folder.to_owned(), path: path.clone(), file, trials, data, torn: false };
        match journal.load()? {
            Some(started) if started == fingerprint => {}
            Some(_) if existing == Existing::Resume => {
                return Err(FolderError(format!(
                    "{} was started with another version of the experiment file; --fresh starts again, --amend keeps the \
                     trials that are still asked for, --out takes another folder",
                    path.display()
                )));
            }
            _ => journal.append(&Line::Experiment {
                format: FORMAT,
                fingerprint: fingerprint.to_owned(),
                title: title.to_owned(),
                program: env!("CARGO_PKG_VERSION").to_owned(),
            })?,
        }
        Ok(journal)
    }

    /// Reads all whole lines, drops a torn last one, and returns the fingerprint the journal was last given.
    fn load(&mut self) -> Result<Option<String>, FolderError> {
        let bytes = fs::read(&self.path).map_err(|reason| self.io(reason))?;
        let mut whole = 0;
        let mut fingerprint = None;
        for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            match serde_json::from_slice::<Line>(line) {
                Ok(read) if line.ends_with(b"\n") => {
                    self.take(read, &mut fingerprint);
                    whole += line.len();
                }
                // A write cut short: a line without an end, or blocks the disk never got, at the very end.
                _ if whole + line.len() == bytes.len() => self.torn = true,
                Ok(_) => unreachable!("a line without an end is the last"),
                Err(error) => {
                    let (path, line) = (self.path.display(), number + 1);
                    let message = format!("{path}:{line}: not a line of a journal ({error}); --fresh starts again");
                    return Err(FolderError(message));
                }
            }
        }
        self.file.set_len(whole as u64).map_err(|reason| self.io(reason))?;
        self.file.seek(SeekFrom::End(0)).map_err(|reason| self.io(reason))?;
        Ok(fingerprint)
    }

    fn take(&mut self, line: Line, fingerprint: &mut Option<String>) {
        match line {
            Line::Experiment { fingerprint: started, .. } => *fingerprint = Some(started),
            Line::Data { key, card } => drop(self.data.insert(key, card)),
            // A trial whose columns are lost is not finished: it runs again.
            Line::Trial { key, values, .. } if values && !self.values_path(&key).exists() => {}
            Line::Trial { key, outcome, .. } => drop(self.trials.insert(key, outcome)),
        }
    }

    /// Appends one line and syncs it to disk.
    fn append(&mut self, line: &Line) -> Result<(), FolderError> {
        let mut text = serde_json::to_vec(line).map_err(|error| self.io(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|reason| self.io(reason))?;
        self.file.sync_data().map_err(|reason| self.io(reason))
    }

    /// How a trial ended, if it did.
    pub(crate) fn trial(&self, key: &str) -> Option<&Recorded> {
        self.trials.get(key)
    }

    /// The result of a trial, if it has one.
    pub(crate) fn done(&self, key: &str) -> Option<&Summary> {
        match self.trial(key)? {
            Recorded::Done(summary) => Some(summary),
            Recorded::Failed(_) => None,
        }
    }

    /// Records a finished trial, its columns first, and removes its checkpoints.
    ///
    /// # Errors
    /// If writing fails.
    pub(crate) fn record(
        &mut self,
        key: &str,
        what: &str,
        outcome: Result<Outcome, String>,
    ) -> Result<(), FolderError> {
        let (recorded, values) = match outcome {
            Ok(Outcome { summary, values }) => (Recorded::Done(summary), Some(values)),
            Err(reason) => (Recorded::Failed(reason), None),
        };
        let values = values.filter(|values| *values != Values::default());
        if let Some(values) = &values {
            let path = self.values_path(key);
            let written = replace_file(&path, |file| file.write_all(&values::encode(values)));
            written.map_err(|reason| FolderError::io(&path, reason))?;
        }
        let (key, what, outcome) = (key.to_owned(), what.to_owned(), recorded.clone());
        self.append(&Line::Trial { key: key.clone(), what, values: values.is_some(), outcome })?;
        remove_folder(&checkpoints(&self.folder, &key)).map_err(|reason| self.io(reason))?;
        self.trials.insert(key, recorded);
        Ok(())
    }

    /// Records a data set, or checks that it has not changed since it was recorded.
    ///
    /// # Errors
    /// If it has, or writing fails.
    pub(crate) fn data(&mut self, key: &str, label: &str, card: &DataCard) -> Result<(), FolderError> {
        match self.data.get(key) {
            Some(known) if known.card.fingerprint == card.card.fingerprint => Ok(()),
            Some(_) => {
                let changed = format!("the data set {label} has changed since this run started; --fresh starts again");
                Err(FolderError::io(&self.path, changed))
            }
            None => {
                self.append(&Line::Data { key: key.to_owned(), card: card.clone() })?;
                self.data.insert(key.to_owned(), card.clone());
                Ok(())
            }
        }
    }

    /// The columns of a trial; empty if it had none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn values(&self, key: &str) -> Result<Values, FolderError> {
        let path = self.values_path(key);
        match fs::read(&path) {
            Ok(bytes) => values::decode(&bytes)
                .map_err(|error| FolderError::io(&path, format!("not the values of a trial: {error}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Values::default()),
            Err(error) => Err(FolderError::io(&path, error)),
        }
    }

    fn values_path(&self, key: &str) -> PathBuf {
        self.folder.join("values").join(format!("{key}.bin"))
    }

    fn io(&self, reason: io::Error) -> FolderError {
        FolderError::io(&self.path, reason)
    }
}

/// The folder for the checkpoints of a trial.
pub(crate) fn checkpoints(folder: &Path, key: &str) -> PathBuf {
    folder.join(CHECKPOINTS).join(key)
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file and locks it; `None` if another process has locked it.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Replaces a file atomically; the old one stays if that fails.
pub(crate) fn replace_file(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let part = path.with_extension("part");
    let replace = || {
        let mut file = File::create(&part)?;
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        // The folder too, where folders can be opened.
        path.parent().and_then(|folder| File::open(folder).ok()).map_or(Ok(()), |folder| folder.sync_all())
    };
    // A part that is left behind is replaced by the next.
    replace().inspect_err(|_| drop(fs::remove_file(&part)))
}
