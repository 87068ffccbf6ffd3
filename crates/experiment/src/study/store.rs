//! The run folder of a study: finished courses, and checkpoints of those under way.

use super::Course;
use crate::journal::{Existing, JournalError, write_atomically};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// An open run folder; only one process has it.
pub(super) struct Store {
    courses: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Store {
    /// Opens or begins the folder of a study. Courses are named by all that determines them, so that those of another
    /// version of the file are not taken for this one's.
    pub(super) fn open(folder: &Path, fingerprint: &str, existing: Existing) -> Result<Self, JournalError> {
        let (path, courses) = (folder.join("study.lock"), folder.join("courses"));
        let io = |reason| JournalError::Io { path: path.display().to_string(), reason };
        fs::create_dir_all(&courses).map_err(io)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Busy(path.display().to_string())),
            Err(TryLockError::Error(reason)) => return Err(io(reason)),
        }
        let begun = fs::read_to_string(&path).map_err(io)?;
        if existing == Existing::Resume && !begun.is_empty() && begun != fingerprint {
            return Err(JournalError::Changed { path: path.display().to_string() });
        }
        if existing == Existing::Fresh {
            fs::remove_dir_all(&courses).and_then(|()| fs::create_dir(&courses)).map_err(io)?;
        }
        fs::write(&path, fingerprint).map_err(io)?;
        Ok(Self { courses, _file: file })
    }

    /// A finished course.
    pub(super) fn finished(&self, key: &str) -> Result<Option<Course>, JournalError> {
        let path = self.path(key, "json");
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| self.damaged(&path, &error.to_string()))
    }

    /// Writes a finished course down and forgets its checkpoint.
    pub(super) fn finish(&self, key: &str, course: &Course) -> Result<(), JournalError> {
        let path = self.path(key, "json");
        let bytes = serde_json::to_vec(course).map_err(|error| self.damaged(&path, &error.to_string()))?;
        write_atomically(&path, &bytes)?;
        match fs::remove_file(self.path(key, "state")) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                Err(JournalError::Io { path: self.path(key, "state").display().to_string(), reason })
            }
            _ => Ok(()),
        }
    }

    /// A checkpoint: the course so far, and the federation's state.
    pub(super) fn begun(&self, key: &str) -> Result<Option<(Course, Vec<u8>)>, JournalError> {
        let path = self.path(key, "state");
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(|| self.damaged(&path, "it has no end of its first line"))?;
        let course =
            serde_json::from_slice(&bytes[..end]).map_err(|error| self.damaged(&path, &error.to_string()))?;
        Ok(Some((course, bytes[end + 1..].to_vec())))
    }

    /// Writes a checkpoint.
    pub(super) fn keep(&self, key: &str, course: &Course, state: &[u8]) -> Result<(), JournalError> {
        let path = self.path(key, "state");
        let mut bytes =
            serde_json::to_vec(course).map_err(|error| self.damaged(&path, &error.to_string()))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(state);
        write_atomically(&path, &bytes)
    }

    /// What is wrong with a checkpoint.
    pub(super) fn unfit(&self, key: &str, reason: &str) -> JournalError {
        self.damaged(&self.path(key, "state"), reason)
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, JournalError> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(reason) => Err(JournalError::Io { path: path.display().to_string(), reason }),
        }
    }

    fn damaged(&self, path: &Path, reason: &str) -> JournalError {
        JournalError::Damaged { path: path.display().to_string(), line: 1, reason: reason.to_owned() }
    }

    fn path(&self, key: &str, ending: &str) -> PathBuf {
        self.courses.join(format!("{key}.{ending}"))
    }
}
