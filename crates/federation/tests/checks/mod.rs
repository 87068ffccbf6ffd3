//! The checks: of all models as recommenders, and of federated ones.

mod federated;
mod harness;
mod recommenders;
