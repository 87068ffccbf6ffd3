//! All models, centralised and federated, by name.
//!
//! ```
//! use sottovoce_federation::registry;
//! let fpl = registry::find("fpl")?;
//! assert!(fpl.schema().any(|setting| setting.key == "pi"));
//! assert!(registry::find("fpl+").err().unwrap().to_string().contains("did you mean `fpl`?"));
//! # Ok::<(), sottovoce_models::ModelError>(())
//! ```

use crate::config::FederationConfig;
use crate::{Recorder, Simulation};
use sottovoce_models::federated::{self, Entry};
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::settings::{Config, Settings};
use sottovoce_models::{ModelError, Recommender, central};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

pub use sottovoce_models::federated::{RegisterError, register};

/// Models are few and live as long as the program.
static FEDERATED: RwLock<Vec<&'static Model>> = RwLock::new(Vec::new());
static CENTRAL: LazyLock<Vec<Model>> =
    LazyLock::new(|| central::MODELS.iter().map(sottovoce_models::registry::CentralModel::model).collect());

pub(crate) fn model(entry: &Entry) -> &'static Model {
    let mut known = FEDERATED.write().unwrap_or_else(PoisonError::into_inner);
    match known.iter().find(|model| model.name == entry.info.name) {
        Some(model) => model,
        None => {
            known.push(Box::leak(Box::new(build(entry))));
            known[known.len() - 1]
        }
    }
}

fn build(entry: &Entry) -> Model {
    let mut schema = entry.schema();
    schema.extend(FederationConfig::schema_for(&entry.epochs));
    let entry = *entry;
    Model::new(entry.info, schema, move |settings| Box::new(Simulation::new(&entry, settings)))
}

/// The federated models, in the order in which they are shown.
pub fn federated() -> Vec<&'static Model> {
    federated::all().iter().map(model).collect()
}

/// All models, in the order in which they are shown.
pub fn all() -> Vec<&'static Model> {
    CENTRAL.iter().chain(federated()).collect()
}

/// The model of this name.
///
/// # Errors
/// If there is none; the message names the nearest.
pub fn find(name: &str) -> Result<&'static Model, ModelError> {
    find_in(&all(), name)
}

/// Whether the model of this name is federated.
pub fn is_federated(name: &str) -> bool {
    federated::find(name).is_ok()
}

/// What should be known before a federated model is trained with these settings, if anything.
pub fn warning(name: &str, settings: &Settings) -> Option<String> {
    let config = FederationConfig::read(settings);
    if !is_federated(name) {
        return None;
    }
    let nothing_leaves = config.discloses_nothing();
    let coarse = name == "fed-spectral" && config.privacy.is_coarse();
    let coarse = coarse.then(|| {
        "seal_bits of 16 or fewer with a wide seal_range: values of fed-spectral are 1/8 on average and would nearly \
         all be rounded away; set seal_range = 1"
            .to_owned()
    });
    let nothing_leaves = nothing_leaves.then(|| {
        format!(
            "pi = 0 and disclosure = fixed: no device discloses anything, so the shared model stays as it began, while \
             every device downloads it in each round of {} epochs; set a pi above 0",
            config.epochs
        )
    });
    nothing_leaves.or(coarse)
}

/// A simulation of a federated model; `None` for centralised models.
pub fn simulation(name: &str, settings: &Settings) -> Option<Simulation> {
    federated::find(name).ok().map(|entry| Simulation::new(&entry, settings))
}

/// A federated model whose training shows a recorder what its server sees; `None` for centralised models.
pub fn recorded(name: &str, settings: &Settings, recorder: Arc<dyn Recorder>) -> Option<Box<dyn Recommender>> {
    Some(Box::new(simulation(name, settings)?.with_recorder(recorder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_models::settings::Value;

    #[test]
    fn warns_where_nobody_discloses_anything() {
        let warned = |model: &str, given: &[(&str, Value)]| {
            warning(model, &find(model).unwrap().settings(given.iter().cloned()).unwrap())
        };
        let word = |word: &str| Value::Word(word.to_owned());
        assert!(warned("fpl", &[("pi", Value::Real(0.0))]).is_some_and(|warning| warning.contains("pi above 0")));
        assert_eq!(warned("fpl", &[("pi", Value::Real(0.01))]), None);
        // The papers' way, negatives leave at pi = 0.
        assert_eq!(warned("fpl", &[("pi", Value::Real(0.0)), ("disclosure", word("per-round"))]), None);
        assert_eq!(warned("bpr-mf", &[]), None);
        // Few bits leave nothing of small values unless the range is small too.
        let few = [("seal", word("secagg")), ("seal_bits", Value::Integer(16))];
        assert!(warned("fed-spectral", &few).is_some_and(|warning| warning.contains("seal_range = 1")));
        let narrow: Vec<_> = few.into_iter().chain([("seal_range", Value::Real(1.0))]).collect();
        assert_eq!(warned("fed-spectral", &narrow), None);
    }

    #[test]
    fn finds_models_by_unique_names() {
        let all = all();
        for (index, model) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.name != model.name), "{} is listed twice", model.name);
            let federated = federated().iter().any(|each| each.name == model.name);
            assert_eq!(simulation(model.name, &model.settings([]).unwrap()).is_some(), federated, "{}", model.name);
        }
        assert_eq!(find("bpr-mf").unwrap().title, "BPR-MF");
    }
}
