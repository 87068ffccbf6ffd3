//! Trains and evaluates recommenders.

use crate::cache::Cache;
use crate::engine::{Progress, Trials};
use crate::feature_retention::{Retention, retention};
use crate::file::{DataSet, InteractionData};
use crate::lookalike::{self, LookalikeError, LookalikePlan};
use crate::outcome::{Cost, DataCard, Outcome, Summary, TrialError, Values};
use crate::people::{Part, People, PeopleError};
use crate::plan::{RecommenderTraining, Stage, Training, Trial};
use crate::prepare::{PrepareError, choose_split, load_clean};
use crate::training::{Context, Evaluations, ModelPlan, evaluate, train};
use sottovoce_audit::{CuriousServer, ExposedTables, Subjects, View};
use sottovoce_core::{Catalog, Histories};
use sottovoce_data::interests::ClickSource;
use sottovoce_data::{
    CleaningReport, DataSplit, Description, LoadOptions, Remedy, Split, SplitConfig, WithoutFacts, describe, split_with,
};
use sottovoce_evaluate::{Candidates, EvaluationInput, report, source_bias};
use sottovoce_federation::{Recorder, choose};
use sottovoce_models::{DeviceFootprint, Fit, Flow, ModelError, Quiet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Users whose histories the attacks of a trial reconstruct: enough for a figure, few enough to cost nearly nothing.
const ATTACKED: usize = 100;

/// Trains and evaluates recommenders, on data sets that are loaded once.
pub struct Recommenders {
    load: LoadOptions,
    peak_rss_bytes: fn() -> Option<u64>,
    sets: Cache<Prepared>,
    clicks: Cache<ClickSets>,
}

/// People of a click log, and those of an earlier one.
struct ClickSets {
    people: People,
    before: Option<People>,
    seconds: f64,
}

/// A data set, split for each stage.
struct Prepared {
    /// Training and test part.
    whole: DataSplit,
    /// The training part split again, for stages that need a validation part.
    with_validation: DataSplit,
    /// The splits of test and validation part.
    splits: [Split; 2],
    description: Description,
    cleaned: CleaningReport,
    seconds: f64,
}

impl Recommenders {
    /// Reads data as `load` says; `peak_rss_bytes` measures this process.
    pub fn new(load: LoadOptions, peak_rss_bytes: fn() -> Option<u64>) -> Self {
        Self { load, peak_rss_bytes, sets: Cache::default(), clicks: Cache::default() }
    }

    fn prepared<'a>(&self, data: &'a DataSet) -> Result<(&'a InteractionData, Arc<Prepared>), TrialError> {
        let DataSet::Interactions(set) = data else { return Err(not_a_recommender()) };
        Ok((set, self.sets.get(data, || self.prepare(set).map_err(|error| helped(&error)))?))
    }

    /// The people of a data set of clicks; `None` for other data sets.
    fn clicks(&self, data: &DataSet) -> Result<Option<Arc<ClickSets>>, TrialError> {
        let DataSet::Interactions(set) = data else { return Ok(None) };
        if !ClickSource::is_named(&set.source) {
            return Ok(None);
        }
        let read = |name: &str| {
            let source = ClickSource::find(name, self.load.data_dir.as_deref())?;
            People::read(&source, name, None, set.split_seed)
        };
        let load = || -> Result<ClickSets, PeopleError> {
            let started = Instant::now();
            let (people, before) = (read(&set.source)?, set.before.as_deref().map(read).transpose()?);
            Ok(ClickSets { people, before, seconds: started.elapsed().as_secs_f64() })
        };
        self.clicks.get(data, load).map(Some)
    }

    /// Trains and evaluates a model of interests.
    fn run_on_clicks(
        &self,
        (trial, training): (&Trial, &RecommenderTraining),
        ClickSets { people, before, seconds }: &ClickSets,
        progress: &Progress<'_>,
    ) -> Result<Outcome, TrialError> {
        let RecommenderTraining { model, settings, protocol, stage, select, .. } = training;
        if !select.is_empty() {
            return Err(TrialError::Broken(
                "`select` is for data sets of interactions, and these are clicks".to_owned(),
            ));
        }
        let part = if *stage == Stage::Validation { Part::Validation } else { Part::Test };
        let plan = LookalikePlan { model, settings, seed: trial.seed, people, before: before.as_ref(), part };
        let mut interrupted = false;
        let mut on_epoch = |epoch, epochs| {
            let flow = (progress.report)(epoch, epochs, None);
            interrupted |= flow == Flow::Stop;
            flow
        };
        let trained = lookalike::train(&plan, &mut on_epoch, Context::default()).map_err(|error| match error {
            LookalikeError::Model(error) => failure(error),
            other => TrialError::Broken(other.to_string()),
        })?;
        if interrupted {
            return Err(TrialError::Interrupted);
        }
        let started = Instant::now();
        let evaluation = trained.evaluate(protocol).map_err(|error| TrialError::Broken(error.to_string()))?;
        let found = trained.metrics(people).all;
        let mut figures = figures(&trained.summary);
        let found = [
            ("hit@1", Some(found.hit_at_1)),
            ("hit@4", Some(found.hit_at_4)),
            ("precision@0.6", found.precision),
            ("recall@0.6", found.recall),
            ("average_precision", found.average_precision),
            ("taxonomy_distance", Some(found.taxonomy_distance)),
        ];
        figures.extend(found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let cost = Cost {
            load_seconds: *seconds,
            train_seconds: trained.seconds,
            evaluate_seconds: started.elapsed().as_secs_f64(),
            peak_rss_bytes: (self.peak_rss_bytes)().unwrap_or(0),
            ..Cost::default()
        };
        let main_cutoff = protocol.cutoffs.first().copied().unwrap_or(10);
        let updates = trained.summary.updates_by_item.clone();
        let values = Values::of(&evaluation, main_cutoff, updates);
        let (epochs, triples) = (trained.summary.epochs, trained.summary.triples);
        let suggestions = if trial.is_final() { trained.suggestions(people) } else { Vec::new() };
        let (metrics, curve) = (evaluation.at, trained.curve);
        let summary = Summary { metrics, epochs, triples, figures, suggestions, curve, cost, ..Summary::default() };
        Ok(Outcome { summary, values })
    }

    fn prepare(&self, data: &InteractionData) -> Result<Prepared, PrepareError> {
        let started = Instant::now();
        let (graph, columns) = (data.graph.clone(), data.columns.clone());
        let load = LoadOptions { graph, columns, ..self.load.clone() };
        let (mut dataset, cleaned) = load_clean(&data.source, &load, &data.cleaning)?;
        let test = choose_split(&mut dataset, data.split, data.validation)?;
        let validation = data.validation.unwrap_or(test);
        let InteractionData { relevant, catalog, split_seed: seed, .. } = *data;
        let parts =
            |validation| split_with(&dataset.interactions, SplitConfig { test, validation, relevant, catalog, seed });
        Ok(Prepared {
            whole: parts(None),
            with_validation: parts(Some(validation)),
            splits: [test, validation],
            description: describe(&dataset),
            cleaned,
            seconds: started.elapsed().as_secs_f64(),
        })
    }
}

impl ClickSets {
    fn card(&self, label: String) -> DataCard {
        let Self { people, before, .. } = self;
        let parts = [("train", Part::Train), ("validation", Part::Validation), ("test", Part::Test)];
        let parts: Vec<(String, u64)> =
            parts.into_iter().map(|(name, part)| (name.to_owned(), people.count(part) as u64)).collect();
        let report = &people.report;
        let mut facts = vec![("interests a person".to_owned(), format!("{:.2}", people.mean_interests()))];
        facts.extend(before.as_ref().map(|before| ("goes on from".to_owned(), before.name.clone())));
        let card = report::DataCard {
            name: label,
            source: "clicks, scored as interests in categories".to_owned(),
            users: parts.iter().map(|(_, count)| count).sum(),
            items: people.catalog.len() as u64,
            interactions: report.used,
            filters: vec![
                format!("{} clicks on sensitive pages dropped", report.sensitive),
                format!("{} people without two interests left out", people.without_interests),
                format!("{} people not evaluated: an interest that nobody in training has", people.unseen),
            ],
            split: "people, 50 % train, 30 % validation, 20 % test; one interest of each is hidden".to_owned(),
            parts,
            facts,
            fingerprint: people.name.clone(),
            ..report::DataCard::default()
        };
        DataCard { card, ..DataCard::default() }
    }
}

impl Prepared {
    /// The histories a stage trains on, and the input of its evaluation.
    fn stage(&self, stage: Stage) -> (&Histories, EvaluationInput<'_>) {
        let parts = if stage == Stage::Test { &self.whole } else { &self.with_validation };
        let validation = self.with_validation.validation.as_ref().unwrap_or(&self.with_validation.test);
        let (test, also_seen) = match stage {
            Stage::Validation => (validation, None),
            Stage::Test => (&parts.test, None),
            Stage::TestWithoutRefit => (&parts.test, Some(validation)),
        };
        let categories = parts.catalog.categories.as_ref();
        let cold_test = parts.cold.test_items().filter(|_| stage != Stage::Validation);
        (&parts.train, EvaluationInput { train: &parts.train, also_seen, test, cold_test, categories })
    }

    fn card(&self, data: &InteractionData) -> DataCard {
        let about = &self.description;
        let sizes = [
            ("train", Some(&self.with_validation.train)),
            ("validation", self.with_validation.validation.as_ref()),
            ("test", Some(&self.with_validation.test)),
        ];
        let relevant = data.relevant.map_or_else(String::new, |least| format!(", held out: rated {least} or more"));
        let DataSplit { train, test, catalog, .. } = &self.whole;
        let without_facts = catalog.facts.as_deref().map(|facts| {
            let without = WithoutFacts::of(facts, &[train.items(), test.items()].concat());
            ("without facts".to_owned(), without.to_string())
        });
        let mut card = report::DataCard {
            name: data.label.clone(),
            source: if data.label == about.name { about.format.about().to_owned() } else { about.name.clone() },
            users: about.users as u64,
            items: about.items as u64,
            interactions: about.interactions as u64,
            span: about.first_time.zip(about.last_time),
            fingerprint: about.fingerprint.clone(),
            filters: [self.cleaned.messages(), self.whole.cold.messages()].concat(),
            split: format!("{}, validation {}{relevant}", self.splits[0], self.splits[1]),
            parts: sizes
                .into_iter()
                .filter_map(|(name, part)| Some((name.to_owned(), part?.interactions() as u64)))
                .collect(),
            facts: vec![
                ("history, median".to_owned(), about.history.median.to_string()),
                ("history, longest".to_owned(), about.history.max.to_string()),
                ("held by the top 1 % of items".to_owned(), format!("{:.1} %", about.popularity.top_1_percent * 100.0)),
                ("Gini of popularity".to_owned(), format!("{:.3}", about.popularity.gini)),
                ("users without a test part".to_owned(), self.whole.without_test.to_string()),
            ]
            .into_iter()
            .chain(about.report.columns.as_ref().map(|columns| ("columns".to_owned(), columns.to_string())))
            .collect(),
        };
        card.facts.extend(without_facts);
        let columns = about.report.columns.as_ref().map(ToString::to_string);
        let notes = columns.map(|columns| format!("columns: {columns}")).into_iter();
        let notes = notes.chain(about.report.remarks.iter().cloned()).chain(self.cleaned.messages()).collect();
        let activity = train.iter().map(|history| history.len() as u32).collect();
        let bias = self.whole.catalog.categories.as_ref().map(|categories| source_bias(train, categories));
        let source_bias = bias.into_iter().flatten().filter_map(|(name, bias)| Some((name, bias?))).collect();
        let categories = self.category_shares();
        DataCard { card, popularity: train.popularity(), activity, categories, source_bias, notes }
    }

    fn category_shares(&self) -> BTreeMap<String, f64> {
        let Some(categories) = &self.whole.catalog.categories else { return BTreeMap::new() };
        let train = &self.whole.train;
        let mut counts = vec![0u64; categories.names().len()];
        for (item, count) in train.popularity().into_iter().enumerate() {
            for &category in categories.of(item) {
                counts[category as usize] += u64::from(count);
            }
        }
        let all = train.interactions().max(1) as f64;
        categories.names().iter().zip(counts).map(|(name, count)| (name.to_owned(), count as f64 / all)).collect()
    }
}

impl Trials for Recommenders {
    fn describe(&self, data: &DataSet) -> Result<DataCard, TrialError> {
        if let Some(clicks) = self.clicks(data)? {
            return Ok(clicks.card(data.label()));
        }
        let (set, data) = self.prepared(data)?;
        Ok(data.card(set))
    }

    fn run(&self, trial: &Trial, progress: &Progress<'_>) -> Result<Outcome, TrialError> {
        let Training::Recommender(training) = &trial.training else { return Err(not_a_recommender()) };
        if let Some(clicks) = self.clicks(&trial.data)? {
            return self.run_on_clicks((trial, training), &clicks, progress);
        }
        let (set, data) = self.prepared(&trial.data)?;
        let (histories, question) = data.stage(training.stage);
        let evaluations = training.curve.map(|curve| Evaluations { question, curve, keep_best: false });
        let RecommenderTraining { model, settings, protocol, select, .. } = training;
        let (catalog, mut quiet) = (&data.whole.catalog, Quiet);
        let fit = Fit::new(trial.seed, &mut quiet).knowing(Some(catalog));
        let choice = match select.is_empty() {
            true => None,
            false => Some(choose(model.name, settings, select, histories, &fit).map_err(failure)?),
        };
        let settings = choice.as_ref().map_or(settings, |choice| &choice.settings);
        let plan = ModelPlan { model, settings, seed: trial.seed, evaluations };
        let mut interrupted = false;
        let mut on_epoch = |epoch, epochs| {
            let flow = (progress.report)(epoch, epochs, None);
            interrupted |= flow == Flow::Stop;
            flow
        };
        if let Candidates::Sampled { negatives, .. } = protocol.candidates
            && negatives >= catalog.len()
        {
            let (label, items) = (&set.label, catalog.len());
            return Err(TrialError::Broken(format!(
                "`candidates` asks for {negatives} negatives, but {label} has {items} items: ask for fewer, or for \"full\""
            )));
        }
        let witness = trial.is_final().then(|| witness(trial, model.name, histories, catalog)).flatten();
        let context = Context {
            users: Some(&data.whole.users),
            catalog: Some(catalog),
            recorder: witness.clone().map(|witness| witness as Arc<dyn Recorder>),
            choice: choice.as_ref(),
            ..Context::default()
        };
        let trained = train(&plan, histories, &mut on_epoch, context).map_err(failure)?;
        if interrupted {
            return Err(TrialError::Interrupted);
        }
        let started = Instant::now();
        let evaluation = evaluate(&question, protocol, trained.recommender.as_ref())
            .map_err(|error| TrialError::Broken(error.to_string()))?;
        let footprint = trained.recommender.footprint();
        let cost = Cost {
            load_seconds: data.seconds,
            train_seconds: trained.seconds,
            evaluate_seconds: started.elapsed().as_secs_f64(),
            peak_rss_bytes: (self.peak_rss_bytes)().unwrap_or(0),
            device_round_seconds: footprint.and_then(|taken| taken.round_seconds),
            device_session_seconds: footprint.and_then(|taken| taken.session_seconds),
        };
        let main_cutoff = protocol.cutoffs.first().copied().unwrap_or(10);
        let retained = match &catalog.facts {
            Some(facts) if trial.is_final() && !evaluation.is_sampled() => {
                retention(facts, histories, &evaluation.lists, main_cutoff, set.split_seed)
            }
            _ => Retention::default(),
        };
        let mut figures = figures(&trained.summary);
        figures.extend(footprint.iter().flat_map(footprint_figures));
        figures.extend(witness.into_iter().flat_map(|witness| attack_figures(&witness)));
        figures.extend(retained.figures);
        figures.extend(choice.iter().map(|choice| ("chosen".to_owned(), (choice.chosen + 1) as f64)));
        let clusterings = trained.summary.clusters.map(|found| found.clusterings).unwrap_or_default();
        let values = Values::of(&evaluation, main_cutoff, trained.summary.updates_by_item);
        let summary = Summary {
            metrics: evaluation.at,
            epochs: trained.summary.epochs,
            triples: trained.summary.triples,
            figures,
            cloud: retained.cloud,
            suggestions: Vec::new(),
            curve: trained.curve,
            clusterings,
            accuracy_curve: None,
            cost,
        };
        Ok(Outcome { summary, values })
    }
}

/// The error with what helps in an experiment file, where something does.
fn helped(error: &PrepareError) -> String {
    match error.remedy() {
        Some(Remedy::Columns | Remedy::Format) => {
            format!(
                "{error}. Say which columns to read: `columns = \"user=COLUMN,item=COLUMN\"` in the data set's table"
            )
        }
        Some(Remedy::SkipBad) => format!("{error}: `sottovoce data convert --skip-bad` writes a file without them"),
        _ => error.to_string(),
    }
}

fn not_a_recommender() -> TrialError {
    TrialError::Broken("not a recommender's trial".to_owned())
}

/// Attacks the uploads of a federated trial that counts, if the audit knows attacks on its model.
fn witness(trial: &Trial, model: &str, train: &Histories, catalog: &Catalog) -> Option<Arc<CuriousServer>> {
    let surface = ExposedTables::of(model, catalog.facts.as_ref()).ok()?;
    let subjects = Subjects::draw(train, None, ATTACKED, trial.seed);
    Some(Arc::new(CuriousServer::new(surface, subjects, View::Uploads, Vec::new())))
}

/// How far the attacks got, as figures of the trial; none if nothing was sent.
fn attack_figures(witness: &CuriousServer) -> Vec<(String, f64)> {
    let Ok(findings) = witness.conclude() else { return Vec::new() };
    let Some(all) = findings.combined() else { return Vec::new() };
    let figures = [
        ("leak_auc", all.auc),
        ("leak_guess_auc", all.popularity_auc),
        ("leak_precision", all.precision),
        ("leak_guess_precision", all.popularity_precision),
        ("leak_exposed", all.exposed),
    ];
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}

/// What a federated training takes of a device, but for its time.
fn footprint_figures(taken: &DeviceFootprint) -> Vec<(String, f64)> {
    let DeviceFootprint { item_vectors, private_values, shared_values, private_bytes, shared_bytes, .. } = *taken;
    let figures = [
        ("device_item_vectors", Some(item_vectors)),
        ("device_private_values", Some(private_values)),
        ("device_shared_values", Some(shared_values)),
        ("device_private_bytes", Some(private_bytes)),
        ("device_shared_bytes", Some(shared_bytes)),
        ("device_working_bytes", taken.working_bytes),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value? as f64))).collect()
}

/// Traffic and participation of a federated training; nothing for others.
fn figures(summary: &sottovoce_models::Summary) -> BTreeMap<String, f64> {
    let (traffic, turnout) = (&summary.traffic, &summary.turnout);
    let figures = [
        ("bytes_down", traffic.down as f64),
        ("bytes_up", traffic.up as f64),
        ("tcc", traffic.vectors),
        ("cce", traffic.vectors / summary.epochs.max(1) as f64),
        ("rounds", turnout.rounds as f64),
        ("unavailable", turnout.unavailable as f64),
        ("dropped", turnout.dropped as f64),
        ("late", turnout.late as f64),
        ("received", turnout.received as f64),
        ("virtual_time", turnout.seconds),
    ];
    let clusters = summary.clusters.iter().flat_map(|found| {
        let count = found.clusterings.last().map_or(1, |(_, count)| *count);
        [("clusters", count as f64), ("stale_uploads", found.stale as f64)]
    });
    let figures = figures.into_iter().chain(clusters);
    let spent = summary.privacy.iter().flat_map(|spent| {
        let server = spent.epsilon_server.unwrap_or(0.0);
        [("epsilon", spent.epsilon), ("epsilon_server", server), ("delta", spent.delta)]
    });
    let figures = figures.chain(spent).filter(|(_, value)| *value > 0.0);
    figures.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A setting that does not work is a result; anything else ends the run.
fn failure(error: ModelError) -> TrialError {
    match error {
        ModelError::Diverged { .. } | ModelError::Data(_) => TrialError::Failed(error.to_string()),
        other => TrialError::Broken(other.to_string()),
    }
}
