//! Errors of image data sets.

use sottovoce_core::ImagesError;
use std::fmt;
use thiserror::Error;

/// Why images could not be loaded or generated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageDataError {
    /// The operating system refused. Fields: the file or folder; the reason.
    #[error("{0}: {1}")]
    Io(String, #[source] std::io::Error),
    /// A file that should be there is not. Fields: the folder it was looked for in; what is missing; what to do about
    /// it, ready to print.
    #[error("{0}: {1} is missing{2}")]
    Missing(String, String, String),
    /// Something in a file is not as its format asks. Fields: the file; where in it: a byte, a line; what is wrong, and
    /// what was expected.
    #[error("{0}, {1}: {2}")]
    Content(String, String, String),
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
    /// Images that do not fit together.
    #[error(transparent)]
    Images(#[from] ImagesError),
}

/// What the readers of images return.
pub(crate) type Result<T, E = ImageDataError> = std::result::Result<T, E>;

impl ImageDataError {
    pub(super) fn io(path: impl fmt::Display, source: std::io::Error) -> Self {
        Self::Io(path.to_string(), source)
    }

    pub(super) fn missing(folder: impl fmt::Display, what: String) -> Self {
        Self::Missing(folder.to_string(), what, String::new())
    }

    pub(super) fn content(file: impl fmt::Display, place: impl fmt::Display, problem: impl Into<String>) -> Self {
        Self::Content(file.to_string(), place.to_string(), problem.into())
    }
}
