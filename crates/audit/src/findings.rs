//! What an audit found, in numbers.

use crate::attacks::{Account, Attack, Combined, membership};
use crate::judging::judge;
use crate::{Figure, Rebuilt, Subjects, View};
use rayon::prelude::*;
use serde::Serialize;
use sottovoce_core::Rng;

/// Every so many subjects one is taken for an account of the attacker's own, on which the combined attack is fitted.
const OWN_ACCOUNTS: usize = 5;

/// How far one attack got.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The attack.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// People whose histories were judged.
    pub people: usize,
    /// Mean AUC of rebuilt histories.
    pub auc: f64,
    /// Mean precision, among as many items as the history has.
    pub precision: f64,
    /// Mean recall, among twice as many.
    pub recall: f64,
    /// AUC of guessing the popular, for the same people.
    pub guess_auc: f64,
    /// Its precision.
    pub guess_precision: f64,
    /// Its recall.
    pub guess_recall: f64,
    /// AUC with its 95 % range.
    pub auc_range: Figure,
    /// AUC over that of guessing the popular, person by person, with its 95 % range.
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
pub struct Moment {
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
    pub over_rounds: Vec<Moment>,
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
pub(crate) struct Counted {
    pub(crate) rounds: u64,
    pub(crate) uploads: u64,
}

/// Of each subject who sent anything: scores of all items, by attack.
type Scores = Vec<Option<Vec<Vec<f32>>>>;

/// Makes one score an item of the scores by each attack.
type Taking<'a> = &'a (dyn Fn(&[Vec<f32>]) -> Vec<f32> + Sync);

/// Makes a score for each of some items.
type Choosing<'a> = &'a (dyn Fn(&[Vec<f32>], &[u32]) -> Vec<f32> + Sync);

/// Mean AUC of each attack.
pub(crate) fn moment(subjects: &Subjects, rounds: u64, attacks: &[Attack], scores: &Scores) -> Moment {
    let auc = attacks.iter().enumerate().map(|(which, attack)| {
        let of = |(place, scores): (usize, &Option<Vec<Vec<f32>>>)| {
            judge(&scores.as_ref()?[which], &subjects.had(place)).map(|rebuilt| rebuilt.auc)
        };
        let values: Vec<f64> = scores.par_iter().enumerate().filter_map(of).collect();
        (attack.name(), values.iter().sum::<f64>() / values.len().max(1) as f64)
    });
    Moment { rounds, auc: auc.collect() }
}

/// Judges all attacks, and all of them together.
pub(crate) fn conclude(
    subjects: &Subjects,
    view: View,
    mut scores: Scores,
    vectors: &[Vec<f32>],
    counted: Counted,
    over_rounds: Vec<Moment>,
) -> Findings {
    let mut attacks: Vec<Finding> = view
        .attacks()
        .iter()
        .enumerate()
        .map(|(which, attack)| {
            let of = |scores: &[Vec<f32>]| scores[which].clone();
            histories(subjects, &scores, (attack.name(), attack.what()), &|_| true, &of)
        })
        .collect();
    // Popularity is what the attacker knows without any upload.
    scores.iter_mut().flatten().for_each(|scores| scores.push(subjects.popularity().to_vec()));
    let combined = fit(subjects, &scores);
    let what = "weighs all of them and popularity, as fitted on a fifth of the people";
    let of = |scores: &[Vec<f32>]| combined.scores(scores);
    attacks.push(histories(subjects, &scores, (COMBINED, what), &|place| !is_own(place), &of));
    attacks.extend(memberships(subjects, &scores, &combined, vectors));
    Findings { view: view.name(), rounds: counted.rounds, uploads: counted.uploads, attacks, over_rounds }
}

fn is_own(place: usize) -> bool {
    place.is_multiple_of(OWN_ACCOUNTS)
}

fn fit(subjects: &Subjects, scores: &Scores) -> Combined {
    let own = scores.iter().enumerate().filter(|(place, _)| is_own(*place));
    let accounts = own.filter_map(|(place, scores)| {
        scores.as_ref().map(|scores| Account { scores, history: subjects.history(place) })
    });
    Combined::fit(accounts, &mut Rng::new(subjects.seed()).stream("combined", 0))
}

/// Judges an attack on histories, for people at places that `counts` wants.
fn histories(
    subjects: &Subjects,
    scores: &Scores,
    about: (&'static str, &'static str),
    counts: &(dyn Fn(usize) -> bool + Sync),
    of: Taking<'_>,
) -> Finding {
    let one = |(place, own): (usize, &Option<Vec<Vec<f32>>>)| {
        let own = own.as_ref().filter(|_| counts(place))?;
        let had = subjects.had(place);
        let found = judge(&of(own), &had)?;
        let control = judge(&of(next(scores, place)?), &had)?.auc;
        let guess = judge(subjects.popularity(), &had)?;
        Some(Judged { device: subjects.devices()[place], found, guess, control })
    };
    let judged: Vec<_> = scores.par_iter().enumerate().filter_map(one).collect();
    summed_up(about, &judged, subjects.seed())
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
    let judged = |by: Choosing<'_>| {
        let one = |(place, own): (usize, &Option<Vec<Vec<f32>>>)| {
            let own = own.as_ref().filter(|_| !is_own(place))?;
            let (history, held_out) = (subjects.history(place), subjects.held_out(place));
            let known: Vec<u32> = history.iter().chain(held_out).copied().collect();
            let had: Vec<bool> = (0..known.len()).map(|at| at < history.len()).collect();
            let popular: Vec<f32> = known.iter().map(|&item| subjects.popularity()[item as usize]).collect();
            let (found, guess) = (judge(&by(own, &known), &had)?, judge(&popular, &had)?);
            let control = judge(&by(next(scores, place)?, &known), &had)?.auc;
            Some(Judged { device: subjects.devices()[place], found, guess, control })
        };
        scores.par_iter().enumerate().filter_map(one).collect::<Vec<_>>()
    };
    let by_uploads = judged(&|scores, known| {
        let all = combined.scores(scores);
        known.iter().map(|&item| all[item as usize]).collect()
    });
    let by_model = judged(&|_, known| membership::by_model(vectors, known));
    let about = [
        ("membership", "tells items trained on from others that the person has, by all of the above"),
        ("membership-model", "the same by the shared model alone, for whoever knows the person's items"),
    ];
    let found = [by_uploads, by_model].into_iter().zip(about).filter(|(judged, _)| !judged.is_empty());
    found.map(|(judged, about)| summed_up(about, &judged, subjects.seed())).collect()
}

fn summed_up((name, what): (&'static str, &'static str), judged: &[Judged], seed: u64) -> Finding {
    let values = |of: fn(&Judged) -> f64| -> Vec<f64> { judged.iter().map(of).collect() };
    let mean = |of: fn(&Judged) -> f64| judged.iter().map(of).sum::<f64>() / judged.len().max(1) as f64;
    let auc_range = Figure::of(&values(|judged| judged.found.auc), seed);
    Finding {
        name,
        what,
        people: judged.len(),
        auc: auc_range.mean,
        precision: mean(|judged| judged.found.precision),
        recall: mean(|judged| judged.found.recall),
        guess_auc: mean(|judged| judged.guess.auc),
        guess_precision: mean(|judged| judged.guess.precision),
        guess_recall: mean(|judged| judged.guess.recall),
        auc_range,
        gain: Figure::of(&values(|judged| judged.found.auc - judged.guess.auc), seed),
        control_auc: mean(|judged| judged.control),
        personal: Figure::of(&values(|judged| judged.found.auc - judged.control), seed),
        exposed: mean(|judged| f64::from(u8::from(judged.found.precision > 0.5))),
        each: judged.iter().map(|judged| (judged.device, judged.found)).collect(),
    }
}
