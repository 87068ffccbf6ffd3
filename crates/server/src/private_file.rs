//! Files and folders that only their owner can read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Options that write, and create a file with mode 600.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Writes a file, overwriting it if it exists.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    options().create(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

/// Creates a folder and those above it.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}
