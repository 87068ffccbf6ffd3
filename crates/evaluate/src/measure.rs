//! From lists to measures.

use crate::accuracy::{self, Discounts, Sums, Walk};
use crate::exposure::{self, Exposure, Ground};
use crate::per_user::Columns;
use crate::sampling::Marks;
use crate::{Evaluation, Lists, Metrics, PerUser, Popularity, Question};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Partial results are kept of at most this many blocks of users, merged in order. The partition depends on the number
/// of users only, so sums have the same bits on any number of threads.
const BLOCKS: usize = 32;

/// Measures of a block of users; blocks merge.
struct Part {
    users: Vec<u32>,
    ground: Ground,
    at: Vec<AtCutoff>,
}

struct AtCutoff {
    columns: Columns,
    sums: Sums,
    exposure: Exposure,
}

impl Part {
    fn zero(cutoffs: &[usize], items: usize) -> Self {
        let zero = || AtCutoff {
            columns: Columns::default(),
            sums: Sums::default(),
            exposure: Exposure::zero(items),
        };
        Self { users: Vec::new(), ground: Ground::default(), at: cutoffs.iter().map(|_| zero()).collect() }
    }

    fn merge(&mut self, other: &Part) {
        self.users.extend_from_slice(&other.users);
        self.ground.merge(other.ground);
        for (at, other) in self.at.iter_mut().zip(&other.at) {
            at.columns.append(&other.columns);
            at.sums.merge(other.sums);
            at.exposure.merge(&other.exposure);
        }
    }
}

/// What all blocks of one evaluation share.
struct Bench<'a> {
    question: &'a Question<'a>,
    cutoffs: &'a [usize],
    lists: &'a Lists,
    popularity: &'a Popularity,
    discounts: Discounts,
}

impl Bench<'_> {
    fn block(&self, users: std::ops::Range<usize>) -> Part {
        let mut part = Part::zero(self.cutoffs, self.question.items());
        let mut marks = Marks::new(self.question.items());
        for user in users {
            self.count_unseen(user, &mut part.ground, &mut marks);
            self.user(user, &mut part, &mut marks);
        }
        part
    }

    fn count_unseen(&self, user: usize, ground: &mut Ground, marks: &mut Marks) {
        let mut unseen = self.popularity.sizes();
        marks.clear();
        for item in self.question.seen(user).filter(|&item| marks.add(item)) {
            unseen[self.popularity.group(item)] -= 1;
        }
        ground.merge(Ground { users: 1, test: [0; 2], unseen });
    }

    fn user(&self, user: usize, part: &mut Part, marks: &mut Marks) {
        let mut test = 0;
        marks.clear();
        for &item in self.question.test.of(user) {
            if marks.add(item) {
                part.ground.test[self.popularity.group(item)] += 1;
                test += 1;
            }
        }
        let hit = |item| marks.has(item);
        for (at, &k) in part.at.iter_mut().zip(self.cutoffs) {
            at.exposure.add(self.lists.top(user, k), self.popularity, hit);
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

/// All measures of lists that fit the question; cutoffs ascend.
pub(crate) fn measure(question: &Question<'_>, cutoffs: &[usize], lists: Lists) -> Evaluation {
    let popularity = Popularity::of(question.train);
    let longest = cutoffs.last().copied().unwrap_or(0);
    let discounts = Discounts::new(longest.min(question.items()));
    let bench = Bench { question, cutoffs, lists: &lists, popularity: &popularity, discounts };
    let users = question.users();
    let size = users.div_ceil(BLOCKS).max(1);
    let blocks = (0..users.div_ceil(size)).into_par_iter();
    let parts: Vec<Part> =
        blocks.map(|block| bench.block(block * size..((block + 1) * size).min(users))).collect();
    let mut whole = Part::zero(cutoffs, question.items());
    parts.iter().for_each(|part| whole.merge(part));
    conclude(question, cutoffs, whole, lists, popularity)
}

fn conclude(
    question: &Question<'_>,
    cutoffs: &[usize],
    whole: Part,
    lists: Lists,
    popularity: Popularity,
) -> Evaluation {
    let mut per_user = PerUser { users: whole.users, ..PerUser::default() };
    let (mut metrics, mut recommended) = (BTreeMap::new(), BTreeMap::new());
    for (&k, at) in cutoffs.iter().zip(whole.at) {
        metrics.insert(k, result(question, &at, &whole.ground, &popularity));
        per_user.at.insert(k, at.columns);
        recommended.insert(k, at.exposure.recommended);
    }
    Evaluation { at: metrics, per_user, lists, recommended, popularity, candidates: None }
}

fn result(question: &Question<'_>, at: &AtCutoff, ground: &Ground, popularity: &Popularity) -> Metrics {
    let means = at.sums.means();
    let exposure = &at.exposure;
    let mut ascending = exposure.recommended.clone();
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
        item_coverage: exposure.coverage(),
        item_coverage_share: exposure.coverage() as f64 / question.items() as f64,
        gini: exposure::evenness(&ascending),
        shannon_entropy: exposure::entropy(&ascending),
        aclt: exposure.aclt(ground, popularity),
        pop_reo: exposure.pop_reo(ground),
        pop_rsp: exposure.pop_rsp(ground, popularity),
        bias_disparity: question
            .categories
            .map(|categories| exposure.bias_disparity(popularity, categories))
            .unwrap_or_default(),
    }
}
