//! KGFlex: features of a knowledge graph, weighted by information gain.
//!
//! V. W. Anelli, T. Di Noia, E. Di Sciascio, A. Ferrara, A. C. M. Mancino: Sparse feature factorization for recommender
//! systems with knowledge graphs, RecSys 2021; in a federation: A. Ferrara, Pursuing privacy and personalization in
//! recommender systems, thesis, Politecnico di Bari 2022, chapter 6, whose numbers the equations have.
//!
//! Items are described by features F_i ([`Facts`]), a person by F_u, the features of the items
//! they have (6.2). A device sets its owner's items beside as many drawn from the rest of the catalog, and weighs each
//! feature by how well it separates the two, its information gain k_uf (6.7); it keeps those with the largest: so many
//! one hop away, so many further. The server holds a vector g_f and a bias b_f for each feature, a device a vector p_f
//! of its own for each feature it keeps:
//! ```text
//! score(u, i) = sum over f in F_u and F_i of k_uf (p_f . g_f + b_f)                         (6.12)
//! ```
//! It learns in the rounds of FPL: T triples of an item i the owner has and an item j they do not have, all parameters
//! as they were at the round's start, s = 1 / (1 + e^(score_i - score_j)); with c = 1 where f is a feature of i, -1 of
//! j:
//! ```text
//! dp_f += c s k g_f - l p_f        dg_f += c s k p_f - l' g_f        db_f += c s k - l' b_f        (6.13, 6.14)
//! ```
//!
//! **What leaves the device**: rows of [`Server::TABLE`], the changes of g and b, after the device applied alpha dp to
//! its own vectors. It touches only features it is expert in, so that each row it sends reveals a feature of the user's
//! choices: all of them are marked as consumed, and leave with probability pi. A row of a feature that only hidden
//! items explain does not leave.
//!
//! What a device chose is a part of its private model; it chooses anew when its history or the catalog's facts change,
//! and keeps the vectors of features that stay.
//!
//! **Where facts are missing.** An item that shares no feature with a person scores 0, which is neither for nor against
//! it. For somebody of whom nothing is known, or none of whose features is telling, items are scored by the mean bias
//! of their features: what people like in general. Who has no telling feature learns nothing and sends nothing.
//!
//! The centralised version is `kgflex-central`.

mod central;
mod client;
mod config;
mod explanation;
mod feature_selection;
mod information_gain;
mod private;
mod scratch;
mod server;

pub(crate) use central::MODEL as CENTRAL;
pub use client::{Client, Regularisation};
pub use config::{KgFlexConfig, KgFlexModelConfig};
pub use explanation::FeatureRanking;
pub use feature_selection::Selection;
pub use information_gain::information_gain;
pub use scratch::Scratch;
pub use server::Server;

use super::{
    AggregationSpec, Cohort, Configuration, EpochTraffic, Epochs, Exposure, FeatureUse, FederatedModel, ModelInfo,
    Population, RowMeaning, Schedule,
};
use sottovoce_core::Facts;
use std::sync::Arc;

/// KGFlex.
pub struct KgFlex;

impl FederatedModel for KgFlex {
    const INFO: ModelInfo = ModelInfo::new("kgflex", "KGFlex")
        .summary("Facts of a knowledge graph, weighted by information gain: each device trains only the features its user decides by")
        .paper("Anelli, Di Noia, Di Sciascio, Ferrara, Mancino: Sparse Feature Factorization for Recommender Systems with Knowledge Graphs. RecSys 2021; Ferrara: Pursuing Privacy and Personalization in Recommender Systems. Politecnico di Bari 2022, chapter 6");
    const EPOCHS: Epochs = Epochs::of_triples(20);
    const COHORT: Cohort = Cohort::Fraction(0.1);
    const FEATURES: FeatureUse = FeatureUse::Facts;

    type Config = KgFlexConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &KgFlexConfig, features: &Arc<Facts>) -> Client {
        Client { triples: config.triples.triples.unwrap_or_default(), ..Client::new(&config.model, features) }
    }

    fn server(config: &KgFlexConfig, features: &Arc<Facts>) -> Server {
        Server::of(&Self::client(config, features))
    }

    fn schedule(config: &KgFlexConfig, cohort: Option<Cohort>, population: &Population) -> Schedule {
        // Of all devices at once, an epoch would be a single step of the server.
        let asked = cohort.or((config.triples.configuration == Configuration::ParallelPlus).then_some(Self::COHORT));
        config.triples.schedule(asked, population)
    }

    fn scheduled(config: KgFlexConfig, schedule: &Schedule) -> KgFlexConfig {
        KgFlexConfig { triples: config.triples.clone().scheduled(schedule), ..config }
    }

    fn samples_per_device(config: &KgFlexConfig) -> Option<usize> {
        config.triples.triples
    }

    fn aggregation(config: &KgFlexConfig, _: usize) -> AggregationSpec {
        config.aggregation.spec(config.model.learning_rate)
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Features, bias: true }]
    }

    /// All features down; up at most the selected ones, of which the fraction pi.
    fn vectors_per_epoch(config: &KgFlexConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, features, pi, .. } = *traffic;
        let most = (config.model.one_hop + config.model.more_hops).min(features);
        (schedule.rounds * cohort) as f64 * (features as f64 + pi * most as f64)
    }
}
