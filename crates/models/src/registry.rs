//! Models by name. The list of all of them is in `sottovoce-federation`, which can train all of them.

pub use crate::federated::ModelInfo;
use crate::settings::{Setting, Settings, Value, nearest};
use crate::{ModelError, Recommender};
use std::sync::Arc;

/// A centralised model: an entry of [`central::MODELS`](crate::central::MODELS).
#[derive(Clone, Copy)]
pub struct CentralModel {
    /// Name, title, summary, paper.
    pub info: ModelInfo,
    /// Its settings.
    pub schema: fn() -> Vec<Setting>,
    /// Builds it from checked settings.
    pub build: fn(&Settings) -> Box<dyn Recommender>,
}

impl CentralModel {
    /// As any model.
    pub fn model(&self) -> Model {
        Model::new(self.info, (self.schema)(), self.build)
    }
}

/// Builds a model from checked settings.
type Build = dyn Fn(&Settings) -> Box<dyn Recommender> + Send + Sync;

/// Any model, ready to be built.
#[derive(Clone)]
pub struct Model {
    /// The name in files and on the command line.
    pub name: &'static str,
    /// The name in tables.
    pub title: &'static str,
    /// One sentence: what it does.
    pub summary: &'static str,
    /// Where it is defined, as people cite it.
    pub paper: &'static str,
    schema: Vec<Setting>,
    build: Arc<Build>,
}

impl Model {
    /// One that is built by a function of its settings.
    pub fn new(
        ModelInfo { name, title, summary, paper }: ModelInfo,
        schema: Vec<Setting>,
        build: impl Fn(&Settings) -> Box<dyn Recommender> + Send + Sync + 'static,
    ) -> Self {
        Self { name, title, summary, paper, schema, build: Arc::new(build) }
    }

    /// The settings that users can make.
    pub fn schema(&self) -> impl Iterator<Item = &Setting> {
        self.schema.iter().filter(|setting| !setting.derived)
    }

    /// Checks settings against the schema and completes them by defaults.
    ///
    /// # Errors
    /// If a key or a value is wrong.
    pub fn settings<'a>(&self, given: impl IntoIterator<Item = (&'a str, Value)>) -> Result<Settings, ModelError> {
        Settings::check(self.name, &self.schema, given)
    }

    /// Builds it from settings that were checked.
    pub fn build(&self, settings: &Settings) -> Box<dyn Recommender> {
        (self.build)(settings)
    }
}

/// The model of this name among some.
///
/// # Errors
/// If there is none; the message names the nearest.
pub fn find_in(models: &[&'static Model], name: &str) -> Result<&'static Model, ModelError> {
    models.iter().find(|model| model.name == name).copied().ok_or_else(|| ModelError::UnknownModel {
        name: name.to_owned(),
        suggestion: nearest(name, models.iter().map(|model| model.name)),
        known: models.iter().map(|model| model.name).collect::<Vec<_>>().join(", "),
    })
}
