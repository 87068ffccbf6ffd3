//! `train`: one model on one data set.

mod from_clicks;
mod from_histories;
mod selection;

use crate::args::{Common, PeoplePart, Train};
use crate::model_dir::{self, About};
use crate::output::usage;
use crate::prepared::from_arguments;
use crate::progress::Bar;
use crate::{folder, measure, metrics_table, output};
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_core::Catalog;
use sottovoce_data::{CatalogRule, Cleaning, ColumnReport, DataSplit, Format, GraphConfig};
use sottovoce_evaluate::{Candidates, Evaluation, EvaluationInput, Metric, Metrics, Protocol, source_bias};
use sottovoce_experiment::checkpoint::{self, Begin, Identity, Store};
use sottovoce_experiment::metric::MetricAt;
use sottovoce_experiment::outcome::CurvePoint;
use sottovoce_experiment::plan::Curve;
use sottovoce_experiment::prepare::Prepared;
use sottovoce_experiment::training::{self, Context as TrainingContext, Evaluations, ModelPlan, Trained};
use sottovoce_federation::{Choice, HistoryFile, registry};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Domain, Settings};
use sottovoce_models::{ClusterFigures, Flow, Privacy, Summary, Turnout};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The metric of early stopping.
const MONITORED: MetricAt = MetricAt { key: Metric::Ndcg, cutoff: 10 };

/// What `train --json` prints. Seconds and memory are the only fields that two runs with the same seed may differ in.
#[derive(Serialize)]
pub(crate) struct Outcome<'a, Data, Seconds> {
    model: &'static str,
    /// All of them, with those that were not given at their defaults.
    settings: &'a Settings,
    seed: u64,
    /// Of the program.
    version: &'static str,
    data: Data,
    /// How the model is evaluated, where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<ProtocolFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<&'a BTreeMap<usize, Metrics>>,
    /// The metrics with other candidates, where several were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    with_other_candidates: Vec<Ranked<'a>>,
    /// Of a history file: whether it was streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    streamed: Option<bool>,
    epochs: usize,
    triples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_epoch: Option<usize>,
    /// Of a history file: mean loss of the last epoch's triples, where the model has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    curve: &'a [CurvePoint],
    /// Traffic of a federated model; a centralised one has none.
    bytes: Bytes,
    /// Traffic in vectors (the papers' TCC), for federated models.
    #[serde(skip_serializing_if = "Option::is_none")]
    vectors: Option<f64>,
    /// Participation, for federated models.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnout: Option<Turnout>,
    /// The differential privacy guarantee, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    privacy: Option<Privacy>,
    /// Its two epsilons.
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<Epsilons>,
    /// What people's devices chose between, where they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    selection: Option<selection::Selected>,
    /// Clusters of devices, where the server finds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    clusters: Option<ClusterFigures>,
    seconds: Seconds,
    peak_rss_bytes: Option<u64>,
}

/// Against whom a person is protected how well.
#[derive(Serialize)]
pub(crate) struct Epsilons {
    /// Who reads the model.
    model: f64,
    /// The server; none: no bound.
    server: Option<f64>,
}

impl Epsilons {
    fn before_the_last_training(&self) -> String {
        let server = self.server.map_or_else(|| "without bound".to_owned(), |epsilon| format!("{epsilon:.3}"));
        format!("the choice spent epsilon {:.3} against readers of the model, {server} against the server", self.model)
    }

    pub(crate) fn of(spent: &Privacy) -> Self {
        Self { model: spent.epsilon, server: spent.epsilon_server }
    }
}

/// Metrics of lists of these candidates.
#[derive(Serialize)]
struct Ranked<'a> {
    candidates: String,
    metrics: &'a BTreeMap<usize, Metrics>,
}

impl<'a, Data, Seconds> Outcome<'a, Data, Seconds> {
    /// What every training has: the rest is left out.
    fn new(plan: (&'static Model, &'a Settings, u64), data: Data, summary: &Summary, seconds: Seconds) -> Self {
        let (model, settings, seed) = plan;
        Self {
            model: model.name,
            settings,
            seed,
            version: env!("CARGO_PKG_VERSION"),
            data,
            protocol: None,
            candidates: None,
            metrics: None,
            with_other_candidates: Vec::new(),
            streamed: None,
            epochs: summary.epochs,
            triples: summary.triples,
            best_epoch: None,
            loss: None,
            curve: &[],
            bytes: Bytes { down: summary.traffic.down, up: summary.traffic.up },
            vectors: None,
            turnout: Some(summary.turnout).filter(|turnout| turnout.rounds > 0),
            privacy: summary.privacy.clone(),
            epsilon: summary.privacy.as_ref().map(Epsilons::of),
            selection: None,
            clusters: summary.clusters.clone(),
            seconds,
            peak_rss_bytes: measure::peak_rss_bytes(),
        }
    }
}

type DataSetOutcome<'a> = Outcome<'a, DataFacts<'a>, Seconds>;

#[derive(Serialize)]
struct DataFacts<'a> {
    name: &'a str,
    fingerprint: &'a str,
    users: usize,
    items: usize,
    train: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<usize>,
    /// With those of items that are not in the catalog.
    test: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    test_not_in_catalog: Option<usize>,
    without_test: usize,
    cleaning: &'a Cleaning,
    split: String,
    catalog: CatalogRule,
    /// B_T by category.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_bias: Option<BTreeMap<String, Option<f64>>>,
    format: Format,
    /// Which columns were read as what; none for invented data.
    columns: Option<&'a ColumnReport>,
    /// The knowledge graph about the items, if there is one.
    graph: Option<GraphConfig>,
    /// Whether bad lines were skipped, and how many there were.
    skip_bad: bool,
    skipped: u64,
    /// What was assumed or converted.
    remarks: &'a [String],
}

/// What was chosen for splitting and evaluation.
#[derive(Serialize)]
struct ProtocolFacts {
    split: String,
    split_seed: u64,
    validation: Option<String>,
    relevant: Option<f32>,
    at: Vec<usize>,
    candidates: Vec<String>,
    /// Epochs without a better value of the metric on the validation part, after which training stops.
    patience: Option<u32>,
    metric_of_patience: Option<String>,
}

impl ProtocolFacts {
    fn of(args: &Train, data: &Prepared, seed: u64) -> Self {
        let split = args.preparing.split;
        Self {
            split: data.split.to_string(),
            split_seed: seed,
            validation: split.validation.map(|split| split.to_string()),
            relevant: split.relevant,
            at: args.at.clone(),
            candidates: args.candidates(seed).iter().map(ToString::to_string).collect(),
            patience: args.patience,
            metric_of_patience: args.patience.map(|_| MONITORED.to_string()),
        }
    }
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct Bytes {
    pub(super) down: u64,
    pub(super) up: u64,
}

fn describe_clusters(clusters: &ClusterFigures) -> String {
    let ClusterFigures { clusterings, sizes, stale, late } = clusters;
    let found = clusterings.iter().map(|(round, count)| format!("{count} after round {round}"));
    let mut text = match clusterings.is_empty() {
        true => "one cluster of devices".to_owned(),
        false => format!("clusters of devices: {}", found.collect::<Vec<_>>().join(", ")),
    };
    let sizes: Vec<String> = sizes.iter().filter(|size| **size > 0).map(usize::to_string).collect();
    text.push_str(&format!("; sizes now {}", sizes.join(", ")));
    for (what, count) in [("uploads too old", *stale), ("rounds with a clustering not ready", *late)] {
        if count > 0 {
            text.push_str(&format!(", {} {what}", output::grouped(count)));
        }
    }
    text
}

fn describe_turnout(turnout: &Turnout) -> String {
    let [rounds, asked, received] = [turnout.rounds, turnout.asked, turnout.received].map(output::grouped);
    let hours = turnout.seconds / 3600.0;
    let mut text =
        format!("{rounds} rounds in {hours:.1} simulated hours: {asked} devices selected, {received} updates received");
    for (what, devices) in
        [("late", turnout.late), ("lost", turnout.dropped), ("devices unavailable", turnout.unavailable)]
    {
        if devices > 0 {
            text.push_str(&format!(", {} {what}", output::grouped(devices)));
        }
    }
    text
}

fn describe_privacy(privacy: &Privacy) -> String {
    let mut text = format!(
        "epsilon {:.3} against readers of the model, {} against the server, at delta {:e} for {} ({} {} noise with \
         multiplier {}, clipping norm {}, {} rounds; {:.3} by RDP accounting)",
        privacy.epsilon,
        privacy.epsilon_server.map_or_else(|| "without bound".to_owned(), |epsilon| format!("{epsilon:.3}")),
        privacy.delta,
        privacy.hides,
        privacy.placement,
        privacy.shape,
        (privacy.multiplier * 1000.0).round() / 1000.0,
        privacy.clip.map_or_else(|| "none".to_owned(), |clip| format!("{clip:.3}")),
        output::grouped(privacy.rounds),
        privacy.epsilon_rdp,
    );
    if let Some(ended) = &privacy.ended {
        text.push_str(&format!("\ntraining ended early: {ended}"));
    }
    text
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
    if !common.quiet {
        settings.notes().for_each(|note| output::note(&note));
        registry::warning(model.name, &settings).iter().for_each(|warning| output::note(warning));
    }
    let elsewhere = from_clicks::are_clicks(args) || args.stream || HistoryFile::is_one(Path::new(&args.data));
    if elsewhere && !args.select.is_empty() {
        return usage("--select needs a data set of interactions in memory: no clicks, no history file, no --stream");
    }
    if from_clicks::are_clicks(args) {
        return from_clicks::run(args, common, model, &settings);
    }
    if args.stream || HistoryFile::is_one(Path::new(&args.data)) {
        return from_histories::run(args, common, model, &settings);
    }
    if args.clicks.before.is_some() || args.clicks.people != PeoplePart::Test {
        return usage(format!(
            "--before and --people are for click logs, and {} is none (--taxonomy makes it one)",
            args.data
        ));
    }
    let data = from_arguments(&args.data, &args.preparing, common)?;
    note_limits(&settings, &data, common);
    check_test_part(args, &data)?;
    let choice = selection::choose(args, common, (model, &settings), &data)?;
    let settings = choice.as_ref().map_or(settings, |choice| choice.settings.clone());
    let job = Job { args, common, model, settings: &settings, data: &data, choice: choice.as_ref() };
    let trained = job.train()?;
    let started = Instant::now();
    let evaluations = job.evaluate(&trained)?;
    let mut ranked = evaluations
        .iter()
        .map(|(candidates, evaluation)| Ranked { candidates: candidates.to_string(), metrics: &evaluation.at });
    let first = ranked.next();
    let seconds = Seconds { load: data.seconds, train: trained.seconds, evaluate: started.elapsed().as_secs_f64() };
    let vectors = trained.summary.traffic.vectors;
    let outcome = Outcome {
        metrics: first.as_ref().map(|first| first.metrics),
        candidates: first.map(|first| first.candidates),
        with_other_candidates: ranked.collect(),
        best_epoch: trained.best_epoch,
        curve: &trained.curve,
        vectors: (vectors > 0.0).then_some(vectors),
        protocol: Some(ProtocolFacts::of(args, &data, common.seed)),
        selection: choice.as_ref().map(selection::Selected::of),
        ..Outcome::new((model, &settings, common.seed), DataFacts::of(&data, args), &trained.summary, seconds)
    };
    if let Some(out) = &args.out {
        job.store(out, &trained, &outcome)?;
    }
    if common.json { output::print_json(&outcome) } else { show(args, model, &outcome) }
}

/// Notes what was asked for and is more than the data have.
pub(super) fn note_limits(settings: &Settings, data: &Prepared, common: &Common) {
    let lengths = data.parts.train.iter().map(<[u32]>::len);
    let note = training::cohort_note(settings.get("cohort"), lengths).filter(|_| !common.quiet);
    note.iter().for_each(|note| output::note(note));
}

/// Fails if there is nothing to evaluate the model on, before it is trained.
fn check_test_part(args: &Train, data: &Prepared) -> Result<()> {
    let (test, items) = (data.parts.test.interactions(), data.parts.catalog.len());
    if test == 0 {
        return usage(format!(
            "{} has no test interactions (--split {}{}): nobody has enough interactions for the split, or all are below \
             --relevant",
            data.name,
            data.split,
            args.preparing.split.relevant.map_or_else(String::new, |least| format!(", --relevant {least}"))
        ));
    }
    let most = args.candidates(0).into_iter().map(|candidates| match candidates {
        Candidates::Sampled { negatives, .. } => negatives,
        Candidates::AllUnrated => 0,
    });
    match most.max() {
        Some(negatives) if negatives >= items => usage(format!(
            "--candidates asks for {negatives} negatives, but {} has {items} items: ask for fewer, or for `full`",
            data.name
        )),
        _ => Ok(()),
    }
}

/// A training as the arguments ask for it.
struct Job<'a> {
    args: &'a Train,
    common: &'a Common,
    model: &'static Model,
    settings: &'a Settings,
    data: &'a Prepared,
    /// What people's devices chose before.
    choice: Option<&'a Choice>,
}

impl Job<'_> {
    fn train(&self) -> Result<Trained> {
        let parts = &self.data.parts;
        let mut store = self.checkpoints()?;
        let evaluations = parts.validation.as_ref().map(|held_out| Evaluations {
            question: EvaluationInput::new(&parts.train, held_out),
            curve: Curve {
                every: 1,
                patience: self.args.patience.map(|patience| patience as usize),
                metric: MONITORED,
            },
            keep_best: self.args.patience.is_some(),
        });
        let (model, settings, seed) = (self.model, self.settings, self.common.seed);
        let plan = ModelPlan { model, settings, seed, evaluations };
        let context = TrainingContext { store: store.as_mut(), choice: self.choice, ..TrainingContext::default() };
        train_with_bar(&plan, self.data, context, self.common)
    }

    /// Where checkpoints are written, and training resumes from.
    fn checkpoints(&self) -> Result<Option<Store>> {
        let (args, name) = (self.args, self.model.name);
        let Some(folder) = &args.checkpoint else { return Ok(None) };
        if !registry::federated().iter().any(|each| each.name == name) {
            return usage(format!("{name} has no checkpoints; models that have: {}", federated_names()));
        }
        let begin = match (args.resume, args.fresh) {
            (true, _) => Begin::MustResume,
            (_, true) => Begin::Fresh,
            _ => Begin::Resume,
        };
        let store = Store::open(folder, self.identity(), args.checkpoint_every, begin)?;
        if let Some(found) = store.found.as_ref().filter(|_| !self.common.quiet) {
            let (rounds, path) = (output::grouped(found.rounds), store.path().display());
            output::note(&format!("resuming after epoch {} (round {rounds}) from {path}", found.epochs));
        }
        Ok(Some(store))
    }

    /// Everything that the trained model depends on.
    fn identity(&self) -> Identity {
        let (settings, split) = (self.settings, &self.args.preparing.split);
        let or = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
        let parts = [
            ("model", self.model.name.to_owned()),
            ("seed", self.common.seed.to_string()),
            ("program", env!("CARGO_PKG_VERSION").to_owned()),
            ("data", self.data.name.clone()),
            ("data fingerprint", self.data.description.fingerprint.clone()),
            ("graph", graph_fingerprint(self.data)),
            ("split", self.data.split.to_string()),
            ("validation", or(split.validation.map(|split| split.to_string()), "none")),
            ("catalog", if self.data.catalog == CatalogRule::All { "all" } else { "training" }.to_owned()),
            ("relevant", or(split.relevant.map(|least| least.to_string()), "all")),
            ("patience", or(self.args.patience.map(|patience| patience.to_string()), "none")),
        ];
        let word = |key: &str| settings.get(key).map(ToString::to_string).unwrap_or_default();
        let files = self.model.schema().filter(|setting| matches!(setting.domain, Domain::Text));
        let files = files.filter(|setting| !word(setting.key).is_empty());
        let contents =
            files.map(|file| (format!("contents of {}", file.key), checkpoint::contents(Path::new(&word(file.key)))));
        let settings = settings.iter().map(|(key, value)| (key.to_owned(), value.to_string()));
        let parts = parts.into_iter().map(|(key, value)| (key.to_owned(), value));
        parts.chain(settings).chain(contents).collect()
    }

    /// An evaluation on the test part for each kind of candidates.
    fn evaluate(&self, trained: &Trained) -> Result<Vec<(Candidates, Evaluation)>> {
        let (question, model) = (test_question(self.data), trained.recommender.as_ref());
        let evaluate = |candidates| {
            let protocol = Protocol { cutoffs: self.args.at.clone(), candidates };
            Ok((candidates, training::evaluate(&question, &protocol, model)?))
        };
        self.args.candidates(self.common.seed).into_iter().map(evaluate).collect()
    }

    fn store(&self, out: &Path, trained: &Trained, outcome: &DataSetOutcome<'_>) -> Result<()> {
        let data = self.data;
        let fingerprint = &data.description.fingerprint;
        let about = About::new(self.model.name, self.settings, self.common.seed, &data.name, fingerprint);
        folder::write_whole(out, |folder| {
            let DataSplit { train, users, catalog, .. } = &data.parts;
            model_dir::write(folder, &about, trained.recommender.as_ref(), train, users, catalog)?;
            if !trained.summary.updates_by_item.is_empty() {
                store_updates(&folder.join("updates.tsv"), catalog, &trained.summary.updates_by_item)?;
            }
            store_outcome(folder, outcome)
        })
    }
}

/// Trains a model on the training part, with a progress bar.
pub(super) fn train_with_bar<'a>(
    plan: &ModelPlan<'a>,
    data: &'a Prepared,
    context: TrainingContext<'a>,
    common: &Common,
) -> Result<Trained> {
    let (parts, name) = (&data.parts, plan.model.name);
    let mut bar = Bar::new(&format!("training {name}"), 1, common.quiet);
    let mut on_epoch = |done: usize, all: usize| {
        bar.set(done as u64, all as u64);
        Flow::Continue
    };
    let context = TrainingContext { users: Some(&parts.users), catalog: Some(&parts.catalog), ..context };
    training::train(plan, &parts.train, &mut on_epoch, context)
        .with_context(|| format!("training {name} on {}", data.name))
}

/// The evaluation on the test part; items of the validation part are not ranked.
pub(super) fn test_question(data: &Prepared) -> EvaluationInput<'_> {
    EvaluationInput {
        train: &data.parts.train,
        also_seen: data.parts.validation.as_ref(),
        test: &data.parts.test,
        cold_test: data.parts.cold.test_items(),
        categories: data.parts.catalog.categories.as_ref(),
    }
}

fn federated_names() -> String {
    let names: Vec<&str> = registry::federated().iter().map(|each| each.name).collect();
    names.join(", ")
}

/// A hash of the items' features.
fn graph_fingerprint(data: &Prepared) -> String {
    let Some(facts) = &data.parts.catalog.facts else { return "none".to_owned() };
    let mut hasher = blake3::Hasher::new();
    hasher.update(facts.features_text().as_bytes());
    (0..facts.items()).for_each(|item| {
        hasher.update(facts.item_text(item).as_bytes()).update(b"\n");
    });
    hasher.finalize().to_hex()[..32].to_owned()
}

impl<'a> DataFacts<'a> {
    fn of(data: &'a Prepared, args: &Train) -> Self {
        let (parts, read) = (&data.parts, &data.description.report);
        let loading = &args.preparing.loading;
        Self {
            name: &data.name,
            fingerprint: &data.description.fingerprint,
            users: parts.users.len(),
            items: parts.catalog.len(),
            train: parts.train.interactions(),
            validation: parts.validation.as_ref().map(sottovoce_core::Histories::interactions),
            test: parts.test.interactions() + parts.cold.test_interactions(),
            test_not_in_catalog: parts.cold.test_items().map(|_| parts.cold.test_interactions()),
            without_test: parts.without_test,
            cleaning: &data.cleaning,
            split: data.split.to_string(),
            catalog: data.catalog,
            source_bias: parts.catalog.categories.as_ref().map(|all| source_bias(&parts.train, all)),
            format: data.description.format,
            columns: read.columns.as_ref(),
            graph: loading.graph.plan(),
            skip_bad: loading.reading.skip_bad,
            skipped: read.bad.skipped,
            remarks: &read.remarks,
        }
    }
}

fn store_outcome(folder: &Path, outcome: &impl Serialize) -> Result<()> {
    folder::write(&folder.join("run.json"), serde_json::to_vec_pretty(outcome)?)
}

/// How often each item's row was sent, most often first.
fn store_updates(path: &Path, catalog: &Catalog, updates: &[u64]) -> Result<()> {
    let mut order: Vec<usize> = (0..updates.len()).collect();
    order.sort_by_key(|&item| (std::cmp::Reverse(updates[item]), item));
    let mut text = String::from("item\tupdates\n");
    for item in order {
        text.push_str(&format!("{}\t{}\n", &catalog.ids[item], updates[item]));
    }
    folder::write(path, text)
}

fn show(args: &Train, model: &Model, outcome: &DataSetOutcome<'_>) -> Result<()> {
    let data = &outcome.data;
    let [users, items, train, test] = [data.users, data.items, data.train, data.test].map(output::grouped);
    output::print_line(&format!(
        "{} on {}: {users} users, {items} items, {train} training and {test} test interactions ({})",
        model.title, data.name, data.split
    ))?;
    if let (Some(metrics), Some(candidates)) = (outcome.metrics, &outcome.candidates) {
        output::print(&metrics_table::by_cutoff(metrics, candidates))?;
    }
    for Ranked { candidates, metrics } in &outcome.with_other_candidates {
        output::print(&metrics_table::by_cutoff(metrics, candidates))?;
    }
    output::print_line(&format!(
        "{:.1} s loading, {:.1} s training ({} epochs), {:.2} s evaluation",
        outcome.seconds.load, outcome.seconds.train, outcome.epochs, outcome.seconds.evaluate
    ))?;
    if outcome.bytes.down > 0 {
        let [down, up] = [outcome.bytes.down, outcome.bytes.up].map(output::grouped);
        output::print_line(&format!("{down} bytes sent to devices, {up} bytes received from them"))?;
    }
    show_federated(outcome)?;
    show_written(args)
}

/// Participation, clusters and differential privacy of a federated model.
fn show_federated<D, S>(outcome: &Outcome<'_, D, S>) -> Result<()> {
    if let Some(turnout) = &outcome.turnout {
        output::print_line(&describe_turnout(turnout))?;
        if turnout.received == 0 {
            output::note("no update was received: the model has learnt nothing");
        }
    }
    if let Some(selected) = &outcome.selection {
        selection::show(selected)?;
    }
    if let Some(clusters) = &outcome.clusters {
        output::print_line(&describe_clusters(clusters))?;
    }
    outcome.privacy.as_ref().map_or(Ok(()), |privacy| output::print_line(&describe_privacy(privacy)))
}

fn show_written(args: &Train) -> Result<()> {
    match &args.out {
        Some(out) => output::print_line(&format!("model written to {}", out.display())),
        None => Ok(()),
    }
}
