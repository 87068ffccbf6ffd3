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
//! The papers leave the strength of regularisation open, and theirs overfits where people have few items, or disclose
//! few. Here it is stronger the fewer items a vector is learnt from, biases are not regularised, and the server's steps
//! are adaptive: see `docs/decisions/0031-fpl-defaults.md`. `docs/results/fpl.md` has the papers' own settings.
//!
//! What leaves the device, then, is rows of one table, [`Server::TABLE`]; p and the history never do.

mod client;
mod config;
mod dp_sgd;
mod scratch;
mod simd;
mod touched;

pub use client::{Client, Regularisation};
pub use config::{FplConfig, Steps};

use super::{
    AdaptiveSum, AggregationSpec, Cohort, EpochTraffic, Epochs, Exposure, FederatedModel, ItemFactors, LastColumn,
    ModelInfo, Population, RoundsPerEpoch, RowMeaning, Schedule,
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
    const EPOCHS: Epochs = Epochs::of_triples(150);

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
                biases: config.regularise_biases,
                mean_history: config.scale_regularisation.then_some(config.mean_history.unwrap_or(1) as f32),
            },
            init_deviation: config.init_deviation as f32,
            negatives: config.negatives,
            steps: config.steps,
        }
    }

    fn server(config: &FplConfig, _: &Arc<Facts>) -> Server {
        Server { factors: config.factors, init_deviation: config.init_deviation as f32 }
    }

    fn schedule(config: &FplConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        let schedule = config.triples.schedule(cohort, population).concentrated(config.local_work, population);
        match config.rounds_per_epoch {
            RoundsPerEpoch::Text => schedule,
            RoundsPerEpoch::Published => schedule.published(population),
        }
    }

    fn scheduled(config: FplConfig, schedule: &Schedule) -> FplConfig {
        // A server knows the triples that an operator sets, and no histories; the simulator goes by the same.
        let mean_history = config.mean_history.or(config.triples.triples).or(Some(schedule.mean_history));
        FplConfig { triples: config.triples.clone().scheduled(schedule), mean_history, ..config }
    }

    fn samples_per_device(config: &FplConfig) -> Option<usize> {
        config.triples.triples
    }

    fn aggregation(config: &FplConfig, devices: usize) -> AggregationSpec {
        // Known as soon as there is a schedule.
        let interactions = devices * config.mean_history.unwrap_or(1);
        let last_column = match config.bias_steps {
            0.0 => LastColumn::ByInteractions(interactions as f32),
            times => LastColumn::Times(times as f32),
        };
        match config.aggregation.spec(config.learning_rate) {
            AggregationSpec::AdaptiveSum(sum) => AggregationSpec::AdaptiveSum(AdaptiveSum { last_column, ..sum }),
            other => other,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federated::TripleSchedule;
    use crate::settings::Choice;

    #[test]
    fn biases_lead_where_items_have_few_interactions() {
        let times = |interactions: usize, items| {
            let config = FplConfig { mean_history: Some(interactions / 100), ..FplConfig::default() };
            let AggregationSpec::AdaptiveSum(sum) = Fpl::aggregation(&config, 100) else { panic!("adaptive") };
            sum.last_column.times(items)
        };
        assert_eq!(times(637_000, 3_400), 1.0);
        assert_eq!(times(24_000, 1_000), 1.5);
        assert_eq!(times(20_000, 5_000), 2.25);
        assert_eq!(times(1_000, 100_000), 3.0);
        assert_eq!((times(0, 9), times(900, 0)), (3.0, 1.0));
        let config = FplConfig { bias_steps: 5.0, ..FplConfig::default() };
        let AggregationSpec::AdaptiveSum(sum) = Fpl::aggregation(&config, 100) else { panic!("adaptive") };
        assert_eq!(sum.last_column.times(7), 5.0);
    }

    #[test]
    fn published_rounds_cost_what_the_papers_report() {
        // Table 4 of the journal paper, Brazil, pi 0.1: 17,473 people, 599,958 interactions, 47,270 items.
        let population = Population { devices: (0..17_473).collect(), interactions: 599_958 };
        let cost = |configuration: &str, rounds_per_epoch, epochs: f64| {
            let configuration = Choice::named(configuration).unwrap();
            let triples = TripleSchedule { configuration, ..TripleSchedule::default() };
            let config = FplConfig { rounds_per_epoch, triples, ..FplConfig::default() };
            let schedule = Fpl::schedule(&config, None, &population);
            let cohort = schedule.cohort.size(17_473);
            let traffic = EpochTraffic { schedule, cohort, items: 47_270, features: 0, pi: 0.1 };
            epochs * Fpl::vectors_per_epoch(&config, &traffic) / 1e12
        };
        let published = RoundsPerEpoch::Published;
        assert!((cost("sfpl", published, 45.0) - 1.27623).abs() < 1e-5);
        assert!((cost("sfpl+", published, 50.0) - 1.41913).abs() < 2e-5);
        // X+/|U| rounds, 34.34, are 34 whole ones here.
        assert!((cost("pfpl+", published, 35.0) * 34.336 / 34.0 - 0.99339).abs() < 2e-5);
        assert!((cost("sfpl+", RoundsPerEpoch::Text, 50.0) - 0.0413).abs() < 1e-4);
        assert!((cost("pfpl+", RoundsPerEpoch::Text, 35.0) - 0.0289).abs() < 1e-4);
    }
}
