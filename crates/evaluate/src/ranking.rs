//! From scores to lists.

use crate::auc::Auc;
use crate::sampling::{self, Marks};
use crate::top_k::{self, OUT, TopK};
use crate::{Candidates, EvaluationInput, RankedLists};
use rayon::prelude::*;
use sottovoce_core::Rng;

/// Users ranked by one task.
const RANKED_TOGETHER: usize = 64;

/// One thread's buffers for ranking.
struct Ranker {
    scores: Vec<f32>,
    keys: Vec<i32>,
    top: TopK,
    auc: Auc,
    marks: Marks,
    drawn: Vec<u32>,
}

impl Ranker {
    fn new(items: usize, k: usize) -> Self {
        Self {
            scores: vec![0.0; items],
            keys: vec![OUT; items],
            top: TopK::new(k),
            auc: Auc::default(),
            marks: Marks::new(items),
            drawn: Vec::new(),
        }
    }

    /// Keys of everything the user does not have.
    fn all_unrated(&mut self, input: &EvaluationInput<'_>, user: usize) {
        top_k::keys(&self.scores, &mut self.keys);
        for item in input.seen(user) {
            self.keys[item as usize] = OUT;
        }
    }

    /// Keys of the user's test items and of a sample.
    fn sampled(&mut self, input: &EvaluationInput<'_>, user: usize, negatives: usize, mut rng: Rng) {
        self.keys.fill(OUT);
        self.marks.clear();
        let seen = input.seen(user).filter(|&item| self.marks.add(item)).count();
        let mut tested = 0;
        for &item in input.test.of(user) {
            if self.marks.add(item) {
                self.keys[item as usize] = top_k::key(self.scores[item as usize]);
                tested += 1;
            }
        }
        let free = input.items() - seen - tested;
        sampling::draw(&mut rng, negatives, free, &mut self.marks, &mut self.drawn);
        for &item in &self.drawn {
            self.keys[item as usize] = top_k::key(self.scores[item as usize]);
        }
    }

    /// The user's area under the curve; NaN if there is none.
    fn area(&mut self, test: &[u32]) -> f64 {
        self.marks.clear();
        let distinct = test.iter().copied().filter(|&item| self.marks.add(item));
        self.auc.of(&self.keys, distinct).unwrap_or(f64::NAN)
    }
}

/// Everyone's best `k`, and everyone's area under the curve.
pub(crate) fn rank<S>(
    input: &EvaluationInput<'_>,
    candidates: Candidates,
    k: usize,
    score: &S,
) -> (RankedLists, Vec<f64>)
where
    S: Fn(usize, &mut [f32]) + Sync,
{
    let users = input.users();
    let (mut items, mut lengths, mut areas) = (vec![0; users * k], vec![0; users], vec![f64::NAN; users]);
    let blocks = items
        .par_chunks_mut(RANKED_TOGETHER * k)
        .zip(lengths.par_chunks_mut(RANKED_TOGETHER))
        .zip(areas.par_chunks_mut(RANKED_TOGETHER))
        .enumerate();
    blocks.for_each_init(
        || Ranker::new(input.items(), k),
        |ranker, (block, ((items, lengths), areas))| {
            for (place, length) in lengths.iter_mut().enumerate() {
                let user = block * RANKED_TOGETHER + place;
                score(user, &mut ranker.scores);
                match candidates {
                    Candidates::AllUnrated => {
                        ranker.all_unrated(input, user);
                        areas[place] = ranker.area(input.test.of(user));
                    }
                    Candidates::Sampled { negatives, seed } => {
                        let rng = Rng::new(seed).stream("negatives", user as u64);
                        ranker.sampled(input, user, negatives, rng);
                    }
                }
                *length = ranker.top.select(&ranker.keys, &mut items[place * k..(place + 1) * k]) as u32;
            }
        },
    );
    (RankedLists::from_rows(items, k, &lengths, input.items()), areas)
}
