//! VSM: the vector space model, by content alone.
//!
//! T. Di Noia, R. Mirizzi, V. C. Ostuni, D. Romito, M. Zanker: Linked open data to support content-based recommender
//! systems, I-SEMANTICS 2012.
//!
//! An item is the TF-IDF vector of its features, a person the mean of their items' vectors:
//! score(u, i) = cosine of the two. Items that share no feature with a person score 0.

use super::tf_idf::Weights;
use crate::knowing::facts_of;
use crate::registry::Model;
use crate::settings::Settings;
use crate::{Because, Fit, ModelError, Reason, Recommender, Summary, Tensor, stored};
use sottovoce_core::{Catalog, Facts, Histories, math};
use std::sync::Arc;

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "vsm",
    title: "VSM",
    what: "Items whose features, weighed by TF-IDF, are like those of the items a person has",
    paper: "Di Noia, Mirizzi, Ostuni, Romito, Zanker: Linked Open Data to Support Content-Based Recommender Systems. I-SEMANTICS 2012",
    settings: Vec::new,
    build: |_: &Settings| Box::new(Vsm::default()),
};

#[derive(Default)]
struct Vsm {
    facts: Arc<Facts>,
    weights: Weights,
    train: Histories,
}

impl Vsm {
    /// A person's vector, scaled to length 1; all 0 if nothing is known of their items.
    fn profile(&self, user: usize) -> Vec<f32> {
        let mut profile = vec![0.0; self.facts.features()];
        self.weights.mean(&self.facts, self.train.of(user), &mut profile);
        let length = math::dot(&profile, &profile).sqrt();
        if length > 0.0 {
            profile.iter_mut().for_each(|value| *value /= length);
        }
        profile
    }

    fn parts<'a>(&'a self, profile: &'a [f32], item: usize) -> impl Iterator<Item = (u32, f32)> + 'a {
        let own = self.facts.of(item).iter().zip(self.weights.item(item));
        own.map(|(feature, weight)| (feature, profile[feature as usize] * weight))
    }
}

impl Recommender for Vsm {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let facts = Arc::clone(facts_of(MODEL.name, fit.catalog)?);
        *self = Self { weights: Weights::of(&facts), facts, train: train.deduplicated() };
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.facts.items(), "one score an item");
        let profile = self.profile(user);
        for (item, score) in into.iter_mut().enumerate() {
            *score = self.parts(&profile, item).map(|(_, part)| part).sum();
        }
    }

    fn reasons(&self, user: usize, item: u32) -> Vec<Reason> {
        let profile = self.profile(user);
        let parts = self.parts(&profile, item as usize).filter(|&(_, weight)| weight > 0.0);
        parts.map(|(feature, weight)| Reason { because: Because::Fact(feature), weight }).collect()
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.facts = Arc::clone(facts_of(MODEL.name, Some(catalog))?);
        Ok(())
    }

    fn tensors(&self) -> Vec<Tensor> {
        vec![stored::floats("weights", [self.weights.values().len()], self.weights.values().to_vec())]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let mut weights = Weights::of(&self.facts);
        let values = stored::take_floats(tensors, "weights", &[weights.values().len()])?;
        weights.values_mut().copy_from_slice(values);
        (self.weights, self.train) = (weights, train.deduplicated());
        Ok(())
    }
}
