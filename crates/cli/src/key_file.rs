//! Secret keys in files: 64 hexadecimal digits, readable by the owner only.

use crate::output::Usage;
use anyhow::{Context, Result};
use sottovoce_privacy::tokens::{from_hex, to_hex};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// A key.
pub(crate) type Key = [u8; 32];

/// Writes a new random key; an existing file is never overwritten.
pub(crate) fn create(path: &Path) -> Result<Key> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| anyhow::anyhow!("the system provides no random numbers: {error}"))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(|| format!("{}: cannot be created", path.display()))?;
    let written = writeln!(file, "{}", to_hex(&key)).and_then(|()| file.sync_all());
    written.with_context(|| format!("writing {}", path.display()))?;
    Ok(key)
}

/// Reads a key.
pub(crate) fn read(path: &Path) -> Result<Key> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading the key {}", path.display()))?;
    parse(text.trim()).with_context(|| format!("{}: expected 64 hexadecimal digits", path.display()))
}

/// Reads the key that devices of a federation share, if a file is named.
pub(crate) fn read_shared(path: Option<&Path>) -> Result<Option<Key>> {
    path.map(|path| read(path).map_err(|error| Usage(format!("{error:#}")).into())).transpose()
}

fn parse(digits: &str) -> Option<Key> {
    from_hex(&digits.to_ascii_lowercase())?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_wrote_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let key = create(&path).unwrap();
        assert_eq!(read_shared(Some(&path)).unwrap(), Some(key));
        assert!(create(&path).is_err());
        assert_eq!(read_shared(None).unwrap(), None);
        for wrong in ["", "0a", &"g0".repeat(32), &"+1".repeat(32), &"é".repeat(32)] {
            std::fs::write(&path, wrong).unwrap();
            let error = read_shared(Some(&path)).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
        assert_eq!(parse(&"0aF1".repeat(16)).unwrap()[..2], [0x0a, 0xf1]);
    }
}
