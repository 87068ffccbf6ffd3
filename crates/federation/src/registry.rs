//! All models: trained in one place, and trained in a federation.

use crate::{Streaming, fcf, fpl};
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::settings::Settings;
use sottovoce_models::{ModelError, central};
use std::sync::LazyLock;

/// The models that are trained in a federation, in the order in which they are shown.
pub static FEDERATED: &[Model] = &[fpl::MODEL, fcf::MODEL];

static ALL: LazyLock<Vec<Model>> = LazyLock::new(|| [central::MODELS, FEDERATED].concat());

/// All models, in the order in which they are shown.
pub fn all() -> &'static [Model] {
    &ALL
}

/// The model of this name.
///
/// # Errors
/// If there is none; the message names the nearest.
pub fn find(name: &str) -> Result<&'static Model, ModelError> {
    find_in(all(), name)
}

/// A model that learns from histories that stay in a file; `None` for models that need all histories at once.
pub fn streaming(name: &str, settings: &Settings) -> Option<Box<dyn Streaming>> {
    match name {
        name if name == fpl::MODEL.name => Some(fpl::streaming(settings)),
        name if name == fcf::MODEL.name => Some(fcf::streaming(settings)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (place, model) in all().iter().enumerate() {
            assert!(std::ptr::eq(find(model.name).unwrap(), &all()[place]), "{} is listed twice", model.name);
        }
        for model in all() {
            let federated = FEDERATED.iter().any(|each| each.name == model.name);
            let settings = model.settings([]).unwrap();
            assert_eq!(streaming(model.name, &settings).is_some(), federated, "{}", model.name);
        }
        assert_eq!(find("bpr-mf").unwrap().title, "BPR-MF");
        let wrong = find("fpl+").err().unwrap().to_string();
        assert!(wrong.contains("did you mean `fpl`?"), "{wrong}");
    }
}
