//! What stands in for encryption in a build without the feature `he`: types without values, so nothing can be encrypted.

use crate::he::HeError;
use crate::{Generator, Integers, Scheme};
use sottovoce_protocol::RoundId;

/// There is none in this build.
#[derive(Clone, Debug, PartialEq)]
pub enum Lock {}

impl Lock {
    pub(crate) fn new(_: Scheme, _: &Integers, _: f64, _: f64, _: usize) -> Result<Self, HeError> {
        Err(HeError::NotBuiltIn)
    }

    /// Bytes of an encrypted update, at most.
    pub fn bytes(&self) -> u64 {
        match *self {}
    }

    /// Encrypts a device's words.
    ///
    /// # Errors
    /// Always.
    pub fn seal(&self, _: &[u8; 32], _: RoundId, _: &[u32], _: &mut Generator) -> Result<Vec<u8>, HeError> {
        match *self {}
    }

    /// Opens a sum to words modulo 2^32.
    ///
    /// # Errors
    /// Always.
    pub fn open(&self, _: &[u8; 32], _: RoundId, _: &[u8], _: &mut Generator) -> Result<Vec<u32>, HeError> {
        match *self {}
    }
}

/// There is none in this build.
#[derive(Clone, Debug)]
pub struct LockedSum(Lock);

impl LockedSum {
    /// Nothing yet.
    pub fn new(lock: Lock) -> Self {
        Self(lock)
    }

    /// Whether this can be a device's update.
    ///
    /// # Errors
    /// Always.
    pub fn look_at(&self, _: &[u8]) -> Result<(), HeError> {
        match self.0 {}
    }

    /// Adds a device's update.
    ///
    /// # Errors
    /// Always.
    pub fn add(&mut self, _: &[u8]) -> Result<(), HeError> {
        match self.0 {}
    }

    /// The sum for devices to open.
    pub fn encode(&self) -> Option<Vec<u8>> {
        match self.0 {}
    }

    /// Updates added.
    pub fn added(&self) -> u64 {
        match self.0 {}
    }
}
