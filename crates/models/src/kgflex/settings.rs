//! Settings that the model has wherever it is trained.

use super::{Device, Pull};
use crate::settings::{Setting, Settings};
use std::sync::Arc;

/// Their definitions.
pub fn model_settings() -> Vec<Setting> {
    let most = Device::MOST_FEATURES as i64;
    vec![
        Setting::integer("factors", 10, 1..=512, "Length of features' vectors").on_log_scale(),
        Setting::integer("one_hop", 100, 0..=most, "Most telling features one hop away that a person keeps"),
        Setting::integer(
            "more_hops",
            100,
            0..=most,
            "Most telling features further away that a person keeps",
        ),
        Setting::integer(
            "negatives",
            1,
            1..=Device::MOST_NEGATIVES as i64,
            "Items a person does not have beside each they have, when features are weighed",
        )
        .on_log_scale(),
        Setting::real("learning_rate", 0.05, 1e-6..=1.0, "Step of all vectors and biases (alpha)")
            .on_log_scale(),
        Setting::real(
            "personal_pull",
            0.0,
            0.0..=10.0,
            "Pull to zero of a person's vectors, in learning rates",
        ),
        Setting::real(
            "shared_pull",
            0.0,
            0.0..=10.0,
            "Pull to zero of shared vectors and biases, in learning rates",
        ),
        Setting::real("init_deviation", 0.1, 0.0..=1.0, "Standard deviation of the first random vectors"),
    ]
}

impl Device {
    /// From checked settings that have those of [`model_settings`]; without facts and triples.
    pub fn from_settings(settings: &Settings) -> Self {
        let rate = settings.real("learning_rate");
        let pull = |key| (rate * settings.real(key)) as f32;
        Self {
            facts: Arc::default(),
            factors: settings.integer("factors"),
            most: [settings.integer("one_hop"), settings.integer("more_hops")],
            negatives: settings.integer("negatives"),
            triples: 0,
            rate: rate as f32,
            pull: Pull { personal: pull("personal_pull"), shared: pull("shared_pull") },
            init_deviation: settings.real("init_deviation") as f32,
        }
    }
}
