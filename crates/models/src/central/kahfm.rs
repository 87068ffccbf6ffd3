//! kaHFM: factorisation whose factors are the features of a knowledge graph.
//!
//! V. W. Anelli, T. Di Noia, E. Di Sciascio, A. Ragone, J. Trotta: How to make latent factors interpretable by feeding
//! factorization machines with knowledge graphs, ISWC 2019.
//!
//! score(u, i) = b_i + sum over f in F_i of v_uf v_if. Items are initialised as the TF-IDF vectors of their features,
//! users as the mean of their items' vectors, and both are trained as in BPR: for a triple of an item i that a user has
//! and an item j that they do not have, with g = 1 / (1 + e^(score_i - score_j)),
//! ```text
//! v_uf += rate (g v_if - reg v_uf)        v_if += rate (g v_uf - reg v_if)        for f in F_i; with -g for f in F_j
//! b_i  += rate (g - reg b_i)              b_j  += rate (-g - reg b_j)
//! ```
//! An item's vector has only the item's features, so that factors keep their meaning; a user's has all.

use super::epoch_order::{EpochOrder, Interaction};
use super::epochs::{EpochStats, run_epochs};
use super::negative_sampler::NegativeSampler;
use super::tf_idf::TfIdf;
use crate::loss::Loss;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Because, Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config, features, stored};
use sottovoce_core::{Catalog, Facts, Histories, Rng, math};
use std::sync::Arc;

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("kahfm", "kaHFM")
        .summary("Factorisation whose factors are the items' features, initialised by TF-IDF and trained by BPR")
        .paper("Anelli, Di Noia, Di Sciascio, Ragone, Trotta: How to Make Latent Factors Interpretable by Feeding Factorization Machines with Knowledge Graphs. ISWC 2019"),
    schema: || KaHfmConfig::default().schema(),
    build: |settings| Box::new(KaHfm { config: KaHfmConfig::read(settings), ..KaHfm::default() }),
};

config! {
    /// Settings of kaHFM.
    struct KaHfmConfig {
        /// Passes over all interactions
        epochs: usize = 50, in 1..=10_000 => [log];
        /// Learning rate of stochastic gradient descent
        learning_rate: f64 = 0.05, in 1e-6..=1.0 => [log];
        /// L2 regularisation of users' and items' vectors
        regularisation: f64 = 0.002, in 0.0..=1.0;
        /// L2 regularisation of items' biases
        bias_regularisation: f64 = 0.002, in 0.0..=1.0;
    }
}

/// Largest number of values of users' vectors: 8 GiB.
const MAX_VALUES: usize = 1 << 31;

#[derive(Default)]
struct KaHfm {
    config: KaHfmConfig,
    facts: Arc<Facts>,
    /// One row per user, one column per feature.
    users: Vec<f32>,
    items: TfIdf,
    bias: Vec<f32>,
    /// How many users have each item.
    popularity: Vec<u32>,
}

impl KaHfm {
    fn init(&mut self, train: &Histories) -> Result<(), ModelError> {
        let features = self.facts.features();
        let values = train.users().saturating_mul(features);
        if values > MAX_VALUES {
            let users = train.users();
            let message = format!(
                "{users} users by {features} features are more than {MAX_VALUES} values; ask for rarer features to be left out"
            );
            return Err(ModelError::Data(message));
        }
        self.items = TfIdf::of(&self.facts);
        self.bias = vec![0.0; train.catalog_size()];
        self.popularity = train.popularity();
        self.users = vec![0.0; values];
        for (user, row) in self.users.chunks_exact_mut(features).enumerate() {
            self.items.mean(&self.facts, train.of(user), row);
        }
        Ok(())
    }

    fn user(&self, user: usize) -> &[f32] {
        &self.users[user * self.facts.features()..][..self.facts.features()]
    }

    fn score_item(&self, user: &[f32], item: usize) -> f32 {
        let products = self.items.products(&self.facts, user, item);
        self.bias[item] + products.map(|(_, product)| product).sum::<f32>()
    }

    fn step(&mut self, Interaction { user, item }: Interaction, negative: u32, loss: &mut Loss) {
        let x = {
            let user = self.user(user as usize);
            self.score_item(user, item as usize) - self.score_item(user, negative as usize)
        };
        loss.add(math::sigmoid(x));
        let g = math::sigmoid(-x);
        let KaHfmConfig { learning_rate, regularisation, bias_regularisation, .. } = self.config;
        let rate = learning_rate as f32;
        let [regularisation, bias_regularisation] =
            [regularisation, bias_regularisation].map(|strength| strength as f32);
        let features = self.facts.features();
        let user = &mut self.users[user as usize * features..][..features];
        for (item, g) in [(item as usize, g), (negative as usize, -g)] {
            for (feature, weight) in self.facts.of(item).iter().zip(self.items.item_mut(item)) {
                let own = &mut user[feature as usize];
                let before = *own;
                *own += rate * (g * *weight - regularisation * before);
                *weight += rate * (g * before - regularisation * *weight);
            }
            self.bias[item] += rate * (g - bias_regularisation * self.bias[item]);
        }
    }
}

impl Recommender for KaHfm {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.facts = Arc::clone(features::of_catalog(MODEL.info.name, fit.catalog)?);
        self.init(train)?;
        let rng = Rng::new(fit.seed).stream(MODEL.info.name, 0);
        let sampler = NegativeSampler::new(train);
        let mut order = EpochOrder::new(train, &sampler, &mut rng.stream("order", 0));
        let mut negatives = Vec::new();
        let KaHfmConfig { epochs, learning_rate, .. } = self.config;
        let advice = format!("take a learning_rate below {learning_rate}");
        run_epochs(self, epochs, fit, &advice, |model, epoch| {
            let mut loss = Loss::new();
            order.epoch(&mut rng.stream("epoch", epoch), |chunk, rng| {
                negatives.resize(chunk.len(), 0);
                sampler.sample(&chunk.iter().map(|positive| positive.user), &mut negatives, rng);
                for (&positive, &negative) in chunk.iter().zip(&negatives) {
                    model.step(positive, negative, &mut loss);
                }
            });
            let finite = math::all_finite(&model.users) && math::all_finite(&model.items.values);
            Ok(EpochStats { triples: order.len(), loss: Some(loss.mean()), finite })
        })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.bias.len(), "one score per item");
        let user = self.user(user);
        into.iter_mut().enumerate().for_each(|(item, score)| *score = self.score_item(user, item));
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.facts = Arc::clone(features::of_catalog(MODEL.info.name, Some(catalog))?);
        Ok(())
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    /// The items' features, and their biases, which stand for their popularity.
    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let user = self.user(user);
        let reason = |(feature, weight)| Reason { because: Because::Fact(feature), weight };
        let reasons = |&item: &u32| {
            let item = item as usize;
            let popular = Because::Popular { people: self.popularity[item] };
            let products = self.items.products(&self.facts, user, item);
            products.map(reason).chain([Reason { because: popular, weight: self.bias[item] }]).collect()
        };
        items.iter().map(reasons).collect()
    }

    fn tensors(&self) -> Vec<Tensor> {
        let features = self.facts.features();
        vec![
            stored::floats("users", [self.users.len() / features.max(1), features], self.users.clone()),
            stored::floats("items", [self.items.values.len()], self.items.values.clone()),
            stored::floats("bias", [self.bias.len()], self.bias.clone()),
        ]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let users = stored::take_floats(tensors, "users", &[train.users(), self.facts.features()])?.to_vec();
        let items = TfIdf::restore(&self.facts, tensors, "items")?;
        let bias = stored::take_floats(tensors, "bias", &[train.catalog_size()])?.to_vec();
        (self.users, self.items, self.bias, self.popularity) = (users, items, bias, train.popularity());
        Ok(())
    }
}
