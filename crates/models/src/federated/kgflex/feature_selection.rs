//! Selection of features by information gain.

use super::information_gain::balanced_gain;
use sottovoce_core::{Facts, Rng};

/// Which features of somebody's items are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// Maximal number of features: one hop away, and further.
    pub most: [usize; 2],
    /// How many times as many other items the owner's items are compared with.
    pub negatives: usize,
    /// Least information gain.
    pub min_gain: f64,
}

/// Working memory for choosing; all zero between two people.
#[derive(Debug)]
pub(super) struct FeatureSelection {
    /// Of each feature: how many positives and how many negatives have it.
    counts: Vec<[u32; 2]>,
    /// Features of F_u.
    own: Vec<u32>,
    /// Whether an item is the user's or was drawn.
    taken: Vec<bool>,
    drawn: Vec<u32>,
    ranked: Vec<(f64, u32)>,
    /// The features chosen, ascending, with their weights.
    pub(super) chosen: Vec<(u32, f32)>,
}

impl FeatureSelection {
    pub(super) fn new(facts: &Facts) -> Self {
        Self {
            counts: vec![[0; 2]; facts.features()],
            own: Vec::new(),
            taken: vec![false; facts.items()],
            drawn: Vec::new(),
            ranked: Vec::new(),
            chosen: Vec::new(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lists = 4 * (self.own.capacity() + self.drawn.capacity());
        let pairs = 8 * (self.counts.capacity() + self.chosen.capacity()) + 16 * self.ranked.capacity();
        lists + pairs + self.taken.capacity()
    }

    /// Selects the features with the most information gain: of those one hop away, and of those further; none without
    /// any. The user's items are compared with others drawn at random.
    pub(super) fn choose(&mut self, facts: &Facts, history: &[u32], selection: &Selection, rng: &mut Rng) {
        self.draw(facts.items() as u32, history, selection.negatives, rng);
        let drawn = std::mem::take(&mut self.drawn);
        self.weigh(facts, history, &drawn, selection);
        self.drawn = drawn;
    }

    /// So many times as many items as the history has, or all there are, from the rest of the catalog; each once.
    fn draw(&mut self, items: u32, history: &[u32], times: usize, rng: &mut Rng) {
        self.drawn.clear();
        history.iter().for_each(|&item| self.taken[item as usize] = true);
        let rest = items as usize - history.len();
        let wanted = times.saturating_mul(history.len());
        if rest <= wanted {
            let taken = &self.taken;
            self.drawn.extend((0..items).filter(|&item| !taken[item as usize]));
        }
        while self.drawn.len() < rest.min(wanted) {
            let item = rng.below(items);
            if !std::mem::replace(&mut self.taken[item as usize], true) {
                self.drawn.push(item);
            }
        }
        history.iter().chain(&self.drawn).for_each(|&item| self.taken[item as usize] = false);
    }

    /// The same for negatives that are given.
    pub(super) fn weigh(&mut self, facts: &Facts, history: &[u32], negatives: &[u32], selection: &Selection) {
        self.own.clear();
        let (counts, own) = (&mut self.counts, &mut self.own);
        for &item in history {
            facts.of(item as usize).each(|feature| {
                let count = &mut counts[feature as usize][0];
                if *count == 0 {
                    own.push(feature);
                }
                *count += 1;
            });
        }
        for &item in negatives {
            facts.of(item as usize).each(|feature| counts[feature as usize][1] += 1);
        }
        self.chosen.clear();
        let all = [history.len() as u32, negatives.len() as u32];
        for (far, most) in [false, true].into_iter().zip(selection.most) {
            self.rank(facts, all, far, (most, selection.min_gain));
        }
        self.chosen.sort_unstable_by_key(|&(feature, _)| feature);
        for &item in negatives.iter().chain(history) {
            facts.of(item as usize).each(|feature| self.counts[feature as usize] = [0; 2]);
        }
    }

    /// Takes the best of one distance; ties go to the smaller number.
    fn rank(&mut self, facts: &Facts, all: [u32; 2], far: bool, (most, least): (usize, f64)) {
        let counts = &self.counts;
        let own = self.own.iter().filter(|&&feature| (facts.hops(feature as usize) > 1) == far);
        self.ranked.clear();
        let ranked = own.map(|&feature| (balanced_gain(counts[feature as usize], all), feature));
        self.ranked.extend(ranked.filter(|&(gain, _)| gain > 0.0 && gain >= least));
        let better = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if most < self.ranked.len() && most > 0 {
            self.ranked.select_nth_unstable_by(most - 1, better);
        }
        self.ranked.truncate(most);
        self.chosen.extend(self.ranked.iter().map(|&(gain, feature)| (feature, gain as f32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeSet;

    fn facts() -> impl Strategy<Value = (Facts, Vec<u32>)> {
        let item = || prop::collection::vec(0u32..12, 0..6);
        (prop::collection::vec(item(), 2..30), any::<u64>()).prop_map(|(items, pick)| {
            let names: Vec<(&str, u8)> = (0..12u8).map(|feature| ("f", 1 + feature % 2)).collect();
            let facts = Facts::of_lists(&names, &items);
            let history = (0..items.len() as u32).filter(|item| pick >> (item % 64) & 1 == 1).collect();
            (facts, history)
        })
    }

    proptest! {
        #[test]
        fn the_most_telling_are_chosen(
            (facts, history) in facts(), most in [0usize..5, 0usize..5], times in 1usize..4, least in 0.0f64..0.5,
            seed in any::<u64>(),
        ) {
            let mut choice = FeatureSelection::new(&facts);
            let selection = Selection { most, negatives: times, min_gain: least };
            choice.choose(&facts, &history, &selection, &mut Rng::new(seed));
            let drawn: BTreeSet<u32> = choice.drawn.iter().copied().collect();
            prop_assert!(history.iter().all(|item| !drawn.contains(item)));
            prop_assert_eq!(drawn.len(), (times * history.len()).min(facts.items() - history.len()));
            prop_assert_eq!(drawn.len(), choice.drawn.len());
            let having = |items: &[u32], f: u32| items.iter().filter(|i| facts.of(**i as usize).contains(f)).count() as u32;
            let all = [history.len() as u32, drawn.len() as u32];
            let gain = |f: u32| balanced_gain([having(&history, f), having(&choice.drawn, f)], all);
            for (hops, most) in [1, 2].into_iter().zip(most) {
                let mut expected: Vec<(f64, u32)> = (0..12)
                    .filter(|&f| facts.hops(f as usize) == hops && having(&history, f) > 0 && gain(f) > 0.0)
                    .filter(|&f| gain(f) >= least)
                    .map(|f| (-gain(f), f))
                    .collect();
                expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
                expected.truncate(most);
                let mut expected: Vec<u32> = expected.into_iter().map(|(_, f)| f).collect();
                expected.sort_unstable();
                let found = choice.chosen.iter().filter(|(f, _)| facts.hops(*f as usize) == hops);
                prop_assert_eq!(found.map(|(f, _)| *f).collect::<Vec<_>>(), expected);
            }
            prop_assert!(choice.chosen.iter().all(|&(f, weight)| weight == gain(f) as f32));
            prop_assert!(choice.counts.iter().all(|counts| *counts == [0; 2]) && !choice.taken.contains(&true));
        }
    }
}
