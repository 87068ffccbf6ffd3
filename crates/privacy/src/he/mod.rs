//! Additive encryption under keys that the server does not hold.
//!
//! Three parties: devices hold a public key and *seal* their vectors; the server *adds* what is sealed without reading it; a
//! *decryptor*, who must be somebody else, *opens* the sum and nothing but the sum. Two schemes over rings of polynomials
//! (learning with errors), both with one value a coefficient:
//! - [`bfv`]: whole numbers, exact (Brakerski; Fan and Vercauteren), by the `fhe` crate;
//! - [`ckks`]: real numbers to a stated tolerance (Cheon, Kim, Kim, Song), on `fhe-math`'s polynomials. What is opened still
//!   holds the noise of the encryption, which gives the key away to those who see it beside the ciphertext (Li and Micciancio,
//!   Eurocrypt 2021); so what is published is flooded with larger noise first.
//!
//! Parameters are chosen for a number of clients and a range of values, checked against the tables of the Homomorphic
//! Encryption Standard ([`security`]), and refuse what would overflow: at sealing, at adding, and at opening.
//!
//! What this does not do: keep the server and the decryptor apart, or recognise a device that seals something out of range.

pub mod bfv;
pub mod ckks;
mod entropy;
mod ring;
pub mod security;
mod trial;

pub use trial::{Figures, SchemeFigures, TrialError, trial};

use crate::secagg::Malformed;

/// Why something is not sealed, added or opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HeError {
    /// Bytes that are no key or sealed vector.
    #[error("not a key or sealed vector of these parameters: {0}")]
    Malformed(#[from] Malformed),
    /// Below 128 bit of security.
    #[error("a modulus of {bits} bits at degree {degree}: 128 bits of security allow {most}")]
    Insecure {
        /// Coefficients of a polynomial.
        degree: usize,
        /// Of the modulus.
        bits: u32,
        /// That there may be; 0 if the degree is in no table.
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
    #[error("{added} sealed vectors added, but there is room for {clients}")]
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
    /// Ciphertext under other parameters.
    #[error("sealed with other parameters")]
    ParameterMismatch,
    /// More published than the flooding was chosen for.
    #[error("{published} values published, but the noise that hides the key was chosen for {most}")]
    Published {
        /// How many, with these.
        published: u64,
        /// How many may be.
        most: u64,
    },
    /// What the library says.
    #[error("the library: {0}")]
    Library(String),
}

impl From<fhe::Error> for HeError {
    fn from(error: fhe::Error) -> Self {
        Self::Library(error.to_string())
    }
}

impl From<fhe_math::Error> for HeError {
    fn from(error: fhe_math::Error) -> Self {
        Self::Library(error.to_string())
    }
}
