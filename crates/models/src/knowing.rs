//! What models that go by facts need to know.

use crate::ModelError;
use crate::spec::NO_FACTS;
use sottovoce_core::{Catalog, Facts};
use std::sync::Arc;

/// Features at most: their numbers are exact in an f32, which private models are made of.
pub(crate) const MOST_FEATURES: usize = (1 << 24) - 1;

/// The facts of a catalog, for a model that goes by them.
///
/// # Errors
/// If there are none, or too many.
pub fn facts_of<'c>(model: &str, catalog: Option<&'c Catalog>) -> Result<&'c Arc<Facts>, ModelError> {
    let facts = catalog.and_then(|catalog| catalog.facts.as_ref()).filter(|facts| facts.features() > 0);
    let facts = facts.ok_or_else(|| ModelError::Data(format!("{model} {NO_FACTS}")))?;
    if facts.features() > MOST_FEATURES {
        let found = facts.features();
        let message =
            format!("{found} features are known of the items, at most {MOST_FEATURES} can be learnt");
        return Err(ModelError::Data(message));
    }
    Ok(facts)
}
