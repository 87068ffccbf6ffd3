//! Text and entities into vectors.

mod encoder;
mod error;
mod hashed_ngrams;
mod tokens;
mod word2vec;
mod word_vectors;

pub use encoder::Encoder;
pub use error::TextError;
pub use hashed_ngrams::{HashedNgrams, NgramConfig};
pub use tokens::{normalise, words};
pub use word_vectors::{ReadReport, VectorFormat, WordVectors};
pub use word2vec::{Corpus, Word2Vec, Word2VecConfig, Word2VecStats};
