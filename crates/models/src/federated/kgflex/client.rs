//! The client's half: selection of features, and training on triples of the history.
//!
//! Because parameters stay as they are within a round, the sums of the equations come apart by feature: with S the sum
//! of c s and n how often the feature came,
//! ```text
//! dg = S k p - n l' g        db = S k - n l' b        dp = S k g - n l p
//! ```
//! so that a triple costs a look-up for each feature of its two items, and only the features in slots cost work for
//! each factor, once a round.

use super::KgFlexModelConfig;
use super::feature_selection::Selection;
use super::private::{self, Slot};
use super::scratch::{MOST_SLOTS, Part, Scratch};
use crate::{Because, ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{Facts, History, Rng, math};
use sottovoce_protocol::{Parameters, Table, Trained};
use std::sync::Arc;

/// Strengths of the regularisation to zero, each time a feature comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regularisation {
    /// Of the owner's vectors (l).
    pub personal: f32,
    /// Of the shared vectors and biases (l').
    pub shared: f32,
}

/// How a device trains.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// What is known of the items.
    pub facts: Arc<Facts>,
    /// Length of a feature's vector.
    pub factors: usize,
    /// Which features it keeps.
    pub selection: Selection,
    /// Triples drawn in a round (T).
    pub triples: usize,
    /// Step of the owner's vectors (alpha).
    pub learning_rate: f32,
    /// Regularisation to zero.
    pub regularisation: Regularisation,
    /// Standard deviation of the owner's first random vectors.
    pub init_deviation: f32,
}

impl Client {
    /// With these settings; it scores but does not train, because it draws no triples.
    pub fn new(config: &KgFlexModelConfig, features: &Arc<Facts>) -> Self {
        // Rows are regularised on devices, where steps do not have the learning rate yet.
        let regularisation = |strength| (config.learning_rate * strength) as f32;
        Self {
            facts: Arc::clone(features),
            factors: config.factors,
            selection: Selection {
                most: [config.one_hop, config.more_hops],
                negatives: config.negatives,
                min_gain: config.min_gain,
            },
            triples: 0,
            learning_rate: config.learning_rate as f32,
            regularisation: Regularisation {
                personal: regularisation(config.personal_regularisation),
                shared: regularisation(config.shared_regularisation),
            },
            init_deviation: config.init_deviation as f32,
        }
    }

    fn slots(&self) -> usize {
        let [near, far] = self.selection.most;
        (near + far).min(MOST_SLOTS).min(self.facts.features())
    }

    /// Selects features, unless that was done for this history; returns whether there are any.
    ///
    /// If there is not, the private model is as it was: another draw of negatives may find something.
    pub(super) fn select_features(
        &self,
        own: &mut [f32],
        history: &[u32],
        scratch: &mut Scratch,
        rng: &mut Rng,
    ) -> bool {
        let marks = private::marks(&self.facts, history);
        if private::is_for(own, marks) {
            return true;
        }
        scratch.choice.choose(&self.facts, history, &self.selection, rng);
        scratch.choice.chosen.truncate(self.slots());
        if scratch.choice.chosen.is_empty() {
            return false;
        }
        let fresh = |vector: &mut [f32]| rng.fill_normal(self.init_deviation, vector);
        private::put(own, self.factors, marks, &scratch.choice.chosen, fresh);
        true
    }

    /// The features in slots and their parts of a score.
    #[inline(always)]
    fn parts<'a>(&'a self, table: &'a Table, own: &'a [f32]) -> impl Iterator<Item = Part> + 'a {
        let slots = private::slots(own, self.factors, self.facts.features());
        slots.map(|Slot { feature, weight, vector }| {
            let (shared, bias) = table.row(feature as usize).split_at(self.factors);
            Part { feature, weight, value: weight * (math::dot(vector, shared) + bias[0]) }
        })
    }

    /// Fills `rows`, the changes of the features that came, and changes the owner's vectors.
    fn write_gradient(&self, table: &Table, own: &mut [f32], scratch: &Scratch, rows: &mut [f32]) {
        let came = scratch.touched.iter().zip(&scratch.touched_slots);
        for ((&feature, &slot), row) in came.zip(rows.chunks_exact_mut(self.factors + 1)) {
            let slot = slot as usize;
            let vector = private::vector_mut(own, self.factors, slot);
            let state = &scratch.slots[slot];
            let (step, times) = (state.weight * state.sum, state.times);
            let (shared, bias) = table.row(feature as usize).split_at(self.factors);
            let back = [times * self.regularisation.personal, times * self.regularisation.shared];
            for ((p, &g), change) in vector.iter_mut().zip(shared).zip(&mut *row) {
                *change = step * *p - back[1] * g;
                *p += self.learning_rate * (step * g - back[0] * *p);
            }
            row[self.factors] = step - back[1] * bias[0];
        }
    }

    /// Scores without anything to go by but what people like in general: the mean bias of each item's features.
    fn general(&self, table: &Table, item: usize) -> f32 {
        let features = self.facts.of(item);
        let sum: f32 = features.iter().map(|feature| table.row(feature as usize)[self.factors]).sum();
        sum / features.len().max(1) as f32
    }

    fn table<'a>(&self, shared: &'a Parameters) -> Option<&'a Table> {
        let fits = |table: &&Table| table.shape().rows as usize == self.facts.features();
        shared.tables().first().filter(fits)
    }

    fn has_features(&self, own: &[f32]) -> bool {
        private::slots(own, self.factors, self.facts.features()).next().is_some()
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _items: usize) -> Scratch {
        Scratch::new(&self.facts, self.slots())
    }

    fn private_values(&self) -> usize {
        private::width(self.slots(), self.factors)
    }

    /// Nothing is chosen yet: the first round does that.
    fn init_private(&self, private: &mut [f32], _: &mut Rng) {
        private.fill(0.0);
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, rng: &mut Rng, into: &mut Trained) -> TrainResult {
        let TrainInput { shared, private: own, history: History { items: history, .. }, hidden, .. } = input;
        let learns = !history.is_empty() && history.len() < self.facts.items();
        // Somebody with nothing, or with everything, has no triple.
        let Some(table) = self.table(shared).filter(|_| learns) else { return Ok(TrainStats::default()) };
        if !self.select_features(own, history, scratch, rng) {
            return Ok(TrainStats::default());
        }
        scratch.begin(self.parts(table, own));
        let loss = scratch.compare(&self.facts, history, self.triples, rng);
        scratch.list(&self.facts, history, hidden);
        scratch.end();
        let rows = into.push_rows(0, &scratch.touched, &scratch.marks)?;
        self.write_gradient(table, own, scratch, rows);
        into.set_samples(self.triples as u64);
        Ok(TrainStats { samples: self.triples as u64, loss })
    }

    fn score(&self, shared: &Parameters, private: &[f32], _: History<'_>, into: &mut [f32]) {
        assert_eq!(into.len(), self.facts.items(), "one score an item");
        into.fill(0.0);
        let Some(table) = self.table(shared) else { return };
        if !self.has_features(private) {
            into.iter_mut().enumerate().for_each(|(item, score)| *score = self.general(table, item));
            return;
        }
        for Part { feature, value, .. } in self.parts(table, private) {
            self.facts.items_with(feature as usize).each(|item| into[item as usize] += value);
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, private: &[f32], _: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        items.iter().map(|&item| self.explain_item(shared, private, item)).collect()
    }
}

impl Client {
    fn explain_item(&self, shared: &Parameters, private: &[f32], item: u32) -> Vec<Reason> {
        let Some(table) = self.table(shared) else { return Vec::new() };
        let features = self.facts.of(item as usize);
        let reason = |feature: u32, weight: f32| Reason { because: Because::Fact(feature), weight };
        if !self.has_features(private) {
            let count = features.len() as f32;
            return features
                .iter()
                .map(|feature| reason(feature, table.row(feature as usize)[self.factors] / count))
                .collect();
        }
        let shared = self.parts(table, private).filter(|part| features.contains(part.feature));
        shared.map(|part| reason(part.feature, part.value)).collect()
    }
}

#[cfg(test)]
mod tests;
