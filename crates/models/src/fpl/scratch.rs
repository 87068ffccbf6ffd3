//! Working memory of a device, and what is done with one triple after the other.

use super::lanes;
use super::touched::Touched;
use crate::loss::Loss;
use sottovoce_core::{Rng, math};
use sottovoce_protocol::Mark;

/// Working memory of [`Device`](super::Device).
#[derive(Debug)]
pub struct Scratch {
    pub(super) triples: Vec<[u32; 2]>,
    touched: Touched,
    /// Items met, ascending.
    pub(super) items: Vec<u32>,
    /// Whether the owner has them.
    pub(super) marks: Vec<Mark>,
    /// What is known of each.
    pub(super) rows: Vec<Row>,
    /// Place in `items` of each item met.
    place: Vec<u32>,
    /// dp without the pull.
    pub(super) change: Vec<f32>,
}

/// A row met in the round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    score: f32,
    /// S: the signed sum of s.
    pub(super) sum: f32,
    /// n: how often the row came.
    pub(super) times: f32,
}

/// Triples compared at once, so that vector instructions do it.
const TOGETHER: usize = 8;

/// Triples up to which items are sorted, and looked up in the history.
const FEW: usize = 8;

impl Scratch {
    pub(super) fn new(items: usize, triples: usize, factors: usize) -> Self {
        let most = 2 * triples + 4;
        Self {
            triples: Vec::with_capacity(triples),
            touched: Touched::new(items),
            items: Vec::with_capacity(most),
            marks: Vec::with_capacity(most),
            rows: Vec::with_capacity(most),
            place: vec![0; items],
            change: vec![0.0; factors],
        }
    }

    /// Draws triples (i, j), both uniform, and lists the items met.
    #[inline(always)]
    pub(super) fn draw(&mut self, history: &[u32], items: u32, triples: usize, rng: &mut Rng) {
        self.triples.resize(triples, [0; 2]);
        if triples <= FEW {
            self.draw_few(history, items, rng);
        } else {
            self.draw_many(history, items, rng);
        }
    }

    #[inline(always)]
    fn draw_few(&mut self, history: &[u32], items: u32, rng: &mut Rng) {
        for triple in &mut self.triples {
            *triple = draw_one(history, items, |item| has(history, item), rng);
        }
        let mut met = [(0, Mark::Other); 2 * FEW];
        let met = &mut met[..2 * self.triples.len()];
        for (pair, [positive, negative]) in met.as_chunks_mut::<2>().0.iter_mut().zip(&self.triples) {
            *pair = [(*positive, Mark::Consumed), (*negative, Mark::Other)];
        }
        met.sort_unstable_by_key(|&(item, _)| item);
        self.items.clear();
        self.marks.clear();
        for same in met.chunk_by(|one, next| one.0 == next.0) {
            self.place[same[0].0 as usize] = self.items.len() as u32;
            self.items.push(same[0].0);
            self.marks.push(same[0].1);
        }
    }

    #[inline(always)]
    fn draw_many(&mut self, history: &[u32], items: u32, rng: &mut Rng) {
        let Self { triples, touched, items: met, marks, place, .. } = self;
        let mut marking = touched.begin(history);
        for triple in &mut *triples {
            *triple = draw_one(history, items, |item| marking.has(item), rng);
            marking.add(*triple);
        }
        touched.drain(history, met, marks, 2 * triples.len());
        for (at, &item) in (0..).zip(&*met) {
            place[item as usize] = at;
        }
    }

    /// Scores each item met, once; `table` has rows of the user's factors and a bias.
    #[inline(always)]
    pub(super) fn score(&mut self, user: &[f32], table: &[f32]) {
        self.rows.clear();
        self.rows.resize(self.items.len(), Row::default());
        let (fours, rest) = self.rows.as_chunks_mut::<4>();
        let (four_items, rest_items) = self.items.as_chunks::<4>();
        for (rows, items) in fours.iter_mut().zip(four_items) {
            let of = [
                lanes::row(table, user.len() + 1, items[0]),
                lanes::row(table, user.len() + 1, items[1]),
                lanes::row(table, user.len() + 1, items[2]),
                lanes::row(table, user.len() + 1, items[3]),
            ];
            let scores = lanes::score_four(user, of);
            for k in 0..4 {
                rows[k].score = scores[k];
            }
        }
        for (row, &item) in rest.iter_mut().zip(rest_items) {
            row.score = lanes::score(user, lanes::row(table, user.len() + 1, item));
        }
    }

    /// Compares the items of each triple; returns the sum of the losses.
    #[inline(always)]
    pub(super) fn compare(&mut self) -> f64 {
        let mut loss = Loss::new();
        let (blocks, rest) = self.triples.as_chunks::<TOGETHER>();
        for block in blocks {
            compare_together(block, &self.place, &mut self.rows, &mut loss);
        }
        for triple in rest {
            compare_together(&[*triple], &self.place, &mut self.rows, &mut loss);
        }
        loss.sum()
    }
}

/// Whether an item is in a history, ascending. A short one is read whole: its parts are fetched from memory together,
/// while a search waits for one after the other.
#[inline(always)]
fn has(history: &[u32], item: u32) -> bool {
    if history.len() > 512 {
        return history.binary_search(&item).is_ok();
    }
    history.iter().fold(false, |found, &had| found | (had == item))
}

#[inline(always)]
fn draw_one(history: &[u32], items: u32, had: impl Fn(u32) -> bool, rng: &mut Rng) -> [u32; 2] {
    let [place, mut negative] = rng.two_below([history.len() as u32, items]);
    while had(negative) {
        negative = rng.below(items);
    }
    [history[place as usize], negative]
}

#[inline(always)]
fn compare_together<const K: usize>(
    triples: &[[u32; 2]; K],
    place: &[u32],
    rows: &mut [Row],
    loss: &mut Loss,
) {
    let (mut i, mut j) = ([0; K], [0; K]);
    let (mut wrong, mut right) = ([0.0; K], [0.0; K]);
    for k in 0..K {
        let [positive, negative] = triples[k];
        (i[k], j[k]) = (place[positive as usize] as usize, place[negative as usize] as usize);
        wrong[k] = rows[j[k]].score - rows[i[k]].score;
    }
    for k in 0..K {
        wrong[k] = math::sigmoid(wrong[k]);
        right[k] = 1.0 - wrong[k];
    }
    for k in 0..K {
        rows[i[k]].sum += wrong[k];
        rows[i[k]].times += 1.0;
        rows[j[k]].sum -= wrong[k];
        rows[j[k]].times += 1.0;
    }
    loss.add_all(&right);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_items_are_drawn_uniformly() {
        // A few triples are looked up by search and sorted, a thousand are looked up in the map.
        let history: Vec<u32> = (0..20).map(|n| 2 * n + 1).collect();
        for triples in [1, 5, 1000] {
            let mut scratch = Scratch::new(45, triples, 4);
            let mut rng = Rng::new(2);
            let mut counts = [0i32; 45];
            for _ in 0..20_000 / triples {
                scratch.draw(&history, 45, triples, &mut rng);
                scratch.triples.iter().flatten().for_each(|&item| counts[item as usize] += 1);
                assert!(scratch.items.is_sorted_by(|one, next| one < next));
                for (item, mark) in scratch.items.iter().zip(&scratch.marks) {
                    assert_eq!(*mark == Mark::Consumed, item % 2 == 1 && *item < 40);
                }
            }
            for (item, &count) in counts.iter().enumerate() {
                let expected = if history.contains(&(item as u32)) { 1000 } else { 800 };
                assert!((count - expected).abs() < 160, "{triples} triples: item {item} {count} times");
            }
        }
    }
}
