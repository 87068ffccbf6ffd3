//! The published test vectors, against a second implementation of the arithmetic.

use std::path::Path;
use std::process::Command;

/// Plain Python, without libraries: whoever doubts this crate can read it in one sitting.
#[test]
fn a_second_implementation_computes_the_published_vectors() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/secagg.py");
    let python = if cfg!(windows) { "python" } else { "python3" };
    let output = match Command::new(python).arg("-B").arg(&script).output() {
        Ok(output) => output,
        Err(error) => {
            let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
            assert!(!ci, "no {python} ({error}), but continuous integration skips no test");
            eprintln!("SKIPPED: no {python} to check the vectors of secure aggregation with ({error})");
            return;
        }
    };
    let [said, wrong] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && said.contains("the vectors hold"), "{said}{wrong}");
}
