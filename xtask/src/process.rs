//! Running other programs.

use anyhow::{Context, Result, ensure};
use std::env;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// A command that runs in the workspace's root and does not see what cargo told this program about itself.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(crate::workspace::root());
    for (key, _) in env::vars_os() {
        if key.to_str().is_some_and(is_about_this_program) {
            command.env_remove(key);
        }
    }
    command
}

fn is_about_this_program(key: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|start| key.starts_with(start))
}

/// Cargo of the toolchain that is in use.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = program("cargo");
    command.args(arguments);
    command
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let set = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.to_string_lossy(), quoted(&value?.to_string_lossy()))));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    set.chain(words.map(|word| quoted(&word.to_string_lossy()))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// Shows the command, runs it with this program's output, and fails if it fails.
pub(crate) fn show_and_run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("`{line}` did not start"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Whether the command runs and succeeds; its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// What the command prints; an error with its own words if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{line}` did not start"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{line}` failed ({}): {}", output.status, complaint.trim());
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed something that is not text"))
}

/// Whether this is an automatic run, where nothing may be left out.
pub(crate) fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command.args(["bench", "--bench", "*"]).env("RUSTDOCFLAGS", "-D warnings").env_remove("CARGO");
        assert_eq!(shown(&command), "RUSTDOCFLAGS='-D warnings' cargo bench --bench '*'");
    }

    #[test]
    fn failures_are_seen_and_named() {
        let error = output(Command::new("cargo").arg("no-such-command")).unwrap_err().to_string();
        assert!(error.starts_with("`cargo no-such-command` failed"), "{error}");
        let error = show_and_run(&mut Command::new("no-such-program-at-all")).unwrap_err().to_string();
        assert_eq!(error, "`no-such-program-at-all` did not start");
        assert!(!succeeds(Command::new("cargo").arg("no-such-command")));
    }

    #[test]
    fn settings_of_the_user_stay_and_words_about_this_program_go() {
        assert!(is_about_this_program("CARGO_PKG_NAME") && is_about_this_program("CARGO_MANIFEST_DIR"));
        assert!(!is_about_this_program("CARGO_HOME") && !is_about_this_program("RUSTUP_TOOLCHAIN"));
    }
}
