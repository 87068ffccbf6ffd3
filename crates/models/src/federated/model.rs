//! The trait that a federated model implements.

use super::{AggregationSpec, ClientModel, Cohort, Exposure, Population, Schedule, ServerModel};
use crate::Tensor;
use crate::settings::Config;
use sottovoce_core::Facts;
use std::sync::Arc;

/// A model as tables and help texts show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name in files, on the command line, in round terms and of the model's random streams.
    pub name: &'static str,
    /// The name in tables.
    pub title: &'static str,
    /// One sentence: what it does.
    pub summary: &'static str,
    /// Where it is defined, as people cite it.
    pub paper: &'static str,
}

impl ModelInfo {
    /// A model by its name and its name in tables; a summary and a paper follow.
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, summary: "", paper: "" }
    }

    /// With one sentence that says what it does.
    #[must_use]
    pub const fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    /// With where it is defined, as people cite it.
    #[must_use]
    pub const fn paper(self, paper: &'static str) -> Self {
        Self { paper, ..self }
    }
}

/// What the setting `epochs` means for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// How many by default.
    pub default: usize,
    /// What an epoch is, in one sentence.
    pub help: &'static str,
}

impl Epochs {
    /// For models that ask every device once an epoch, on average.
    pub const fn of_devices(default: usize) -> Self {
        Self { default, help: "Epochs; in one, every device is asked once on average" }
    }

    /// For models that train on as many triples in an epoch as there are interactions.
    pub const fn of_triples(default: usize) -> Self {
        Self { default, help: "Epochs; in one, as many triples are trained on as there are interactions" }
    }
}

/// What a model uses of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureUse {
    /// Nothing: its shared model has a row for each item.
    None,
    /// The items' content, as [`Catalog::content`] has it: facts, or else categories and titles.
    /// Devices know from it how many items there are.
    ///
    /// [`Catalog::content`]: sottovoce_core::Catalog::content
    Content,
    /// Facts: training and devices refuse a catalog without.
    Facts,
}

/// A federated recommender: everything that the simulator, the server, devices and the audit need to know of it.
///
/// There is no default for what a model must decide by itself. `docs/adding-a-model.md` walks through an example, and
/// `examples/custom_model.rs` of `sottovoce-federation` is a complete one from outside this workspace.
pub trait FederatedModel: Send + Sync + 'static {
    /// Name, title, summary, paper.
    const INFO: ModelInfo;

    /// What an epoch is.
    const EPOCHS: Epochs;

    /// What it uses of the catalog.
    const FEATURES: FeatureUse = FeatureUse::None;

    /// Whether it goes by the order of interactions: its clients are then given [`History::sequence`].
    ///
    /// [`History::sequence`]: sottovoce_core::History::sequence
    const SEQUENTIAL: bool = false;

    /// The cohort of a round where users ask for none.
    const COHORT: Cohort = Cohort::All;

    /// Whether the cohorts of an epoch do not overlap, so that its sums count everybody once. With noise on sums
    /// cohorts are drawn as ever, because that is what is accounted for.
    const ONCE_AN_EPOCH: bool = false;

    /// Whether all that devices send are ones, so that under secure aggregation sums have only as many bits as the
    /// number of devices has.
    const SENDS_ONES: bool = false;

    /// The norm that no update exceeds, or to which an update is scaled without harm: with noise, updates are then
    /// clipped to it unless users ask for less.
    const SENSITIVITY: Option<f32> = None;

    /// How rounds share the budget of differential privacy: fractions of the first rounds, which add up to 1, and which
    /// table each asks for; the last holds for all later ones. Empty: every round has the same noise, on all tables.
    const BUDGET_SHARES: &'static [BudgetShare] = &[];

    /// Settings that only say how the last round's sums are read: candidates that differ in nothing else come from one
    /// training.
    const READOUT: &'static [&'static str] = &[];

    /// Larger values of the shared model say that training diverged: no sound model has them, and scores are still far
    /// from overflowing.
    const LARGEST_VALUE: f32 = 1e4;

    /// Its settings.
    type Config: Config;

    /// What runs on devices.
    type Client: ClientModel;

    /// What runs on the server.
    type Server: ServerModel;

    /// The client's half. `features` are what [`FEATURES`](Self::FEATURES) asks for, empty if that is nothing.
    fn client(config: &Self::Config, features: &Arc<Facts>) -> Self::Client;

    /// The server's half.
    fn server(config: &Self::Config, features: &Arc<Facts>) -> Self::Server;

    /// The settings with those filled in that were left to a rule, from facts that everybody may know. The rule is the
    /// same for simulator and server, and what it gives is what devices are told.
    #[must_use]
    fn fitted(config: Self::Config, public: &PublicFacts<'_>) -> Self::Config {
        let _ = public;
        config
    }

    /// How an epoch of a population is divided into rounds; `cohort` is the cohort that users asked for, if they did.
    /// By default every device is asked once an epoch, on average.
    fn schedule(config: &Self::Config, cohort: Option<Cohort>, population: &Population) -> Schedule {
        let _ = config;
        let cohort = cohort.unwrap_or(Self::COHORT);
        if Self::ONCE_AN_EPOCH { Schedule::once(cohort, population) } else { Schedule::in_turn(cohort, population) }
    }

    /// How many times an epoch everybody is asked, each time for another table: such rounds ask for one table each,
    /// first all for table 0, then all for table 1, and so on. [`schedule`](Self::schedule) has them all.
    fn passes(config: &Self::Config) -> usize {
        let _ = config;
        1
    }

    /// The settings with what follows from the schedule filled in. Devices get these.
    #[must_use]
    fn scheduled(config: Self::Config, schedule: &Schedule) -> Self::Config {
        let _ = schedule;
        config
    }

    /// Samples that a device learns from in an epoch, as far as the settings say: `None` if that depends on histories,
    /// which a server does not know, and 1 if a device always uses all it has.
    fn samples_per_device(config: &Self::Config) -> Option<usize> {
        let _ = config;
        Some(1)
    }

    /// How updates become the next shared model, in a population of this many devices.
    fn aggregation(config: &Self::Config, devices: usize) -> AggregationSpec;

    /// What the rows of an update say about a person. The audit reads them accordingly.
    fn exposure() -> Vec<Exposure>;

    /// Vectors sent in an epoch, as the papers count communication (CCE).
    fn vectors_per_epoch(config: &Self::Config, traffic: &EpochTraffic) -> f64;

    /// Mean loss of a sample for a model that knows nothing; losses far above it count as divergence.
    fn baseline_loss(config: &Self::Config, items: usize) -> f64 {
        let _ = (config, items);
        std::f64::consts::LN_2
    }
}

/// What everybody may know of a federation before it begins.
#[derive(Clone, Copy)]
pub struct PublicFacts<'a> {
    /// People who can learn.
    pub people: usize,
    /// Items of the catalog.
    pub items: usize,
    /// Computes the standard deviation of the noise on each value of the sum of a round that spends all of the budget,
    /// in norms of an update; 0 without noise for whole histories.
    pub noise: &'a dyn Fn() -> f64,
    /// The tensors of the model that training goes on from; none where it begins anew.
    pub earlier: &'a [Tensor],
}

/// A round's share of the budget of differential privacy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetShare {
    /// The fraction.
    pub share: f64,
    /// Index of the table whose sums the round is for.
    pub table: u32,
}

/// What communication in an epoch depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochTraffic {
    /// How the epoch is divided into rounds.
    pub schedule: Schedule,
    /// Devices of a round.
    pub cohort: usize,
    /// Items of the catalog.
    pub items: usize,
    /// Features of the catalog's facts.
    pub features: usize,
    /// Mean fraction of their items that users disclose.
    pub pi: f64,
}
