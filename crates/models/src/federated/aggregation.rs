//! How a cohort's updates become the next shared model: plain data that `sottovoce-federation` builds a strategy from.

use super::clustering::ClusteredSpec;
use super::co_occurrences::GramSpec;
use super::fed_ease_top::TopItemsSpec;
use super::fed_spectral::SpectralSpec;
use crate::{choices, config};

/// A strategy and its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AggregationSpec {
    /// A step along the sum of devices' updates of a row.
    Sum(Sum),
    /// The same, with steps that adapt to the sums seen so far.
    AdaptiveSum(AdaptiveSum),
    /// The same, bounded by a number of devices.
    DampedSum(DampedSum),
    /// A step along the mean of devices' updates: FedAvg, FedSGD.
    Mean(Mean),
    /// Adaptive steps along that mean: FedAdagrad, FedYogi, FedAdam.
    AdaptiveMean(AdaptiveMeanSettings),
    /// Gradient descent on a loss of which devices send their part of the gradient.
    Sgd(Sgd),
    /// The same by Adam.
    Adam(AdamSettings),
    /// The mean by cluster of each device's latest upload, where the server finds the clusters.
    Clustered(ClusteredSpec),
    /// The largest eigenvalues of a sum over people.
    Spectral(SpectralSpec),
    /// A sum of co-occurrences, and what is made of it.
    Gram(GramSpec),
    /// Counts, then co-occurrences of the items with the largest.
    TopItems(TopItemsSpec),
}

/// `row += learning_rate * sum`, as in the FPL papers. The step of a row grows with the number of devices that send it,
/// so that a rate that suits a small population makes a large one diverge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    /// alpha.
    pub learning_rate: f32,
}

/// AdaGrad on the sums of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSum {
    /// The longest step of a value.
    pub max_step: f32,
    /// How many times as long steps in a table's last column may be, where models have biases.
    pub last_column: LastColumn,
}

/// How many times as long steps in the last column of a table may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LastColumn {
    /// So many times.
    Times(f32),
    /// The more, the fewer of these interactions there are for a row to learn from.
    ByInteractions(f32),
}

/// Interactions of a row from which on its bias takes no longer steps than the rest of it.
const MANY_INTERACTIONS: f32 = 100.0;
/// How many times as long the steps of biases are at most, where that follows from the interactions.
const MOST_TIMES: f32 = 3.0;

impl LastColumn {
    /// How many times in a table of so many rows: in quarters, so that a few people more or less, as simulator and
    /// operator may count them, change nothing.
    pub fn times(self, rows: usize) -> f32 {
        match self {
            Self::Times(times) => times,
            Self::ByInteractions(interactions) => {
                let per_row = (interactions / rows.max(1) as f32).max(f32::MIN_POSITIVE);
                let root = (MANY_INTERACTIONS / per_row).sqrt().sqrt();
                ((4.0 * root).round() / 4.0).clamp(1.0, MOST_TIMES)
            }
        }
    }
}

/// A sum up to some devices, a mean beyond: `row += learning_rate * sum * c / (c + n - 1)`, where n devices sent the
/// row.
///
/// One device moves a row as with [`Sum`]; many move it together at most as far as c of them would under `Sum`. So the
/// step of a row is bounded whatever the population, and one setting serves 1,000 devices and 1,000,000; rare items
/// still learn at full speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DampedSum {
    /// alpha.
    pub learning_rate: f32,
    /// c: devices beyond which a row hardly moves further.
    pub devices: f32,
}

/// `row += learning_rate * mean`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The server's learning rate; 1 replaces the shared model by the mean of the devices' models.
    pub learning_rate: f32,
    /// Over whom the mean is taken.
    pub over: MeanOver,
}

choices! {
    /// Over whom a mean is taken.
    #[derive(Default)]
    pub enum MeanOver {
        /// All devices of the round: one that did not send a row leaves it as it is.
        #[default]
        All => "all",
        /// Those that sent the row, so that a row that few send moves as fast as others.
        Senders => "senders",
    }
}

/// How an adaptive strategy accumulates squared updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecondMoment {
    /// FedAdagrad: their sum.
    Adagrad,
    /// FedYogi: a moving average with additive steps.
    Yogi,
    /// FedAdam: an exponential moving average.
    Adam,
}

/// Settings of FedAdagrad, FedYogi and FedAdam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveMeanSettings {
    /// How squared updates are accumulated.
    pub second_moment: SecondMoment,
    /// Over whom the mean is taken.
    pub over: MeanOver,
    /// The server's learning rate.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Degree of adaptivity: updates smaller than this make smaller steps.
    pub tau: f32,
}

/// Gradient descent: `q -= learning_rate * g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// The server's learning rate.
    pub learning_rate: f32,
    /// L2 regularisation of a row for each device that takes part (l).
    pub regularisation: f32,
}

/// Settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamSettings {
    /// The server's learning rate.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// L2 regularisation of a row for each device that takes part (l).
    pub regularisation: f32,
}

choices! {
    /// Strategies that step along sums of rows.
    #[derive(Default)]
    pub enum RowStrategy {
        /// As in the papers.
        #[default]
        Sum => "sum",
        /// AdaGrad on the sums.
        Adaptive => "adaptive",
        /// Bounded by a number of devices.
        Damped => "damped",
    }
}

config! {
    /// Settings of strategies that step along the sum of devices' updates of a row.
    #[derive(PartialEq)]
    pub struct RowAggregation in Federation {
        /// How updates are combined: the papers' sum, or one of two strategies that are stable at any cohort size
        pub strategy: RowStrategy = RowStrategy::Sum;
        /// With strategy = adaptive: the longest step of a value
        pub adaptive_step: f64 = 0.2, in 1e-4..=10.0 => [log];
        /// With strategy = damped: devices beyond which a row hardly moves further
        pub damped_devices: f64 = 100.0, in 1.0..=1e9 => [log];
    }
}

impl RowAggregation {
    /// For devices with this learning rate.
    pub fn spec(&self, learning_rate: f64) -> AggregationSpec {
        let learning_rate = learning_rate as f32;
        match self.strategy {
            RowStrategy::Sum => AggregationSpec::Sum(Sum { learning_rate }),
            RowStrategy::Adaptive => AggregationSpec::AdaptiveSum(AdaptiveSum {
                max_step: self.adaptive_step as f32,
                last_column: LastColumn::Times(1.0),
            }),
            RowStrategy::Damped => {
                AggregationSpec::DampedSum(DampedSum { learning_rate, devices: self.damped_devices as f32 })
            }
        }
    }
}

choices! {
    /// Strategies that step along a mean of updates.
    #[derive(Default)]
    pub enum MeanStrategy {
        /// Devices make steps, the server averages their models.
        #[default]
        FedAvg => "fedavg",
        /// Devices send their gradient, the server makes the step.
        FedSgd => "fedsgd",
        /// Devices make steps, the server adaptive ones along their mean.
        FedAdam => "fedadam",
        /// The same with a sum of squares.
        FedAdagrad => "fedadagrad",
        /// The same with additive steps of the squares.
        FedYogi => "fedyogi",
    }
}

config! {
    /// Settings of strategies that step along the mean of devices' updates.
    #[derive(PartialEq)]
    pub struct MeanAggregation in Federation {
        /// How updates become the next shared model: the mean of devices' models, a step along their mean gradient, or
        /// adaptive steps along the mean
        pub strategy: MeanStrategy = MeanStrategy::FedAvg;
        /// The server's learning rate
        pub server_learning_rate: f64 = 1.0, in 1e-6..=1000.0 => [log was("server_rate")];
        /// Over whom means of rows are taken: all devices of a round, or those that sent the row
        pub mean_over: MeanOver = MeanOver::All;
        /// With adaptive strategies: decay of the first moment (beta 1)
        pub server_beta1: f64 = 0.9, in 0.0..=0.999 => [was("server_momentum")];
        /// With fedadam and fedyogi: decay of the second moment (beta 2)
        pub server_beta2: f64 = 0.99, in 0.0..=0.9999 => [was("server_memory")];
        /// With adaptive strategies: degree of adaptivity; updates below this make smaller steps (tau)
        pub server_tau: f64 = 1e-6, in 1e-8..=1.0 => [log];
    }
}

impl MeanAggregation {
    /// Whether devices send their gradient instead of making steps.
    pub fn wants_gradients(&self) -> bool {
        self.strategy == MeanStrategy::FedSgd
    }

    /// The strategy.
    pub fn spec(&self) -> AggregationSpec {
        let (learning_rate, over) = (self.server_learning_rate as f32, self.mean_over);
        let second_moment = match self.strategy {
            MeanStrategy::FedAvg | MeanStrategy::FedSgd => {
                return AggregationSpec::Mean(Mean { learning_rate, over });
            }
            MeanStrategy::FedAdam => SecondMoment::Adam,
            MeanStrategy::FedAdagrad => SecondMoment::Adagrad,
            MeanStrategy::FedYogi => SecondMoment::Yogi,
        };
        AggregationSpec::AdaptiveMean(AdaptiveMeanSettings {
            second_moment,
            over,
            learning_rate,
            beta1: self.server_beta1 as f32,
            beta2: self.server_beta2 as f32,
            tau: self.server_tau as f32,
        })
    }
}
