//! `cargo xtask house`: rules of the house that neither the compiler nor clippy knows.

mod arithmetic;
mod layers;
mod text;

use crate::{process, workspace};
use anyhow::{Context, Result, ensure};

/// Checks everything and shows every violation, not only the first.
pub(crate) fn check() -> Result<()> {
    let mut found = layers::violations(&workspace::Members::read()?.0);
    let files = files()?;
    for name in &files {
        let bytes = std::fs::read(workspace::root().join(name)).with_context(|| name.clone())?;
        let Some(content) = text::as_text(&bytes) else { continue };
        found.extend(text::violations(name, content));
        found.extend(arithmetic::violations(name, content));
        if let Some(warning) = text::length_warning(name, content) {
            println!("warning: {warning}");
        }
    }
    for violation in &found {
        println!("{violation}");
    }
    ensure!(found.is_empty(), "house rules broken in {} places", found.len());
    println!("house rules hold in {} files", files.len());
    Ok(())
}

/// What is committed or about to be: git's files and the new ones it does not ignore.
fn files() -> Result<Vec<String>> {
    let mut git = process::program("git");
    let listed = process::output(git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let names = listed.split('\0').filter(|name| !name.is_empty());
    // A file deleted and not yet committed is still listed; a link is not followed.
    let is_file =
        |name: &&str| workspace::root().join(name).symlink_metadata().is_ok_and(|found| found.is_file());
    Ok(names.filter(is_file).map(str::to_owned).collect())
}
