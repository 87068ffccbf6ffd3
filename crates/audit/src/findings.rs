//! What an audit found, in numbers.

use crate::attacks::{Account, Attack, Combined, membership};
use crate::evaluation::evaluate;
use crate::{Figure, Rebuilt, Subjects, View};
use rayon::prelude::*;
use serde::Serialize;
use sottovoce_core::{Rng, math};

/// Every so many subjects one is taken for an account of the attacker's own, on which the combined attack is fitted.
const OWN_ACCOUNTS: usize = 5;

/// How far one attack got.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The attack.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// People whose histories were evaluated.
    pub people: usize,
    /// Mean AUC of rebuilt histories.
    pub auc: f64,
    /// Mean precision, among as many items as the history has.
    pub precision: f64,
    /// Mean recall, among twice as many.
    pub recall: f64,
    /// AUC of guessing, for the same people: by popularity, and beside all attacks together by what all uploads say of people in
    /// general as well.
    pub guess_auc: f64,
    /// Its precision.
    pub guess_precision: f64,
    /// Its recall.
    pub guess_recall: f64,
    /// AUC with its 95 % range.
    pub auc_range: Figure,
    /// AUC over that of guessing, person by person, with its 95 % range.
    pub gain: Figure,
    /// AUC of the same attack with somebody else's uploads: what it says of people in general.
    pub control_auc: f64,
    /// AUC over that, person by person, with its 95 % range: what it says of this person and no other.
    pub personal: Figure,
    /// Share of people of whom more than half of the precision's list is right.
    pub exposed: f64,
    /// Each person's values, with their device.
    #[serde(skip)]
    pub each: Vec<(u32, Rebuilt)>,
}

/// How far attacks had got after some rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Checkpoint {
    /// Rounds done.
    pub rounds: u64,
    /// Mean AUC by attack.
    pub auc: Vec<(&'static str, f64)>,
}

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// What was looked at.
    pub view: &'static str,
    /// Rounds seen.
    pub rounds: u64,
    /// Uploads of subjects seen, or known to be in a sum.
    pub uploads: u64,
    /// By attack; the last of those that rebuild histories is all of them together.
    pub attacks: Vec<Finding>,
    /// How far attacks had got on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over_rounds: Vec<Checkpoint>,
}

impl Findings {
    /// The finding of an attack.
    pub fn of(&self, name: &str) -> Option<&Finding> {
        self.attacks.iter().find(|finding| finding.name == name)
    }

    /// All attacks that rebuild histories, together.
    pub fn combined(&self) -> Option<&Finding> {
        self.of(COMBINED)
    }
}

/// The name of all attacks together.
pub const COMBINED: &str = "combined";

/// What was seen.
#[derive(Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) rounds: u64,
    pub(crate) uploads: u64,
}

/// Of each subject who sent anything: scores of all items, by attack.
type Scores = Vec<Option<Vec<Vec<f32>>>>;

/// Makes one score an item of the scores by each attack.
type ItemScorer<'a> = &'a (dyn Fn(&[Vec<f32>]) -> Vec<f32> + Sync);

/// Makes a score for each of some items.
type CandidateScorer<'a> = &'a (dyn Fn(&[Vec<f32>], &[u32]) -> Vec<f32> + Sync);

/// Mean AUC of each attack.
pub(crate) fn checkpoint(
    subjects: &Subjects,
    rounds: u64,
    attacks: &[Attack],
    scores: &Scores,
) -> Checkpoint {
    let auc = attacks.iter().enumerate().map(|(which, attack)| {
        let of = |(place, scores): (usize, &Option<Vec<Vec<f32>>>)| {
            evaluate(&scores.as_ref()?[which], &subjects.had(place)).map(|rebuilt| rebuilt.auc)
        };
        let values: Vec<f64> = scores.par_iter().enumerate().filter_map(of).collect();
        (attack.name(), values.iter().sum::<f64>() / values.len().max(1) as f64)
    });
    Checkpoint { rounds, auc: auc.collect() }
}

/// Judges all attacks, and all of them together.
pub(crate) fn conclude(
    subjects: &Subjects,
    view: View,
    mut scores: Scores,
    vectors: &[Vec<f32>],
    totals: Totals,
    over_rounds: Vec<Checkpoint>,
) -> Findings {
    let popular = |_: &[Vec<f32>]| subjects.popularity().to_vec();
    let mut attacks: Vec<Finding> = view
        .attacks()
        .iter()
        .enumerate()
        .map(|(which, attack)| {
            let of = |scores: &[Vec<f32>]| scores[which].clone();
            histories(subjects, &scores, (attack.name(), attack.what()), &|_| true, (&of, &popular))
        })
        .collect();
    // What can be said of people in general: what all send, and popularity, which needs no upload.
    let general = general(subjects, &scores);
    scores.iter_mut().flatten().for_each(|scores| scores.push(subjects.popularity().to_vec()));
    let combined = fit(subjects, &scores, &|own| own);
    let guessing = fit(subjects, &scores, &|_| &general);
    let what = "weighs all of them and popularity, as fitted on a fifth of the people";
    let of = |scores: &[Vec<f32>]| combined.scores(scores);
    let guess = guessing.scores(&general);
    let of_all = |_: &[Vec<f32>]| guess.clone();
    attacks.push(histories(subjects, &scores, (COMBINED, what), &|place| !is_own(place), (&of, &of_all)));
    attacks.extend(memberships(subjects, &scores, &combined, vectors));
    Findings { view: view.name(), rounds: totals.rounds, uploads: totals.uploads, attacks, over_rounds }
}

fn is_own(place: usize) -> bool {
    place.is_multiple_of(OWN_ACCOUNTS)
}

/// The mean of everybody's scores by each attack, and popularity.
fn general(subjects: &Subjects, scores: &Scores) -> Vec<Vec<f32>> {
    let count = scores.iter().flatten().map(Vec::len).next().unwrap_or(0);
    let mut general = vec![vec![0.0; subjects.items()]; count];
    for scores in scores.iter().flatten() {
        general.iter_mut().zip(scores).for_each(|(sum, scores)| math::add(sum, scores));
    }
    general.push(subjects.popularity().to_vec());
    general
}

/// Fits a weight of each attack on the attacker's own accounts, of whose scores `taking` makes those that are to count.
fn fit<'a>(
    subjects: &'a Subjects,
    scores: &'a Scores,
    taking: &dyn Fn(&'a [Vec<f32>]) -> &'a [Vec<f32>],
) -> Combined {
    let own = scores.iter().enumerate().filter(|(place, _)| is_own(*place));
    let accounts = own.filter_map(|(place, scores)| {
        scores.as_ref().map(|scores| Account { scores: taking(scores), history: subjects.history(place) })
    });
    Combined::fit(accounts, &mut Rng::new(subjects.seed()).stream("combined", 0))
}

/// Judges an attack on histories, for people at subject_index that `counts` wants.
fn histories(
    subjects: &Subjects,
    scores: &Scores,
    about: (&'static str, &'static str),
    counts: &(dyn Fn(usize) -> bool + Sync),
    (of, guess): (ItemScorer<'_>, ItemScorer<'_>),
) -> Finding {
    let one = |(place, own): (usize, &Option<Vec<Vec<f32>>>)| {
        let own = own.as_ref().filter(|_| counts(place))?;
        let had = subjects.had(place);
        let found = evaluate(&of(own), &had)?;
        let control = evaluate(&of(next(scores, place)?), &had)?.auc;
        let guess = evaluate(&guess(own), &had)?;
        Some(Judged { device: subjects.devices()[place], found, guess, control })
    };
    let evaluated: Vec<_> = scores.par_iter().enumerate().filter_map(one).collect();
    summed_up(about, &evaluated, subjects.seed())
}

/// The scores of the next subject who sent anything.
fn next(scores: &Scores, place: usize) -> Option<&Vec<Vec<f32>>> {
    scores[place + 1..].iter().chain(&scores[..place]).flatten().next()
}

/// One person by one attack, beside guessing and beside the same with somebody else's uploads.
struct Judged {
    device: u32,
    found: Rebuilt,
    guess: Rebuilt,
    control: f64,
}

/// Judges who was trained on: by uploads, and by the shared model alone.
fn memberships(
    subjects: &Subjects,
    scores: &Scores,
    combined: &Combined,
    vectors: &[Vec<f32>],
) -> Vec<Finding> {
    let evaluated = |by: CandidateScorer<'_>| {
        let one = |(place, own): (usize, &Option<Vec<Vec<f32>>>)| {
            let own = own.as_ref().filter(|_| !is_own(place))?;
            let (history, held_out) = (subjects.history(place), subjects.held_out(place));
            let known: Vec<u32> = history.iter().chain(held_out).copied().collect();
            let had: Vec<bool> = (0..known.len()).map(|at| at < history.len()).collect();
            let popular: Vec<f32> = known.iter().map(|&item| subjects.popularity()[item as usize]).collect();
            let (found, guess) = (evaluate(&by(own, &known), &had)?, evaluate(&popular, &had)?);
            let control = evaluate(&by(next(scores, place)?, &known), &had)?.auc;
            Some(Judged { device: subjects.devices()[place], found, guess, control })
        };
        scores.par_iter().enumerate().filter_map(one).collect::<Vec<_>>()
    };
    let by_uploads = evaluated(&|scores, known| {
        let all = combined.scores(scores);
        known.iter().map(|&item| all[item as usize]).collect()
    });
    let by_model = evaluated(&|_, known| membership::by_model(vectors, known));
    let about = [
        ("membership", "tells items trained on from others that the person has, by all of the above"),
        ("membership-model", "the same by the shared model alone, for whoever knows the person's items"),
    ];
    let found = [by_uploads, by_model].into_iter().zip(about).filter(|(evaluated, _)| !evaluated.is_empty());
    found.map(|(evaluated, about)| summed_up(about, &evaluated, subjects.seed())).collect()
}

fn summed_up((name, what): (&'static str, &'static str), evaluated: &[Judged], seed: u64) -> Finding {
    let values = |of: fn(&Judged) -> f64| -> Vec<f64> { evaluated.iter().map(of).collect() };
    let mean = |of: fn(&Judged) -> f64| evaluated.iter().map(of).sum::<f64>() / evaluated.len().max(1) as f64;
    let auc_range = Figure::of(&values(|evaluated| evaluated.found.auc), seed);
    Finding {
        name,
        what,
        people: evaluated.len(),
        auc: auc_range.mean,
        precision: mean(|evaluated| evaluated.found.precision),
        recall: mean(|evaluated| evaluated.found.recall),
        guess_auc: mean(|evaluated| evaluated.guess.auc),
        guess_precision: mean(|evaluated| evaluated.guess.precision),
        guess_recall: mean(|evaluated| evaluated.guess.recall),
        auc_range,
        gain: Figure::of(&values(|evaluated| evaluated.found.auc - evaluated.guess.auc), seed),
        control_auc: mean(|evaluated| evaluated.control),
        personal: Figure::of(&values(|evaluated| evaluated.found.auc - evaluated.control), seed),
        exposed: mean(|evaluated| f64::from(u8::from(evaluated.found.precision > 0.5))),
        each: evaluated.iter().map(|evaluated| (evaluated.device, evaluated.found)).collect(),
    }
}
