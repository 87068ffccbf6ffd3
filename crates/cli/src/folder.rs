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

/// Where a command writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// A folder that [`write_whole`] fills.
    Whole(&'a Path),
    /// A folder into which files are written.
    Into(&'a Path),
    /// A file that [`write_file`] writes.
    File(&'a Path),
}

/// Fails if a command cannot write there, before it has worked for hours. Nothing is created.
pub(crate) fn check_writable(target: Target<'_>) -> Result<()> {
    let (path, folder) = match target {
        Target::Whole(path) => {
            check_target(path)?;
            (path, path.parent())
        }
        Target::Into(path) => (path, Some(path)),
        Target::File(path) if path.is_dir() => {
            return usage(format!("{} is a folder: give the name of a file in it", path.display()));
        }
        Target::File(path) => (path, path.parent()),
    };
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Folders above that are missing are created; files need theirs.
    let existing = folder.ancestors().find(|ancestor| ancestor.as_os_str().is_empty() || ancestor.exists());
    let existing = existing.filter(|ancestor| !ancestor.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if matches!(target, Target::File(_)) && !folder.is_dir() {
        return usage(format!("{} cannot be written: there is no folder {}", path.display(), folder.display()));
    }
    if !existing.is_dir() {
        return usage(format!("{} cannot be written: {} is a file", path.display(), existing.display()));
    }
    match tempfile::tempfile_in(existing) {
        Ok(_) => Ok(()),
        Err(error) => usage(format!("{} cannot be written: {}: {error}", path.display(), existing.display())),
    }
}

fn check_target(target: &Path) -> Result<()> {
    if !target.exists() {
        return Ok(());
    }
    if !target.is_dir() {
        return usage(format!("{} is a file, not a folder: choose another --out", target.display()));
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

    #[test]
    fn finds_outputs_that_cannot_be_written_and_creates_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        let (inside, below) = (temp.path().join("new"), file.join("model"));
        for good in [Target::Whole(&inside), Target::Into(&inside.join("deeper")), Target::File(&inside)] {
            check_writable(good).unwrap();
        }
        check_writable(Target::File(Path::new("here.tsv"))).unwrap();
        let deep = inside.join("deeper.tsv");
        let wrong = [
            (Target::Whole(&file), "is a file, not a folder"),
            (Target::Whole(&below), "is a file"),
            (Target::Into(&below), "is a file"),
            (Target::File(&below), "there is no folder"),
            (Target::File(&deep), "there is no folder"),
            (Target::File(temp.path()), "is a folder"),
        ];
        for (target, expected) in wrong {
            let message = check_writable(target).unwrap_err().to_string();
            assert!(message.contains(expected), "{target:?}: {message}");
        }
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }
}
