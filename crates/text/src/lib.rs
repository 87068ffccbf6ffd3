//! Text and entities into vectors.

mod encoder;
mod error;
mod hashed_ngrams;
mod tokens;

pub use encoder::Encoder;
pub use error::TextError;
pub use hashed_ngrams::{HashedNgrams, NgramConfig};
pub use tokens::{normalise, words};
