//! What adapting on the device is worth when somebody's taste changes, on real data.
//!
//! Films that are calm by their genres, and films that are loud, are the two tastes; films of both kinds or of neither
//! are left out. Devices train in a federation on the calm films of their history alone. Then loud films come in, in
//! time order, a few at a time, as by `sottovoce device import`; the model adapts to each lot, without a round. Asked
//! for are the loud films that come next, against 99 films drawn uniformly.
//!
//! ```text
//! cargo run --release -p sottovoce-experiment --example change_of_taste -- [DATA]
//! ```
#![allow(clippy::print_stdout)]

use rayon::prelude::*;
use sottovoce_core::{Categories, Histories, History, Rng};
use sottovoce_experiment::prepare::{DataPlan, prepare};
use sottovoce_federation::{Simulation, registry};
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet, Recommender};
use std::error::Error;

const CALM: &[&str] = &["Drama", "Romance", "Musical", "Documentary", "Children's"];
const LOUD: &[&str] = &["Action", "Adventure", "Thriller", "Sci-Fi", "Horror", "War", "Crime", "Western"];

/// Films of each kind that a person of the question has.
const LEAST: usize = 25;

/// New films that come in at a time.
const LOT: usize = 5;

/// Lots that come in.
const LOTS: usize = 4;

/// Films asked for after each lot: those that come next.
const ASKED: usize = 5;

/// Rounds of training.
const ROUNDS: usize = 5;

const NEGATIVES: usize = 99;
const SEED: u64 = 42;

/// Someone whose taste changes.
struct Person {
    user: usize,
    calm: Vec<u32>,
    loud: Vec<u32>,
    /// Films that compete with those asked for.
    others: Vec<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let data = std::env::args().nth(1).unwrap_or_else(|| "ml-100k".to_owned());
    let mut plan = DataPlan::new(data, SEED);
    plan.load.data_dir = std::env::var_os("SOTTOVOCE_DATA").map(Into::into);
    plan.split = Some("last".parse()?);
    let parts = prepare(&plan)?.parts;
    let categories = parts.catalog.categories.as_ref().ok_or("the items have no genres")?;
    let (mut people, mut calm) = (Vec::new(), Vec::new());
    for user in 0..parts.train.users() {
        let all = [parts.train.of(user), parts.test.of(user)].concat();
        let of_kind = |kind, other| all.iter().copied().filter(move |&item| is_only(categories, item, kind, other));
        let person = Person {
            user,
            calm: of_kind(CALM, LOUD).collect(),
            loud: of_kind(LOUD, CALM).collect(),
            others: draw_others(&all, parts.catalog.len() as u32, user),
        };
        calm.push(person.calm.clone());
        if person.calm.len() > LEAST && person.loud.len() >= LOT * LOTS + ASKED {
            people.push(person);
        }
    }
    let train = Histories::from_lists(&calm, parts.catalog.len())?;
    println!("{} people, of whom {} have enough films of both kinds", calm.len(), people.len());
    for recommender in ["gru4rec", "sasrec"] {
        let model = registry::find("refrs")?;
        let settings =
            [("epochs", Value::Integer(ROUNDS as i64)), ("recommender", Value::Word(recommender.to_owned()))];
        let settings = model.settings(settings)?;
        let mut simulation = registry::simulation("refrs", &settings).ok_or("ReFRS is federated")?;
        simulation.fit(&train, &mut Fit::new(SEED, &mut Quiet).knowing(Some(&parts.catalog)))?;
        println!(
            "\nReFRS with {recommender}, HR@10 of the next {ASKED} loud films (sampled: {NEGATIVES} uniform negatives)"
        );
        println!("{:>10} {:>12} {:>10}", "new films", "not adapted", "adapted");
        let catalog = parts.catalog.len();
        let now = |simulation: &Simulation, lots| {
            hit_rate(&people, lots, |person, items| {
                let mut scores = vec![0.0; catalog];
                simulation.score_after(person.user, items.into(), &mut scores);
                scores
            })
        };
        let fresh = (0..=LOTS).map(|lots| now(&simulation, lots)).collect::<Vec<_>>();
        for (lots, without) in fresh.into_iter().enumerate() {
            if lots > 0 {
                adapt(&mut simulation, &people, lots);
            }
            println!("{:>10} {without:>12.4} {:>10.4}", lots * LOT, now(&simulation, lots));
        }
        let anew = hit_rate(&people, LOTS, |person, items| trained_anew(&simulation, person, items, catalog));
        println!("after {ROUNDS} rounds of training anew on all of it, for comparison: {anew:.4}");
    }
    Ok(())
}

/// Scores of a private model that is trained from the start on everything, with the shared model as it is.
fn trained_anew(simulation: &Simulation, person: &Person, sequence: &[u32], catalog: usize) -> Vec<f32> {
    let (mut items, mut scores) = (sequence.to_vec(), vec![0.0; catalog]);
    items.sort_unstable();
    let history = History { sequence, ..(&items).into() };
    let rng = Rng::new(SEED).stream("anew", person.user as u64);
    simulation.train_newcomer(history, ROUNDS, &rng, &mut scores).unwrap_or_else(|error| panic!("{error}"));
    scores
}

/// Whether an item has genres of one kind and none of the other.
fn is_only(categories: &Categories, item: u32, kind: &[&str], other: &[&str]) -> bool {
    let has = |names: &[&str]| {
        let mut genres = categories.of(item as usize).iter();
        genres.any(|&genre| names.iter().any(|name| categories.names().get(genre as usize) == Some(*name)))
    };
    has(kind) && !has(other)
}

fn draw_others(all: &[u32], items: u32, user: usize) -> Vec<u32> {
    let mut rng = Rng::new(SEED).stream("negatives", user as u64);
    let mut others = Vec::new();
    while others.len() < NEGATIVES {
        let item = rng.below(items);
        if !all.contains(&item) && !others.contains(&item) {
            others.push(item);
        }
    }
    others
}

/// What the device has after some lots.
fn seen(person: &Person, lots: usize) -> Vec<u32> {
    [&person.calm[..], &person.loud[..lots * LOT]].concat()
}

fn adapt(simulation: &mut Simulation, people: &[Person], lots: usize) {
    for person in people {
        let mut rng = Rng::new(SEED).stream("adapting", (person.user * LOTS + lots) as u64);
        simulation.adapt(person.user, &seen(person, lots), &mut rng);
    }
}

/// HR@10 of what comes after some lots, by the scores that devices give.
fn hit_rate(people: &[Person], lots: usize, scores_of: impl Fn(&Person, &[u32]) -> Vec<f32> + Sync) -> f64 {
    let hits = people.par_iter().map(|person| {
        let scores = scores_of(person, &seen(person, lots));
        let asked = &person.loud[lots * LOT..][..ASKED];
        asked.iter().filter(|&&item| above(&person.others, &scores, item) < 10).count()
    });
    hits.sum::<usize>() as f64 / (people.len() * ASKED) as f64
}

/// How many of the others rank above an item.
fn above(others: &[u32], scores: &[f32], item: u32) -> usize {
    let own = (scores[item as usize], std::cmp::Reverse(item));
    others.iter().filter(|&&other| (scores[other as usize], std::cmp::Reverse(other)) > own).count()
}
