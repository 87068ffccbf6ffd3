//! From scores to lists.

use crate::auc::Auc;
use crate::ranking::{self, OUT, TopK};
use crate::sampling::{self, Marks};
use crate::{Candidates, Lists, Question};
use rayon::prelude::*;
use sottovoce_core::Rng;

/// Users ranked by one task.
const RANKED_TOGETHER: usize = 64;

/// One thread's buffers for ranking.
struct Desk {
    scores: Vec<f32>,
    keys: Vec<i32>,
    top: TopK,
    auc: Auc,
    marks: Marks,
    drawn: Vec<u32>,
}

impl Desk {
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
    fn all_unrated(&mut self, question: &Question<'_>, user: usize) {
        ranking::keys(&self.scores, &mut self.keys);
        for item in question.seen(user) {
            self.keys[item as usize] = OUT;
        }
    }

    /// Keys of the user's test items and of a sample.
    fn sampled(&mut self, question: &Question<'_>, user: usize, negatives: usize, mut rng: Rng) {
        self.keys.fill(OUT);
        self.marks.clear();
        let seen = question.seen(user).filter(|&item| self.marks.add(item)).count();
        let mut tested = 0;
        for &item in question.test.of(user) {
            if self.marks.add(item) {
                self.keys[item as usize] = ranking::key(self.scores[item as usize]);
                tested += 1;
            }
        }
        let free = question.items() - seen - tested;
        sampling::draw(&mut rng, negatives, free, &mut self.marks, &mut self.drawn);
        for &item in &self.drawn {
            self.keys[item as usize] = ranking::key(self.scores[item as usize]);
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
    question: &Question<'_>,
    candidates: Candidates,
    k: usize,
    score: &S,
) -> (Lists, Vec<f64>)
where
    S: Fn(usize, &mut [f32]) + Sync,
{
    let users = question.users();
    let (mut items, mut lengths, mut areas) = (vec![0; users * k], vec![0; users], vec![f64::NAN; users]);
    let blocks = items
        .par_chunks_mut(RANKED_TOGETHER * k)
        .zip(lengths.par_chunks_mut(RANKED_TOGETHER))
        .zip(areas.par_chunks_mut(RANKED_TOGETHER))
        .enumerate();
    blocks.for_each_init(
        || Desk::new(question.items(), k),
        |desk, (block, ((items, lengths), areas))| {
            for (place, length) in lengths.iter_mut().enumerate() {
                let user = block * RANKED_TOGETHER + place;
                score(user, &mut desk.scores);
                match candidates {
                    Candidates::AllUnrated => {
                        desk.all_unrated(question, user);
                        areas[place] = desk.area(question.test.of(user));
                    }
                    Candidates::Sampled { negatives, seed } => {
                        let rng = Rng::new(seed).stream("negatives", user as u64);
                        desk.sampled(question, user, negatives, rng);
                    }
                }
                *length = desk.top.select(&desk.keys, &mut items[place * k..(place + 1) * k]) as u32;
            }
        },
    );
    (Lists::from_rows(items, k, &lengths, question.items()), areas)
}
