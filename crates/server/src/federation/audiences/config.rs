//! How a federation serves audiences.

use crate::federation::ConfigError;
use crate::federation::config::require;
use serde::{Deserialize, Serialize};
use sottovoce_models::settings::Value;
use sottovoce_privacy::dp::DpError;
use sottovoce_privacy::dp::accountant::{Accountant, Budget, Round, noise_for};
use sottovoce_protocol::{AUDIENCE_DELTA, LEAST_PUBLISHED};

/// Models whose scores are probabilities, so that a threshold means something.
const MODELS: [&str; 1] = ["lookalike"];

/// Rules for audiences, the same for all advertisers of a federation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AudienceConfig {
    /// Sizes below this are not published, and audiences below it not served.
    pub k: u32,
    /// Epsilon that one measurement spends.
    pub epsilon: f64,
    /// At this delta.
    pub delta: f64,
    /// Epsilon that all measurements of the federation may spend together.
    pub budget: f64,
    /// Epsilon that the measurements of one advertiser may spend.
    pub advertiser_budget: f64,
    /// Audiences that an advertiser may have open at one time.
    pub open: u32,
    /// The longest an audience may be open, in days.
    pub days: u32,
    /// How often segment ids change, in seconds.
    pub rotation_seconds: u32,
    /// Epsilon of a device's answer whether it is in an audience: with probability 1 / (1 + e^epsilon) it says the
    /// opposite.
    pub report_epsilon: f64,
    /// Fraction of the devices that may drop out of a measurement.
    pub dropout: f64,
    /// Fraction of the devices that may collude with the server.
    pub colluding: f64,
}

impl Default for AudienceConfig {
    fn default() -> Self {
        Self {
            k: LEAST_PUBLISHED,
            epsilon: 0.1,
            delta: AUDIENCE_DELTA,
            budget: 2.0,
            advertiser_budget: 1.0,
            open: 20,
            days: 365,
            rotation_seconds: 86_400,
            report_epsilon: 2.0,
            dropout: 0.3,
            colluding: 0.1,
        }
    }
}

impl AudienceConfig {
    /// Checks all values, for a federation of this model.
    pub(crate) fn check(&self, model: &str) -> Result<(), ConfigError> {
        let between = |value: f64, low: f64, high: f64| value > low && value <= high;
        require("audiences", MODELS.contains(&model), &model, "the model lookalike, whose scores are probabilities")?;
        require("audiences.k", self.k >= 3, &self.k, "at least 3")?;
        require("audiences.epsilon", between(self.epsilon, 1e-4, 10.0), &self.epsilon, "above 0.0001, up to 10")?;
        require("audiences.delta", between(self.delta, 0.0, 0.01), &self.delta, "above 0, up to 0.01")?;
        for (key, value) in [("audiences.budget", self.budget), ("audiences.advertiser_budget", self.advertiser_budget)]
        {
            require(key, value.is_finite() && value >= self.epsilon, &value, "at least audiences.epsilon")?;
        }
        require("audiences.open", self.open >= 1, &0, "at least 1")?;
        require("audiences.days", (1..=3650).contains(&self.days), &self.days, "1 to 3650")?;
        let rotation = self.rotation_seconds;
        require("audiences.rotation_seconds", (60..=31_536_000).contains(&rotation), &rotation, "a minute to a year")?;
        let report = self.report_epsilon;
        require("audiences.report_epsilon", between(report, 0.0, 10.0), &report, "above 0, up to 10")?;
        for (key, value) in [("audiences.dropout", self.dropout), ("audiences.colluding", self.colluding)] {
            require(key, (0.0..=0.5).contains(&value), &value, "0 to 0.5")?;
        }
        self.noise().map(drop).map_err(|_| ConfigError::Value {
            key: "audiences.epsilon",
            value: self.epsilon.to_string(),
            expected: "an epsilon that noise can reach at this delta",
        })
    }

    /// Standard deviation of the noise on a count, in people.
    ///
    /// # Errors
    /// If no noise reaches this epsilon.
    pub fn noise(&self) -> Result<f64, DpError> {
        noise_for(&Budget::new(self.epsilon, self.delta)?, Round::Poisson { rate: 1.0, multiplier: 1.0 }, 1)
    }

    /// Epsilon that so many measurements spend together.
    pub fn spent(&self, measurements: u64) -> f64 {
        let composed = || {
            let mut accountant = Accountant::default();
            accountant.record(Round::Poisson { rate: 1.0, multiplier: self.noise()? }, measurements)?;
            accountant.epsilon(self.delta)
        };
        composed().map_or(f64::INFINITY, |spent| spent.tight)
    }

    /// The settings of a measuring round: sealed, with each device's share of the noise.
    ///
    /// # Errors
    /// If no noise reaches this epsilon.
    pub fn round_settings(&self, deadline: Option<f64>) -> Result<Vec<(&'static str, Value)>, DpError> {
        let word = |word: &str| Value::Word(word.to_owned());
        let settings = vec![
            ("seal", word("secagg")),
            ("seal_range", Value::Real(1.0)),
            ("seal_dropout", Value::Real(self.dropout)),
            ("seal_colluding", Value::Real(self.colluding)),
            ("noise", word("distributed")),
            ("noise_multiplier", Value::Real(self.noise()?)),
            ("delta", Value::Real(self.delta)),
            // An answer has at most a single 1.
            ("clip", Value::Real(1.0)),
            ("sampling", word("fixed")),
        ];
        Ok(settings.into_iter().chain(deadline.map(|seconds| ("deadline", Value::Real(seconds)))).collect())
    }

    /// The rotation at a time in milliseconds.
    pub(crate) fn rotation(&self, now: u64) -> u64 {
        now / 1000 / u64::from(self.rotation_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_compose_tightly() {
        let config = AudienceConfig::default();
        config.check("lookalike").unwrap();
        let (one, ten) = (config.spent(1), config.spent(10));
        assert!((0.0999..=0.1).contains(&one), "{one}");
        assert!(ten > 3.0 * one && ten < 10.0 * one, "{ten}");
        assert_eq!(config.spent(0), 0.0);
    }

    #[test]
    fn names_what_is_out_of_range() {
        let wrong = |config: AudienceConfig| config.check("lookalike").unwrap_err().to_string();
        let default = AudienceConfig::default;
        assert_eq!(wrong(AudienceConfig { k: 2, ..default() }), "audiences.k is 2, expected at least 3");
        let small = AudienceConfig { budget: 0.05, ..default() };
        assert_eq!(wrong(small), "audiences.budget is 0.05, expected at least audiences.epsilon");
        assert!(wrong(AudienceConfig { epsilon: f64::NAN, ..default() }).starts_with("audiences.epsilon is NaN"));
        assert!(default().check("fcf").unwrap_err().to_string().starts_with("audiences is fcf, expected the model"));
    }
}
