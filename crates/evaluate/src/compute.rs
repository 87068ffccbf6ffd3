//! From lists to measures.

use crate::accuracy::{self, Discounts, Sums, Walk};
use crate::beyond_accuracy::{self, GroundTruth, RecommendationCounts};
use crate::per_user::Columns;
use crate::sampling::Marks;
use crate::{Evaluation, EvaluationInput, Metrics, PerUser, Popularity, RankedLists};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Partial results are kept of at most this many blocks of users, merged in order. The partition depends on the number
/// of users only, so sums have the same bits on any number of threads.
const BLOCKS: usize = 32;

/// Measures of a block of users; blocks merge.
struct Part {
    users: Vec<u32>,
    truth: GroundTruth,
    at: Vec<AtCutoff>,
}

struct AtCutoff {
    columns: Columns,
    sums: Sums,
    counts: RecommendationCounts,
}

impl Part {
    fn zero(cutoffs: &[usize], items: usize) -> Self {
        let zero = || AtCutoff {
            columns: Columns::default(),
            sums: Sums::default(),
            counts: RecommendationCounts::zero(items),
        };
        Self {
            users: Vec::new(),
            truth: GroundTruth::default(),
            at: cutoffs.iter().map(|_| zero()).collect(),
        }
    }

    fn merge(&mut self, other: &Part) {
        self.users.extend_from_slice(&other.users);
        self.truth.merge(other.truth);
        for (at, other) in self.at.iter_mut().zip(&other.at) {
            at.columns.append(&other.columns);
            at.sums.merge(other.sums);
            at.counts.merge(&other.counts);
        }
    }
}

/// What all blocks of one evaluation share.
struct Bench<'a> {
    input: &'a EvaluationInput<'a>,
    cutoffs: &'a [usize],
    lists: &'a RankedLists,
    popularity: &'a Popularity,
    discounts: Discounts,
}

impl Bench<'_> {
    fn block(&self, users: std::ops::Range<usize>) -> Part {
        let mut part = Part::zero(self.cutoffs, self.input.items());
        let mut marks = Marks::new(self.input.items());
        for user in users {
            self.count_unseen(user, &mut part.truth, &mut marks);
            self.user(user, &mut part, &mut marks);
        }
        part
    }

    fn count_unseen(&self, user: usize, truth: &mut GroundTruth, marks: &mut Marks) {
        let mut unseen = self.popularity.sizes();
        marks.clear();
        for item in self.input.seen(user).filter(|&item| marks.add(item)) {
            unseen[self.popularity.group(item)] -= 1;
        }
        truth.merge(GroundTruth { users: 1, test: [0; 2], unseen });
    }

    fn user(&self, user: usize, part: &mut Part, marks: &mut Marks) {
        let mut test = 0;
        marks.clear();
        for &item in self.input.test.of(user) {
            if marks.add(item) {
                part.truth.test[self.popularity.group(item)] += 1;
                test += 1;
            }
        }
        let hit = |item| marks.has(item);
        for (at, &k) in part.at.iter_mut().zip(self.cutoffs) {
            at.counts.add(self.lists.top(user, k), self.popularity, hit);
        }
        if test > 0 {
            part.users.push(user as u32);
            self.accuracy(user, test, &mut part.at, hit);
        }
    }

    fn accuracy(&self, user: usize, test: usize, at: &mut [AtCutoff], hit: impl Fn(u32) -> bool) {
        let mut walk = Walk::new(&self.discounts, test);
        let mut rest = self.lists.of(user).iter();
        let mut gone = 0;
        for (at, &k) in at.iter_mut().zip(self.cutoffs) {
            rest.by_ref().take(k - gone).for_each(|&item| walk.step(hit(item)));
            gone = k;
            let row = walk.row(k);
            at.columns.push(row);
            at.sums.add(row);
        }
    }
}

/// All measures of lists that fit the input; cutoffs ascend.
pub(crate) fn compute_metrics(
    input: &EvaluationInput<'_>,
    cutoffs: &[usize],
    lists: RankedLists,
) -> Evaluation {
    let popularity = Popularity::of(input.train);
    let longest = cutoffs.last().copied().unwrap_or(0);
    let discounts = Discounts::new(longest.min(input.items()));
    let bench = Bench { input, cutoffs, lists: &lists, popularity: &popularity, discounts };
    let users = input.users();
    let size = users.div_ceil(BLOCKS).max(1);
    let blocks = (0..users.div_ceil(size)).into_par_iter();
    let parts: Vec<Part> =
        blocks.map(|block| bench.block(block * size..((block + 1) * size).min(users))).collect();
    let mut whole = Part::zero(cutoffs, input.items());
    parts.iter().for_each(|part| whole.merge(part));
    conclude(input, cutoffs, whole, lists, popularity)
}

fn conclude(
    input: &EvaluationInput<'_>,
    cutoffs: &[usize],
    whole: Part,
    lists: RankedLists,
    popularity: Popularity,
) -> Evaluation {
    let mut per_user = PerUser { users: whole.users, ..PerUser::default() };
    let (mut metrics, mut recommended) = (BTreeMap::new(), BTreeMap::new());
    for (&k, at) in cutoffs.iter().zip(whole.at) {
        metrics.insert(k, result(input, &at, &whole.truth, &popularity));
        per_user.at.insert(k, at.columns);
        recommended.insert(k, at.counts.recommended);
    }
    Evaluation { at: metrics, per_user, lists, recommended, popularity, candidates: None }
}

fn result(
    input: &EvaluationInput<'_>,
    at: &AtCutoff,
    truth: &GroundTruth,
    popularity: &Popularity,
) -> Metrics {
    let means = at.sums.means();
    let counts = &at.counts;
    let mut ascending = counts.recommended.clone();
    ascending.sort_unstable();
    Metrics {
        precision: means.precision,
        recall: means.recall,
        ndcg: means.ndcg,
        hit_rate: means.hit,
        map: means.map,
        mrr: means.mrr,
        f1: accuracy::f1(means.precision, means.recall),
        auc: None,
        item_coverage: counts.coverage(),
        item_coverage_share: counts.coverage() as f64 / input.items() as f64,
        gini: beyond_accuracy::evenness(&ascending),
        shannon_entropy: beyond_accuracy::entropy(&ascending),
        aclt: counts.aclt(truth, popularity),
        pop_reo: counts.pop_reo(truth),
        pop_rsp: counts.pop_rsp(truth, popularity),
        bias_disparity: input
            .categories
            .map(|categories| counts.bias_disparity(popularity, categories))
            .unwrap_or_default(),
    }
}
