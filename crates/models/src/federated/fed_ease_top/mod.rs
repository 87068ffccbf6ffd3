//! FedEASE-Top: EASE on the most popular items, from two sums, made for differential privacy.
//!
//! H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019; shrinkage of eigenvalues in noise as in
//! M. Gavish, D. L. Donoho: Optimal Shrinkage of Singular Values, IEEE Transactions on Information Theory 63(4), 2017.
//!
//! **First round**: counts, c = sum_u x_u / sqrt(n_u). The M items with the largest are kept, and said in the shared
//! model. **Second round**, with y_u the history restricted to those: G = sum_u y_u y_u' / |y_u|, half of it because it
//! is symmetric. A person's part of each sum has norm 1 whatever their history, so that **nothing is clipped** and
//! noise of a standard deviation of `noise_multiplier` protects whole histories. A fifth of the privacy budget goes to
//! the counts.
//!
//! With s the deviation of the noise on the diagonal (beside it s / sqrt 2), the server keeps eigenvalues v of G above
//! the edge of the noise, e = 2 s sqrt(M / 2), and shrinks them:
//! ```text
//! t = (v + sqrt(v^2 - e^2)) / 2      a = 1 - (e / 2)^2 / t^2
//! ```
//! What is left of G, U diag(a t) U', is scaled by counts, H = diag(c / mean c)^(-p / 2), before it is regularised, so
//! that a few popular items do not decide how much. With U'' and w the vectors and eigenvalues of H U diag(a t) U' H and
//! l = regularisation * largest w, it sends W = H U'' sqrt(w / (w + l)). Devices score by low-rank EASE, as if the owner
//! had some items more of those that an average person has, and popular items the less the longer the history is:
//! ```text
//! score(u, j) = sum_{i != j} (y_i + k c_i / sum c) W_i . W_j / (H_j^2 - |W_j|^2) * (c_j / mean c)^(-b n / (n + 3))
//! ```
//! with n = |y|, k = `average_items` and b = `popularity_exponent`. Without scaling and average items that is EASE.
//! Items that are not kept rank behind, by their counts. There is no private model: whoever comes later is served at
//! once.
//!
//! What leaves the device are, in the first round, rows of the table [`Server::ITEMS`], one for each item that the
//! owner has; in the second, rows of [`Server::GRAM`] that say which of the kept items the owner has. **In the open
//! they are the history**: seal the rounds.

mod client;
mod config;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, Scratch};
pub use config::FedEaseTopConfig;
pub use server::{Server, TopItemsSpec, TopItemsStep};

use super::{
    AggregationSpec, BudgetShare, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, Population,
    PublicFacts, RowMeaning, Schedule,
};
use sottovoce_core::Facts;
use std::sync::Arc;

/// FedEASE-Top.
pub struct FedEaseTop;

impl FederatedModel for FedEaseTop {
    const INFO: ModelInfo = ModelInfo::new("fed-ease-top", "FedEASE-Top")
        .summary("EASE on the most popular items from two sums, made for differential privacy")
        .paper("Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019; Gavish, Donoho: Optimal Shrinkage of Singular Values. IEEE Transactions on Information Theory 63(4), 2017");
    const EPOCHS: Epochs = Epochs {
        default: 2,
        help: "Epochs, each a round; in the first devices are asked for counts, in the second for co-occurrences",
    };
    const SENSITIVITY: Option<f32> = Some(1.0);
    const BUDGET_SHARES: &'static [BudgetShare] =
        &[BudgetShare { share: 0.2, table: 0 }, BudgetShare { share: 0.8, table: 1 }];
    const READOUT: &'static [&'static str] = &["regularisation", "popularity_exponent", "average_items"];

    type Config = FedEaseTopConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedEaseTopConfig, _: &Arc<Facts>) -> Client {
        Client { config: config.clone() }
    }

    fn server(config: &FedEaseTopConfig, _: &Arc<Facts>) -> Server {
        Server { top_items: config.kept() }
    }

    fn fitted(config: FedEaseTopConfig, public: &PublicFacts<'_>) -> FedEaseTopConfig {
        let top_items = config.top_items.or_else(|| Some(FedEaseTopConfig::rule(public)));
        let average_items = config.average_items.or_else(|| Some(FedEaseTopConfig::average_by_rule(public)));
        FedEaseTopConfig { top_items, average_items, ..config }
    }

    /// An epoch is a round, of everybody or of a sample.
    fn schedule(_: &FedEaseTopConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule { rounds: 1, ..Schedule::in_turn(cohort.unwrap_or(Self::COHORT), population) }
    }

    fn aggregation(config: &FedEaseTopConfig, _: usize) -> AggregationSpec {
        AggregationSpec::TopItems(TopItemsSpec {
            top_items: config.kept(),
            regularisation: config.regularisation,
            popularity_scaling: config.popularity_scaling,
        })
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// Both tables down; up the owner's items.
    fn vectors_per_epoch(config: &FedEaseTopConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let rows = items + config.kept().min(items);
        (schedule.rounds * cohort) as f64 * (rows as f64 + pi * schedule.triples as f64)
    }

    /// The loss is the share of the history that is not among the kept items.
    fn baseline_loss(_: &FedEaseTopConfig, _: usize) -> f64 {
        1.0
    }
}
