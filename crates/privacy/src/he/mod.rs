//! Additive encryption under keys that the server does not hold.
