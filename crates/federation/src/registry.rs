//! All models: trained in one place, and trained in a federation.

use crate::fed_vae::{self, FedVae};
use crate::fcf::{self, Fcf};
use crate::fpl::{self, Fpl};
use crate::fed_gmf::{self, FedGmf};
use crate::hosting;
use crate::kgflex::{self, KgFlex};
use crate::simulated::{self, FederatedModel};
use crate::{FederationError, HostedFederation, FederationBuilder, Recorder, Streaming};
use sottovoce_models::registry::{Model, find_in};
use sottovoce_models::settings::{Settings, Value};
use sottovoce_models::{ModelError, Recommender, central};
use std::sync::{Arc, LazyLock};

/// A model that is trained in a federation.
struct Federated {
    model: Model,
    streaming: fn(&Settings) -> Box<dyn Streaming>,
    recorded: fn(&Settings, Arc<dyn Recorder>) -> Box<dyn Recommender>,
    host: fn(&Settings, &FederationBuilder) -> Result<HostedFederation, HostError>,
}

impl Federated {
    const fn of<M: FederatedModel + 'static>(model: Model) -> Self {
        Self {
            model,
            streaming: simulated::streaming::<M>,
            recorded: simulated::recorded::<M>,
            host: hosting::host::<M>,
        }
    }
}

/// In the order in which they are disclosed.
static FEDERATED: &[Federated] = &[
    Federated::of::<Fpl>(fpl::MODEL),
    Federated::of::<Fcf>(fcf::MODEL),
    Federated::of::<FedGmf>(fed_gmf::MODEL),
    Federated::of::<FedVae>(fed_vae::MODEL),
    Federated::of::<KgFlex>(kgflex::MODEL),
];

static FEDERATED_MODELS: LazyLock<Vec<Model>> =
    LazyLock::new(|| FEDERATED.iter().map(|each| each.model).collect());

static ALL: LazyLock<Vec<Model>> = LazyLock::new(|| [central::MODELS, federated()].concat());

/// The models that are trained in a federation, in the order in which they are disclosed.
pub fn federated() -> &'static [Model] {
    &FEDERATED_MODELS
}

/// All models, in the order in which they are disclosed.
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
    let found = FEDERATED.iter().find(|each| each.model.name == name);
    found.map(|each| (each.streaming)(settings))
}

/// A model whose training shows a recorder what its server sees; `None` for models that are trained in one place.
pub fn recorded(
    name: &str,
    settings: &Settings,
    recorder: Arc<dyn Recorder>,
) -> Option<Box<dyn Recommender>> {
    let found = FEDERATED.iter().find(|each| each.model.name == name);
    found.map(|each| (each.recorded)(settings, recorder))
}

/// The server's half of a model that is trained in a federation, with these settings put over the defaults.
///
/// # Errors
/// If there is no such model, a setting is wrong or not a server's to make, or the model cannot be started.
pub fn host<'a>(
    name: &str,
    given: impl IntoIterator<Item = (&'a str, Value)>,
    hosting: &FederationBuilder,
) -> Result<HostedFederation, HostError> {
    let given: Vec<(&str, Value)> = given.into_iter().collect();
    if let Some((key, _)) = given.iter().find(|(key, _)| hosting::is_of_devices(key)) {
        return Err(HostError::NotTheServers((*key).to_owned()));
    }
    let settings = find_in(federated(), name)?.settings(given)?;
    let place = federated().iter().take_while(|model| model.name != name).count();
    (FEDERATED[place].host)(&settings, hosting)
}

/// Why a server cannot have a model.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No such model, or wrong settings.
    #[error(transparent)]
    Settings(#[from] ModelError),
    /// A setting of simulated devices.
    #[error(
        "setting {0} is about simulated devices or is their owners' to choose: a server has no say in it"
    )]
    NotTheServers(String),
    /// There is no noise to be had.
    #[error("the machine gives no random numbers: {0}")]
    Randomness(String),
    /// The model cannot be started.
    #[error(transparent)]
    Start(#[from] FederationError),
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
            let federated = federated().iter().any(|each| each.name == model.name);
            let settings = model.settings([]).unwrap();
            assert_eq!(streaming(model.name, &settings).is_some(), federated, "{}", model.name);
        }
        assert_eq!(find("bpr-mf").unwrap().title, "BPR-MF");
        let wrong = find("fpl+").err().unwrap().to_string();
        assert!(wrong.contains("did you mean `fpl`?"), "{wrong}");
    }
}
