//! What every model must do. Models come from the registry, so that a new one inherits all of these tests.

mod checks;
mod common;
