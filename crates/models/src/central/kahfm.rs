//! kaHFM: factorisation whose factors are the features of a knowledge graph.
//!
//! V. W. Anelli, T. Di Noia, E. Di Sciascio, A. Ragone, J. Trotta: How to make latent factors interpretable by feeding
//! factorization machines with knowledge graphs, ISWC 2019.
//!
//! score(u, i) = b_i + sum over f in F_i of v_uf v_if. Items begin as the TF-IDF vectors of their features, people as the
//! mean of their items' vectors, and both are learnt as in BPR: for a triple of an item i a person has and an item j
//! they do not have, with g = 1 / (1 + e^(score_i - score_j)),
//! ```text
//! v_uf += rate (g v_if - reg v_uf)        v_if += rate (g v_uf - reg v_if)        for f in F_i; with -g for f in F_j
//! b_i  += rate (g - reg b_i)              b_j  += rate (-g - reg b_j)
//! ```
//! An item's vector has the features it has and no other, so that factors keep their meaning; a person's has all.

use super::negatives::Owned;
use super::order::{Order, Pair};
use super::tf_idf::Weights;
use crate::knowing::facts_of;
use crate::loss::Loss;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::{Because, Fit, Flow, ModelError, Progress, Reason, Recommender, Summary, Tensor, stored};
use sottovoce_core::{Catalog, Facts, Histories, Rng, math};
use std::sync::Arc;

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "kahfm",
    title: "kaHFM",
    what: "Factorisation whose factors are the items' features, begun by TF-IDF and learnt by BPR",
    paper: "Anelli, Di Noia, Di Sciascio, Ragone, Trotta: How to Make Latent Factors Interpretable by Feeding Factorization Machines with Knowledge Graphs. ISWC 2019",
    settings,
    build: |settings| Box::new(KaHfm::new(settings)),
};

fn settings() -> Vec<Setting> {
    vec![
        Setting::integer("epochs", 50, 1..=10_000, "Times every interaction is gone through").on_log_scale(),
        Setting::real("learning_rate", 0.05, 1e-6..=1.0, "Step of the stochastic gradient").on_log_scale(),
        Setting::real("regularisation", 0.002, 0.0..=1.0, "Pull of users' and items' vectors to zero"),
        Setting::real("bias_regularisation", 0.002, 0.0..=1.0, "Pull of items' biases to zero"),
    ]
}

/// Values of users' vectors at most: 8 GiB.
const MOST_VALUES: usize = 1 << 31;

struct KaHfm {
    epochs: usize,
    rate: f32,
    pull: f32,
    bias_pull: f32,
    facts: Arc<Facts>,
    /// One row a user, one column a feature.
    users: Vec<f32>,
    items: Weights,
    bias: Vec<f32>,
    /// How many people have each item.
    people: Vec<u32>,
}

impl KaHfm {
    fn new(settings: &Settings) -> Self {
        Self {
            epochs: settings.integer("epochs"),
            rate: settings.real("learning_rate") as f32,
            pull: settings.real("regularisation") as f32,
            bias_pull: settings.real("bias_regularisation") as f32,
            facts: Arc::default(),
            users: Vec::new(),
            items: Weights::default(),
            bias: Vec::new(),
            people: Vec::new(),
        }
    }

    fn begin(&mut self, train: &Histories) -> Result<(), ModelError> {
        let features = self.facts.features();
        let values = train.users().saturating_mul(features);
        if values > MOST_VALUES {
            let users = train.users();
            let message = format!(
                "{users} users by {features} features are more than {MOST_VALUES} values; ask for rarer features to be left out"
            );
            return Err(ModelError::Data(message));
        }
        self.items = Weights::of(&self.facts);
        self.bias = vec![0.0; train.catalog_size()];
        self.people = train.popularity();
        self.users = vec![0.0; values];
        for (user, row) in self.users.chunks_exact_mut(features).enumerate() {
            self.items.mean(&self.facts, train.of(user), row);
        }
        Ok(())
    }

    fn user(&self, user: usize) -> &[f32] {
        &self.users[user * self.facts.features()..][..self.facts.features()]
    }

    fn one(&self, user: &[f32], item: usize) -> f32 {
        let own = self.facts.of(item).iter().zip(self.items.item(item));
        self.bias[item] + own.map(|(feature, weight)| user[feature as usize] * weight).sum::<f32>()
    }

    fn learn(&mut self, Pair { user, item }: Pair, negative: u32, loss: &mut Loss) {
        let x = {
            let user = self.user(user as usize);
            self.one(user, item as usize) - self.one(user, negative as usize)
        };
        loss.add(math::sigmoid(x));
        let g = math::sigmoid(-x);
        let (rate, pull, features) = (self.rate, self.pull, self.facts.features());
        let user = &mut self.users[user as usize * features..][..features];
        for (item, g) in [(item as usize, g), (negative as usize, -g)] {
            for (feature, weight) in self.facts.of(item).iter().zip(self.items.item_mut(item)) {
                let own = &mut user[feature as usize];
                let before = *own;
                *own += rate * (g * *weight - pull * before);
                *weight += rate * (g * before - pull * *weight);
            }
            self.bias[item] += rate * (g - self.bias_pull * self.bias[item]);
        }
    }
}

impl Recommender for KaHfm {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.facts = Arc::clone(facts_of(MODEL.name, fit.catalog)?);
        self.begin(train)?;
        let rng = Rng::new(fit.seed).stream(MODEL.name, 0);
        let owned = Owned::new(train);
        let mut order = Order::new(train, &owned, &mut rng.stream("order", 0));
        let mut summary = Summary::default();
        let mut negatives = Vec::new();
        for epoch in 1..=self.epochs {
            let mut loss = Loss::new();
            order.epoch(&mut rng.stream("epoch", epoch as u64), |chunk, rng| {
                negatives.resize(chunk.len(), 0);
                owned.draw_negatives(&chunk.iter().map(|pair| pair.user), &mut negatives, rng);
                for (&pair, &negative) in chunk.iter().zip(&negatives) {
                    self.learn(pair, negative, &mut loss);
                }
            });
            let loss = loss.mean();
            if !(loss.is_finite() && math::all_finite(&self.users) && math::all_finite(self.items.values())) {
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
        assert_eq!(into.len(), self.bias.len(), "one score an item");
        let user = self.user(user);
        into.iter_mut().enumerate().for_each(|(item, score)| *score = self.one(user, item));
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.facts = Arc::clone(facts_of(MODEL.name, Some(catalog))?);
        Ok(())
    }

    /// The facts, and the bias, which says how many people have the item.
    fn reasons(&self, user: usize, item: u32) -> Vec<Reason> {
        let (user, item) = (self.user(user), item as usize);
        let own = self.facts.of(item).iter().zip(self.items.item(item));
        let fact = |(feature, weight): (u32, &f32)| Reason {
            because: Because::Fact(feature),
            weight: user[feature as usize] * weight,
        };
        let popular = Because::Popular { people: self.people[item] };
        own.map(fact).chain([Reason { because: popular, weight: self.bias[item] }]).collect()
    }

    fn tensors(&self) -> Vec<Tensor> {
        let features = self.facts.features();
        vec![
            stored::floats("users", [self.users.len() / features.max(1), features], self.users.clone()),
            stored::floats("items", [self.items.values().len()], self.items.values().to_vec()),
            stored::floats("bias", [self.bias.len()], self.bias.clone()),
        ]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let mut items = Weights::of(&self.facts);
        let users = stored::take_floats(tensors, "users", &[train.users(), self.facts.features()])?.to_vec();
        let values = stored::take_floats(tensors, "items", &[items.values().len()])?;
        items.values_mut().copy_from_slice(values);
        let bias = stored::take_floats(tensors, "bias", &[train.catalog_size()])?.to_vec();
        (self.users, self.items, self.bias, self.people) = (users, items, bias, train.popularity());
        Ok(())
    }
}
