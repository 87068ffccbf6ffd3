//! An encoder in the text form of a catalog, as servers send it to devices.
//!
//! After the items and their facts come an empty line and one line: `encoder`, a tab, and the binary form in Base64.

use super::HashedNgrams;
use crate::error::{Result, TextError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What the encoder's line begins with, after an empty line: neither items nor facts have empty lines among them.
const MARK: &str = "\n\nencoder\t";

impl HashedNgrams {
    /// What is appended to a catalog's text, which ends with a line break.
    pub fn catalog_text(&self) -> String {
        format!("{}{}\n", &MARK[1..], STANDARD.encode(self.to_bytes()))
    }

    /// The encoder of a catalog's text, if it has one, and the rest of the text.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub fn of_catalog(text: &str) -> Result<(Option<Self>, &str)> {
        let Some(at) = text.find(MARK) else { return Ok((None, text)) };
        let (rest, encoded) = (&text[..=at], &text[at + MARK.len()..]);
        let bytes = STANDARD.decode(encoded.trim_end_matches(['\r', '\n']));
        let bytes = bytes.map_err(|error| TextError::Encoding(format!("not Base64 ({error})")))?;
        Ok((Some(Self::from_bytes(&bytes)?), rest))
    }
}
