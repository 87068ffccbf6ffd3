//! Additive encryption under keys that the server does not hold.
//!
//! Three parties: devices hold a public key and *encrypt* their vectors; the server *adds* ciphertexts; a *decryptor*, who must be
//! somebody else, *decrypts* the sum and nothing else. Two schemes over polynomial rings (ring learning with errors), both with
//! one value a coefficient:
//! - `bfv`: integers, exact (Brakerski; Fan and Vercauteren), by the `fhe` crate;
//! - `ckks`: real numbers to a stated tolerance (Cheon, Kim, Kim, Song), on `fhe-math`'s polynomials. A decrypted sum
//!   contains the noise of the encryption, which reveals the key to whoever sees it beside the ciphertext (Li and Micciancio,
//!   Eurocrypt 2021); so what is published is flooded with larger noise first.
//!
//! Parameters are chosen for a number of clients and a range of values, checked against the tables of the Homomorphic
//! Encryption Standard (`security`), and refuse what would overflow: when encrypting, adding and decrypting.
//!
//! What this does not do: keep server and decryptor from colluding, or detect a device that encrypts a value out of range.

#[cfg(feature = "he")]
pub mod bfv;
#[cfg(feature = "he")]
pub mod ckks;
#[cfg(feature = "he")]
mod rand09;
#[cfg(feature = "he")]
mod ring;
#[cfg(feature = "he")]
pub mod security;

#[cfg(feature = "he")]
pub use ring::{Ciphertext, Ring};
use sottovoce_protocol::DecodeError;

/// Why something is not encrypted, added or decrypted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HeError {
    /// Bytes that are not a key or ciphertext.
    #[error("not a key or ciphertext of these parameters: {0}")]
    Malformed(#[from] DecodeError),
    /// Below 128 bit of security.
    #[error("a modulus of {bits} bits at degree {degree}: 128 bits of security allow {most}")]
    Insecure {
        /// Coefficients of a polynomial.
        degree: usize,
        /// Of the modulus.
        bits: u32,
        /// The most allowed; 0 if the degree is in no table.
        most: u32,
    },
    /// No parameters for so many clients and such values.
    #[error("no parameters for {clients} clients with values up to {range}: {why}")]
    Headroom {
        /// How many are to be added.
        clients: u32,
        /// The largest value.
        range: f64,
        /// What does not fit.
        why: &'static str,
    },
    /// A value out of range.
    #[error("value {at} is {value}, out of the range of {range}")]
    Value {
        /// Which.
        at: usize,
        /// What it is.
        value: f64,
        /// The largest that may be.
        range: f64,
    },
    /// More were added than there is room for.
    #[error("{added} ciphertexts added, but there is room for {clients}")]
    TooMany {
        /// How many.
        added: u64,
        /// How many may be.
        clients: u32,
    },
    /// Vectors of different lengths.
    #[error("{found} values, but {expected} before")]
    Length {
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// Encrypted with other parameters.
    #[error("encrypted with other parameters")]
    ParameterMismatch,
    /// More published than the flooding was chosen for.
    #[error("{published} values published, but the noise that hides the key was chosen for {most}")]
    Published {
        /// How many, with these.
        published: u64,
        /// How many may be.
        most: u64,
    },
    /// This build has no encryption.
    #[error("encryption needs the cargo feature `he`, which this build leaves out")]
    NotBuiltIn,
    /// An error of the library.
    #[error("the library: {0}")]
    Library(String),
}

#[cfg(feature = "he")]
impl From<fhe::Error> for HeError {
    fn from(error: fhe::Error) -> Self {
        Self::Library(error.to_string())
    }
}

#[cfg(feature = "he")]
impl From<fhe_math::Error> for HeError {
    fn from(error: fhe_math::Error) -> Self {
        Self::Library(error.to_string())
    }
}
