//! Where the workspace is, and what cargo knows of it.

use crate::process;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder that holds the workspace's Cargo.toml.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// One crate of the workspace.
#[derive(Debug, PartialEq)]
pub(crate) struct Member {
    /// The name of its folder: `core`, `xtask`.
    pub(crate) name: String,
    /// The members it depends on, by folder name; those of its tests and examples aside.
    pub(crate) inner: Vec<String>,
    /// The crates from outside that it depends on; those of its tests and examples aside.
    pub(crate) outer: Vec<String>,
    pub(crate) benches: bool,
    /// Whether it takes the workspace's lints.
    pub(crate) has_lints: bool,
}

/// All crates of the workspace.
pub(crate) struct Members(pub(crate) Vec<Member>);

impl Members {
    pub(crate) fn read() -> Result<Self> {
        let text = process::output(&mut process::cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        Self::from_metadata(&metadata).context("cargo metadata has another form than expected")
    }

    pub(crate) fn has_benches(&self) -> bool {
        self.0.iter().any(|member| member.benches)
    }

    fn from_metadata(metadata: &Value) -> Option<Self> {
        metadata["packages"].as_array()?.iter().map(member).collect::<Option<_>>().map(Self)
    }
}

fn member(package: &Value) -> Option<Member> {
    let manifest = PathBuf::from(package["manifest_path"].as_str()?);
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    for dependency in package["dependencies"].as_array()? {
        match dependency["path"].as_str() {
            _ if dependency["kind"] == "dev" => {}
            Some(path) => inner.push(folder_name(Path::new(path))?),
            None => outer.push(dependency["name"].as_str()?.to_owned()),
        }
    }
    let targets = package["targets"].as_array()?;
    let benches = targets.iter().any(|target| target["kind"][0] == "bench");
    // Cargo does not tell of inherited lints; a file that cannot be read has none.
    let text = std::fs::read_to_string(&manifest).unwrap_or_default();
    let has_lints = text.contains("[lints]\nworkspace = true");
    let name = folder_name(manifest.parent()?)?;
    Some(Member { name, inner, outer, benches, has_lints })
}

fn folder_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_inside_and_outside_are_told_apart() {
        let metadata = serde_json::json!({"packages": [{
            "manifest_path": "/somewhere/crates/data/Cargo.toml",
            "targets": [{"kind": ["lib"]}, {"kind": ["bench"]}],
            "dependencies": [
                {"name": "sottovoce-core", "path": "/somewhere/crates/core"},
                {"name": "sottovoce-testing", "path": "/somewhere/crates/testing", "kind": "dev"},
                {"name": "memchr", "kind": null},
                {"name": "proptest", "kind": "dev"},
            ],
        }]});
        let members = Members::from_metadata(&metadata).unwrap();
        assert!(members.has_benches());
        let expected = Member {
            name: "data".into(),
            inner: vec!["core".into()],
            outer: vec!["memchr".into()],
            benches: true,
            has_lints: false,
        };
        assert_eq!(members.0, [expected]);
        assert!(Members::from_metadata(&serde_json::json!({"packages": [{}]})).is_none());
    }

    #[test]
    fn this_very_workspace_can_be_read() {
        let members = Members::read().unwrap();
        let this = members.0.iter().find(|member| member.name == "xtask").unwrap();
        assert!(this.inner.is_empty() && this.has_lints && this.outer.contains(&"anyhow".to_owned()));
    }
}
