//! Output folders and files that are written atomically.

use crate::output::usage;
use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files that mark a folder as written by this program; such a folder may be replaced.
const OURS: &[&str] = &["model.json", "run.json", "train.tsv", "train.parquet", "checkins.tsv"];

/// Fills a new folder next to `target` by `fill`, then renames it to `target`.
///
/// An existing folder is replaced only if it is empty or one this program wrote.
pub(crate) fn write_whole(target: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    check_target(target)?;
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::create_dir_all(&parent).with_context(|| format!("creating {}", parent.display()))?;
    let fresh = tempfile::Builder::new()
        .prefix(".sottovoce-")
        .tempdir_in(&parent)
        .with_context(|| format!("creating a folder in {}", parent.display()))?;
    let inside = fresh.path().join("new");
    fs::create_dir(&inside).with_context(|| format!("creating {}", inside.display()))?;
    fill(&inside)?;
    let old = fresh.path().join("old");
    if target.exists() {
        fs::rename(target, &old).with_context(|| format!("moving {} aside", target.display()))?;
    }
    fs::rename(&inside, target).with_context(|| format!("replacing {}", target.display()))
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// Writes a file atomically.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file =
        tempfile::NamedTempFile::new_in(parent).with_context(|| format!("creating a file in {}", parent.display()))?;
    file.write_all(bytes)
        .and_then(|()| file.as_file().sync_all())
        .with_context(|| format!("writing {}", path.display()))?;
    file.persist(path).with_context(|| format!("replacing {}", path.display()))?;
    Ok(())
}

fn check_target(target: &Path) -> Result<()> {
    if !target.exists() {
        return Ok(());
    }
    let mut entries = fs::read_dir(target).with_context(|| format!("reading {}", target.display()))?;
    let ours = OURS.iter().any(|name| target.join(name).exists());
    if ours || entries.next().is_none() {
        return Ok(());
    }
    usage(format!("{} exists and was not written by sottovoce: choose another --out", target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_own_folders_and_rejects_others() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("run");
        let write = |text: &'static str| write_whole(&target, |folder| Ok(fs::write(folder.join("model.json"), text)?));
        write("1").unwrap();
        write("2").unwrap();
        assert_eq!(fs::read_to_string(target.join("model.json")).unwrap(), "2");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);

        let failed = write_whole(&target, |_| anyhow::bail!("disk full"));
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(target.join("model.json")).unwrap(), "2");

        let foreign = temp.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("thesis.tex"), "").unwrap();
        assert!(write_whole(&foreign, |_| Ok(())).is_err());
        assert!(foreign.join("thesis.tex").exists());
    }
}
