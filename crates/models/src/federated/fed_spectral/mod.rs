//! FedSpectral: low-rank EASE from nothing but sums.
//!
//! H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019, by subspace iteration with Nystroem's
//! approximation (N. Halko, P. G. Martinsson, J. A. Tropp: Finding Structure with Randomness, SIAM Review 53(2), 2011).
//! J. Nicolas et al., Secure Federated Graph-Filtering for Recommender Systems (arXiv:2501.16888, 2025), compute graph
//! filters by multi-party computation.
//!
//! With x_u a person's history and w_u = n_u^-a their weight, the model depends on people through G = sum_u w_u x_u
//! x_u' only. The server sends a table Q of vectors of items; a device answers, for each of its items, with the row
//! ```text
//! w_u (x_u' Q)
//! ```
//! so that the sum over people is Z = G Q. From Q and Z the server finds the largest eigenvalues L of G and their
//! vectors U, and sends V = U sqrt(L / (L + l)), which is the next Q and the recommender at once: devices score by
//! ```text
//! score(u, j) = sum_{i of u, i != j} V_i . V_j / (1 - |V_j|^2)
//! ```
//! (`readout = svd` and `gf-cf` read scores from the same vectors in other ways; for GF-CF, G is divided by the roots
//! of the items' numbers of people, which devices send in a column of their own.)
//!
//! Two or three rounds are enough. **Everybody is asked once** in an epoch: where it has several rounds, their cohorts
//! do not overlap. What earlier groups said of G is kept in U and L, whose part of Z is Q diag(L); only the rounds in
//! which the first random Q turns into a useful one are forgotten. There is no private model: whoever comes later is
//! served at once, from their history.
//!
//! **Values of one size.** A column of what devices send is large where its eigenvalue is. A second table,
//! [`Server::COLUMNS`], has the factors that make all columns equally large on average, UNIT, powers of two: so sums of
//! 16 bits are enough (`seal_bits`).
//!
//! **Going on** from the vectors of an earlier training, one round of everybody keeps a model current: no round is
//! needed to find useful vectors, and new items get theirs from the people who have them.
//!
//! What leaves the device are rows of one table, [`Server::TABLE`], one for each item that the owner has, all with the
//! same values. **In the open the rows name the items**, as in no other way of sending sums; seal the rounds
//! (`seal = secagg`), and the server learns the sum of a cohort and nothing else.

mod client;
mod config;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Client, Scratch};
pub use config::FedSpectralConfig;
pub use server::{Server, SpectralRound, SpectralSpec, SpectralStep};

use super::{AggregationSpec, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, PublicFacts, RowMeaning};
use sottovoce_core::Facts;
use std::sync::Arc;

/// What values of an update are on average (root of the mean square): the default range of sealed values, 8, leaves
/// room for 64 times as much.
const UNIT: f64 = 0.125;

/// FedSpectral.
pub struct FedSpectral;

impl FederatedModel for FedSpectral {
    const INFO: ModelInfo = ModelInfo::new("fed-spectral", "FedSpectral")
        .summary("Low-rank EASE from sums: two or three rounds find the largest eigenvalues of the items' Gram matrix")
        .paper("Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019; Halko, Martinsson, Tropp: Finding Structure with Randomness. SIAM Review 53(2), 2011");
    const EPOCHS: Epochs = Epochs { default: 3, help: "Epochs; in one, every device is asked once" };
    const ONCE_AN_EPOCH: bool = true;
    const READOUT: &'static [&'static str] = &["regularisation", "alpha"];

    type Config = FedSpectralConfig;
    type Client = Client;
    type Server = Server;

    fn client(config: &FedSpectralConfig, _: &Arc<Facts>) -> Client {
        Client { config: config.clone() }
    }

    fn server(config: &FedSpectralConfig, _: &Arc<Facts>) -> Server {
        Server { factors: config.vectors(), oversampling: config.oversampling, readout: config.readout }
    }

    fn fitted(config: FedSpectralConfig, public: &PublicFacts<'_>) -> FedSpectralConfig {
        let earlier = public.earlier.iter().find(|tensor| tensor.name == Server::COLUMNS);
        let earlier = earlier.and_then(|columns| columns.shape.last()?.checked_sub(config.oversampling));
        let factors = config.factors.or(earlier).unwrap_or_else(|| FedSpectralConfig::rule(public));
        FedSpectralConfig { factors: Some(factors), ..config }
    }

    fn aggregation(config: &FedSpectralConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Spectral(SpectralSpec {
            factors: config.vectors(),
            readout: config.readout,
            regularisation: config.regularisation,
            basis_rounds: config.basis_rounds as u64,
        })
    }

    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: false }]
    }

    /// All items down; up the owner's items.
    fn vectors_per_epoch(_: &FedSpectralConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        (schedule.rounds * cohort) as f64 * (items as f64 + pi * schedule.triples as f64)
    }

    /// The loss is the share of an interaction that the vectors do not explain.
    fn baseline_loss(_: &FedSpectralConfig, _: usize) -> f64 {
        1.0
    }
}
