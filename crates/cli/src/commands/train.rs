//! `train`: one model on one data set.

mod from_histories;

use crate::args::{Common, Train};
use crate::model_dir::{self, About};
use crate::output::Usage;
use crate::prepared::from_arguments;
use crate::progress::Bar;
use crate::{folder, measure, output, tell};
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_core::Catalog;
use sottovoce_evaluate::{Candidates, EvaluateError, Evaluation, EvaluationInput, Metric, Metrics, Protocol};
use sottovoce_experiment::checkpoint::{self, Begin, Identity, Store};
use sottovoce_experiment::metric::MetricAt;
use sottovoce_experiment::outcome::CurvePoint;
use sottovoce_experiment::trial::{self, Checks, Keeping, ModelPlan, Prepared, Trained};
use sottovoce_federation::{HistoryFile, registry};
use sottovoce_models::Flow;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Domain, Settings, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// By what epochs are compared.
const WATCHED: MetricAt = MetricAt { key: Metric::Ndcg, cutoff: 10 };

/// What `train --json` prints. Seconds and memory are the only fields that two runs with the same seed may differ in.
#[derive(Serialize)]
pub(crate) struct Outcome<'a> {
    model: &'static str,
    settings: &'a Settings,
    seed: u64,
    data: DataFacts<'a>,
    candidates: String,
    metrics: &'a BTreeMap<usize, Metrics>,
    epochs: usize,
    triples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_epoch: Option<usize>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    curve: &'a [CurvePoint],
    /// Federated traffic; a model that is trained in one place has none.
    bytes: Bytes,
    /// The same as the papers count it (TCC), for federated models.
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<f64>,
    /// Who took part, for federated models.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnout: Option<Turnout>,
    /// What was spent of differential privacy, where there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    privacy: Option<Privacy>,
    seconds: Seconds,
    peak_rss_bytes: Option<u64>,
}

#[derive(Serialize)]
struct DataFacts<'a> {
    name: &'a str,
    fingerprint: &'a str,
    users: usize,
    items: usize,
    train: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<usize>,
    test: usize,
    without_test: usize,
    split: String,
}

#[derive(Clone, Copy, Serialize)]
struct Bytes {
    down: u64,
    up: u64,
}

#[derive(Serialize)]
struct Turnout {
    rounds: u64,
    asked: u64,
    unavailable: u64,
    dropped: u64,
    late: u64,
    received: u64,
    virtual_seconds: f64,
}

impl Turnout {
    fn of(turnout: &sottovoce_models::Turnout) -> Option<Self> {
        let sottovoce_models::Turnout { rounds, asked, unavailable, dropped, late, received, seconds } =
            *turnout;
        let shown = Self { rounds, asked, unavailable, dropped, late, received, virtual_seconds: seconds };
        (rounds > 0).then_some(shown)
    }

    fn told(&self) -> String {
        let mut text = format!(
            "{} rounds in {:.1} virtual hours: {} devices asked, {} updates received",
            output::grouped(self.rounds),
            self.virtual_seconds / 3600.0,
            output::grouped(self.asked),
            output::grouped(self.received),
        );
        for (what, devices) in
            [("late", self.late), ("lost", self.dropped), ("devices unavailable", self.unavailable)]
        {
            if devices > 0 {
                text.push_str(&format!(", {} {what}", output::grouped(devices)));
            }
        }
        text
    }
}

/// Differential privacy.
#[derive(Serialize)]
struct Privacy {
    epsilon: f64,
    epsilon_rdp: f64,
    delta: f64,
    rounds: u64,
    placement: &'static str,
    shape: &'static str,
    hides: &'static str,
    noise_multiplier: f64,
    clip: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

impl Privacy {
    fn of(spent: &sottovoce_models::Privacy) -> Self {
        Self {
            epsilon: spent.epsilon,
            epsilon_rdp: spent.epsilon_rdp,
            delta: spent.delta,
            rounds: spent.rounds,
            placement: spent.placement,
            shape: spent.shape,
            hides: spent.hides,
            noise_multiplier: spent.multiplier,
            clip: spent.clip,
            ended: spent.ended.clone(),
        }
    }

    fn told(&self) -> String {
        let mut text = format!(
            "epsilon {:.3} at delta {:e} of {} ({} {} noise of {} clips of {}, {} rounds; {:.3} by Rényi accounts)",
            self.epsilon,
            self.delta,
            self.hides,
            self.placement,
            self.shape,
            (self.noise_multiplier * 1000.0).round() / 1000.0,
            self.clip.map_or_else(|| "no bound".to_owned(), |clip| format!("{clip:.3}")),
            output::grouped(self.rounds),
            self.epsilon_rdp,
        );
        if let Some(ended) = &self.ended {
            text.push_str(&format!("\ntraining ended before its last epoch: {ended}"));
        }
        text
    }
}

#[derive(Serialize)]
struct Seconds {
    load: f64,
    train: f64,
    evaluate: f64,
}

/// `sottovoce train`.
pub(crate) fn run(args: &Train, common: &Common) -> Result<()> {
    let model = registry::find(&args.model)?;
    let settings = model.settings(args.settings.given())?;
    if args.stream || HistoryFile::is_one(Path::new(&args.data)) {
        return from_histories::run(args, common, model, &settings);
    }
    let data = from_arguments(&args.data, &args.preparing, common)?;
    let trained = fit(args, common, model, &settings, &data)?;
    let started = Instant::now();
    let evaluation = evaluate(args, common, &data, &trained)?;
    let seconds =
        Seconds { load: data.seconds, train: trained.seconds, evaluate: started.elapsed().as_secs_f64() };
    let traffic = trained.summary.traffic;
    let outcome = Outcome {
        model: model.name,
        settings: &settings,
        seed: common.seed,
        data: facts(&data),
        candidates: protocol(args, common).candidates.to_string(),
        metrics: &evaluation.at,
        epochs: trained.summary.epochs,
        triples: trained.summary.triples,
        best_epoch: trained.best_epoch,
        curve: &trained.curve,
        bytes: Bytes { down: traffic.down, up: traffic.up },
        vectors: (traffic.vectors > 0.0).then_some(traffic.vectors),
        turnout: Turnout::of(&trained.summary.turnout),
        privacy: trained.summary.privacy.as_ref().map(Privacy::of),
        seconds,
        peak_rss_bytes: measure::peak_rss_bytes(),
    };
    if args.out.is_some() {
        store(args, common, model, &settings, &data, &trained, &outcome)?;
    }
    if common.json { output::print_json(&outcome) } else { show(args, model, &outcome) }
}

fn fit(
    args: &Train,
    common: &Common,
    model: &'static Model,
    settings: &Settings,
    data: &Prepared,
) -> Result<Trained> {
    let mut store = keep(args, common, model, settings, data)?;
    let mut bar = Bar::new(&format!("training {}", model.name), 1, common.quiet);
    let checks = data.parts.validation.as_ref().map(|held_out| Checks {
        question: EvaluationInput::new(&data.parts.train, held_out),
        metric: WATCHED,
        every: 1,
        patience: args.patience.map(|patience| patience as usize),
        keep_best: args.patience.is_some(),
    });
    let plan = ModelPlan { model, settings, seed: common.seed, checks };
    let mut on_epoch = |done: usize, all: usize| {
        bar.set(done as u64, all as u64);
        Flow::Continue
    };
    let keeping = Keeping {
        store: store.as_mut(),
        users: Some(&data.parts.users),
        catalog: Some(&data.parts.catalog),
        recorder: None,
    };
    trial::train_keeping(&plan, &data.parts.train, &mut on_epoch, keeping)
        .with_context(|| format!("training {} on {}", model.name, data.name))
}

/// Where the state of training is kept, and goes on from.
fn keep(
    args: &Train,
    common: &Common,
    model: &Model,
    settings: &Settings,
    data: &Prepared,
) -> Result<Option<Store>> {
    let Some(folder) = &args.checkpoint else { return Ok(None) };
    if !registry::federated().iter().any(|each| each.name == model.name) {
        let message = format!("{} keeps no checkpoints; models that do: {}", model.name, federated_names());
        return Err(Usage(message).into());
    }
    let begin = match (args.resume, args.fresh) {
        (true, _) => Begin::MustGoOn,
        (_, true) => Begin::Fresh,
        _ => Begin::GoOn,
    };
    let store =
        Store::open(folder, identity(args, common, model, settings, data), args.checkpoint_every, begin)?;
    if let Some(found) = store.found().filter(|_| !common.quiet) {
        output::note(&format!(
            "going on after epoch {} (round {}), kept in {}",
            found.epochs,
            output::grouped(found.rounds),
            store.path().display()
        ));
    }
    Ok(Some(store))
}

fn federated_names() -> String {
    let names: Vec<&str> = registry::federated().iter().map(|each| each.name).collect();
    names.join(", ")
}

/// Everything that the trained model depends on.
fn identity(args: &Train, common: &Common, model: &Model, settings: &Settings, data: &Prepared) -> Identity {
    let parts = [
        ("model", model.name.to_owned()),
        ("seed", common.seed.to_string()),
        ("program", env!("CARGO_PKG_VERSION").to_owned()),
        ("data", data.name.clone()),
        ("data fingerprint", data.description.fingerprint.clone()),
        ("graph", facts_fingerprint(data)),
        ("split", data.split.to_string()),
        ("validation", args.preparing.split.validation.map_or("none".to_owned(), |split| split.to_string())),
        ("relevant", args.preparing.split.relevant.map_or("all".to_owned(), |least| least.to_string())),
        ("patience", args.patience.map_or("none".to_owned(), |patience| patience.to_string())),
    ];
    let files = (model.settings)().into_iter().filter(|setting| matches!(setting.domain, Domain::Text));
    let files = files.filter(|setting| !settings.word(setting.key).is_empty());
    let contents = files.map(|file| {
        (format!("contents of {}", file.key), checkpoint::contents(Path::new(settings.word(file.key))))
    });
    let settings = settings.iter().map(|(key, value)| (key.to_owned(), value.to_string()));
    let parts = parts.into_iter().map(|(key, value)| (key.to_owned(), value));
    parts.chain(settings).chain(contents).collect()
}

/// What is known of the items, in short.
fn facts_fingerprint(data: &Prepared) -> String {
    let Some(facts) = &data.parts.catalog.facts else { return "none".to_owned() };
    let mut hasher = blake3::Hasher::new();
    hasher.update(facts.features_text().as_bytes());
    (0..facts.items()).for_each(|item| {
        hasher.update(facts.item_text(item).as_bytes()).update(b"\n");
    });
    hasher.finalize().to_hex()[..32].to_owned()
}

fn protocol(args: &Train, common: &Common) -> Protocol {
    let candidates = match args.sampled_negatives {
        Some(negatives) => Candidates::Sampled { negatives: negatives as usize, seed: common.seed },
        None => Candidates::AllUnrated,
    };
    Protocol { cutoffs: args.at.clone(), candidates }
}

fn evaluate(
    args: &Train,
    common: &Common,
    data: &Prepared,
    trained: &Trained,
) -> Result<Evaluation, EvaluateError> {
    let question = EvaluationInput {
        train: &data.parts.train,
        also_seen: data.parts.validation.as_ref(),
        test: &data.parts.test,
        categories: data.parts.catalog.categories.as_ref(),
    };
    trial::evaluate(&question, &protocol(args, common), trained.recommender.as_ref())
}

fn facts(data: &Prepared) -> DataFacts<'_> {
    DataFacts {
        name: &data.name,
        fingerprint: &data.description.fingerprint,
        users: data.parts.users.len(),
        items: data.parts.catalog.len(),
        train: data.parts.train.interactions(),
        validation: data.parts.validation.as_ref().map(sottovoce_core::Histories::interactions),
        test: data.parts.test.interactions(),
        without_test: data.parts.without_test,
        split: data.split.to_string(),
    }
}

fn store(
    args: &Train,
    common: &Common,
    model: &Model,
    settings: &Settings,
    data: &Prepared,
    trained: &Trained,
    outcome: &Outcome<'_>,
) -> Result<()> {
    let Some(out) = &args.out else { return Ok(()) };
    let settings: BTreeMap<String, Value> =
        settings.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let about = About::new(model.name, settings, common.seed, &data.name, &data.description.fingerprint);
    folder::write_whole(out, |folder| {
        let parts = &data.parts;
        model_dir::write(
            folder,
            &about,
            trained.recommender.as_ref(),
            &parts.train,
            &parts.users,
            &parts.catalog,
        )?;
        if !trained.summary.updates_by_item.is_empty() {
            store_updates(&folder.join("updates.tsv"), &parts.catalog, &trained.summary.updates_by_item)?;
        }
        store_outcome(folder, outcome)
    })
}

fn store_outcome(folder: &Path, outcome: &impl Serialize) -> Result<()> {
    let path = folder.join("run.json");
    std::fs::write(&path, serde_json::to_vec_pretty(outcome)?)
        .with_context(|| format!("writing {}", path.display()))
}

/// How often each item's row was sent, most often first.
fn store_updates(path: &Path, catalog: &Catalog, updates: &[u64]) -> Result<()> {
    let mut order: Vec<usize> = (0..updates.len()).collect();
    order.sort_by_key(|&item| (std::cmp::Reverse(updates[item]), item));
    let mut text = String::from("item\tupdates\n");
    for item in order {
        text.push_str(&format!("{}\t{}\n", &catalog.ids[item], updates[item]));
    }
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn show(args: &Train, model: &Model, outcome: &Outcome<'_>) -> Result<()> {
    let data = &outcome.data;
    output::print_line(&format!(
        "{} on {}: {} users, {} items, {} training and {} test interactions ({})",
        model.title,
        data.name,
        output::grouped(data.users as u128),
        output::grouped(data.items as u128),
        output::grouped(data.train as u128),
        output::grouped(data.test as u128),
        data.split,
    ))?;
    output::print(&tell::metrics_table(outcome.metrics, &outcome.candidates))?;
    output::print_line(&format!(
        "{:.1} s loading, {:.1} s training ({} epochs), {:.2} s judging",
        outcome.seconds.load, outcome.seconds.train, outcome.epochs, outcome.seconds.evaluate
    ))?;
    if outcome.bytes.down > 0 {
        output::print_line(&format!(
            "{} bytes sent to devices, {} bytes sent by them",
            output::grouped(outcome.bytes.down),
            output::grouped(outcome.bytes.up)
        ))?;
    }
    show_federated(outcome.turnout.as_ref(), outcome.privacy.as_ref())?;
    show_written(args)
}

/// Who took part, and what was spent of differential privacy, where there was any.
fn show_federated(turnout: Option<&Turnout>, privacy: Option<&Privacy>) -> Result<()> {
    if let Some(turnout) = turnout {
        output::print_line(&turnout.told())?;
    }
    privacy.map_or(Ok(()), |privacy| output::print_line(&privacy.told()))
}

fn show_written(args: &Train) -> Result<()> {
    match &args.out {
        Some(out) => output::print_line(&format!("model written to {}", out.display())),
        None => Ok(()),
    }
}
