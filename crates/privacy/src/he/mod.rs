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
    /// Below 128 bit of security. Fields: coefficients of a polynomial; of the modulus; the most allowed; 0 if the
    /// degree is in no table.
    #[error("a modulus of {1} bits at degree {0}: 128 bits of security allow {2}")]
    Insecure(usize, u32, u32),
    /// No parameters for so many clients and such values. Fields: how many are to be added; the largest value; what
    /// does not fit.
    #[error("no parameters for {0} clients with values up to {1}: {2}")]
    Headroom(u32, f64, &'static str),
    /// A value out of range. Fields: which; what it is; the largest that may be.
    #[error("value {0} is {1}, out of the range of {2}")]
    Value(usize, f64, f64),
    /// More were added than there is room for. Fields: how many; how many may be.
    #[error("{0} ciphertexts added, but there is room for {1}")]
    TooMany(u64, u32),
    /// Vectors of different lengths. Fields: how many there are; how many there must be.
    #[error("{0} values, but {1} before")]
    Length(usize, usize),
    /// Encrypted with other parameters.
    #[error("encrypted with other parameters")]
    ParameterMismatch,
    /// More published than the flooding was chosen for. Fields: how many, with these; how many may be.
    #[error("{0} values published, but the noise that hides the key was chosen for {1}")]
    Published(u64, u64),
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
