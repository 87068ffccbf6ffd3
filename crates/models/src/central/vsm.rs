//! VSM: the vector space model, a content-based recommender.
//!
//! T. Di Noia, R. Mirizzi, V. C. Ostuni, D. Romito, M. Zanker: Linked open data to support content-based recommender
//! systems, I-SEMANTICS 2012.
//!
//! An item is the TF-IDF vector of its features, a user the mean of their items' vectors:
//! score(u, i) = cosine of the two. Items that share no feature with a user's score 0.

use super::tf_idf::TfIdf;
use crate::registry::{CentralModel, ModelInfo};
use crate::{Because, Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, features, stored};
use sottovoce_core::{Catalog, Facts, Histories, math};
use std::sync::Arc;

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("vsm", "VSM")
        .summary("Items whose features, weighted by TF-IDF, are similar to those of the user's items")
        .paper("Di Noia, Mirizzi, Ostuni, Romito, Zanker: Linked Open Data to Support Content-Based Recommender Systems. I-SEMANTICS 2012"),
    schema: Vec::new,
    build: |_| Box::new(Vsm::default()),
};

#[derive(Default)]
struct Vsm {
    facts: Arc<Facts>,
    weights: TfIdf,
    train: Histories,
}

impl Vsm {
    /// A user's vector, scaled to length 1; all 0 if their items have no features.
    fn profile(&self, user: usize) -> Vec<f32> {
        let mut profile = vec![0.0; self.facts.features()];
        self.weights.mean(&self.facts, self.train.of(user), &mut profile);
        let length = math::dot(&profile, &profile).sqrt();
        if length > 0.0 {
            profile.iter_mut().for_each(|value| *value /= length);
        }
        profile
    }
}

impl Recommender for Vsm {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let facts = Arc::clone(features::of_catalog(MODEL.info.name, fit.catalog)?);
        *self = Self { weights: TfIdf::of(&facts), facts, train: train.deduplicated() };
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.facts.items(), "one score per item");
        let profile = self.profile(user);
        for (item, score) in into.iter_mut().enumerate() {
            *score = self.weights.products(&self.facts, &profile, item).map(|(_, product)| product).sum();
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let profile = self.profile(user);
        let reasons = |&item: &u32| {
            let products = self.weights.products(&self.facts, &profile, item as usize);
            let shared = products.filter(|&(_, weight)| weight > 0.0);
            shared.map(|(feature, weight)| Reason { because: Because::Fact(feature), weight }).collect()
        };
        items.iter().map(reasons).collect()
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.facts = Arc::clone(features::of_catalog(MODEL.info.name, Some(catalog))?);
        Ok(())
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![stored::floats("weights", [self.weights.values.len()], self.weights.values.clone())]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.weights = TfIdf::restore(&self.facts, tensors, "weights")?;
        self.train = train.deduplicated();
        Ok(())
    }
}
