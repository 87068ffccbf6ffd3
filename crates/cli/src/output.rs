//! Output of the program: text for people, JSON for machines, exit codes for scripts.

use crate::args::Common;
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_evaluate::report::Table;
use sottovoce_experiment::ReadError;
use sottovoce_models::ModelError;
use std::io::{self, IsTerminal, Write};
use thiserror::Error;

/// A usage error: exit code 2, where a failure is 1.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Fails with a [`Usage`] error.
pub(crate) fn usage<T>(message: impl Into<String>) -> Result<T> {
    Err(Usage(message.into()).into())
}

/// Whether an error is a usage error.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Usage>()
            || matches!(cause.downcast_ref::<ReadError>(), Some(ReadError::File(_)))
            || matches!(
                cause.downcast_ref::<ModelError>(),
                Some(ModelError::UnknownModel { .. } | ModelError::UnknownSetting { .. } | ModelError::BadValue { .. })
            )
    })
}

/// Whether the reader of our output went away (`sottovoce ... | head`): no failure.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe))
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing to standard output")
}

/// Writes a line to standard output.
pub(crate) fn print_line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}

/// Writes a value as one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print_line(&serde_json::to_string_pretty(value).context("writing JSON")?)
}

/// Prints the result of a command: as JSON if that is asked for, otherwise as text.
pub(crate) fn answer(common: &Common, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    if common.json { print_json(document) } else { print(&text()) }
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    eprintln!("{}: {text}", bold("note"));
}

/// Red on a terminal.
pub(crate) fn red(text: &str) -> String {
    styled(text, "31;1")
}

/// Bold on a terminal.
pub(crate) fn bold(text: &str) -> String {
    styled(text, "1")
}

fn styled(text: &str, code: &str) -> String {
    let wanted = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A report's table for the terminal: as wide as it is, with emphasis only there.
pub(crate) fn table(table: &Table) -> String {
    let width = rustix::termios::tcgetwinsize(io::stdout()).map_or(120, |size| usize::from(size.ws_col).max(60));
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        table.to_text_styled(width)
    } else {
        table.to_text(width)
    }
}

/// A number with groups of thousands: 1,000,209.
pub(crate) fn grouped(number: impl TryInto<u128>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_thousands() {
        let shown: Vec<_> = [0u32, 999, 1000, 1_000_209].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "1,000,209"]);
    }

    #[test]
    fn an_unknown_model_is_a_usage_error_and_divergence_a_failure() {
        let usage =
            anyhow::Error::from(ModelError::UnknownModel { name: "x".into(), suggestion: None, known: String::new() });
        let failure = anyhow::Error::from(ModelError::Diverged { epoch: 1, advice: String::new() });
        assert!(is_usage(&usage.context("while training")) && !is_usage(&failure));
    }
}
