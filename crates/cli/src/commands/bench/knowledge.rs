//! KGFlex: what a feature costs beside a triple of FPL, and what a phone needs.

use super::Figure;
use super::work::{FACTORS, Workbench};
use crate::measure::cpu_seconds;
use anyhow::{Context, Result};
use sottovoce_core::{CATALOG_HEADER, Facts, Histories, Names, Rng};
use sottovoce_device::Items;
use sottovoce_models::kgflex::{Device, Pull, Shared};
use sottovoce_models::settings::Value;
use sottovoce_models::{DevicePart, SharedPart, Task};
use sottovoce_protocol::{Parameters, Trained};
use std::fmt::Write;
use std::sync::Arc;

const EPOCHS: i64 = 20;
/// A step that the plain sum of all devices' updates bears.
const RATE: f64 = 0.001;

/// KGFlex beside FPL on the same data, and a device by itself.
pub(super) fn kgflex(bench: &Workbench) -> Result<Vec<Figure>> {
    let facts = match &bench.catalog().facts {
        Some(facts) => Arc::clone(facts),
        None => Arc::new(invented([bench.catalog().len(), 3000, 25], bench.seed())),
    };
    let known = sottovoce_core::Catalog { facts: Some(Arc::clone(&facts)), ..bench.catalog().clone() };
    let settings = [
        ("factors", Value::Integer(FACTORS)),
        ("learning_rate", Value::Real(RATE)),
        ("configuration", Value::Word("pfpl+".to_owned())),
        ("epochs", Value::Integer(EPOCHS)),
    ];
    let (seconds, trained, _) = bench.measure(|| bench.train_knowing("kgflex", &settings, &known), None)?;
    let met = features_a_triple(&facts, bench.histories(), bench.seed())?;
    let triples = trained.summary.triples as f64;
    let a_feature = seconds / (triples * met) * 1e9;
    let (seconds, trained, _) = bench.measure(|| bench.train("fpl", &settings), None)?;
    let a_triple = seconds / trained.summary.triples as f64 * 1e9;
    let what = format!("KGFlex, {FACTORS} factors, {met:.1} features touched by a triple");
    let bound = format!("no more than FPL's {a_triple:.1} ns a triple");
    let speed = Figure::new("kgflex", what, a_feature, "CPU ns a feature").bound(bound);
    let mut figures = vec![speed];
    figures.extend(phone(bench.repeats(), bench.seed())?);
    Ok(figures)
}

/// Facts that nobody knows: so many items, features and features an item, few of them frequent and most not.
fn invented([items, features, an_item]: [usize; 3], seed: u64) -> Facts {
    let mut rng = Rng::new(seed).stream("facts", 0);
    let lists: Vec<Vec<u32>> = (0..items)
        .map(|_| (0..an_item).map(|_| (rng.unit() * rng.unit() * features as f64) as u32).collect())
        .collect();
    let names: Names =
        (0..features).map(|feature| format!("starring: somebody of number {feature}")).collect();
    Facts::new(&names, (0..features).map(|feature| 1 + (feature % 2) as u8).collect(), &lists)
}

fn device(facts: &Arc<Facts>, triples: usize, factors: usize) -> Device {
    Device {
        facts: Arc::clone(facts),
        factors,
        most: [100, 100],
        negatives: 1,
        triples,
        rate: 0.01,
        pull: Pull { personal: 0.0, shared: 0.0 },
        init_deviation: 0.1,
    }
}

/// How many features the two items of a triple have that the person decides by, in the mean.
fn features_a_triple(facts: &Arc<Facts>, histories: &Histories, seed: u64) -> Result<f64> {
    let device = device(facts, 100, 1);
    let rng = Rng::new(seed);
    let shared = Shared::of(&device).start(facts.items(), &mut rng.stream("shared", 0))?;
    let mut scratch = device.scratch(facts.items());
    let mut triples = 0;
    for (user, history) in histories.deduplicated().iter().enumerate() {
        triples +=
            one_round(&device, &shared, history, &mut scratch, &mut rng.stream("device", user as u64))?;
    }
    Ok(scratch.features_met() as f64 / (triples as f64).max(1.0))
}

fn one_round(
    device: &Device,
    shared: &Parameters,
    history: &[u32],
    scratch: &mut <Device as DevicePart>::Scratch,
    rng: &mut Rng,
) -> Result<u64> {
    let mut private = vec![0.0; device.private_values()];
    let mut into = Trained::new(&shared.layout());
    let task = Task { shared, prepared: &(), private: &mut private, history, hidden: &[] };
    Ok(device.train(task, scratch, rng, &mut into)?.samples)
}

/// A phone's catalog, as a server sends it.
fn catalog_text(facts: &Facts) -> String {
    let mut text = format!("{CATALOG_HEADER}\n");
    for item in 0..facts.items() {
        let _ = writeln!(text, "{item}\tThe film of number {item}\tDrama\t{}", facts.item_text(item));
    }
    text.push_str(&facts.features_text());
    text
}

/// A phone with 200 items in its history and 20,000 features in the catalog.
fn phone(repeats: usize, seed: u64) -> Result<Vec<Figure>> {
    const ITEMS: usize = 3000;
    const FEATURES: usize = 20_000;
    const HISTORY: usize = 200;
    let items = Items::parse(catalog_text(&invented([ITEMS, FEATURES, 40], seed)).into_bytes())?;
    let facts = items.facts().context("the catalog has facts")?;
    let device = device(facts, HISTORY, 10);
    let shared = Shared::of(&device).start(ITEMS, &mut Rng::new(seed))?;
    let history: Vec<u32> = (0..HISTORY).map(|item| (item * ITEMS / HISTORY) as u32).collect();
    let (mut seconds, mut scratch) = (Vec::new(), device.scratch(ITEMS));
    for repeat in 0..repeats {
        scratch = device.scratch(ITEMS);
        let before = cpu_seconds();
        // The first round chooses the features too.
        one_round(&device, &shared, &history, &mut scratch, &mut Rng::new(repeat as u64))?;
        seconds.push(cpu_seconds() - before);
    }
    seconds.sort_by(f64::total_cmp);
    let values: usize = shared.tables().iter().map(|table| table.values().len()).sum();
    let model = 4 * (values + device.private_values());
    let training = items.heap_bytes() + model + scratch.heap_bytes();
    // Recommending turns the facts round, and needs no working memory but the scores.
    let mut scores = vec![0.0; ITEMS];
    device.score(&shared, &vec![0.0; device.private_values()], &history, &mut scores);
    facts.items_with(0);
    let recommending = items.heap_bytes() + model + 4 * scores.len();
    let what = format!("a phone: {HISTORY} items had, {ITEMS} items and {FEATURES} features in the catalog");
    let held =
        |bytes: usize, when| Figure::new("kgflex", what.clone(), bytes as f64 / 1e6, when).bound("under 2");
    Ok(vec![
        Figure::new("kgflex", what.clone(), seconds[seconds.len() / 2] * 1e3, "CPU ms a first round")
            .bound("under 20"),
        held(training, "MB held in training"),
        held(recommending, "MB held in recommending"),
    ])
}
