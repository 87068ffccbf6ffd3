//! From scores to lists, from lists to measures.

use crate::accuracy::{self, Discounts, Sums, Walk};
use crate::auc::Auc;
use crate::exposure::{self, Exposure, Ground};
use crate::per_user::{Columns, mean};
use crate::question::{ascending, same};
use crate::ranking::{self, OUT, TopK};
use crate::sampling::{self, Marks};
use crate::{Candidates, EvaluateError, Evaluation, Lists, Metrics, PerUser, Popularity, Protocol, Question};
use rayon::prelude::*;
use sottovoce_core::Rng;
use std::collections::BTreeMap;

/// Users ranked by one task.
const RANKED_TOGETHER: usize = 64;
/// Partial results are kept of at most this many blocks of users, merged in order. The partition depends on the number
/// of users only, so sums have the same bits on any number of threads.
const BLOCKS: usize = 32;

/// Ranks the catalog for every user and measures the lists.
///
/// `score` writes a score for each item, higher is better; it is called once a user, from several threads. Ties go to
/// the lower item. A score that is not a number is worse than any other. With sampled candidates, all of a user's test
/// items and the sample are ranked together (leave-one-out has one test item a user), and a user without test items
/// has a list of the sample.
///
/// # Errors
/// If the parts of the question do not fit together, or the protocol asks for nothing.
pub fn judge<S>(question: &Question<'_>, protocol: &Protocol, score: S) -> Result<Evaluation, EvaluateError>
where
    S: Fn(usize, &mut [f32]) + Sync,
{
    question.check()?;
    let cutoffs = ascending(&protocol.cutoffs)?;
    if matches!(protocol.candidates, Candidates::Sampled { negatives: 0, .. }) {
        return Err(EvaluateError::NoNegatives);
    }
    let longest = cutoffs.last().copied().unwrap_or(1).min(question.items().max(1));
    let (lists, areas) = rank(question, protocol.candidates, longest, &score);
    let mut evaluation = measure(question, &cutoffs, lists);
    evaluation.candidates = Some(protocol.candidates);
    if protocol.candidates == Candidates::AllUnrated {
        add_areas(&mut evaluation, &areas);
    }
    Ok(evaluation)
}

/// Measures lists that came from anywhere, as they are: items of the training part are not taken out.
///
/// # Errors
/// If the parts of the question or the lists do not fit together, or there is no cutoff.
pub fn judge_lists(
    question: &Question<'_>,
    cutoffs: &[usize],
    lists: &Lists,
) -> Result<Evaluation, EvaluateError> {
    question.check()?;
    same("the set of lists", "users", lists.users(), question.users())?;
    same("the set of lists", "items", lists.catalog_size(), question.items())?;
    Ok(measure(question, &ascending(cutoffs)?, lists.clone()))
}

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
fn rank<S>(question: &Question<'_>, candidates: Candidates, k: usize, score: &S) -> (Lists, Vec<f64>)
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

/// Keeps the areas of users with test items, and their mean.
fn add_areas(evaluation: &mut Evaluation, areas: &[f64]) {
    let judged: Vec<f64> = evaluation.per_user.users.iter().map(|&user| areas[user as usize]).collect();
    let auc = mean(judged.iter().copied());
    evaluation.at.values_mut().for_each(|metrics| metrics.auc = auc);
    evaluation.per_user.auc = Some(judged);
}

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
fn measure(question: &Question<'_>, cutoffs: &[usize], lists: Lists) -> Evaluation {
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
