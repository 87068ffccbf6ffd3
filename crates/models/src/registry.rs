//! What is known of each model. The list of all models is in `sottovoce-federation`, which can train all of them.

use crate::settings::{Setting, Settings, Value, nearest};
use crate::{ModelError, Recommender};

/// What is known of a model without building it.
#[derive(Clone, Copy)]
pub struct Model {
    /// The name used in files and on the command line.
    pub name: &'static str,
    /// The name used in tables.
    pub title: &'static str,
    /// One sentence: what it does.
    pub what: &'static str,
    /// Where it is defined, as people cite it.
    pub paper: &'static str,
    /// Its settings.
    pub settings: fn() -> Vec<Setting>,
    /// Builds it from checked settings.
    pub build: fn(&Settings) -> Box<dyn Recommender>,
}

impl Model {
    /// Checks settings against this model's schema.
    ///
    /// # Errors
    /// If a key or a value is wrong.
    pub fn settings<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Settings, ModelError> {
        Settings::check(self.name, &(self.settings)(), given)
    }
}

/// The model of this name among some.
///
/// # Errors
/// If there is none; the message names the nearest.
pub fn find_in(models: &'static [Model], name: &str) -> Result<&'static Model, ModelError> {
    models.iter().find(|model| model.name == name).ok_or_else(|| ModelError::UnknownModel {
        name: name.to_owned(),
        suggestion: nearest(name, models.iter().map(|model| model.name)),
        known: models.iter().map(|model| model.name).collect::<Vec<_>>().join(", "),
    })
}
