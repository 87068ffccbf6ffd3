//! The suite of all models for those that are trained in a federation.

#[path = "../../models/tests/suite/mod.rs"]
mod suite;

use sottovoce_models::registry::Model;

fn models() -> &'static [Model] {
    sottovoce_federation::registry::federated()
}
