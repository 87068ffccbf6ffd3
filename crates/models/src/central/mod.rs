//! Baselines that see all data.

use crate::registry::Model;

/// The baselines, in the order in which they are shown.
pub(crate) static MODELS: &[Model] = &[];
