//! Writing a report to a folder, each file whole or not at all.

use super::markup::distinct_slugs;
use super::model::Report;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};
use thiserror::Error;

/// A report that could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file system refused.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The report could not be turned into JSON.
    #[error("cannot turn the report into JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Report {
    /// Writes `report.html`, `report.json` and one `tables/NAME.csv` a table into `dir`, made if need be.
    ///
    /// Returns the path of the HTML file. Each file appears whole, by renaming, so that a reader (or a crash) never
    /// meets half a report; an older file of the same name is replaced.
    pub fn write(&self, dir: impl AsRef<Path>) -> Result<PathBuf, WriteError> {
        let dir = dir.as_ref();
        let tables = dir.join("tables");
        let folder = if self.tables().next().is_some() { &tables } else { dir };
        fs::create_dir_all(folder).map_err(|source| WriteError::Io { path: folder.to_path_buf(), source })?;
        for (table, name) in self.tables().zip(self.table_names()) {
            write_whole(&tables.join(format!("{name}.csv")), table.to_csv().as_bytes())?;
        }
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        write_whole(&dir.join("report.json"), json.as_bytes())?;
        let page = dir.join("report.html");
        write_whole(&page, self.to_html().as_bytes())?;
        Ok(page)
    }

    /// The file names of the tables without their ending, in order.
    pub(super) fn table_names(&self) -> Vec<String> {
        distinct_slugs(self.tables().map(|table| table.caption.as_str()))
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let scratch = scratch_name(path);
    let outcome = fill(&scratch, bytes).and_then(|()| fs::rename(&scratch, path));
    outcome.map_err(|source| {
        // The first error matters; a left-over scratch file is harmless.
        let _ = fs::remove_file(&scratch);
        WriteError::Io { path: path.to_path_buf(), source }
    })
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name beside `path` that no other writer uses: two processes, or two threads, may write the same report.
fn scratch_name(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}-{number}.part", std::process::id()))
}
