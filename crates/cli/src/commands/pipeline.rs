//! `pipeline`: hands on to `sottovoce-pipeline`, which is a program of its own because of what it is built from.

use crate::args::Pipeline;
use anyhow::{Context, Result, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its name, with what the system puts behind names of programs.
fn program() -> String {
    format!("sottovoce-pipeline{}", env::consts::EXE_SUFFIX)
}

/// `sottovoce pipeline ARGUMENTS`.
pub(crate) fn run(args: &Pipeline) -> Result<()> {
    let beside = env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    let path: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let Some(found) = find(beside.into_iter().chain(path)) else {
        bail!(
            "the pipeline is a program of its own, and {} is neither beside this one nor on the PATH\n\
             in a clone of the repository: cargo install --path crates/pipeline",
            program()
        );
    };
    let status = Command::new(&found).args(&args.arguments).status();
    let status = status.with_context(|| format!("starting {}", found.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said what is wrong.
        Some(code) => std::process::exit(code),
        None => bail!("{} was stopped: {status}", found.display()),
    }
}

fn find(folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.into_iter().map(|folder| folder.join(program())).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_folder_that_has_it_counts() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = || [one.path().to_owned(), other.path().to_owned()];
        assert_eq!(find(folders()), None);
        std::fs::write(other.path().join(program()), "").unwrap();
        assert_eq!(find(folders()), Some(other.path().join(program())));
        std::fs::write(one.path().join(program()), "").unwrap();
        assert_eq!(find(folders()), Some(one.path().join(program())));
    }
}
