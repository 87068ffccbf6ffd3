//! Every metric against a slow transcription of its definition, on random small problems.

use proptest::prelude::*;
use sottovoce_core::{Categories, Histories};
use sottovoce_evaluate::{
    Candidates, Evaluation, EvaluationInput, Metric, Metrics, Order, Protocol, RankedListsBuilder, Sampling, evaluate,
    evaluate_lists,
};
use std::collections::{BTreeMap, BTreeSet};

const ITEMS: usize = 14;
const CUTOFFS: [usize; 4] = [1, 3, 10, 20];

/// One user: training items (may repeat), items of a validation part, test items, scores.
type User = (Vec<u32>, Vec<u32>, Vec<u32>, Vec<f32>);

#[derive(Clone, Debug)]
struct Problem {
    users: Vec<User>,
    /// Bits: categories of each item.
    categories: Vec<u8>,
}

fn user() -> impl Strategy<Value = User> {
    let item = 0..ITEMS as u32;
    let parts = (prop::collection::vec(item.clone(), 0..9), prop::collection::vec(item.clone(), 0..3));
    let score = prop_oneof![8 => (0i32..6).prop_map(|level| level as f32 - 2.5), 1 => Just(f32::NAN)];
    let rest = (prop::collection::vec(item, 0..6), prop::collection::vec(score, ITEMS));
    (parts, rest).prop_map(|((train, seen), (test, scores))| (train, seen, test, scores))
}

fn problem() -> impl Strategy<Value = Problem> {
    (prop::collection::vec(user(), 0..12), prop::collection::vec(0u8..8, ITEMS))
        .prop_map(|(users, categories)| Problem { users, categories })
}

struct Parts {
    train: Histories,
    seen: Histories,
    test: Histories,
    categories: Categories,
}

impl Parts {
    fn new(problem: &Problem) -> Self {
        let part = |of: fn(&User) -> &Vec<u32>| {
            let lists: Vec<&Vec<u32>> = problem.users.iter().map(of).collect();
            Histories::from_lists(&lists, ITEMS).unwrap()
        };
        let mut categories = Categories::new(["x", "y", "z"].into_iter().collect());
        for &bits in &problem.categories {
            categories.push((0..3).filter(|category| bits >> category & 1 == 1));
        }
        Self { train: part(|user| &user.0), seen: part(|user| &user.1), test: part(|user| &user.2), categories }
    }

    fn input(&self) -> EvaluationInput<'_> {
        EvaluationInput {
            also_seen: Some(&self.seen),
            categories: Some(&self.categories),
            ..EvaluationInput::new(&self.train, &self.test)
        }
    }
}

fn evaluated(problem: &Problem, parts: &Parts, candidates: Candidates) -> Evaluation {
    let protocol = Protocol { cutoffs: CUTOFFS.to_vec(), candidates };
    let score = |user: usize, into: &mut [f32]| into.copy_from_slice(&problem.users[user].3);
    evaluate(&parts.input(), &protocol, score).unwrap()
}

fn set(items: &[u32]) -> BTreeSet<u32> {
    items.iter().copied().collect()
}

/// Better scores first; one that is not a number is worst.
fn better(a: f32, b: f32) -> bool {
    a > b || (b.is_nan() && !a.is_nan())
}

fn ranking(user: &User) -> Vec<u32> {
    let (train, seen, _, scores) = user;
    let mut order: Vec<u32> = (0..ITEMS as u32).filter(|item| !train.contains(item) && !seen.contains(item)).collect();
    order.sort_by(|&a, &b| {
        let (x, y) = (scores[a as usize], scores[b as usize]);
        better(y, x).cmp(&better(x, y)).then(a.cmp(&b))
    });
    order
}

fn head(problem: &Problem) -> BTreeSet<u32> {
    let count = |item: u32| problem.users.iter().flat_map(|user| &user.0).filter(|&&other| other == item).count();
    let total: usize = problem.users.iter().map(|user| user.0.len()).sum();
    let mut order: Vec<u32> = (0..ITEMS as u32).collect();
    order.sort_by_key(|&item| (usize::MAX - count(item), item));
    let (mut head, mut held) = (BTreeSet::new(), 0);
    for item in order {
        if held as f64 >= 0.8 * total as f64 {
            break;
        }
        held += count(item);
        head.insert(item);
    }
    head
}

/// The accuracy of one user, by measure.
fn accuracy(list: &[u32], test: &BTreeSet<u32>, k: usize) -> [f64; 6] {
    let list = &list[..k.min(list.len())];
    let hits: Vec<usize> = (1..=list.len()).filter(|&place| test.contains(&list[place - 1])).collect();
    let gain = |place: usize| 1.0 / (place as f64 + 1.0).log2();
    let reachable = k.min(test.len());
    let upto = |place: usize| hits.iter().filter(|&&other| other <= place).count() as f64;
    [
        hits.len() as f64 / k as f64,
        hits.len() as f64 / test.len() as f64,
        hits.iter().map(|&place| gain(place)).sum::<f64>() / (1..=reachable).map(gain).sum::<f64>(),
        if hits.is_empty() { 0.0 } else { 1.0 },
        hits.iter().map(|&place| upto(place) / place as f64).sum::<f64>() / reachable as f64,
        hits.first().map_or(0.0, |&place| 1.0 / place as f64),
    ]
}

fn auc(user: &User) -> Option<f64> {
    let (candidates, test) = (ranking(user), set(&user.2));
    let (relevant, others): (Vec<u32>, Vec<u32>) = candidates.iter().partition(|item| test.contains(item));
    let mut wins = Vec::new();
    for &a in &relevant {
        for &b in &others {
            let (x, y) = (user.3[a as usize], user.3[b as usize]);
            wins.push(if better(x, y) {
                1.0
            } else if better(y, x) {
                0.0
            } else {
                0.5
            });
        }
    }
    mean(&wins)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn deviation_over_mean(ratios: [f64; 2]) -> Option<f64> {
    let mean = (ratios[0] + ratios[1]) / 2.0;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / 2.0;
    let value = variance.sqrt() / mean;
    value.is_finite().then_some(value)
}

/// All measures that are means or counts, by name.
fn literal(problem: &Problem, k: usize) -> BTreeMap<Metric, Option<f64>> {
    let users = &problem.users;
    let lists: Vec<Vec<u32>> = users.iter().map(|user| ranking(user).into_iter().take(k).collect()).collect();
    let with_test: Vec<usize> = (0..users.len()).filter(|&user| !users[user].2.is_empty()).collect();
    let rows: Vec<[f64; 6]> = with_test.iter().map(|&user| accuracy(&lists[user], &set(&users[user].2), k)).collect();
    let column = |index: usize| mean(&rows.iter().map(|row| row[index]).collect::<Vec<_>>());
    let areas: Vec<f64> = with_test.iter().filter_map(|&user| auc(&users[user])).collect();
    let f1 = column(0).zip(column(1)).map(|(p, r)| if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 });
    let mut all: BTreeMap<Metric, Option<f64>> = [
        (Metric::Precision, column(0)),
        (Metric::Recall, column(1)),
        (Metric::Ndcg, column(2)),
        (Metric::HitRate, column(3)),
        (Metric::Map, column(4)),
        (Metric::Mrr, column(5)),
        (Metric::F1, f1),
        (Metric::Auc, mean(&areas)),
    ]
    .into();
    all.extend(users_reached(&lists, &with_test, &rows, k));
    all.extend(concentration(&lists));
    all.extend(popularity_bias(problem, &lists));
    all
}

/// c@1 counts places: right ones, and empty ones at the rate of right ones.
fn users_reached(lists: &[Vec<u32>], with_test: &[usize], rows: &[[f64; 6]], k: usize) -> [(Metric, Option<f64>); 3] {
    let n = (with_test.len() * k) as f64;
    let right: f64 = rows.iter().map(|row| row[0] * k as f64).sum();
    let empty: f64 = with_test.iter().map(|&user| (k - lists[user].len()) as f64).sum();
    let reached = lists.iter().filter(|list| !list.is_empty()).count() as f64;
    [
        (Metric::Correctness, (n > 0.0).then_some((right + empty * right / n) / n)),
        (Metric::UserCoverage, (!lists.is_empty()).then_some(reached / lists.len() as f64)),
        (Metric::UsersWithHit, Some(rows.iter().filter(|row| row[3] > 0.0).count() as f64)),
    ]
}

fn concentration(lists: &[Vec<u32>]) -> [(Metric, Option<f64>); 4] {
    let mut counts: Vec<f64> =
        (0..ITEMS as u32).map(|item| lists.iter().flatten().filter(|&&other| other == item).count() as f64).collect();
    counts.sort_by(f64::total_cmp);
    let total: f64 = counts.iter().sum();
    let covered = counts.iter().filter(|&&count| count > 0.0).count() as f64;
    let n = ITEMS as f64;
    let weighted: f64 =
        counts.iter().enumerate().map(|(index, count)| (2.0 * (index as f64 + 1.0) - n - 1.0) * count).sum();
    let shares = counts.iter().map(|count| count / total).filter(|&share| share > 0.0);
    let entropy: f64 = shares.map(|share| -share * share.log2()).sum();
    let defined = |value: f64| (total > 0.0).then_some(value);
    [
        (Metric::ItemCoverage, Some(covered)),
        (Metric::ItemCoverageShare, Some(covered / n)),
        (Metric::Gini, defined(1.0 - weighted / ((n - 1.0) * total))),
        (Metric::ShannonEntropy, defined(entropy)),
    ]
}

fn popularity_bias(problem: &Problem, lists: &[Vec<u32>]) -> [(Metric, Option<f64>); 3] {
    let head = head(problem);
    let groups = [true, false].map(|in_head| (0..ITEMS as u32).filter(|item| head.contains(item) == in_head).collect());
    let [mut found, mut tested, mut shown, mut unseen] = [[0.0; 2]; 4];
    for (user, list) in problem.users.iter().zip(lists) {
        for (group, members) in groups.iter().enumerate() {
            let members: &BTreeSet<u32> = members;
            let test = set(&user.2);
            found[group] += list.iter().filter(|item| members.contains(item) && test.contains(item)).count() as f64;
            tested[group] += test.intersection(members).count() as f64;
            shown[group] += list.iter().filter(|item| members.contains(item)).count() as f64;
            unseen[group] +=
                members.iter().filter(|item| !user.0.contains(item) && !user.1.contains(item)).count() as f64;
        }
    }
    let aclt = (!lists.is_empty()).then(|| shown[1] / lists.len() as f64);
    let ratios = |part: [f64; 2], whole: [f64; 2]| [part[0] / whole[0], part[1] / whole[1]];
    [
        (Metric::Aclt, aclt),
        (Metric::PopReo, deviation_over_mean(ratios(found, tested))),
        (Metric::PopRsp, deviation_over_mean(ratios(shown, unseen))),
    ]
}

fn bias_disparity(problem: &Problem, k: usize) -> BTreeMap<String, Option<f64>> {
    let chosen: Vec<u32> = problem.users.iter().flat_map(|user| user.0.clone()).collect();
    let shown: Vec<u32> = problem.users.iter().flat_map(|user| ranking(user).into_iter().take(k)).collect();
    let catalog: Vec<u32> = (0..ITEMS as u32).collect();
    let bias = |items: &[u32], category: usize| {
        let share = |items: &[u32]| {
            let within = items.iter().filter(|&&item| problem.categories[item as usize] >> category & 1 == 1).count();
            within as f64 / items.len() as f64
        };
        share(items) / share(&catalog)
    };
    let disparity = |category: usize| {
        let value = (bias(&shown, category) - bias(&chosen, category)) / bias(&chosen, category);
        value.is_finite().then_some(value)
    };
    ["x", "y", "z"].iter().enumerate().map(|(index, name)| ((*name).to_owned(), disparity(index))).collect()
}

fn same(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
        _ => found == expected,
    }
}

/// Equal bit for bit, where NaN equals NaN.
fn print(metrics: &BTreeMap<usize, Metrics>) -> String {
    serde_json::to_string(metrics).unwrap()
}

proptest! {
    #[test]
    fn metrics_agree_with_their_definitions(problem in problem()) {
        let parts = Parts::new(&problem);
        let evaluation = evaluated(&problem, &parts, Candidates::AllUnrated);
        for k in CUTOFFS {
            let metrics = &evaluation.at[&k];
            for (key, expected) in literal(&problem, k) {
                prop_assert!(same(metrics.get(key), expected), "{key}@{k}: {:?} {expected:?}", metrics.get(key));
            }
            for (category, expected) in bias_disparity(&problem, k) {
                let found = metrics.bias_disparity[&category];
                prop_assert!(same(found, expected), "{category}@{k}: {found:?} {expected:?}");
            }
        }
        for (user, list) in problem.users.iter().zip(evaluation.lists.iter()) {
            prop_assert_eq!(&ranking(user)[..], list);
        }
    }

    #[test]
    fn per_user_values_have_the_reported_means(problem in problem()) {
        let parts = Parts::new(&problem);
        let evaluation = evaluated(&problem, &parts, Candidates::AllUnrated);
        for key in Metric::PER_USER {
            let values: Vec<f64> = evaluation.per_user.column(key, 3).unwrap().to_vec();
            prop_assert_eq!(values.len(), problem.users.iter().filter(|user| !user.2.is_empty()).count());
            let defined: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
            prop_assert!(same(evaluation.at[&3].get(key), mean(&defined)), "{key}");
        }
    }

    #[test]
    fn lists_and_scores_give_the_same_metrics(problem in problem(), sampled in any::<bool>()) {
        let parts = Parts::new(&problem);
        let all = Candidates::AllUnrated;
        let candidates = if sampled { Candidates::Sampled { negatives: 4, sampling: Sampling::Uniform, seed: 3 } } else { all };
        let mut evaluation = evaluated(&problem, &parts, candidates);
        prop_assert_eq!(evaluation.is_sampled(), sampled);
        let again = evaluate_lists(&parts.input(), &CUTOFFS, &evaluation.lists).unwrap();
        evaluation.at.values_mut().for_each(|metrics| metrics.auc = None);
        prop_assert_eq!(print(&again.at), print(&evaluation.at));
        evaluation.per_user.auc = None;
        prop_assert_eq!(&again.per_user, &evaluation.per_user);
        prop_assert_eq!(&again.recommended, &evaluation.recommended);
    }

    #[test]
    fn sampled_candidates_are_test_items_and_unseen_negatives(problem in problem(), negatives in 1usize..9, seed in 0u64..9) {
        let parts = Parts::new(&problem);
        let evaluation = evaluated(&problem, &parts, Candidates::Sampled { negatives, sampling: Sampling::Uniform, seed });
        prop_assert!(evaluation.per_user.auc.is_none() && evaluation.at[&3].auc.is_none());
        prop_assert_eq!(evaluation.candidates.unwrap().to_string(), format!("sampled: {negatives} negatives, seed {seed}"));
        for (user, list) in problem.users.iter().zip(evaluation.lists.iter()) {
            let full = ranking(user);
            let tested: Vec<u32> = full.iter().copied().filter(|item| user.2.contains(item)).collect();
            prop_assert!(tested.iter().all(|item| list.contains(item)));
            prop_assert_eq!(list.len(), tested.len() + negatives.min(full.len() - tested.len()));
            // The order is that of the full ranking.
            let places: Vec<usize> = list.iter().map(|item| full.iter().position(|other| other == item).unwrap()).collect();
            prop_assert!(places.is_sorted_by(|a, b| a < b));
        }
    }
}

/// Enough users for several blocks, and scores that are sums of rounding errors if added in another order.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let users: Vec<User> = (0..500u32)
        .map(|user| {
            let items = |step: u32, n: u32| (0..n).map(|i| (user * 3 + i * step) % ITEMS as u32).collect();
            let scores = (0..ITEMS as u32).map(|item| ((user * 31 + item * 17) % 23) as f32).collect();
            (items(5, user % 6 + 1), Vec::new(), items(3, user % 4), scores)
        })
        .collect();
    let problem = Problem { users, categories: (0..ITEMS as u8).map(|item| item % 8).collect() };
    let parts = Parts::new(&problem);
    for candidates in
        [Candidates::AllUnrated, Candidates::Sampled { negatives: 4, sampling: Sampling::Uniform, seed: 1 }]
    {
        let [one, three] = [1, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| evaluated(&problem, &parts, candidates))
        });
        assert_eq!(print(&one.at), print(&three.at));
        assert_eq!(one.lists, three.lists);
        assert_eq!(one.per_user.at, three.per_user.at);
    }
}

#[test]
fn counts_how_often_items_are_recommended() {
    let train = Histories::from_lists(&[vec![0, 1], vec![0], vec![0, 2], vec![0]], 4).unwrap();
    let test = Histories::from_lists(&[vec![2], vec![], vec![1], vec![3]], 4).unwrap();
    let score = |_: usize, into: &mut [f32]| into.copy_from_slice(&[0.0, 3.0, 2.0, 1.0]);
    let evaluation = evaluate(&EvaluationInput::new(&train, &test), &Protocol::all_unrated([1, 2]), score).unwrap();
    // RankedLists: 2 3 | 1 2 | 1 3 | 1 2. Head: items 0 and 1 hold 5 of 6.
    assert_eq!(evaluation.recommended[&2], [0, 3, 3, 2]);
    assert_eq!(evaluation.recommended[&1], [0, 3, 1, 0]);
    assert_eq!((evaluation.lists.users(), evaluation.per_user.users.len()), (4, 3));
}

#[test]
fn test_items_outside_the_catalog_count_and_cannot_be_found() {
    let train = Histories::from_lists(&[vec![0], vec![1], vec![0]], 3).unwrap();
    let test = Histories::from_lists(&[vec![1], vec![], vec![]], 3).unwrap();
    let score = |_: usize, into: &mut [f32]| into.copy_from_slice(&[0.3, 0.2, 0.1]);
    let plain = EvaluationInput::new(&train, &test);
    let cold = [4, 1, 0];
    let input = EvaluationInput { cold_test: Some(&cold), ..plain };
    let found = evaluate(&input, &Protocol::all_unrated([1, 10]), score).unwrap();
    // The first user has one of five test items, the second none of one, the third has no test part.
    assert_eq!(found.per_user.users, [0, 1]);
    let at = &found.at[&1];
    assert_eq!((at.precision, at.recall, at.hit_rate, at.users_with_hit), (0.5, 0.1, 0.5, 1));
    let gain = |place: f64| 1.0 / (place + 1.0).log2();
    let ideal = (1..=5).map(|place| gain(f64::from(place))).sum::<f64>();
    let ndcg = found.at[&10].ndcg;
    assert!((ndcg - 0.5 / ideal).abs() < 1e-12, "{ndcg}: five test items, though the catalog has three");
    assert_eq!(evaluate(&plain, &Protocol::all_unrated([1]), score).unwrap().at[&1].recall, 1.0);
    let wrong = EvaluationInput { cold_test: Some(&cold[..2]), ..plain };
    let error = evaluate(&wrong, &Protocol::all_unrated([1]), score).unwrap_err().to_string();
    assert_eq!(error, "the list of test items outside the catalog has 2 users, but the training part has 3");
}

#[test]
fn short_and_missing_lists_show_in_coverage_and_correctness() {
    let train = Histories::from_lists::<Vec<u32>>(&[vec![], vec![], vec![]], 4).unwrap();
    let test = Histories::from_lists(&[vec![0], vec![1], vec![]], 4).unwrap();
    let mut lists = RankedListsBuilder::new(3, 4, Order::Rank);
    for (user, item, rank) in [(0, 0, 1.0), (0, 2, 2.0), (2, 3, 1.0)] {
        lists.push(user, item, rank).unwrap();
    }
    let found = evaluate_lists(&EvaluationInput::new(&train, &test), &[2], &lists.finish().unwrap()).unwrap();
    let at = &found.at[&2];
    assert_eq!((at.precision, at.users_with_hit), (0.25, 1));
    assert!((at.user_coverage - 2.0 / 3.0).abs() < 1e-15);
    // Four places of users with test items: one right, one wrong, two empty.
    assert_eq!(at.correctness, (1.0 + 2.0 * 1.0 / 4.0) / 4.0);
}

#[test]
fn evaluates_an_empty_catalog_and_no_users() {
    let nothing = Histories::from_lists::<Vec<u32>>(&[], 0).unwrap();
    let evaluation =
        evaluate(&EvaluationInput::new(&nothing, &nothing), &Protocol::all_unrated([5]), |_, _| {}).unwrap();
    assert_eq!(evaluation.at[&5].get(Metric::Ndcg), None);
    assert_eq!(evaluation.at[&5].item_coverage, 0);
    let empty = Histories::from_lists::<Vec<u32>>(&[vec![], vec![]], 0).unwrap();
    let evaluation = evaluate(&EvaluationInput::new(&empty, &empty), &Protocol::all_unrated([5]), |_, _| {}).unwrap();
    assert_eq!(evaluation.at[&5].aclt, 0.0);
}
