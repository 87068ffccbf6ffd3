//! Runs the program as a user would.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The program, without any data folder from the environment.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sottovoce"));
    command.env_remove("SOTTOVOCE_DATA").env_remove("NO_COLOR");
    command
}

/// Runs it with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program starts")
}

/// Runs it, expects success, and returns what it printed.
pub fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Runs it with `--json`, expects success, and returns the document.
pub fn json(arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    serde_json::from_str(&printed(&all)).expect("output is JSON")
}

/// Runs it, expects this exit code, and returns its standard error.
pub fn failure(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    text
}

/// The oracle's worked cases of the evaluation crate.
pub fn oracle(case: usize, file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../evaluate/tests/oracle/case-{case}/{file}"));
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// A document without what two runs may differ in.
pub fn without_cost(mut document: Value) -> Value {
    if let Some(fields) = document.as_object_mut() {
        fields.remove("seconds");
        fields.remove("peak_rss_bytes");
    }
    document
}
