//! Settings of strategies that go by the sum of what devices propose for a row, for models whose updates are rows.

use super::{Adaptive, Damped, Strategy, Sum};
use sottovoce_models::settings::{Setting, Settings};

/// A strategy of rows, by its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfRows {
    /// The papers'.
    Sum(Sum),
    /// With this longest step.
    Adaptive(f32),
    /// Bounded by a number of devices.
    Damped(Damped),
}

impl OfRows {
    /// Their definitions.
    pub fn settings() -> [Setting; 3] {
        [
            Setting::choice(
                "strategy",
                &["sum", "adaptive", "damped"],
                "How updates are put together: the papers' sum, or one of two that are stable at any cohort size",
            ),
            Setting::real(
                "adaptive_step",
                0.2,
                1e-4..=10.0,
                "With strategy = adaptive: the longest step of a value",
            )
            .on_log_scale(),
            Setting::real(
                "damped_devices",
                100.0,
                1.0..=1e9,
                "With strategy = damped: devices beyond which a row hardly moves further",
            )
            .on_log_scale(),
        ]
    }

    /// From checked settings, for devices that learn at this rate.
    pub fn read(settings: &Settings, rate: f32) -> Self {
        match settings.word("strategy") {
            "damped" => Self::Damped(Damped { rate, devices: settings.real("damped_devices") as f32 }),
            "adaptive" => Self::Adaptive(settings.real("adaptive_step") as f32),
            _ => Self::Sum(Sum { rate }),
        }
    }

    /// Before the first round.
    pub fn build(self) -> Box<dyn Strategy> {
        match self {
            Self::Sum(sum) => Box::new(sum),
            Self::Adaptive(step) => Box::new(Adaptive::new(step)),
            Self::Damped(damped) => Box::new(damped),
        }
    }
}
