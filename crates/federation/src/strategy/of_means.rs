//! Settings of strategies that go by the mean of what devices propose, for models of any kind.

use super::{AdaptiveMean, AdaptiveMeanSettings, Mean, Over, Squares, Strategy};
use sottovoce_models::settings::{Setting, Settings};

/// A strategy of means, by its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OfMeans {
    /// FedSGD: devices send their gradient, and the server makes the step.
    FedSgd(Mean),
    /// FedAvg: devices make the steps.
    FedAvg(Mean),
    /// Devices make steps, and the server adaptive ones along their mean.
    Adaptive(AdaptiveMeanSettings),
}

/// The default number of those that adapt.
const TAU: f64 = 1e-6;

impl OfMeans {
    /// Names for settings, of which FedAvg is the default.
    pub const NAMES: &'static [&'static str] = &["fedavg", "fedsgd", "fedadam", "fedadagrad", "fedyogi"];

    /// The same with FedAdam as the default.
    pub const ADAPTIVE_FIRST: &'static [&'static str] =
        &["fedadam", "fedyogi", "fedadagrad", "fedavg", "fedsgd"];

    /// Their definitions, with one of these lists of names and a default step of the server.
    pub fn settings(names: &'static [&'static str], rate: f64) -> Vec<Setting> {
        vec![
            Setting::choice(
                "strategy",
                names,
                "How updates become the next shared model: the mean of devices' models, a step along their mean gradient, or adaptive steps along the mean",
            ),
            Setting::real("server_rate", rate, 1e-6..=1000.0, "Length of the server's step along the mean")
                .on_log_scale(),
            Setting::choice(
                "mean_over",
                Over::NAMES,
                "Over whom means of rows are taken: all devices of a round, or those that sent the row",
            ),
            Setting::real(
                "server_momentum",
                0.9,
                0.0..=0.999,
                "With adaptive steps: share of the old mean kept (beta 1)",
            ),
            Setting::real(
                "server_memory",
                0.99,
                0.0..=0.9999,
                "With fedadam and fedyogi: share of the old squares kept (beta 2)",
            ),
            Setting::real(
                "server_tau",
                TAU,
                1e-8..=1.0,
                "With adaptive steps: changes below this make smaller steps (tau)",
            )
            .on_log_scale(),
        ]
    }

    /// From checked settings.
    pub fn read(settings: &Settings) -> Self {
        let (rate, over) = (settings.real("server_rate") as f32, Over::named(settings.word("mean_over")));
        let adaptive = |squares| {
            Self::Adaptive(AdaptiveMeanSettings {
                squares,
                over,
                rate,
                momentum: settings.real("server_momentum") as f32,
                memory: settings.real("server_memory") as f32,
                tau: settings.real("server_tau") as f32,
            })
        };
        match settings.word("strategy") {
            "fedsgd" => Self::FedSgd(Mean { rate, over }),
            "fedadam" => adaptive(Squares::Adam),
            "fedadagrad" => adaptive(Squares::Adagrad),
            "fedyogi" => adaptive(Squares::Yogi),
            _ => Self::FedAvg(Mean { rate, over }),
        }
    }

    /// Whether devices send their gradient instead of making steps.
    pub fn wants_gradients(self) -> bool {
        matches!(self, Self::FedSgd(_))
    }

    /// Before the first round.
    pub fn build(self) -> Box<dyn Strategy> {
        match self {
            Self::FedSgd(mean) | Self::FedAvg(mean) => Box::new(mean),
            Self::Adaptive(settings) => Box::new(AdaptiveMean::new(settings)),
        }
    }
}
