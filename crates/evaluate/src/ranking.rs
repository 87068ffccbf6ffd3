//! Ranking: from scores to top-k lists and AUC.

use crate::auc::Auc;
use crate::sampling::{self, ByPopularity, ItemSet};
use crate::top_k::{self, OUT, TopK};
use crate::{Candidates, EvaluationInput, RankedLists, Sampling};
use rayon::prelude::*;
use sottovoce_core::Rng;

const USERS_PER_TASK: usize = 64;

/// One thread's buffers for ranking.
struct Ranker {
    scores: Vec<f32>,
    keys: Vec<i32>,
    top: TopK,
    auc: Auc,
    items: ItemSet,
    drawn: Vec<u32>,
}

impl Ranker {
    fn new(items: usize, k: usize) -> Self {
        Self {
            scores: vec![0.0; items],
            keys: vec![OUT; items],
            top: TopK::new(k),
            auc: Auc::default(),
            items: ItemSet::new(items),
            drawn: Vec::new(),
        }
    }

    /// Sort keys of all items the user does not have.
    fn all_unrated(&mut self, input: &EvaluationInput<'_>, user: usize) {
        top_k::keys(&self.scores, &mut self.keys);
        for item in input.seen(user) {
            self.keys[item as usize] = OUT;
        }
    }

    /// Sort keys of the user's test items and of a sample of negatives.
    fn sampled(
        &mut self,
        input: &EvaluationInput<'_>,
        user: usize,
        negatives: usize,
        by_popularity: Option<&ByPopularity>,
        mut rng: Rng,
    ) {
        self.keys.fill(OUT);
        self.items.clear();
        let seen = input.seen(user).filter(|&item| self.items.add(item)).count();
        let mut tested = 0;
        for &item in input.test.of(user) {
            if self.items.add(item) {
                self.keys[item as usize] = top_k::key(self.scores[item as usize]);
                tested += 1;
            }
        }
        let free = input.items() - seen - tested;
        match by_popularity {
            None => sampling::draw(&mut rng, negatives, free, &mut self.items, &mut self.drawn),
            Some(popularity) => popularity.draw(&mut rng, negatives, &mut self.items, &mut self.drawn),
        }
        for &item in &self.drawn {
            self.keys[item as usize] = top_k::key(self.scores[item as usize]);
        }
    }

    /// The user's AUC; NaN if it is not defined.
    fn auc(&mut self, test: &[u32]) -> f64 {
        self.items.clear();
        let distinct = test.iter().copied().filter(|&item| self.items.add(item));
        self.auc.of(&self.keys, distinct).unwrap_or(f64::NAN)
    }
}

/// All users' top-k lists and AUC.
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
    let by_popularity = match candidates {
        Candidates::Sampled { sampling: Sampling::Popularity, .. } => Some(ByPopularity::new(input.train)),
        _ => None,
    };
    let (mut items, mut lengths, mut aucs) = (vec![0; users * k], vec![0; users], vec![f64::NAN; users]);
    let blocks = items
        .par_chunks_mut(USERS_PER_TASK * k)
        .zip(lengths.par_chunks_mut(USERS_PER_TASK))
        .zip(aucs.par_chunks_mut(USERS_PER_TASK))
        .enumerate();
    blocks.for_each_init(
        || Ranker::new(input.items(), k),
        |ranker, (block, ((items, lengths), aucs))| {
            for (index, length) in lengths.iter_mut().enumerate() {
                let user = block * USERS_PER_TASK + index;
                score(user, &mut ranker.scores);
                match candidates {
                    Candidates::AllUnrated => {
                        ranker.all_unrated(input, user);
                        aucs[index] = ranker.auc(input.test.of(user));
                    }
                    Candidates::Sampled { negatives, seed, .. } => {
                        let rng = Rng::new(seed).stream("negatives", user as u64);
                        ranker.sampled(input, user, negatives, by_popularity.as_ref(), rng);
                    }
                }
                *length = ranker.top.select(&ranker.keys, &mut items[index * k..(index + 1) * k]) as u32;
            }
        },
    );
    (RankedLists::from_rows(items, k, &lengths, input.items()), aucs)
}
