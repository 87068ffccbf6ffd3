//! Trains image classifiers in a federation: after how many rounds does the shared model serve how many devices how
//! well?
//!
//! An experiment on classifiers compares aggregations (a criterion, or several in order of priority). Devices train a
//! classifier in a federation, and after every round the shared model is evaluated on each device's own test images.
//! The report has the tables and curves of chapter 5 of A. Ferrara's thesis (Politecnico di Bari, 2022).

mod curve;
mod images;
mod task;

use crate::cache::Cache;
use crate::checkpoint::{Begin, Every, Store};
use crate::engine::{Progress, Trials};
use crate::file::DataSet;
use crate::outcome::{Cost, DataCard, Outcome, Summary, TrialError, Values};
use crate::plan::{ClassifierTraining, Training, Trial};
use curve::RoundAccuracy;
pub use curve::{AccuracyCurve, BestRound, StopReason};
use images::PreparedImages;
use rayon::prelude::*;
use sottovoce_core::Rng;
use sottovoce_federation::{
    Cohort, Coordinator, CriteriaScore, Disclosure, Federation, FederationError, Population, RobustAggregator,
    Schedule, SimulatedDevices, SimulatedFigures, Weighting,
};
use sottovoce_models::classifier::{Classifier, ClassifierServer, Criterion, Network, TrainConfig};
use sottovoce_models::federated::{Mean, MeanOver, erased};
use sottovoce_models::{ClientModel, Flow, Milestone, ServerModel, criteria};
use sottovoce_neural::{Arithmetic, NeuralError};
use sottovoce_protocol::{CriterionRequest, ModelSpec, Policy, TermsDraft};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
pub(crate) use task::name_of;
pub use task::{Aggregation, Classification, ImageData, ImageSource, Partition};

/// The figure of a trial that learning rates are compared by: the round after which half of the devices had reached the
/// last target.
pub(crate) const HALF_REACHED: &str = "half_reached_round";

/// Trains and evaluates image classifiers, on images that are loaded once.
pub struct Classifiers {
    data_dir: Option<PathBuf>,
    sets: Cache<PreparedImages>,
}

impl Classifiers {
    /// Looks up folders of images under `data_dir`.
    pub fn new(data_dir: Option<PathBuf>) -> Self {
        Self { data_dir, sets: Cache::default() }
    }

    fn prepared<'a>(&self, data: &'a DataSet) -> Result<(&'a ImageData, Arc<PreparedImages>), TrialError> {
        let DataSet::Images(spec) = data else { return Err(broken("not a data set of images")) };
        let images = self.sets.get(data, || PreparedImages::load(spec, self.data_dir.as_deref()))?;
        Ok((spec, images))
    }
}

impl Trials for Classifiers {
    fn describe(&self, data: &DataSet) -> Result<DataCard, TrialError> {
        let (spec, images) = self.prepared(data)?;
        Ok(DataCard { card: images.card(spec), ..DataCard::default() })
    }

    fn run(&self, trial: &Trial, progress: &Progress<'_>) -> Result<Outcome, TrialError> {
        let Training::Classifier(training) = &trial.training else {
            return Err(broken("not a classifier's trial"));
        };
        let (_, data) = self.prepared(&trial.data)?;
        let (shape, classes) = (data.images.shape(), data.images.classes());
        let network = Network::new(training.task.network, shape, classes, Arithmetic::Machine);
        let network = network.map_err(|error| broken(format!("the network does not suit the images: {error}")))?;
        let run = Run { training, data: &data, network, seed: trial.seed };
        let (curve, train_seconds) = run.train(progress)?;
        let last = training.task.targets.len().saturating_sub(1);
        let half = curve.round_of(last, 0.5, data.clients.len()).map(|round| (HALF_REACHED, round as f64));
        let figures = [
            ("rounds", curve.rounds() as f64),
            ("bytes_up", curve.bytes_up as f64),
            ("parameters", run.network.layout().len() as f64),
        ];
        let summary = Summary {
            epochs: curve.rounds(),
            figures: figures.into_iter().chain(half).map(|(name, value)| (name.to_owned(), value)).collect(),
            accuracy_curve: Some(curve),
            cost: Cost { train_seconds, ..Cost::default() },
            ..Summary::default()
        };
        Ok(Outcome { summary, values: Values::default() })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn broken(reason: impl ToString) -> TrialError {
    TrialError::Broken(reason.to_string())
}

/// One training.
struct Run<'a> {
    training: &'a ClassifierTraining,
    data: &'a PreparedImages,
    network: Network,
    seed: u64,
}

impl Run<'_> {
    /// Trains from the start or from the last checkpoint; the curve, and the seconds it took.
    fn train(&self, progress: &Progress<'_>) -> Result<(AccuracyCurve, f64), TrialError> {
        let task = &self.training.task;
        let every = Every::Rounds(task.checkpoint_every as u64);
        let mut store = Store::open(progress.checkpoints, BTreeMap::new(), every, Begin::Resume).map_err(broken)?;
        let mut federation = self.federation().map_err(broken)?;
        let (mut curve, before) = self.restore(&mut federation, &mut store)?;
        let started = Instant::now();
        let seconds = || before + started.elapsed().as_secs_f64();
        while curve.ending == StopReason::UnderWay {
            match federation.round() {
                Ok((participation, _)) => {
                    curve.bytes_up += participation.bytes;
                    let loss = participation.loss / participation.samples.max(1) as f64;
                    curve.add(&self.evaluate(&federation).map_err(broken)?, &task.targets, loss);
                    curve.ending = self.ending(&curve);
                }
                Err(FederationError::Diverged { what, .. }) => curve.ending = StopReason::Diverged(what),
                Err(error) => return Err(broken(error)),
            }
            let rounds = curve.rounds();
            let milestone = Milestone { epochs: 0, rounds: rounds as u64, epoch_over: false, last: false };
            if curve.ending == StopReason::UnderWay && store.every.due(&milestone) {
                let state = serde_json::to_vec(&(&curve, seconds())).map_err(broken)?;
                store.write(&milestone, &state, &mut |mut out| federation.save(&mut out)).map_err(broken)?;
            }
            let flow = (progress.report)(rounds, task.rounds, curve.accuracy.last().copied());
            if flow == Flow::Stop && curve.ending == StopReason::UnderWay {
                return Err(TrialError::Interrupted);
            }
        }
        Ok((curve, seconds()))
    }

    /// The curve so far and the seconds it took, with the federation as it was.
    fn restore(&self, federation: &mut Federation, store: &mut Store) -> Result<(AccuracyCurve, f64), TrialError> {
        let path = store.path().display().to_string();
        let unfit = |reason: String| broken(format!("{path}: {reason}; --fresh starts again"));
        let Some(mut found) = store.found.take() else {
            return Ok((AccuracyCurve::new(self.training.task.targets.len()), 0.0));
        };
        let state = serde_json::from_slice(&found.watch).map_err(|error| unfit(error.to_string()))?;
        federation.restore(&mut found.model).map_err(|error| unfit(error.to_string()))?;
        match found.model.read(&mut [0]) {
            Ok(0) => Ok(state),
            _ => Err(unfit("it holds more than this training has".to_owned())),
        }
    }

    fn ending(&self, curve: &AccuracyCurve) -> StopReason {
        let Classification { targets, devices, stop_at, rounds, .. } = &*self.training.task;
        let clients = self.data.clients.len();
        let reached = |target: usize| devices.iter().all(|&share| curve.round_of(target, share, clients).is_some());
        if stop_at.is_some_and(|accuracy| curve.round_of_accuracy(accuracy).is_some()) {
            StopReason::Accuracy
        } else if stop_at.is_none() && (0..targets.len()).all(reached) {
            StopReason::Targets
        } else if curve.rounds() >= *rounds {
            StopReason::Rounds
        } else {
            StopReason::UnderWay
        }
    }

    /// A federation of the clients, before its first round.
    fn federation(&self) -> Result<Federation, FederationError> {
        let ClassifierTraining { task, aggregation, .. } = self.training;
        let clients = &self.data.clients;
        let rng = Rng::new(self.seed).stream("classifier", 0);
        let client = erased(self.classifier());
        let shared = ClassifierServer::new(self.network.clone());
        let start = shared.init(self.data.images.len(), &mut rng.stream("shared", 0))?;
        let order = &aggregation.0;
        let disclosure = Disclosure::same(Policy::new(1.0)?, &rng).reporting(1.0, clients.len(), &rng);
        let devices = SimulatedDevices::new(client, clients.train.clone(), start.layout(), disclosure, &rng)
            .with_figures(self.figures(order));
        let asked = |criterion: &Criterion| {
            let name = criterion.asked_as();
            CriterionRequest { name: name.to_owned(), purpose: criteria::purpose(name).to_owned() }
        };
        let strategy = Box::new(Mean { learning_rate: 1.0, over: MeanOver::All });
        let cohort = Cohort::Fraction(task.client_fraction);
        let schedule = Schedule { cohort, triples: 1, rounds: 1, mean_history: 20, devices: clients.train.users() };
        let terms = TermsDraft {
            model: ModelSpec { name: "classifier".to_owned(), ..ModelSpec::default() },
            criteria: order.iter().map(asked).collect(),
            ..TermsDraft::default()
        };
        let weighting = Weighting::Criteria { score: CriteriaScore::Prioritised, count: order.len() };
        let aggregation = sottovoce_federation::Aggregation::new(RobustAggregator::None, weighting)?;
        let mut coordinator = Coordinator::new(strategy, start, terms, schedule.cohort, rng.stream("rounds", 0))
            .with_aggregation(aggregation)?;
        coordinator.ask_among(Population::of(&clients.train).devices);
        let baseline_loss = sottovoce_core::math::ln(self.data.images.classes() as f64);
        Ok(Federation::new(devices, coordinator, schedule, baseline_loss))
    }

    /// What runs on devices.
    fn classifier(&self) -> Classifier {
        let ClassifierTraining { task, learning_rate, .. } = self.training;
        let config = TrainConfig { epochs: task.epochs, batch: task.batch, learning_rate: *learning_rate };
        Classifier::new(self.network.clone(), self.data.images.clone(), config)
    }

    /// The criteria that devices can report before training.
    fn figures(&self, order: &[Criterion]) -> SimulatedFigures {
        let clients = &self.data.clients.train;
        order.iter().fold(SimulatedFigures::new(), |figures, criterion| {
            let values: Option<Vec<f64>> = clients.iter().map(|own| criterion.value(&self.data.images, own)).collect();
            values.map_or(figures.clone(), |values| figures.with(criterion.asked_as(), values))
        })
    }

    /// Evaluates the shared model on all devices' own test images.
    fn evaluate(&self, federation: &Federation) -> Result<RoundAccuracy, NeuralError> {
        let classifier = self.classifier();
        let parameters = classifier.prepare(federation.distributed());
        let test = &self.data.clients.test;
        let clients: Vec<usize> = (0..test.users()).collect();
        let chunk = clients.len().div_ceil(4 * rayon::current_num_threads()).max(1);
        let parts: Vec<Vec<Vec<bool>>> = clients
            .par_chunks(chunk)
            .map(|clients| {
                let mut scratch = classifier.scratch(0);
                let of = |&client: &usize| {
                    let mut right = vec![false; test.of(client).len()];
                    classifier.evaluate(&parameters, test.of(client), &mut scratch, |image, is| right[image] = is)?;
                    Ok(right)
                };
                clients.iter().map(of).collect::<Result<_, NeuralError>>()
            })
            .collect::<Result<_, _>>()?;
        let devices = parts.iter().flatten().map(|own| (own.len(), own.iter().filter(|&&is| is).count()));
        Ok(RoundAccuracy { devices: devices.collect(), right: parts.iter().flatten().flatten().copied().collect() })
    }
}
