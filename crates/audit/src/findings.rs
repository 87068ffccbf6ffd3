//! Results of an audit.

use crate::attacks::{Account, Attack, Combined, membership_by_model};
use crate::evaluation::evaluate;
use crate::{Estimate, Reconstruction, Subjects};
use rayon::prelude::*;
use serde::Serialize;
use sottovoce_core::{Rng, math};

/// Every fifth subject is taken for an account of the attacker's own, on which the combined attack is fitted.
const OWN_ACCOUNTS: usize = 5;

/// How much one attack reveals.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The attack.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Number of users whose histories were evaluated.
    pub people: usize,
    /// Mean AUC of reconstructed histories.
    pub auc: f64,
    /// Mean precision, among as many items as the history has.
    pub precision: f64,
    /// Mean recall, among twice as many.
    pub recall: f64,
    /// AUC of the popularity baseline for the same users; beside the combined attack, of one that also knows the mean
    /// over all users' uploads.
    pub guess_auc: f64,
    /// Precision of the baseline.
    pub guess_precision: f64,
    /// Recall of the baseline.
    pub guess_recall: f64,
    /// AUC of ranking items by popularity and nothing else, for the same users.
    pub popularity_auc: f64,
    /// Precision of that.
    pub popularity_precision: f64,
    /// AUC with its 95 % confidence interval.
    pub auc_range: Estimate,
    /// AUC less that of the baseline, by user, with its 95 % confidence interval.
    pub gain: Estimate,
    /// AUC of the same attack with another user's uploads: what it reveals about users in general.
    pub control_auc: f64,
    /// AUC less that, by user, with its 95 % confidence interval: what it reveals about this user and no other.
    pub personal: Estimate,
    /// Fraction of users with a precision above one half.
    pub exposed: f64,
    /// Values of each user, with their device.
    #[serde(skip)]
    pub each: Vec<(u32, Reconstruction)>,
}

/// How much attacks revealed after some rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Checkpoint {
    /// Number of rounds.
    pub rounds: u64,
    /// Mean AUC by attack.
    pub auc: Vec<(&'static str, f64)>,
}

/// Results of an audit.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// What the server saw.
    pub view: &'static str,
    /// Number of rounds.
    pub rounds: u64,
    /// Number of uploads of the subjects, single or in a sum.
    pub uploads: u64,
    /// By attack; those on histories, then all of them combined, then those on membership.
    pub attacks: Vec<Finding>,
    /// At checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over_rounds: Vec<Checkpoint>,
}

impl Findings {
    /// The finding of an attack.
    pub fn of(&self, name: &str) -> Option<&Finding> {
        self.attacks.iter().find(|finding| finding.name == name)
    }

    /// The finding of all attacks on histories combined.
    pub fn combined(&self) -> Option<&Finding> {
        self.of(COMBINED)
    }
}

const COMBINED: &str = "combined";

/// By subject, if they sent anything: scores of all items by each attack.
pub(crate) type Scores = Vec<Option<Vec<Vec<f32>>>>;

/// Scores of a subject's candidates, from a user's scores of all items by each attack.
type CandidateScorer<'a> = &'a (dyn Fn(usize, &[Vec<f32>]) -> Vec<f32> + Sync);

/// Mean AUC of each attack.
pub(crate) fn checkpoint(subjects: &Subjects, rounds: u64, attacks: &[Attack], scores: &Scores) -> Checkpoint {
    let auc = attacks.iter().enumerate().map(|(attack, of)| {
        let auc = |(index, scores): (usize, &Option<Vec<Vec<f32>>>)| {
            Some(evaluate(&scores.as_ref()?[attack], &subjects.is_in_history(index))?.auc)
        };
        let values: Vec<f64> = scores.par_iter().enumerate().filter_map(auc).collect();
        (of.name(), values.iter().sum::<f64>() / values.len().max(1) as f64)
    });
    Checkpoint { rounds, auc: auc.collect() }
}

/// Evaluates each attack, and all of them combined.
pub(crate) fn evaluate_attacks(
    subjects: &Subjects,
    on: &[Attack],
    mut scores: Scores,
    vectors: &[Vec<f32>],
) -> Vec<Finding> {
    let is_in_history = |index| subjects.is_in_history(index);
    let popularity = |_, _: &[Vec<f32>]| subjects.popularity.clone();
    let single = |(attack, of): (usize, &Attack)| {
        let scorer = |_, scores: &[Vec<f32>]| scores[attack].clone();
        let test = Test {
            counts: &|_| true,
            truth: &is_in_history,
            attack: &scorer,
            baseline: &popularity,
            popularity: &popularity,
        };
        test.run(subjects, &scores, of.name(), of.what())
    };
    let mut attacks: Vec<Finding> = on.iter().enumerate().map(single).collect();
    // The baseline of the combined attack: what all uploads reveal on average, and popularity, which needs no upload.
    let average = average(subjects, &scores);
    scores.iter_mut().flatten().for_each(|scores| scores.push(subjects.popularity.clone()));
    let combined = fit(subjects, &scores, &|own| own);
    let baseline = fit(subjects, &scores, &|_| &average).scores(&average);
    let others = |index| !is_own_account(index);
    let histories = Test {
        counts: &others,
        truth: &is_in_history,
        attack: &|_, scores| combined.scores(scores),
        baseline: &|_, _| baseline.clone(),
        popularity: &popularity,
    };
    let what = "weights all of these and popularity, fitted on a fifth of the users";
    attacks.push(histories.run(subjects, &scores, COMBINED, what));
    // Membership: which of the items that a user has were trained on?
    let membership = |attack: CandidateScorer<'_>, name, what| {
        let history = |index: usize| subjects.history(index).len();
        let truth = |index| (0..subjects.known_items(index).len()).map(|at| at < history(index)).collect();
        let baseline = |index, _: &[Vec<f32>]| select(&subjects.popularity, &subjects.known_items(index));
        let test = Test { counts: &others, truth: &truth, attack, baseline: &baseline, popularity: &baseline };
        test.run(subjects, &scores, name, what)
    };
    let by_uploads = |index, scores: &[Vec<f32>]| select(&combined.scores(scores), &subjects.known_items(index));
    let by_model = |index, _: &[Vec<f32>]| membership_by_model(vectors, &subjects.known_items(index));
    let what = "tells items trained on from others that the user has, by all of the above";
    let by_uploads = membership(&by_uploads, "membership", what);
    let what = "the same by the shared model alone, if the attacker knows the user's items";
    let by_model = (!vectors.is_empty()).then(|| membership(&by_model, "membership-model", what));
    attacks.extend([Some(by_uploads), by_model].into_iter().flatten().filter(|finding| finding.people > 0));
    attacks
}

fn select(values: &[f32], items: &[u32]) -> Vec<f32> {
    items.iter().map(|&item| values[item as usize]).collect()
}

pub(crate) fn is_own_account(index: usize) -> bool {
    index.is_multiple_of(OWN_ACCOUNTS)
}

/// Sums of all users' scores by each attack, and popularity.
fn average(subjects: &Subjects, scores: &Scores) -> Vec<Vec<f32>> {
    let count = scores.iter().flatten().map(Vec::len).next().unwrap_or(0);
    let mut sums = vec![vec![0.0; subjects.items()]; count];
    for scores in scores.iter().flatten() {
        sums.iter_mut().zip(scores).for_each(|(sum, scores)| math::add(sum, scores));
    }
    sums.push(subjects.popularity.clone());
    sums
}

/// Fits a weight of each attack on the attacker's own accounts, of whose scores `select` makes the features.
fn fit<'a>(subjects: &'a Subjects, scores: &'a Scores, select: &dyn Fn(&'a [Vec<f32>]) -> &'a [Vec<f32>]) -> Combined {
    let own = scores.iter().enumerate().filter(|(index, _)| is_own_account(*index));
    let accounts = own.filter_map(|(index, scores)| {
        Some(Account { scores: select(scores.as_ref()?), history: subjects.history(index) })
    });
    Combined::fit(accounts, &mut Rng::new(subjects.seed).stream("combined", 0))
}

/// An attack on candidates, some of which `truth` marks, for subjects that count, beside a baseline.
struct Test<'a> {
    counts: &'a (dyn Fn(usize) -> bool + Sync),
    truth: &'a (dyn Fn(usize) -> Vec<bool> + Sync),
    attack: CandidateScorer<'a>,
    baseline: CandidateScorer<'a>,
    /// What the baseline is beside, where it is more than this.
    popularity: CandidateScorer<'a>,
}

impl Test<'_> {
    fn run(&self, subjects: &Subjects, scores: &Scores, name: &'static str, what: &'static str) -> Finding {
        let result = |(index, own): (usize, &Option<Vec<Vec<f32>>>)| {
            let own = own.as_ref().filter(|_| (self.counts)(index))?;
            let truth = (self.truth)(index);
            Some(UserResult {
                device: subjects.devices()[index],
                found: evaluate(&(self.attack)(index, own), &truth)?,
                control: evaluate(&(self.attack)(index, next(scores, index)?), &truth)?.auc,
                baseline: evaluate(&(self.baseline)(index, own), &truth)?,
                popularity: evaluate(&(self.popularity)(index, own), &truth)?,
            })
        };
        let results: Vec<_> = scores.par_iter().enumerate().filter_map(result).collect();
        summarise((name, what), &results, subjects.seed)
    }
}

/// The scores of the next subject who sent anything.
fn next(scores: &Scores, index: usize) -> Option<&Vec<Vec<f32>>> {
    scores[index + 1..].iter().chain(&scores[..index]).flatten().next()
}

/// One user by one attack, by the baseline, and by the same attack with another user's uploads.
struct UserResult {
    device: u32,
    found: Reconstruction,
    baseline: Reconstruction,
    popularity: Reconstruction,
    control: f64,
}

fn summarise((name, what): (&'static str, &'static str), results: &[UserResult], seed: u64) -> Finding {
    let estimate = |of: fn(&UserResult) -> f64| Estimate::of(&results.iter().map(of).collect::<Vec<f64>>(), seed);
    let mean = |of: fn(&UserResult) -> f64| results.iter().map(of).sum::<f64>() / results.len().max(1) as f64;
    let auc_range = estimate(|user| user.found.auc);
    Finding {
        name,
        what,
        people: results.len(),
        auc: auc_range.mean,
        precision: mean(|user| user.found.precision),
        recall: mean(|user| user.found.recall),
        guess_auc: mean(|user| user.baseline.auc),
        guess_precision: mean(|user| user.baseline.precision),
        guess_recall: mean(|user| user.baseline.recall),
        popularity_auc: mean(|user| user.popularity.auc),
        popularity_precision: mean(|user| user.popularity.precision),
        auc_range,
        gain: estimate(|user| user.found.auc - user.baseline.auc),
        control_auc: mean(|user| user.control),
        personal: estimate(|user| user.found.auc - user.control),
        exposed: mean(|user| f64::from(u8::from(user.found.precision > 0.5))),
        each: results.iter().map(|user| (user.device, user.found)).collect(),
    }
}
