//! MF: matrix factorisation that tells interactions from sampled cells, by stochastic gradient descent.
//!
//! S. Rendle, W. Krichene, L. Zhang, J. Anderson: Neural collaborative filtering vs. matrix factorization revisited,
//! RecSys 2020.
//!
//! score(u, i) = b + b_u + b_i + <p_u, q_i>. For each interaction, and for `negatives` cells of the same user drawn
//! uniformly from all items, one step of gradient descent on the logistic loss of the label y, with e = y -
//! sigma(score):
//! ```text
//! p_u += rate (e q_i - reg p_u)        q_i += rate (e p_u - reg q_i)        b, b_u, b_i += rate (e - reg b)
//! ```
//! A sampled item that the user has still counts as a negative, as in the paper's own program.

use super::epoch_order::EpochOrder;
use super::epochs::{EpochStats, run_epochs};
use super::factors::{FactorModel, Factorisation, Factors, MAX_FACTORS};
use super::negative_sampler::NegativeSampler;
use crate::loss::Loss;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Summary, config};
use sottovoce_core::{Histories, math};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new(MfConfig::NAME, "MF")
        .summary("Matrix factorisation that tells interactions from sampled cells (logistic loss)")
        .paper("Rendle, Krichene, Zhang, Anderson: Neural Collaborative Filtering vs. Matrix Factorization Revisited. RecSys 2020"),
    schema: || MfConfig::default().schema(),
    build: |settings| Box::new(FactorModel::new(MfConfig::read(settings))),
};

config! {
    /// Settings of MF.
    struct MfConfig {
        /// Length of users' and items' vectors
        factors: usize = 16, in 1..=MAX_FACTORS => [log];
        /// Passes over all interactions
        epochs: usize = 50, in 1..=10_000 => [log];
        /// Sampled cells for each interaction
        negatives: usize = 8, in 1..=1000 => [log];
        /// Learning rate of stochastic gradient descent
        learning_rate: f64 = 0.005, in 1e-6..=1.0 => [log];
        /// L2 regularisation of all vectors and biases
        regularisation: f64 = 0.005, in 0.0..=1.0;
        /// Standard deviation of initial vectors
        init_deviation: f64 = 0.1, in 0.0..=1.0;
    }
}

/// Biases that training needs and ranking does not: they do not change a user's ranking once trained.
struct TrainingBiases {
    global: f32,
    users: Vec<f32>,
}

impl FactorModel<MfConfig> {
    /// Steps on one cell.
    fn step(&mut self, biases: &mut TrainingBiases, user: usize, item: usize, positive: bool, loss: &mut Loss) {
        let MfConfig { learning_rate, regularisation, .. } = self.config;
        let (rate, regularisation) = (learning_rate as f32, regularisation as f32);
        let Factors { users, items, bias, .. } = &mut self.factors;
        let (p, q) = (users.row_mut(user), items.row_mut(item));
        let score = biases.global + biases.users[user] + bias[item] + math::dot(p, q);
        let probability = math::sigmoid(score);
        loss.add(if positive { probability } else { 1.0 - probability });
        let e = f32::from(u8::from(positive)) - probability;
        for (p, q) in p.iter_mut().zip(q) {
            let before = *p;
            *p += rate * (e * *q - regularisation * before);
            *q += rate * (e * before - regularisation * *q);
        }
        for bias in [&mut biases.global, &mut biases.users[user], &mut bias[item]] {
            *bias += rate * (e - regularisation * *bias);
        }
    }
}

impl Factorisation for MfConfig {
    const NAME: &'static str = "mf";
    const BIAS: bool = true;

    fn init(&self) -> (usize, f64) {
        (self.factors, self.init_deviation)
    }

    fn train(model: &mut FactorModel<Self>, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let rng = Self::rng(fit);
        let MfConfig { epochs, negatives, learning_rate, .. } = model.config;
        let mut biases = TrainingBiases { global: 0.0, users: vec![0.0; train.users()] };
        let sampler = NegativeSampler::new(train);
        let mut order = EpochOrder::new(train, &sampler, &mut rng.stream("order", 0));
        let advice = format!("take a learning_rate below {learning_rate}");
        run_epochs(model, epochs, fit, &advice, |model, epoch| {
            let mut loss = Loss::new();
            order.epoch(&mut rng.stream("epoch", epoch), |chunk, rng| {
                for positive in chunk {
                    let user = positive.user as usize;
                    model.step(&mut biases, user, positive.item as usize, true, &mut loss);
                    for _ in 0..negatives {
                        let item = rng.index(train.catalog_size());
                        model.step(&mut biases, user, item, false, &mut loss);
                    }
                }
            });
            model.factors.changed();
            Ok(EpochStats { triples: order.len(), loss: Some(loss.mean()), finite: model.factors.is_finite() })
        })
    }
}
