//! MF: matrix factorisation that tells interactions from sampled cells, by stochastic gradient descent.
//!
//! S. Rendle, W. Krichene, L. Zhang, J. Anderson: Neural collaborative filtering vs. matrix factorization revisited,
//! RecSys 2020.
//!
//! score(u, i) = b + b_u + b_i + <p_u, q_i>. For each interaction, and for `negatives` cells of the same user drawn
//! uniformly from all items, one step down the logistic loss of the label y, with e = y - sigma(score):
//! ```text
//! p_u += rate (e q_i - reg p_u)        q_i += rate (e p_u - reg q_i)        b, b_u, b_i += rate (e - reg b)
//! ```
//! An item that is drawn and that the user has counts as a negative all the same, as in the paper's own program.

use super::factors::{Factors, MOST_FACTORS};
use super::negatives::Owned;
use super::order::Order;
use crate::loss::Loss;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary, Tensor};
use sottovoce_core::{Histories, Rng, math};

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "mf",
    title: "MF",
    what: "Matrix factorisation that tells interactions from sampled cells (logistic loss)",
    paper: "Rendle, Krichene, Zhang, Anderson: Neural Collaborative Filtering vs. Matrix Factorization Revisited. RecSys 2020",
    settings,
    build: |settings| Box::new(Mf::new(settings)),
};

fn settings() -> Vec<Setting> {
    vec![
        Setting::integer("factors", 16, 1..=MOST_FACTORS, "Length of users' and items' vectors")
            .on_log_scale(),
        Setting::integer("epochs", 50, 1..=10_000, "Times every interaction is gone through").on_log_scale(),
        Setting::integer("negatives", 8, 1..=1000, "Sampled cells for each interaction").on_log_scale(),
        Setting::real("learning_rate", 0.005, 1e-6..=1.0, "Step of the stochastic gradient").on_log_scale(),
        Setting::real("regularisation", 0.005, 0.0..=1.0, "Pull of all vectors and biases to zero"),
        Setting::real("init_deviation", 0.1, 0.0..=1.0, "Standard deviation of the first random vectors"),
    ]
}

struct Mf {
    width: usize,
    epochs: usize,
    negatives: usize,
    rate: f32,
    pull: f32,
    init_deviation: f32,
    /// Without b and b_u, which do not change a user's ranking once learnt.
    factors: Factors,
}

impl Mf {
    fn new(settings: &Settings) -> Self {
        Self {
            width: settings.integer("factors"),
            epochs: settings.integer("epochs"),
            negatives: settings.integer("negatives"),
            rate: settings.real("learning_rate") as f32,
            pull: settings.real("regularisation") as f32,
            init_deviation: settings.real("init_deviation") as f32,
            factors: Factors::default(),
        }
    }
}

/// Biases that training needs and ranking does not.
struct Levels {
    all: f32,
    users: Vec<f32>,
}

impl Mf {
    fn learn(&mut self, levels: &mut Levels, user: usize, item: usize, had: bool, loss: &mut Loss) {
        let (rate, pull) = (self.rate, self.pull);
        let Factors { users, items, bias, .. } = &mut self.factors;
        let (p, q) = (users.row_mut(user), items.row_mut(item));
        let score = levels.all + levels.users[user] + bias[item] + math::dot(p, q);
        let chance = math::sigmoid(score);
        loss.add(if had { chance } else { 1.0 - chance });
        let e = f32::from(u8::from(had)) - chance;
        for (p, q) in p.iter_mut().zip(q) {
            let before = *p;
            *p += rate * (e * *q - pull * before);
            *q += rate * (e * before - pull * *q);
        }
        for level in [&mut levels.all, &mut levels.users[user], &mut bias[item]] {
            *level += rate * (e - pull * *level);
        }
    }
}

impl Recommender for Mf {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let rng = Rng::new(fit.seed).stream(MODEL.name, 0);
        let items = train.catalog_size();
        self.factors = Factors::normal(train, self.width, self.init_deviation, &rng).with_bias();
        let mut levels = Levels { all: 0.0, users: vec![0.0; train.users()] };
        let mut order = Order::new(train, &Owned::new(train), &mut rng.stream("order", 0));
        let mut summary = Summary::default();
        for epoch in 1..=self.epochs {
            let mut loss = Loss::new();
            order.epoch(&mut rng.stream("epoch", epoch as u64), |chunk, rng| {
                for pair in chunk {
                    let user = pair.user as usize;
                    self.learn(&mut levels, user, pair.item as usize, true, &mut loss);
                    for _ in 0..self.negatives {
                        self.learn(&mut levels, user, rng.index(items), false, &mut loss);
                    }
                }
            });
            self.factors.changed();
            let loss = loss.mean();
            if !(loss.is_finite() && self.factors.is_finite()) {
                let advice = format!("take a learning_rate below {}", self.rate);
                return Err(ModelError::Diverged { epoch, advice });
            }
            let progress = Progress { epoch, epochs: self.epochs, loss: Some(loss), model: &*self };
            if fit.after_epoch(&mut summary, order.len() as u64, &progress) == Flow::Stop {
                break;
            }
        }
        Ok(summary)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.factors.score(user, into);
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.factors.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.factors = Factors::restore(tensors, train, self.width, true)?;
        Ok(())
    }
}
