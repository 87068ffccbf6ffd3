//! KGFlex: the cost of a feature next to that of a triple of FPL, and the memory of a phone.

use super::work::{FACTORS, Workbench};
use super::{Figure, median};
use crate::measure::cpu_seconds;
use anyhow::{Context, Result};
use sottovoce_core::{CATALOG_HEADER, Facts, Histories, Names, Rng};
use sottovoce_device::Items;
use sottovoce_models::federated::kgflex::{Client, Regularisation, Selection, Server};
use sottovoce_models::settings::Value;
use sottovoce_models::{ClientModel, ServerModel, TrainInput};
use sottovoce_protocol::{Parameters, Trained};
use std::fmt::Write;
use std::sync::Arc;

const EPOCHS: i64 = 20;
/// A step that the plain sum of all devices' updates bears.
const RATE: f64 = 0.001;

/// KGFlex next to FPL on the same data, and a single client.
pub(super) fn kgflex(bench: &Workbench) -> Result<Vec<Figure>> {
    let facts = match &bench.data.parts.catalog.facts {
        Some(facts) => Arc::clone(facts),
        None => Arc::new(synthetic([bench.data.parts.catalog.len(), 3000, 25], bench.seed)),
    };
    let known = sottovoce_core::Catalog { facts: Some(Arc::clone(&facts)), ..bench.data.parts.catalog.clone() };
    let settings = [
        ("factors", Value::Integer(FACTORS)),
        ("learning_rate", Value::Real(RATE)),
        ("configuration", Value::Word("pfpl+".to_owned())),
        ("strategy", Value::Word("sum".to_owned())),
        ("cohort", Value::Integer(bench.data.parts.train.users() as i64)),
        ("epochs", Value::Integer(EPOCHS)),
    ];
    let features = [("one_hop", 100), ("more_hops", 100), ("negatives", 1)];
    let features = features.map(|(key, value)| (key, Value::Integer(value)));
    let all = [&settings[..], &features].concat();
    let (seconds, trained, _) = bench.measure(|| bench.train_with_catalog("kgflex", &all, &known), None)?;
    let met = features_a_triple(&facts, &bench.data.parts.train, bench.seed)?;
    let triples = trained.summary.triples as f64;
    let a_feature = seconds / (triples * met) * 1e9;
    let (seconds, trained, _) = bench.measure(|| bench.train("fpl", &settings), None)?;
    let a_triple = seconds / trained.summary.triples as f64 * 1e9;
    let what = format!("KGFlex, {FACTORS} factors, {met:.1} features touched by a triple");
    let bound = format!("no more than FPL's {a_triple:.1} ns a triple");
    let speed = Figure::new("kgflex", what, a_feature, "CPU ns a feature").bound(bound);
    let mut figures = vec![speed];
    figures.extend(phone(bench.repeats, bench.seed)?);
    Ok(figures)
}

/// Synthetic features: so many items, features and features an item, with a long-tailed frequency.
fn synthetic([items, features, an_item]: [usize; 3], seed: u64) -> Facts {
    let mut rng = Rng::new(seed).stream("facts", 0);
    let lists: Vec<Vec<u32>> = (0..items)
        .map(|_| (0..an_item).map(|_| (rng.unit() * rng.unit() * features as f64) as u32).collect())
        .collect();
    let names: Names = (0..features).map(|feature| format!("starring: actor {feature}")).collect();
    Facts::new(&names, (0..features).map(|feature| 1 + (feature % 2) as u8).collect(), &lists)
}

fn new_client(facts: &Arc<Facts>, triples: usize, factors: usize) -> Client {
    Client {
        facts: Arc::clone(facts),
        factors,
        selection: Selection { most: [100, 100], negatives: 1, min_gain: 0.0 },
        triples,
        learning_rate: 0.01,
        regularisation: Regularisation { personal: 0.0, shared: 0.0 },
        init_deviation: 0.1,
    }
}

/// How many features the two items of a triple have that the person decides by, in the mean.
fn features_a_triple(facts: &Arc<Facts>, histories: &Histories, seed: u64) -> Result<f64> {
    let client = new_client(facts, 100, 1);
    let rng = Rng::new(seed);
    let shared = Server::of(&client).init(facts.items(), &mut rng.stream("shared", 0))?;
    let mut scratch = client.scratch(facts.items());
    let mut triples = 0;
    for (user, history) in histories.deduplicated().iter().enumerate() {
        triples += one_round(&client, &shared, history, &mut scratch, &mut rng.stream("device", user as u64))?;
    }
    Ok(scratch.features_met as f64 / (triples as f64).max(1.0))
}

fn one_round(
    client: &Client,
    shared: &Parameters,
    history: &[u32],
    scratch: &mut <Client as ClientModel>::Scratch,
    rng: &mut Rng,
) -> Result<u64> {
    let mut private = vec![0.0; client.private_values()];
    let mut into = Trained::new(&shared.layout());
    let input = TrainInput { shared, prepared: &(), private: &mut private, history: history.into(), hidden: &[] };
    Ok(client.train(input, scratch, rng, &mut into)?.samples)
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
    let items = Items::parse(catalog_text(&synthetic([ITEMS, FEATURES, 40], seed)).into_bytes())?;
    let facts = items.facts().context("the catalog has facts")?;
    let client = new_client(facts, HISTORY, 10);
    let shared = Server::of(&client).init(ITEMS, &mut Rng::new(seed))?;
    let history: Vec<u32> = (0..HISTORY).map(|item| (item * ITEMS / HISTORY) as u32).collect();
    let (mut seconds, mut scratch) = (Vec::new(), client.scratch(ITEMS));
    for repeat in 0..repeats {
        scratch = client.scratch(ITEMS);
        let before = cpu_seconds();
        // The first round chooses the features too.
        one_round(&client, &shared, &history, &mut scratch, &mut Rng::new(repeat as u64))?;
        seconds.push(cpu_seconds() - before);
    }
    let values: usize = shared.tables().iter().map(|table| table.values().len()).sum();
    let model = 4 * (values + client.private_values());
    let training = items.heap_bytes() + model + scratch.heap_bytes();
    // Recommending turns the facts round, and needs no working memory but the scores.
    let mut scores = vec![0.0; ITEMS];
    client.score(&shared, &vec![0.0; client.private_values()], (&history).into(), &mut scores);
    facts.items_with(0);
    let recommending = items.heap_bytes() + model + 4 * scores.len();
    let what = format!("a phone: {HISTORY} items had, {ITEMS} items and {FEATURES} features in the catalog");
    let held = |bytes: usize, when| Figure::new("kgflex", what.clone(), bytes as f64 / 1e6, when).bound("under 2");
    Ok(vec![
        Figure::new("kgflex", what.clone(), median(seconds) * 1e3, "CPU ms a first round").bound("under 20"),
        held(training, "MB held in training"),
        held(recommending, "MB held in recommending"),
    ])
}
