//! The coordinator service.

pub mod storage;
