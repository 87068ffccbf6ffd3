//! Errors of image data sets.

use sottovoce_core::ImagesError;
use std::fmt;
use thiserror::Error;

/// Why images could not be loaded or generated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageDataError {
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A file that should be there is not.
    #[error("{place}: {what} is missing{advice}")]
    Missing {
        /// The folder it was looked for in.
        place: String,
        /// What is missing.
        what: String,
        /// What to do about it, ready to print.
        advice: String,
    },
    /// Something in a file is not as its format asks.
    #[error("{file}, {place}: {problem}")]
    Content {
        /// The file.
        file: String,
        /// Where in it: a byte, a line.
        place: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
    /// Images that do not fit together.
    #[error(transparent)]
    Images(#[from] ImagesError),
}

impl ImageDataError {
    pub(super) fn io(path: impl fmt::Display, source: std::io::Error) -> Self {
        Self::Io { path: path.to_string(), source }
    }

    pub(super) fn content(
        file: impl fmt::Display,
        place: impl fmt::Display,
        problem: impl Into<String>,
    ) -> Self {
        Self::Content { file: file.to_string(), place: place.to_string(), problem: problem.into() }
    }
}
