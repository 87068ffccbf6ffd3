//! How many people are in an audience, counted without asking anybody whether they are.
//!
//! A measurement is a round of this model. Its shared model is one table of counts, a row for each cell of the
//! question; a device's update is 1 in the cell that its owner falls into and 0 in all others. So a count is an
//! ordinary sum of updates: sealed, noised and accounted for like any other. The round's question says which categories
//! it is about and where cells begin ([`Question`]); a device answers it by the scores of another model, the one that
//! is trained in the same federation.
//!
//! **What leaves the device**: one vector of zeros with at most a single 1, whose norm is therefore at most 1, under
//! the noise and the seal of the round. Devices refuse to answer without either.

mod question;

pub use question::{Match, Question, QuestionError};

use super::{
    AggregationSpec, ClientModel, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, Population,
    RowMeaning, Schedule, ServerModel, Sum, TensorSlice, TrainInput, TrainResult, TrainStats, item_rows,
};
use crate::config;
use sottovoce_core::{Facts, History, Rng};
use sottovoce_protocol::{Layout, ModelError, Parameters, RowOrigin, Table, Trained};
use std::sync::Arc;

/// The model's name in round terms.
pub const NAME: &str = "audience-size";

/// Categories of a question at most.
pub const MOST_CATEGORIES: usize = 64;
/// Cells of a question at most.
pub const MOST_CELLS: usize = 64;

config! {
    /// What a measurement asks.
    pub struct AudienceSizeConfig {
        /// Rows of the categories in the catalog, separated by commas
        pub categories: String = String::new() => [device];
        /// Whether any of the categories must reach a threshold, or all of them
        pub matching: Match = Match::Any => [device];
        /// Where cells begin: scores, ascending, separated by commas
        pub thresholds: String = String::new() => [device];
        /// Smaller counts are not published
        pub least_published: usize = 1000, in 1..=1_000_000_000 => [device];
        /// The audience that is measured; empty for a question about thresholds
        pub audience: String = String::new() => [device];
        /// The model whose scores decide, with its settings
        pub scored_by: String = String::new() => [device];
    }
}

/// Counts of people, as a federated model.
pub struct AudienceSize;

impl FederatedModel for AudienceSize {
    const INFO: ModelInfo =
        ModelInfo::new(NAME, "Audience size").summary("Counts the people who fall into each cell of a question");
    const EPOCHS: Epochs = Epochs::of_devices(1);

    /// Values are people.
    const LARGEST_VALUE: f32 = f32::MAX;

    type Config = AudienceSizeConfig;
    type Client = Cells;
    type Server = Cells;

    fn client(_: &AudienceSizeConfig, _: &Arc<Facts>) -> Cells {
        Cells
    }

    fn server(_: &AudienceSizeConfig, _: &Arc<Facts>) -> Cells {
        Cells
    }

    fn schedule(_: &AudienceSizeConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule::in_turn(cohort.unwrap_or(Cohort::All), population)
    }

    fn aggregation(_: &AudienceSizeConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Sum(Sum { learning_rate: 1.0 })
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    fn vectors_per_epoch(_: &AudienceSizeConfig, traffic: &EpochTraffic) -> f64 {
        (traffic.schedule.rounds * traffic.cohort * 2 * traffic.items) as f64
    }
}

/// Both halves: a table with a count for each cell. The "items" of this model are the cells of the question, and a
/// person's "history" is the cell that they fall into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells;

impl Cells {
    /// Name of the table.
    pub const TABLE: &'static str = "people";
}

impl ServerModel for Cells {
    fn layout(&self, cells: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![item_rows(Self::TABLE, cells, 1)])
    }

    fn init(&self, cells: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Parameters::new(vec![Table::zeros(item_rows(Self::TABLE, cells, 1))?])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::vector(Self::TABLE, 0, 0)]
    }
}

impl ClientModel for Cells {
    type Scratch = ();
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) {}

    fn private_values(&self) -> usize {
        0
    }

    fn init_private(&self, _: &mut [f32], _: &mut Rng) {}

    /// Counts as one sample also where the person is in no cell: whether a device answers must not say where it is.
    fn train(&self, input: TrainInput<'_>, (): &mut (), _: &mut Rng, into: &mut Trained) -> TrainResult {
        // More than one would make the update longer than the noise is meant for.
        if let Some(&cell) = input.history.items.first() {
            into.push_row(0, cell, RowOrigin::Consumed)?.fill(1.0);
        }
        into.set_samples(1);
        Ok(TrainStats { samples: 1, loss: 0.0 })
    }

    fn score(&self, shared: &Parameters, _: &[f32], _: History<'_>, into: &mut [f32]) {
        into.copy_from_slice(shared.tables()[0].values());
    }
}
