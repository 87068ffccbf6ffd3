//! The device runtime.
