//! Working memory of a device, and what is done with one triple after the other.

use super::touched::Touched;
use super::{Regularisation, simd};
use crate::federated::negatives::{MAX_DRAWS, Negatives, Pool};
use crate::loss::Loss;
use sottovoce_core::{Rng, math};
use sottovoce_protocol::RowOrigin;
use wide::f32x4;

/// Working memory of [`Client`](super::Client).
#[derive(Debug)]
pub struct Scratch {
    pub(super) triples: Vec<[u32; 2]>,
    touched: Touched,
    /// Touched items, ascending.
    pub(super) items: Vec<u32>,
    /// Whether the owner has them.
    pub(super) marks: Vec<RowOrigin>,
    /// State of each touched item, indexed by item; other entries are left over from earlier rounds.
    pub(super) rows: Vec<Row>,
    /// s of each triple, and what fills the last block.
    pub(super) wrong: Vec<f32>,
    /// q_j - q_i of a block of triples.
    pub(super) apart: Vec<f32>,
    /// dp without the regularisation.
    pub(super) change: Vec<f32>,
    /// Draws of items that the owner has; none but where negatives are decoys.
    pub(super) decoys: Vec<Decoy>,
    /// Items that no triple has, with their marks.
    odd: Vec<(u32, RowOrigin)>,
    /// Items of which something leaves when their own change stays at home, ascending.
    pub(super) decoy_items: Vec<u32>,
    /// What that is, one row after the other.
    pub(super) decoy_rows: Vec<f32>,
    /// By decoy, what was learnt of the item that was taken instead, to be taken off again if its row leaves for
    /// another reason.
    aside: Vec<f32>,
}

/// An item of the owner's that was drawn as a negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decoy {
    pub(super) item: u32,
    /// The triple that it was drawn for.
    pub(super) triple: u32,
    /// The item trained on instead, which the user does not have. Its row does not leave because of this triple.
    instead: u32,
}

/// What triples are drawn from.
#[derive(Clone, Copy)]
pub(super) struct Drawing<'a> {
    /// The items the owner has, ascending.
    pub(super) history: &'a [u32],
    /// Items of the catalog.
    pub(super) items: u32,
    pub(super) negatives: Negatives,
    /// For negatives of a pool.
    pub(super) pool: Option<Pool>,
}

/// A row touched in the round: its score, S (the signed sum of s), n (how often the row came) and nothing. Together in
/// one vector, which is what they are changed as.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row(pub(super) f32x4);

impl Row {
    #[inline(always)]
    fn of_score(score: f32) -> Self {
        Self(f32x4::from([score, 0.0, 0.0, 0.0]))
    }

    #[inline(always)]
    fn score(&self) -> f32 {
        self.0.to_array()[0]
    }
}

/// Begins the rows of four items with their scores.
#[inline(always)]
fn set_scores(rows: &mut [Row], [a, b, c, d]: [u32; 4], scores: f32x4) {
    let (first, last) = (scores.unpack_lo(NONE), scores.unpack_hi(NONE));
    rows[a as usize] = Row(first.unpack_lo(NONE));
    rows[b as usize] = Row(first.unpack_hi(NONE));
    rows[c as usize] = Row(last.unpack_lo(NONE));
    rows[d as usize] = Row(last.unpack_hi(NONE));
}

/// Triples compared at once: some vectors, none of which waits for another.
pub(super) const BLOCK: usize = 32;

const NONE: f32x4 = f32x4::ZERO;

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
            rows: vec![Row::default(); items],
            wrong: Vec::with_capacity(triples.next_multiple_of(BLOCK)),
            apart: vec![0.0; BLOCK * factors],
            change: vec![0.0; factors],
            decoys: Vec::new(),
            odd: Vec::new(),
            decoy_items: Vec::new(),
            decoy_rows: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// Draws triples (i, j), both uniform, and lists the touched items.
    #[inline(always)]
    pub(super) fn draw(&mut self, from: &Drawing<'_>, triples: usize, rng: &mut Rng) {
        self.decoys.clear();
        self.triples.resize(triples, [0; 2]);
        self.wrong.resize(if triples <= FEW { triples } else { triples.next_multiple_of(BLOCK) }, 0.0);
        if triples <= FEW {
            self.draw_few(from, rng);
        } else {
            self.draw_many(from, rng);
        }
    }

    /// Draws the same triples, for training that discloses nothing, and lists no items.
    #[inline(always)]
    pub(super) fn draw_unlisted(&mut self, from: &Drawing<'_>, triples: usize, rng: &mut Rng) {
        self.decoys.clear();
        self.triples.resize(triples, [0; 2]);
        self.wrong.resize(triples.next_multiple_of(BLOCK), 0.0);
        if triples <= FEW {
            draw_all(&mut self.triples, &mut self.decoys, from, |item| has(from.history, item), rng);
        } else {
            let marking = self.touched.begin(from.history);
            // A copy, which compilers keep in registers.
            let mut own = rng.clone();
            draw_all(&mut self.triples, &mut self.decoys, from, |item| marking.has(item), &mut own);
            *rng = own;
            self.touched.forget(from.history);
        }
        self.replace();
    }

    #[inline(always)]
    fn draw_few(&mut self, from: &Drawing<'_>, rng: &mut Rng) {
        let history = from.history;
        draw_all(&mut self.triples, &mut self.decoys, from, |item| has(history, item), rng);
        let mut touched = [(0, RowOrigin::Other); 4 * FEW];
        for (pair, [positive, negative]) in touched.as_chunks_mut::<2>().0.iter_mut().zip(&self.triples) {
            *pair = [(*positive, RowOrigin::Consumed), (*negative, RowOrigin::Other)];
        }
        let mut count = 2 * self.triples.len();
        for decoy in &self.decoys {
            touched[2 * decoy.triple as usize + 1] = touched[2 * decoy.triple as usize];
            touched[count] = (decoy.item, RowOrigin::Other);
            touched[count + 1] = (decoy.instead, RowOrigin::Hidden);
            count += 2;
        }
        let touched = &mut touched[..count];
        // What was drawn in the open comes before what was not: the first of the same is the one that counts.
        touched.sort_unstable_by_key(|&(item, mark)| (item, mark as u8));
        self.items.clear();
        self.marks.clear();
        for same in touched.chunk_by(|one, next| one.0 == next.0) {
            self.items.push(same[0].0);
            self.marks.push(same[0].1);
        }
        self.replace();
    }

    #[inline(always)]
    fn draw_many(&mut self, from: &Drawing<'_>, rng: &mut Rng) {
        let mut marking = self.touched.begin(from.history);
        // A copy, which compilers keep in registers.
        let mut own = rng.clone();
        draw_all(&mut self.triples, &mut self.decoys, from, |item| marking.has(item), &mut own);
        *rng = own;
        marking.add(&self.triples);
        // What only decoys brought in, and how it is marked other than by whether the owner has it.
        self.odd.clear();
        for decoy in &self.decoys {
            if marking.add_one(decoy.item) {
                self.odd.push((decoy.item, RowOrigin::Other));
            }
        }
        for decoy in &self.decoys {
            if marking.add_one(decoy.instead) {
                self.odd.push((decoy.instead, RowOrigin::Hidden));
            }
        }
        let most = 2 * (self.triples.len() + self.decoys.len());
        self.touched.drain(from.history, &mut self.items, &mut self.marks, most);
        for &(item, mark) in &self.odd {
            if let Ok(index) = self.items.binary_search(&item) {
                self.marks[index] = mark;
            }
        }
        self.replace();
    }

    /// Puts what is learnt from into triples whose negative was a decoy.
    fn replace(&mut self) {
        for decoy in &self.decoys {
            self.triples[decoy.triple as usize][1] = decoy.instead;
        }
    }

    /// Scores each touched item, once, and copies its row `into` the next free slot; `table` has rows of the user's
    /// factors and a bias.
    #[inline(always)]
    pub(super) fn score(&mut self, user: &[f32], table: &[f32], into: &mut [f32]) {
        let (rows, length) = (&mut self.rows[..], user.len() + 1);
        let (fours, rest) = self.items.as_chunks::<4>();
        let (into, into_rest) = into.split_at_mut(4 * length * fours.len());
        for (&[a, b, c, d], into) in fours.iter().zip(into.chunks_exact_mut(4 * length)) {
            let of = [
                simd::row(table, length, a),
                simd::row(table, length, b),
                simd::row(table, length, c),
                simd::row(table, length, d),
            ];
            for k in 0..4 {
                into[k * length..][..length].copy_from_slice(of[k]);
            }
            set_scores(rows, [a, b, c, d], simd::score_four(user, of));
        }
        for (&item, into) in rest.iter().zip(into_rest.chunks_exact_mut(length)) {
            let row = simd::row(table, length, item);
            into.copy_from_slice(row);
            rows[item as usize] = Row::of_score(simd::score(user, row));
        }
    }

    /// Compares the items of each triple; returns the sum of the losses.
    ///
    /// One thing after the other for all triples: the logistic function takes long for one vector and little for many.
    #[inline(always)]
    pub(super) fn compare(&mut self) -> f64 {
        let (rows, wrong) = (&mut self.rows[..], &mut self.wrong[..]);
        for (wrong, &[i, j]) in wrong.iter_mut().zip(&self.triples) {
            *wrong = rows[j as usize].score() - rows[i as usize].score();
        }
        let (blocks, rest) = wrong.as_chunks_mut::<BLOCK>();
        for block in blocks {
            let mut all = *block;
            for k in 0..BLOCK {
                all[k] = math::sigmoid(all[k]);
            }
            *block = all;
        }
        for wrong in rest {
            *wrong = math::sigmoid(*wrong);
        }
        for (&wrong, &[i, j]) in wrong.iter().zip(&self.triples) {
            rows[i as usize].0 += f32x4::from([0.0, wrong, 1.0, 0.0]);
            rows[j as usize].0 += f32x4::from([0.0, -wrong, 1.0, 0.0]);
        }
        loss(&wrong[..self.triples.len()])
    }
}

impl Scratch {
    /// Writes down, as a row of a negative, what leaves of each item of the owner's that was drawn as one: what leaves
    /// of anybody who draws it.
    pub(super) fn make_decoys(&mut self, user: &[f32], table: &[f32], regularisation: Regularisation) {
        let (regularisation, of_biases) = (regularisation.negative, regularisation.of_bias(1.0));
        self.decoys.sort_unstable();
        self.decoy_items.clear();
        self.decoy_rows.clear();
        self.aside.clear();
        for decoy in &self.decoys {
            let wrong = self.wrong[decoy.triple as usize];
            let (factors, bias) = simd::row(table, user.len() + 1, decoy.instead).split_at(user.len());
            self.aside.extend(user.iter().zip(factors).map(|(p, q)| wrong * p + regularisation * q));
            self.aside.push(wrong + of_biases * regularisation * bias[0]);
        }
        for same in self.decoys.chunk_by(|one, next| one.item == next.item) {
            let (item, back) = (same[0].item, same.len() as f32 * regularisation);
            let score = self.rows[item as usize].score();
            let wrong = |decoy: &Decoy| {
                let [positive, _] = self.triples[decoy.triple as usize];
                math::sigmoid(score - self.rows[positive as usize].score())
            };
            let sum = -same.iter().map(wrong).sum::<f32>();
            let (factors, bias) = simd::row(table, user.len() + 1, item).split_at(user.len());
            self.decoy_items.push(item);
            self.decoy_rows.extend(user.iter().zip(factors).map(|(p, q)| sum * p - back * q));
            self.decoy_rows.push(sum - of_biases * back * bias[0]);
        }
    }

    /// Removes from rows that leave what was trained on instead of a decoy. Decoys of items that were not touched
    /// otherwise become rows; the others are decoys of their items' rows. Rows of negatives that the user hides are
    /// their own decoys.
    pub(super) fn settle_decoys(&mut self, hidden: &[u32], length: usize, rows: &mut [f32]) {
        let Self { items, marks, decoy_items, decoy_rows, decoys, aside, .. } = self;
        for (decoy, aside) in decoys.iter().zip(aside.chunks_exact(length)) {
            let Ok(at) = items.binary_search(&decoy.instead) else { continue };
            if marks[at] == RowOrigin::Other {
                math::add(&mut rows[at * length..][..length], aside);
            }
        }
        let mut kept = 0;
        for index in 0..decoy_items.len() {
            let Ok(at) = items.binary_search(&decoy_items[index]) else { continue };
            let decoy_row = index * length..(index + 1) * length;
            if marks[at] == RowOrigin::Other {
                rows[at * length..][..length].copy_from_slice(&decoy_rows[decoy_row]);
            } else {
                decoy_items[kept] = decoy_items[index];
                decoy_rows.copy_within(decoy_row, kept * length);
                kept += 1;
            }
        }
        decoy_items.truncate(kept);
        decoy_rows.truncate(kept * length);
        for item in hidden {
            let Ok(at) = items.binary_search(item) else { continue };
            let Err(index) = decoy_items.binary_search(item) else { continue };
            if marks[at] == RowOrigin::Other {
                decoy_items.insert(index, *item);
                decoy_rows.splice(index * length..index * length, rows[at * length..][..length].iter().copied());
            }
        }
    }
}

/// The sum of the losses of triples with these s.
#[inline(always)]
pub(super) fn loss(wrong: &[f32]) -> f64 {
    let mut loss = Loss::new();
    let (blocks, rest) = wrong.as_chunks::<8>();
    for wrong in blocks {
        let mut right = [0.0; 8];
        for k in 0..8 {
            right[k] = 1.0 - wrong[k];
        }
        loss.add_all(&right);
    }
    for wrong in rest {
        loss.add(1.0 - wrong);
    }
    loss.sum()
}

/// Whether an item is in a history, ascending. A short one is read whole: its parts are fetched from memory together,
/// while a search waits for one after the other.
#[inline(always)]
fn has(history: &[u32], item: u32) -> bool {
    if history.len() > 512 {
        return history.binary_search(&item).is_ok();
    }
    history.iter().fold(false, |found, &own| found | (own == item))
}

/// Draws triples. Where negatives may be the owner's, such a triple gets its first item twice, and is listed.
#[inline(always)]
fn draw_all(
    triples: &mut [[u32; 2]],
    decoys: &mut Vec<Decoy>,
    from: &Drawing<'_>,
    has: impl Fn(u32) -> bool,
    rng: &mut Rng,
) {
    let &Drawing { history, items, negatives, pool, .. } = from;
    match (negatives, pool) {
        (Negatives::Decoys, _) => {
            for (number, triple) in (0..).zip(triples) {
                let [index, negative] = rng.two_below([history.len() as u32, items]);
                let positive = history[index as usize];
                *triple = [positive, negative];
                if has(negative) {
                    triple[1] = positive;
                    decoys.push(Decoy { item: negative, triple: number, instead: negative });
                }
            }
            // Only now, so that what is drawn in the open does not even by chance depend on what the owner has.
            for decoy in decoys {
                while has(decoy.instead) {
                    decoy.instead = rng.below(items);
                }
            }
        }
        (Negatives::Pool, Some(pool)) => {
            for triple in triples {
                let mut tries = 0;
                let mut out = |item| {
                    tries += 1;
                    has(item) || (tries < MAX_DRAWS && !pool.has(item))
                };
                *triple = draw_one(history, items, &mut out, rng);
            }
        }
        _ => {
            for triple in triples {
                *triple = draw_one(history, items, &has, rng);
            }
        }
    }
}

#[inline(always)]
fn draw_one(history: &[u32], items: u32, mut has: impl FnMut(u32) -> bool, rng: &mut Rng) -> [u32; 2] {
    let [index, mut negative] = rng.two_below([history.len() as u32, items]);
    while has(negative) {
        negative = rng.below(items);
    }
    [history[index as usize], negative]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_items_are_drawn_uniformly() {
        // A few triples are looked up by search and sorted, a thousand are looked up in the map.
        let history: Vec<u32> = (0..20).map(|n| 2 * n + 1).collect();
        let from = Drawing { history: &history, items: 45, negatives: Negatives::Papers, pool: None };
        for triples in [1, 5, 1000] {
            let mut scratch = Scratch::new(45, triples, 4);
            let mut rng = Rng::new(2);
            let mut counts = [0i32; 45];
            for _ in 0..20_000 / triples {
                scratch.draw(&from, triples, &mut rng);
                scratch.triples.iter().flatten().for_each(|&item| counts[item as usize] += 1);
                assert!(scratch.items.is_sorted_by(|one, next| one < next));
                for (item, mark) in scratch.items.iter().zip(&scratch.marks) {
                    assert_eq!(*mark == RowOrigin::Consumed, item % 2 == 1 && *item < 40);
                }
            }
            for (item, &count) in counts.iter().enumerate() {
                let expected = if history.contains(&(item as u32)) { 1000 } else { 800 };
                assert!((count - expected).abs() < 160, "{triples} triples: item {item} {count} times");
            }
        }
    }
}
