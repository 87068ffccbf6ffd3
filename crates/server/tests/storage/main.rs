//! The contract of all databases, and the failures of each.

mod conformance;
mod database;
mod fixtures;
mod postgres;
mod proxy;
mod random_changes;
mod reference;
mod sqlite_files;
