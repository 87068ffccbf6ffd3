//! `completions` and `man`: what a shell and a manual reader need.

use crate::args::{Completions, Man, Program};
use crate::output;
use anyhow::{Context, Result};
use clap::CommandFactory;

/// `sottovoce completions SHELL`.
pub(crate) fn completions(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Program::command(), "sottovoce", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// `sottovoce man [--out DIR]`.
pub(crate) fn man(args: &Man) -> Result<()> {
    match &args.out {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
            clap_mangen::generate_to(Program::command(), folder)
                .with_context(|| format!("writing manual pages into {}", folder.display()))
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Program::command()).render(&mut page).context("writing the manual page")?;
            output::print(&String::from_utf8_lossy(&page))
        }
    }
}
