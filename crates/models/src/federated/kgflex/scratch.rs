//! Working memory of a device, and what is done with one triple after the other.

use super::feature_selection::FeatureSelection;
use crate::loss::Loss;
use sottovoce_core::{Facts, Rng, SortedIndices, math};
use sottovoce_protocol::RowOrigin;

/// Slots at most: their numbers are stored in two bytes.
pub(super) const MOST_SLOTS: usize = NONE as usize;

/// No slot.
const NONE: u16 = u16::MAX;

/// Working memory of [`Client`](super::Client).
#[derive(Debug)]
pub struct Scratch {
    pub(super) choice: FeatureSelection,
    /// The slot of each feature; `NONE` but for those of the device at work.
    slot_of: Vec<u16>,
    /// One bit an item: whether the owner has it.
    own: Vec<u64>,
    /// Slots of the current triple: first those of the positive item, then those of the negative.
    triple_slots: Vec<u16>,
    /// By slot: k, k (p . g + b), S (the signed sum of s) and n (how often the feature came).
    pub(super) slots: Vec<State>,
    /// Features in slots.
    features: Vec<u32>,
    /// Features that came, their slots and their marks.
    pub(super) touched: Vec<u32>,
    pub(super) touched_slots: Vec<u16>,
    pub(super) marks: Vec<RowOrigin>,
    /// Features that triples touched so far.
    pub features_met: u64,
    /// For centralised training: features in slots with their weights, and slots of a triple with their signs.
    pub(super) own_features: Vec<(u32, f32)>,
    pub(super) met_slots: Vec<(u32, f32)>,
    /// Kept by tests and by nobody else.
    #[cfg(test)]
    pub(super) triples: Vec<[u32; 2]>,
}

/// What is known of a slot in a round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) weight: f32,
    value: f32,
    pub(super) sum: f32,
    pub(super) times: f32,
    /// Whether an item that is not hidden explains it.
    open: bool,
}

/// A selected feature, and its part of the score of an item that has it: k (p . g + b).
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) feature: u32,
    pub(super) weight: f32,
    pub(super) value: f32,
}

impl Scratch {
    pub(super) fn new(facts: &Facts, slots: usize) -> Self {
        Self {
            choice: FeatureSelection::new(facts),
            slot_of: vec![NONE; facts.features()],
            own: vec![0; facts.items().div_ceil(64)],
            triple_slots: Vec::new(),
            slots: Vec::with_capacity(slots),
            features: Vec::with_capacity(slots),
            touched: Vec::with_capacity(slots),
            touched_slots: Vec::with_capacity(slots),
            marks: Vec::with_capacity(slots),
            features_met: 0,
            own_features: Vec::new(),
            met_slots: Vec::new(),
            #[cfg(test)]
            triples: Vec::new(),
        }
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<State>() + self.marks.capacity();
        let lists = 2 * (self.slot_of.capacity() + self.triple_slots.capacity() + self.touched_slots.capacity());
        let features = 4 * (self.features.capacity() + self.touched.capacity())
            + 8 * (self.own_features.capacity() + self.met_slots.capacity());
        self.choice.heap_bytes() + 8 * self.own.capacity() + slots + lists + features
    }

    /// Takes up the features in slots, with their parts of a score; [`end`](Self::end) lets them go.
    pub(super) fn begin(&mut self, parts: impl Iterator<Item = Part>) {
        self.slots.clear();
        self.features.clear();
        for Part { feature, weight, value } in parts {
            self.slot_of[feature as usize] = self.slots.len() as u16;
            self.slots.push(State { weight, value, ..State::default() });
            self.features.push(feature);
        }
    }

    pub(super) fn end(&mut self) {
        self.features.iter().for_each(|&feature| self.slot_of[feature as usize] = NONE);
    }

    /// Draws triples (i, j), both uniform, and compares the items of each; returns the sum of the losses.
    pub(super) fn compare(&mut self, facts: &Facts, history: &[u32], triples: usize, rng: &mut Rng) -> f64 {
        history.iter().for_each(|&item| self.own[item as usize / 64] |= 1 << (item % 64));
        #[cfg(test)]
        self.triples.clear();
        let (mut loss, mut features) = (Loss::new(), 0);
        let items = facts.items() as u32;
        for _ in 0..triples {
            let i = history[rng.index(history.len())];
            let j = loop {
                let item = rng.below(items);
                if self.own[item as usize / 64] >> (item % 64) & 1 == 0 {
                    break item;
                }
            };
            #[cfg(test)]
            self.triples.push([i, j]);
            self.triple_slots.clear();
            let score = self.meet(facts.of(i as usize));
            let positives = self.triple_slots.len();
            let x = score - self.meet(facts.of(j as usize));
            loss.add(math::sigmoid(x));
            self.learn(positives, math::sigmoid(-x));
            features += self.triple_slots.len() as u64;
        }
        history.iter().for_each(|&item| self.own[item as usize / 64] = 0);
        self.features_met += features;
        loss.sum()
    }

    /// Lists the slots of an item's features; returns the item's score.
    #[inline(always)]
    fn meet(&mut self, features: SortedIndices<'_>) -> f32 {
        let mut score = 0.0;
        features.each(|feature| {
            let slot = self.slot_of[feature as usize];
            if slot != NONE {
                score += self.slots[slot as usize].value;
                self.triple_slots.push(slot);
            }
        });
        score
    }

    /// Adds s to the features of the positive item, and subtracts it from those of the negative.
    #[inline(always)]
    fn learn(&mut self, positives: usize, s: f32) {
        let (mine, others) = self.triple_slots.split_at(positives);
        for (slots, s) in [(mine, s), (others, -s)] {
            for &slot in slots {
                let state = &mut self.slots[slot as usize];
                state.sum += s;
                state.times += 1.0;
            }
        }
    }

    /// Lists the features that came, with their marks.
    pub(super) fn list(&mut self, facts: &Facts, history: &[u32], hidden: &[u32]) {
        if !hidden.is_empty() {
            for item in history.iter().filter(|item| hidden.binary_search(item).is_err()) {
                facts.of(*item as usize).each(|feature| {
                    let slot = self.slot_of[feature as usize];
                    if slot != NONE {
                        self.slots[slot as usize].open = true;
                    }
                });
            }
        }
        self.touched.clear();
        self.touched_slots.clear();
        self.marks.clear();
        for (slot, (state, &feature)) in self.slots.iter().zip(&self.features).enumerate() {
            if state.times > 0.0 {
                self.touched.push(feature);
                self.touched_slots.push(slot as u16);
                let open = hidden.is_empty() || state.open;
                self.marks.push(if open { RowOrigin::Consumed } else { RowOrigin::Hidden });
            }
        }
    }
}
