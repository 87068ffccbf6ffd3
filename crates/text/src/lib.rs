//! Text and entities into vectors: what look-alike models know about a page besides its category.
//!
//! | to get | take | needs |
//! |---|---|---|
//! | a title's vector without any download | [`HashedNgrams`] | nothing; better with a corpus of titles |
//! | a title's vector from words | [`WordVectors`] as an [`Encoder`] | a table: trained here, or a public one |
//! | a page's vector from its entities | [`WordVectors::mean`] | the same |
//! | such a table | [`Word2Vec`], [`WordVectors::read`] | sentences or pages; a file of word2vec, fastText or GloVe |
//!
//! Models take any [`Encoder`]. All texts are [normalised](normalise) first, and work in any script.
//!
//! This crate does no I/O of its own and builds for wasm32: files come as readers and writers. The same input, settings
//! and seed give the same bits on every machine and on any number of threads.
//!
//! Titles of pages:
//!
//! ```
//! use sottovoce_text::{Encoder, HashedNgrams, NgramConfig};
//! let titles = ["Denmark votes today", "Выборы в Дании", "丹麦议会选举", "Bread without flour"];
//! let encoder = HashedNgrams::fit(NgramConfig::default(), titles)?;
//! let vector = encoder.vector("Denmark has voted");
//! assert_eq!(vector.len(), 64);
//! // A server sends the encoder to devices, which check it and compute the same vectors.
//! let on_device = HashedNgrams::from_bytes(&encoder.to_bytes())?;
//! assert_eq!(on_device.vector("Denmark has voted"), vector);
//! # Ok::<(), sottovoce_text::TextError>(())
//! ```
//!
//! Entities of pages, each page a list without order:
//!
//! ```
//! use sottovoce_text::{Corpus, Word2Vec, Word2VecConfig};
//! let mut pages = Corpus::new();
//! for day in 0..200 {
//!     pages.push(["Denmark", "Copenhagen", ["Folketing", "Danish krone"][day % 2]]);
//!     pages.push(["Japan", "Tokyo", ["National Diet", "Yen"][day % 2]]);
//! }
//! let config = Word2VecConfig { dim: 10, epochs: 20, ..Word2VecConfig::default() };
//! let (vectors, stats) = Word2Vec::new(config)?.train(&pages)?;
//! assert_eq!((stats.words, stats.rare_words), (8, 0));
//! let mut page = [0.0; 10];
//! assert_eq!(vectors.mean(["Tokyo", "Yen", "unknown"], &mut page), 2);
//! assert_eq!(page[0], (vectors.get("Tokyo").unwrap()[0] + vectors.get("Yen").unwrap()[0]) / 2.0);
//! # Ok::<(), sottovoce_text::TextError>(())
//! ```

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
