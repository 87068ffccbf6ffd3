//! Bytes to text: UTF-8, and Latin-1 where bytes are not UTF-8.

use std::borrow::Cow;

/// The text of a field, and whether it had to be read as Latin-1.
///
/// The choice falls field by field: the old sets are Latin-1 in their titles and plain ASCII elsewhere, and a Latin-1
/// word with an accent is practically never valid UTF-8.
pub(crate) fn decode(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => (bytes.iter().copied().map(char::from).collect(), true),
    }
}

/// Without the ASCII white space at both ends; for numbers and headers, never for ids.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

/// A name in the form in which headers are compared: lower case, letters and digits only.
pub(crate) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
