//! From ranked lists to metrics.

use crate::accuracy::{self, Discounts, ListScan, Sums};
use crate::beyond_accuracy::{self, GroundTruth, RecommendationCounts};
use crate::popularity::{Popularity, TAIL};
use crate::sampling::ItemSet;
use crate::{Evaluation, EvaluationInput, Metrics, PerUser, RankedLists};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Partial results are held for at most this many blocks of users and merged in order. The partition depends on the
/// number of users only, so sums have the same bits on any number of threads.
const BLOCKS: usize = 32;

/// Results of a block of users; blocks merge.
struct Partial {
    users: Vec<u32>,
    truth: GroundTruth,
    at: Vec<AtCutoff>,
}

struct AtCutoff {
    columns: [Vec<f64>; 6],
    sums: Sums,
    counts: RecommendationCounts,
}

impl Partial {
    fn zero(cutoffs: &[usize], items: usize) -> Self {
        let zero = |_| AtCutoff {
            columns: Default::default(),
            sums: Sums::default(),
            counts: RecommendationCounts::zero(items),
        };
        let at = cutoffs.iter().map(zero).collect();
        Self { users: Vec::new(), truth: GroundTruth::default(), at }
    }

    fn merge(&mut self, other: &Partial) {
        self.users.extend_from_slice(&other.users);
        self.truth.merge(other.truth);
        for (at, other) in self.at.iter_mut().zip(&other.at) {
            at.columns.iter_mut().zip(&other.columns).for_each(|(column, more)| column.extend_from_slice(more));
            at.sums.merge(other.sums);
            at.counts.merge(&other.counts);
        }
    }
}

/// What all blocks of one evaluation share.
struct Context<'a> {
    input: &'a EvaluationInput<'a>,
    cutoffs: &'a [usize],
    lists: &'a RankedLists,
    popularity: Popularity,
    discounts: Discounts,
}

impl Context<'_> {
    fn block(&self, users: std::ops::Range<usize>) -> Partial {
        let mut partial = Partial::zero(self.cutoffs, self.input.items());
        let mut items = ItemSet::new(self.input.items());
        for user in users {
            self.count_unseen(user, &mut partial.truth, &mut items);
            self.user(user, &mut partial, &mut items);
        }
        partial
    }

    fn count_unseen(&self, user: usize, truth: &mut GroundTruth, items: &mut ItemSet) {
        let mut unseen = self.popularity.sizes();
        items.clear();
        for item in self.input.seen(user).filter(|&item| items.add(item)) {
            unseen[self.popularity.group(item)] -= 1;
        }
        truth.merge(GroundTruth { users: 1, test: [0; 2], unseen });
    }

    fn user(&self, user: usize, partial: &mut Partial, items: &mut ItemSet) {
        let mut test = 0;
        items.clear();
        for &item in self.input.test.of(user) {
            if items.add(item) {
                partial.truth.test[self.popularity.group(item)] += 1;
                test += 1;
            }
        }
        let cold = self.input.cold(user);
        partial.truth.test[TAIL] += cold as u64;
        test += cold;
        let hit = |item| items.has(item);
        for (at, &k) in partial.at.iter_mut().zip(self.cutoffs) {
            at.counts.add(self.lists.top(user, k), &self.popularity, hit);
        }
        if test == 0 {
            return;
        }
        partial.users.push(user as u32);
        let mut scan = ListScan::new(&self.discounts, test);
        let mut rest = self.lists.of(user).iter();
        let mut scanned = 0;
        for (at, &k) in partial.at.iter_mut().zip(self.cutoffs) {
            rest.by_ref().take(k - scanned).for_each(|&item| scan.step(hit(item)));
            scanned = k;
            at.counts.answered += self.lists.top(user, k).len() as u64;
            let values = scan.at(k);
            at.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            at.sums.add(values);
        }
    }

    fn metrics(&self, k: usize, at: &AtCutoff, truth: &GroundTruth) -> Metrics {
        let [precision, recall, ndcg, hit_rate, map, mrr] = at.sums.means();
        let places = at.columns[0].len() as f64 * k as f64;
        let (counts, popularity) = (&at.counts, &self.popularity);
        let mut ascending = counts.recommended.clone();
        ascending.sort_unstable();
        let disparity = self.input.categories.map(|all| counts.bias_disparity(popularity, all));
        Metrics {
            precision,
            recall,
            ndcg,
            hit_rate,
            map,
            mrr,
            f1: accuracy::f1(precision, recall),
            auc: None,
            correctness: accuracy::correctness(precision, counts.answered as f64 / places),
            user_coverage: counts.users as f64 / truth.users as f64,
            users_with_hit: at.columns[3].iter().filter(|&&hit| hit > 0.0).count(),
            item_coverage: counts.coverage(),
            item_coverage_share: counts.coverage() as f64 / self.input.items() as f64,
            gini: beyond_accuracy::evenness(&ascending),
            shannon_entropy: beyond_accuracy::entropy(&ascending),
            aclt: counts.aclt(truth, popularity),
            pop_reo: counts.pop_reo(truth),
            pop_rsp: counts.pop_rsp(truth, popularity),
            bias_disparity: disparity.unwrap_or_default(),
        }
    }
}

/// All metrics of lists that fit the input; cutoffs ascend.
pub(crate) fn compute_metrics(input: &EvaluationInput<'_>, cutoffs: &[usize], lists: RankedLists) -> Evaluation {
    let longest = cutoffs.last().copied().unwrap_or(0);
    let cold = input.cold_test.and_then(|counts| counts.iter().max()).map_or(0, |&count| count as usize);
    let discounts = Discounts::new(longest.min(input.items() + cold));
    let context = Context { input, cutoffs, lists: &lists, popularity: Popularity::of(input.train), discounts };
    let users = input.users();
    let size = users.div_ceil(BLOCKS).max(1);
    let blocks = (0..users.div_ceil(size)).into_par_iter();
    let partials: Vec<Partial> =
        blocks.map(|block| context.block(block * size..((block + 1) * size).min(users))).collect();
    let mut whole = Partial::zero(cutoffs, input.items());
    partials.iter().for_each(|partial| whole.merge(partial));
    let mut per_user = PerUser { users: whole.users, ..PerUser::default() };
    let (mut metrics, mut recommended) = (BTreeMap::new(), BTreeMap::new());
    for (&k, at) in cutoffs.iter().zip(whole.at) {
        metrics.insert(k, context.metrics(k, &at, &whole.truth));
        per_user.at.insert(k, at.columns);
        recommended.insert(k, at.counts.recommended);
    }
    Evaluation { at: metrics, per_user, lists, recommended, candidates: None }
}
