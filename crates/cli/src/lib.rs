//! The `sottovoce` program as a function, so that `crates/lite` can build it with fewer features.

mod args;
mod commands;
mod folder;
#[cfg(feature = "serve")]
mod key_file;
mod lists_file;
mod measure;
mod metrics_table;
mod model_dir;
mod output;
mod people;
mod prepared;
mod progress;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use sottovoce_federation::registry;
use sottovoce_models::settings::is_word_for;
use std::process::ExitCode;

/// Parses the command line, runs the command and returns the exit code: 0 done, 1 failed, 2 called wrongly.
pub fn main() -> ExitCode {
    let program = args::Program::try_parse().unwrap_or_else(|error| {
        // Printed after the parser's own words.
        let tip = tip(&error);
        let _ = error.print();
        tip.into_iter().for_each(|tip| eprintln!("\n  tip: {tip}"));
        std::process::exit(error.exit_code())
    });
    match commands::run(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let message = format!("{error:#}");
            eprintln!("{}: {message}", output::red("error"));
            // What a small build leaves out says which feature it needs.
            if message.contains("cargo feature") {
                eprintln!("`cargo install --path crates/cli` installs the program with all features");
            }
            ExitCode::from(if output::is_usage(&error) { 2 } else { 1 })
        }
    }
}

/// What helps somebody who gives a setting of a model as an option: `--lr 0.1`.
fn tip(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let word = given.strip_prefix("--").filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let word = word.split('=').next().unwrap_or(word).replace('-', "_");
    let known = registry::all().iter().any(|model| is_word_for(&word, &model.schema().collect::<Vec<_>>()));
    known.then(|| format!("settings of a model are given with --set {word}=VALUE; `sottovoce models NAME` lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_given_as_options_are_explained() {
        let tip = |option: &str| {
            let words = ["sottovoce", "train", "--model", "fpl", "--data", "x", option, "1"];
            tip(&args::Program::try_parse_from(words).unwrap_err())
        };
        for option in ["--lr", "--epochs", "--clients-per-round", "--embedding_size", "--learning-rate=3"] {
            assert!(tip(option).is_some_and(|tip| tip.contains("--set")), "{option}");
        }
        assert_eq!(tip("--colour"), None);
    }
}
