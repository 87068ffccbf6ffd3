//! Item features, for models that need them.

use crate::ModelError;
use crate::settings::NO_FEATURES;
use sottovoce_core::{Catalog, Facts};
use std::sync::Arc;

/// Features at most: their numbers are exact in an f32, of which private models consist.
pub(crate) const MAX_FEATURES: usize = (1 << 24) - 1;

/// Whether a model can use these facts.
pub(crate) fn are_usable(facts: &Facts) -> bool {
    (1..=MAX_FEATURES).contains(&facts.features())
}

/// The facts of a catalog, for a model that needs them.
///
/// # Errors
/// If there are none, or too many.
pub(crate) fn of_catalog<'c>(
    model: &str,
    catalog: Option<&'c Catalog>,
) -> Result<&'c Arc<Facts>, ModelError> {
    let facts = catalog.and_then(|catalog| catalog.facts.as_ref()).filter(|facts| facts.features() > 0);
    let facts = facts.ok_or_else(|| ModelError::Data(format!("{model} {NO_FEATURES}")))?;
    if !are_usable(facts) {
        let found = facts.features();
        let message =
            format!("the items have {found} features, of which at most {MAX_FEATURES} can be learnt");
        return Err(ModelError::Data(message));
    }
    Ok(facts)
}
