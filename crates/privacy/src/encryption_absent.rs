//! Stands in for encryption in a build without the feature `he`: types without values.

use crate::he::HeError;
use crate::{Quantization, Scheme, SecureRng};
use sottovoce_protocol::RoundId;

/// There is none.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Never {}

/// Not in this build.
#[derive(Clone, Debug, PartialEq)]
pub struct SumEncryption(Never);

impl SumEncryption {
    pub(crate) fn new(_: Scheme, _: &Quantization, _: f64, _: f64, _: usize) -> Result<Self, HeError> {
        Err(HeError::NotBuiltIn)
    }

    /// Bytes of an encrypted update, at most.
    pub fn bytes(&self) -> u64 {
        match self.0 {}
    }

    /// Encrypts a device's quantised update.
    ///
    /// # Errors
    /// Always.
    pub fn seal(&self, _: &[u8; 32], _: RoundId, _: &[u32], _: &mut SecureRng) -> Result<Vec<u8>, HeError> {
        match self.0 {}
    }

    /// Decrypts a sum to integers modulo 2^32.
    ///
    /// # Errors
    /// Always.
    pub fn open(&self, _: &[u8; 32], _: RoundId, _: &[u8], _: &mut SecureRng) -> Result<Vec<u32>, HeError> {
        match self.0 {}
    }
}

/// Not in this build.
#[derive(Clone, Debug)]
pub struct EncryptedSum(SumEncryption);

impl EncryptedSum {
    /// An empty sum.
    pub fn new(lock: SumEncryption) -> Self {
        Self(lock)
    }

    /// That this can be a device's update.
    ///
    /// # Errors
    /// Always.
    pub fn validate(&self, _: &[u8]) -> Result<(), HeError> {
        match self.0.0 {}
    }

    /// Adds a device's update.
    ///
    /// # Errors
    /// Always.
    pub fn add(&mut self, _: &[u8]) -> Result<(), HeError> {
        match self.0.0 {}
    }

    /// The sum for devices to decrypt.
    pub fn encode(&self) -> Option<Vec<u8>> {
        match self.0.0 {}
    }

    /// Updates added.
    pub fn added(&self) -> u64 {
        match self.0.0 {}
    }
}
