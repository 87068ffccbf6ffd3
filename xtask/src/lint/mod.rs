//! `cargo xtask lint`: rules of the workspace that neither the compiler nor clippy knows.

mod arithmetic;
mod layers;
mod markdown;
mod text;
mod words;

use crate::{process, workspace};
use anyhow::{Context, Result, ensure};

/// Checks everything and shows every violation, not only the first.
pub(crate) fn check() -> Result<()> {
    let mut found = layers::violations(&workspace::Members::read()?.0);
    let mut pages = Vec::new();
    let files = files()?;
    for name in &files {
        let bytes = std::fs::read(workspace::root().join(name)).with_context(|| name.clone())?;
        let Some(content) = text::as_text(&bytes) else { continue };
        found.extend(text::violations(name, content));
        found.extend(words::violations(name, content));
        found.extend(arithmetic::violations(name, content));
        if name.ends_with(".md") {
            pages.push((name.clone(), content.to_owned()));
        }
        if let Some(warning) = text::length_warning(name, content) {
            println!("warning: {warning}");
        }
    }
    found.extend(markdown::violations(&pages, &files));
    for violation in &found {
        println!("{violation}");
    }
    ensure!(found.is_empty(), "{} violations", found.len());
    println!("no violations in {} files", files.len());
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
