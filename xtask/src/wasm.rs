//! The wasm32 build: proof that a crate needs nothing a browser does not have.

use crate::{process, setup};
use anyhow::{Context, Result, bail};
use std::env;
use std::path::Path;
use std::process::Command;

/// The crates that promise to build for wasm32.
pub(crate) const CRATES: &[&str] = &[
    "sottovoce-core",
    "sottovoce-protocol",
    "sottovoce-privacy",
    "sottovoce-neural",
    "sottovoce-text",
    "sottovoce-models",
    "sottovoce-client",
    "sottovoce-device",
];

const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's compiler for its browsers: newer than its ordinary one, and with the standard library's source.
const DEBIAN_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std/Cargo.toml";

/// A compiler that can build for wasm32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The toolchain in use has the target's standard library.
    InUse,
    /// Debian's, which builds the standard library from its source.
    Debian,
}

impl Toolchain {
    /// The first that is there.
    pub(crate) fn find() -> Option<Self> {
        if in_use_has_target() { Some(Self::InUse) } else { debian_is_new_enough().then_some(Self::Debian) }
    }

    /// The command that builds the crates.
    pub(crate) fn build(self) -> Command {
        let mut command = match self {
            Self::InUse => process::cargo(["build"]),
            Self::Debian => debian_cargo_build(),
        };
        // The device runtime leaves files and sockets out by its features.
        command.args(["--target", TARGET, "--lib", "--no-default-features", "--features", "sottovoce-privacy/he"]);
        for name in CRATES {
            command.args(["--package", name]);
        }
        command
    }
}

fn in_use_has_target() -> bool {
    let asked = process::output(process::program("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    let Ok(folder) = asked else { return false };
    let files = std::fs::read_dir(folder.trim()).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
}

fn debian_is_new_enough() -> bool {
    let wanted = minor_version(concat!("rustc ", env!("CARGO_PKG_RUST_VERSION")));
    let found = process::output(Command::new(DEBIAN_RUSTC).arg("--version")).ok();
    let found = found.and_then(|text| minor_version(&text));
    Path::new(DEBIAN_CARGO).exists() && Path::new(DEBIAN_SOURCE).exists() && found.is_some() && found >= wanted
}

/// 96 of `rustc 1.96.0 (…)`.
fn minor_version(text: &str) -> Option<u32> {
    text.strip_prefix("rustc 1.")?.split('.').next()?.trim().parse().ok()
}

/// A stable compiler builds the standard library only if told that it is one of its own (`RUSTC_BOOTSTRAP`); it gets a
/// target folder of its own, because the two toolchains would undo each other's work.
fn debian_cargo_build() -> Command {
    let mut command = process::program(DEBIAN_CARGO);
    for (key, _) in env::vars_os() {
        if key.to_str().is_some_and(chooses_a_toolchain) {
            command.env_remove(key);
        }
    }
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", DEBIAN_RUSTC);
    command.args(["build", "-Zbuild-std=std,panic_abort", "--target-dir", "target/wasm"]);
    command
}

/// What the cargo that started this program, or rustup, would make the other cargo use.
fn chooses_a_toolchain(key: &str) -> bool {
    let names = ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "LD_LIBRARY_PATH"];
    names.contains(&key) || key.starts_with("RUSTUP_") || key.starts_with("RUSTC_")
}

/// Installs the target for the toolchain in use; where that cannot be had, Debian's compiler.
pub(crate) fn install() -> Result<()> {
    let Err(first) = process::show_and_run(process::program("rustup").args(["target", "add", TARGET])) else {
        return Ok(());
    };
    println!("{first:#}; trying Debian's packages");
    setup::apt_install(DEBIAN_PACKAGES).with_context(|| format!("{first:#}; Debian's packages: no"))?;
    if Toolchain::find().is_none() {
        bail!("Debian's compiler is older than {}", env!("CARGO_PKG_RUST_VERSION"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(minor_version("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some(96));
        assert_eq!(minor_version("rustc 1.100.0"), Some(100));
        assert_eq!(minor_version("rustc 1.95"), Some(95));
        assert_eq!(minor_version("gcc 12.2"), None);
        assert!(minor_version(concat!("rustc ", env!("CARGO_PKG_RUST_VERSION"))).is_some());
    }

    #[test]
    fn the_other_cargo_is_not_told_which_toolchain_to_use() {
        for key in ["CARGO", "RUSTC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER"] {
            assert!(chooses_a_toolchain(key), "{key}");
        }
        assert!(!chooses_a_toolchain("CARGO_HOME") && !chooses_a_toolchain("PATH"));
    }

    #[test]
    fn both_toolchains_build_every_promised_crate() {
        for toolchain in [Toolchain::InUse, Toolchain::Debian] {
            let line = process::shown(&toolchain.build());
            assert!(CRATES.iter().all(|name| line.contains(&format!("--package {name}"))), "{line}");
            assert_eq!(line.contains("-Zbuild-std"), toolchain == Toolchain::Debian, "{line}");
        }
    }
}
