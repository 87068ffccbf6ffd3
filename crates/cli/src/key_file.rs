//! The key that devices of a federation share, in a file: 64 hexadecimal digits.

use crate::output::Usage;
use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Writes a new key; a file that is there is never overwritten.
pub(crate) fn write(path: &Path) -> Result<[u8; 32]> {
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("the machine gives no random numbers: {error}"))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(|| format!("{}: cannot be created", path.display()))?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(file, "{digits}")
        .and_then(|()| file.sync_all())
        .with_context(|| format!("{}", path.display()))?;
    Ok(key)
}

/// Reads a key, if a file is named.
pub(crate) fn read(path: Option<&Path>) -> Result<Option<[u8; 32]>> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    parse(text.trim()).map(Some).ok_or_else(|| {
        let message =
            format!("{}: expected 64 hexadecimal digits, as `federation key` writes them", path.display());
        Usage(message).into()
    })
}

fn parse(digits: &str) -> Option<[u8; 32]> {
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let key = write(&path).unwrap();
        assert_eq!(read(Some(&path)).unwrap(), Some(key));
        assert!(write(&path).is_err());
        assert_eq!(read(None).unwrap(), None);
        for wrong in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            std::fs::write(&path, wrong).unwrap();
            let error = read(Some(&path)).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
    }
}
