//! How well candidates for a model serve people, as a mean over devices that say nothing of their own.
//!
//! A comparison is a round of this model. Each device left the newest items of its history out of what the candidates
//! were trained on; now it scores them under each candidate, and sends one vector: by how much each candidate's value,
//! in 0..=1, is above one half. So the mean is an ordinary sum of updates: sealed, noised and accounted for like any
//! other. Halves are taken off because a vector of M values in 0..=1 may be sqrt(M) long, and this one is never longer
//! than half of that, which halves the noise.
//!
//! **What leaves the device**: one vector of M values, under the seal and the noise of the round. A device that left
//! nothing out sends zeros, so that whether it takes part says nothing of its history.

use super::{
    AggregationSpec, ClientModel, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, Population,
    Schedule, ServerModel, Sum, TensorSlice, TrainInput, TrainResult, TrainStats,
};
use crate::config;
use sottovoce_core::{Facts, History, Rng};
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Trained};
use std::sync::Arc;

/// The model's name in round terms.
pub const NAME: &str = "candidate-scores";

/// Candidates at most.
pub const MOST_CANDIDATES: usize = 64;

/// The value of a candidate of which a device cannot say anything.
pub const NEUTRAL: f32 = 0.5;

config! {
    /// What a comparison asks.
    pub struct CandidateScoresConfig {
        /// Candidates that are compared
        pub candidates: usize = 2, in 2..=64 => [device];
    }
}

/// Mean values of candidates, as a federated model.
pub struct CandidateScores;

/// The norm that no device's vector exceeds.
pub fn longest(candidates: usize) -> f64 {
    f64::from(NEUTRAL) * (candidates as f64).sqrt()
}

/// The mean value of each candidate, from the sum of so many devices' vectors.
pub fn means(sums: &[f32], devices: u64) -> Vec<f64> {
    let devices = devices.max(1) as f64;
    sums.iter().map(|&sum| f64::from(NEUTRAL) + f64::from(sum) / devices).collect()
}

impl FederatedModel for CandidateScores {
    const INFO: ModelInfo =
        ModelInfo::new(NAME, "Candidate scores").summary("Compares candidates for a model by people's newest items");
    const EPOCHS: Epochs = Epochs::of_devices(1);

    /// Values are sums over people.
    const LARGEST_VALUE: f32 = f32::MAX;

    type Config = CandidateScoresConfig;
    type Client = Comparison;
    type Server = Comparison;

    fn client(config: &CandidateScoresConfig, _: &Arc<Facts>) -> Comparison {
        Comparison { candidates: config.candidates }
    }

    fn server(config: &CandidateScoresConfig, _: &Arc<Facts>) -> Comparison {
        Comparison { candidates: config.candidates }
    }

    fn schedule(_: &CandidateScoresConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule::in_turn(cohort.unwrap_or(Cohort::All), population)
    }

    fn aggregation(_: &CandidateScoresConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Sum(Sum { learning_rate: 1.0 })
    }

    fn exposure() -> Vec<Exposure> {
        Vec::new()
    }

    fn vectors_per_epoch(_: &CandidateScoresConfig, traffic: &EpochTraffic) -> f64 {
        (traffic.schedule.rounds * traffic.cohort * 2) as f64
    }
}

/// Both halves: a table with a row for each candidate. A device's private model is the values of the candidates, which
/// its owner's program found, and its "history" is that it takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// How many are compared.
    pub candidates: usize,
}

impl Comparison {
    /// Name of the table.
    pub const TABLE: &'static str = "candidates";
}

impl ServerModel for Comparison {
    fn layout(&self, _: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![Shape::new(Self::TABLE, self.candidates as u32, 1, Keyed::Dense)])
    }

    fn init(&self, items: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Ok(Parameters::zeros(&self.layout(items)?))
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::vector(Self::TABLE, 0, 0)]
    }
}

impl ClientModel for Comparison {
    type Scratch = ();
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) {}

    fn private_values(&self) -> usize {
        self.candidates
    }

    fn init_private(&self, private: &mut [f32], _: &mut Rng) {
        private.fill(NEUTRAL);
    }

    /// Values out of range would make the vector longer than the noise is meant for.
    fn train(&self, input: TrainInput<'_>, (): &mut (), _: &mut Rng, into: &mut Trained) -> TrainResult {
        let values = into.whole(0)?;
        for (to, &value) in values.iter_mut().zip(&*input.private) {
            *to = if value.is_finite() { value.clamp(0.0, 1.0) - NEUTRAL } else { 0.0 };
        }
        into.set_samples(1);
        Ok(TrainStats { samples: 1, loss: 0.0 })
    }

    fn score(&self, shared: &Parameters, _: &[f32], _: History<'_>, into: &mut [f32]) {
        into.copy_from_slice(shared.tables()[0].values());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_vector_is_longer_than_the_noise_is_meant_for() {
        let model = Comparison { candidates: 4 };
        let layout = model.layout(1).unwrap();
        let shared = Parameters::zeros(&layout);
        for values in [[0.0, 1.0, 0.0, 1.0], [7.0, -3.0, f32::NAN, f32::INFINITY], [0.5; 4]] {
            let (mut private, mut trained) = (values.to_vec(), Trained::new(&layout));
            let input = TrainInput {
                shared: &shared,
                prepared: &(),
                private: &mut private,
                history: (&[0][..]).into(),
                hidden: &[],
            };
            model.train(input, &mut (), &mut Rng::new(1), &mut trained).unwrap();
            let sent = trained.update().tables()[0].values().to_vec();
            let length = sent.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            assert!(length <= longest(4) + 1e-9, "{sent:?}");
            assert!(values != [0.5; 4] || sent == [0.0; 4], "a device without an opinion sends zeros");
        }
    }

    #[test]
    fn means_are_of_all_devices() {
        assert_eq!(means(&[1.0, -2.0], 4), [0.75, 0.0]);
        assert_eq!(means(&[0.0], 0), [0.5]);
    }
}
