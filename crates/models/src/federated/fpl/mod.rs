//! FPL: federated pair-wise learning.
//!
//! V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara, F. Narducci: How to put users in control of their data in
//! federated top-N recommendation with learning to rank, SAC 2021; and, by the same: User-controlled federated matrix
//! factorization for recommender systems, Journal of Intelligent Information Systems 2022.
//!
//! Matrix factorisation with the item factors Q and biases b on the server and each user's factors p on their device:
//! score(u, i) = b_i + p . q_i. In a round the server gives (Q, b) to a cohort. Each device draws T triples of its
//! owner, an item i they have and an item j they do not have, and with all parameters as they were at the round's start
//! and s = 1 / (1 + e^(score_i - score_j)) sums up
//! ```text
//! dp   += s (q_i - q_j) - l_u p
//! dq_i +=  s p - l_i q_i          db_i +=  s - l_i b_i
//! dq_j += -s p - l_j q_j          db_j += -s - l_j b_j
//! ```
//! It applies p += alpha dp at once. Of dQ and db the update has the touched rows, marked by whether the user has the
//! item; the disclosure policy decides what leaves: rows of items they do not have do, the row of an item they have
//! does with probability pi. The server adds alpha times the sum of what it receives.
//!
//! In the papers j is an item that the user does not have. Then a row that never leaves belongs to an item that they do
//! have, and a server sees that from many rounds, at pi = 0 as well. By default, j is therefore drawn from the whole
//! catalog ([`Negatives::Decoys`](super::Negatives::Decoys)): which rows leave as negatives is independent of the
//! history. Where the row of a consumed or hidden item is withheld, its part as a negative leaves as a decoy.
//!
//! What leaves the device, then, is rows of one table, [`Server::TABLE`]; p and the history never do.

mod client;
mod config;
mod dp_sgd;
mod scratch;
mod simd;
mod touched;

pub use client::{Client, Regularisation};
pub use config::FplConfig;

use super::{
    AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ItemFactors, ModelInfo, Population,
    RowMeaning, Schedule,
};
use sottovoce_core::Facts;
use std::sync::Arc;

/// FPL.
pub struct Fpl;

/// Item factors and biases.
pub type Server = ItemFactors<true>;

impl FederatedModel for Fpl {
    const INFO: ModelInfo = ModelInfo::new("fpl", "FPL")
        .summary("Federated pair-wise learning: users' vectors stay on their devices, and users choose what fraction of their likes leaves")
        .paper("Anelli, Deldjoo, Di Noia, Ferrara, Narducci: User-controlled federated matrix factorization for recommender systems. J. Intell. Inf. Syst. 2022");
    const EPOCHS: Epochs = Epochs::of_triples(50);

    type Config = FplConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FplConfig, _: &Arc<Facts>) -> Client {
        // Rows are regularised on devices, where steps do not have the learning rate yet.
        let regularisation = |strength| (config.learning_rate * strength) as f32;
        Client {
            factors: config.factors,
            triples: config.triples.triples.unwrap_or_default(),
            learning_rate: config.learning_rate as f32,
            regularisation: Regularisation {
                user: regularisation(config.user_regularisation),
                positive: regularisation(config.positive_regularisation),
                negative: regularisation(config.negative_regularisation),
            },
            init_deviation: config.init_deviation as f32,
            negatives: config.negatives,
        }
    }

    fn server(config: &FplConfig, _: &Arc<Facts>) -> Server {
        Server { factors: config.factors, init_deviation: config.init_deviation as f32 }
    }

    fn schedule(config: &FplConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        config.triples.schedule(cohort, population).concentrated(config.local_work, population)
    }

    fn scheduled(config: FplConfig, schedule: &Schedule) -> FplConfig {
        FplConfig { triples: config.triples.clone().scheduled(schedule), ..config }
    }

    fn samples_per_device(config: &FplConfig) -> Option<usize> {
        config.triples.triples
    }

    fn aggregation(config: &FplConfig, _: usize) -> AggregationSpec {
        config.aggregation.spec(config.learning_rate)
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: true }]
    }

    /// The papers' CCE: each round sends the items' vectors down, and up two rows a triple, of which those of the
    /// user's own items leave with probability pi.
    fn vectors_per_epoch(_: &FplConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        let up = schedule.triples as f64 * (1.0 + pi);
        schedule.rounds as f64 * cohort as f64 * (items as f64 + up)
    }
}
