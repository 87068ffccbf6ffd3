//! A federated model as a recommender that is trained in the simulator.

use crate::config::FederationConfig;
use crate::privacy::{PrivacyAccountant, SealKeys};
use crate::state::unfit;
use crate::summaries;
use crate::{
    Coordinator, Delivery, EpochReport, Federation, FederationError, HistoryFile, HistoryFileError, HistorySource,
    Page, Population, PrivacyEngine, Recorder, SimulatedDevices, SimulatedFigures, strategy,
};
use sottovoce_client::{check_decoys, streams};
use sottovoce_core::{Catalog, Histories, History, Rng};
use sottovoce_evaluate::communication::tcc;
use sottovoce_models::federated::{DynClient, DynModel, Entry, EpochTraffic, ModelInfo};
use sottovoce_models::settings::{Config, Settings};
use sottovoce_models::{
    DeviceFootprint, Fit, Flow, Milestone, ModelError, Privacy, Progress, Reason, ReasonKind, Recommender, Summary,
    Tensor, TrainInput, stored,
};
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{Keyed, Parameters, TermsDraft, Trained};
use std::io::{self, Read};
use std::sync::Arc;

/// The tensor of all private models.
const USERS: &str = "users";

/// A federated model with simulated devices. It trains as any [`Recommender`] does, or from histories that stay in a
/// file.
pub struct Simulation {
    info: ModelInfo,
    model: DynModel,
    config: FederationConfig,
    /// For scores only.
    client: DynClient,
    state: State,
    recorder: Option<Arc<dyn Recorder>>,
    delivery: Delivery,
    /// Of the last training.
    footprint: Option<DeviceFootprint>,
    pub(crate) choosing: Choosing,
}

/// What a choice between candidates gives a training, and takes from it.
#[derive(Default)]
pub(crate) struct Choosing {
    /// What earlier trainings of the same people spent of differential privacy.
    pub(crate) earlier: Option<PrivacyAccountant>,
    /// After training: the same with what it spent.
    pub(crate) spent: Option<PrivacyAccountant>,
    /// Private models to begin with.
    pub(crate) private: Option<Vec<f32>>,
    /// Models that differ in how the last round's sums are read.
    pub(crate) variants: Vec<DynModel>,
    /// After training: the shared model of each.
    pub(crate) read: Vec<Parameters>,
    /// After training: deviation of the noise on the last round's sums.
    pub(crate) noise: f64,
}

/// Where the model is.
enum State {
    /// In training.
    Training(Box<Federation>),
    /// At rest.
    Trained(TrainedModel),
}

/// A model at rest.
#[derive(Default)]
struct TrainedModel {
    /// Empty for an empty catalog.
    shared: Parameters,
    /// All private models.
    private: Vec<f32>,
    histories: HistorySource,
}

impl Simulation {
    /// Before any training, with checked settings.
    pub fn new(entry: &Entry, settings: &Settings) -> Self {
        let model = entry.configure(settings);
        let (client, config) = (model.client(None), FederationConfig::read(settings));
        let state = State::Trained(TrainedModel::default());
        let (recorder, delivery, footprint, choosing) = Default::default();
        Self { info: entry.info, model, config, client, state, recorder, delivery, footprint, choosing }
    }

    /// The same with a recorder that is shown what the server sees.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// The same with another way in which models and updates travel; the result is the same.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Fills in what was left to rules; `earlier` is a stored model, whose sizes stay.
    fn fit_to(&mut self, population: &Population, items: usize, earlier: &[Tensor]) {
        self.model = self.config.fitted(&self.model, population, items, None, earlier);
        self.client = self.model.client(None);
    }

    /// Everyone's items, each once, with their sequences where the model goes by them.
    fn histories(&self, people: &Histories) -> HistorySource {
        match self.model.is_sequential() {
            true => people.clone().with_sequences().into(),
            false => people.deduplicated().into(),
        }
    }

    /// The shared model, all private models, and everyone's history.
    pub(crate) fn parts(&self) -> (&Parameters, &[f32], &HistorySource) {
        match &self.state {
            State::Training(federation) => {
                let devices = federation.devices();
                (federation.distributed(), devices.private(), &devices.histories)
            }
            State::Trained(model) => (&model.shared, &model.private, &model.histories),
        }
    }

    /// After training: the client and the shared model of each variant; the model's own where there are none.
    pub(crate) fn candidates(&self) -> Vec<(DynClient, &Parameters)> {
        let Choosing { variants, read, .. } = &self.choosing;
        if read.len() != variants.len() || read.is_empty() {
            return vec![(self.client.clone(), self.parts().0)];
        }
        let public = self.parts().2.lengths().map(|lengths| (Population::of_lengths(&lengths, self.items()), lengths));
        let client = |variant: &DynModel| match &public {
            Ok((population, _)) => self.config.fitted(variant, population, self.items(), None, &[]).client(None),
            Err(_) => variant.client(None),
        };
        variants.iter().map(client).zip(read).collect()
    }

    fn items(&self) -> usize {
        self.parts().2.catalog_size()
    }

    /// The shared model, and a user's private model and history.
    fn of<'a>(&'a self, user: usize, page: &'a mut Page) -> (&'a Parameters, &'a [f32], History<'a>) {
        let (width, (shared, private, histories)) = (self.client.private_values(), self.parts());
        let history = histories.of(user, page).unwrap_or_else(|error| panic!("{error}"));
        (shared, &private[user * width..][..width], history)
    }

    /// A federation of these people, and the vectors that its epochs send.
    fn federation(
        &self,
        train: HistorySource,
        people: Option<&Histories>,
        fit: &Fit<'_>,
    ) -> Result<(Federation, f64), FederationError> {
        let Self { model, config, .. } = self;
        let root = streams::root(fit.seed, self.info.name);
        let (users, items) = (train.users(), train.catalog_size());
        let lengths = train.lengths()?;
        let population = Population::of_lengths(&lengths, items);
        let schedule = model.schedule(config.cohort(), &population);
        let population_of_all = population.clone();
        let devices = population.devices;
        let cohort = schedule.cohort.size(devices.len());
        let features = model.features().features();
        let traffic = EpochTraffic { schedule, cohort, items, features, pi: config.owners.pi };
        let rounds = (schedule.rounds * config.epochs) as u64;
        let mut start = model.server().init(items, &mut root.stream(streams::SHARED, 0))?;
        if let Some(tensors) = fit.start {
            let slices = model.server().tensors();
            let fits = slices.iter().try_for_each(|slice| match fit.start_items {
                Some(items) => slice.restore_items(tensors, items, &mut start),
                None => slice.restore(tensors, &mut start),
            });
            fits.map_err(|error| FederationError::Start(error.to_string()))?;
        }
        let client = model.client(Some(&schedule));
        let criteria = config.aggregation.requests()?;
        let disclosure = config.disclosure(users, &root)?;
        check_decoys(&disclosure.policy(), &model.spec(&schedule))
            .map_err(|why| FederationError::Combination(why.to_string()))?;
        let withholds = disclosure.withholds_items() && !criteria.is_empty();
        let disclosed =
            people.filter(|_| withholds).map(|people| disclosure.disclosed_histories(people)).transpose()?;
        let names = criteria.iter().map(|request| request.name.as_str());
        let figures = SimulatedFigures::of(names, disclosed.as_ref().or(people), fit.catalog)?;
        let profile = config.participation.device_profile()?;
        let engine = config.privacy_engine(
            model,
            (cohort, devices.len()),
            rounds,
            &SealKeys::default(),
            SecureRng::simulated(&root, streams::PRIVACY_ENGINE, 0),
        )?;
        check_dp_sgd(self.info.name, &client, engine.as_ref())?;
        check_seal(self.info.name, &client, engine.as_ref())?;
        let simulated = SimulatedDevices::new(client, train, start.layout(), disclosure, &root)
            .with_delivery(self.delivery)
            .with_device_profile(profile)
            .with_figures(figures)
            .with_private(self.choosing.private.clone())
            .with_recorder(self.recorder.clone());
        let samples = config.aggregation.asks_samples();
        let (model_spec, values) = (model.spec(&schedule), config.values);
        let terms = TermsDraft { model: model_spec, values, samples, criteria, ..TermsDraft::default() };
        let strategy = strategy::build(model.aggregation(&schedule, devices.len()));
        let coordinator = Coordinator::new(strategy, start, terms, schedule.cohort, root.stream(streams::ROUNDS, 0))
            .stopping_at(model.largest_value())
            .asking_once(model.asks_once_an_epoch(), schedule.rounds, model.passes());
        let of_variant = |variant: &DynModel| {
            config.fitted(variant, &population_of_all, items, None, &[]).aggregation(&schedule, devices.len())
        };
        let readouts = self.choosing.variants.iter().map(of_variant).collect();
        let engine = engine.map(|engine| engine.after(self.choosing.earlier.as_ref()));
        let mut coordinator = config.configured(coordinator, engine)?.with_readouts(readouts);
        coordinator.ask_among(devices.clone());
        let coordinator = config.participation.apply(coordinator, (&lengths, &devices), fit.watch.users())?;
        let federation = Federation::new(simulated, coordinator, schedule, model.baseline_loss(items));
        Ok((federation, model.vectors_per_epoch(&traffic)))
    }

    /// Sets the facts of a catalog.
    fn set_features(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        self.model.set_features(catalog)?;
        self.client = self.model.client(None);
        Ok(())
    }

    /// `people` are the histories with all that is known of them, if they are in memory.
    fn fit_from(
        &mut self,
        train: HistorySource,
        people: Option<&Histories>,
        fit: &mut Fit<'_>,
    ) -> Result<Summary, ModelError> {
        self.set_features(fit.catalog)?;
        if train.catalog_size() == 0 {
            let private = vec![0.0; train.users() * self.client.private_values()];
            self.state = State::Trained(TrainedModel { private, histories: train, ..TrainedModel::default() });
            return Ok(Summary::default());
        }
        let lengths = train.lengths().map_err(|error| failure(error.into(), 0, ""))?;
        let (items, earlier) = (train.catalog_size(), fit.start.unwrap_or_default());
        self.fit_to(&Population::of_lengths(&lengths, items), items, earlier);
        let (federation, vectors) = self.federation(train, people, fit).map_err(|error| failure(error, 0, ""))?;
        self.state = State::Training(Box::new(federation));
        let summary = self.train(vectors, fit);
        self.finish_training();
        summary
    }

    /// Ends training: keeps the model only.
    fn finish_training(&mut self) {
        let nothing = State::Trained(TrainedModel::default());
        self.state = match std::mem::replace(&mut self.state, nothing) {
            State::Training(mut federation) => {
                (self.choosing.read, self.choosing.noise) = federation.coordinator.read();
                let engine = federation.coordinator.privacy_engine.as_ref();
                self.choosing.spent = engine.and_then(|engine| engine.accountant.clone());
                let (devices, shared) = federation.into_parts();
                self.footprint = Some(devices.footprint());
                let (histories, private) = devices.into_parts();
                State::Trained(TrainedModel { shared, private, histories })
            }
            trained => trained,
        };
    }

    /// Trains in place, so that the watch sees the model as it is.
    fn train(&mut self, vectors: f64, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let epochs = self.config.epochs;
        let (mut summary, mut ended) = (self.resume(fit)?, None);
        while summary.epochs < epochs {
            let State::Training(federation) = &mut self.state else { break };
            let epoch = summary.epochs + 1;
            let report = match federation.step() {
                Err(FederationError::Budget(why)) => {
                    ended = Some(why);
                    break;
                }
                step => step.map_err(|error| failure(error, epoch, &federation.coordinator().advice()))?,
            };
            let rounds = federation.rounds();
            if let Some(report) = report {
                count(&mut summary, &report, epoch, vectors);
                summary.turnout.rounds = rounds;
                fit.watch.after_rounds(&summary);
                let progress = Progress { epoch, epochs, loss: report.loss(), model: &*self };
                if fit.watch.after_epoch(&progress) == Flow::Stop {
                    break;
                }
            }
            let (epochs_done, last) = (summary.epochs, summary.epochs == epochs);
            let milestone = Milestone { epochs: epochs_done, rounds, epoch_over: report.is_some(), last };
            if fit.watch.due(&milestone) {
                self.save_checkpoint(&summary, &milestone, fit)?;
            }
        }
        if let State::Training(federation) = &self.state {
            summary.turnout.rounds = federation.rounds();
            summary.privacy = federation.coordinator().privacy_spent().map(|spent| Privacy { ended, ..spent });
            summary.clusters = federation.coordinator().clusters().cloned();
            let layout = federation.distributed().layout();
            let by_item = layout.shapes().iter().position(|shape| shape.keyed == Keyed::Items);
            summary.updates_by_item =
                by_item.map_or_else(Vec::new, |table| federation.row_updates().tables()[table].clone());
        }
        Ok(summary)
    }

    /// Restores the checkpoint of an interrupted training, if there is one.
    fn resume(&mut self, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let (State::Training(federation), Some(mut from)) = (&mut self.state, fit.watch.resume()?) else {
            return Ok(Summary::default());
        };
        let mut restore = || {
            let summary = summaries::restore(&mut from)?;
            federation.restore(&mut from)?;
            match from.read(&mut [0])? {
                0 => Ok(summary),
                _ => Err(unfit("it holds more than this training has")),
            }
        };
        restore().map_err(|error: io::Error| ModelError::Checkpoint(format!("the checkpoint does not fit: {error}")))
    }

    fn save_checkpoint(&self, summary: &Summary, milestone: &Milestone, fit: &mut Fit<'_>) -> Result<(), ModelError> {
        let State::Training(federation) = &self.state else { return Ok(()) };
        fit.watch.keep(milestone, &mut |out| {
            summaries::save(summary, out)?;
            federation.save(out)
        })
    }
}

/// The items of a sequence, ascending, each once.
fn ascending(sequence: &[u32]) -> Vec<u32> {
    let mut items = sequence.to_vec();
    items.sort_unstable();
    items.dedup();
    items
}

/// Checks that a model supports DP-SGD, where the settings ask for it.
pub(crate) fn check_dp_sgd(
    name: &str,
    client: &DynClient,
    engine: Option<&PrivacyEngine>,
) -> Result<(), FederationError> {
    let per_example = engine.and_then(|engine| engine.config().per_example());
    if per_example.is_none() || client.supports_dp_sgd() {
        return Ok(());
    }
    let expected = format!(
        "central, local or distributed: the gradient of {name} is not a sum over interactions, so that single ones cannot be clipped"
    );
    Err(FederationError::setting("noise", "sgd", expected))
}

/// Checks that updates are sealed, where a single one would be the history itself.
pub(crate) fn check_seal(
    name: &str,
    client: &DynClient,
    engine: Option<&PrivacyEngine>,
) -> Result<(), FederationError> {
    if !client.needs_seal() || engine.is_some_and(|engine| engine.config().seal.is_some()) {
        return Ok(());
    }
    let expected = format!(
        "secagg, keeper, bfv or ckks: an update of {name} is the whole history, and devices decline to send it in the \
         open"
    );
    Err(FederationError::setting("seal", "none", expected))
}

fn count(summary: &mut Summary, report: &EpochReport, epoch: usize, vectors: f64) {
    summary.epochs = epoch;
    summary.triples += report.participation.samples;
    summary.traffic.down += report.down;
    summary.traffic.up += report.participation.bytes;
    summary.traffic.vectors = tcc(vectors, epoch);
    let (turnout, participation) = (&mut summary.turnout, &report.participation);
    turnout.asked += participation.asked;
    turnout.unavailable += participation.unavailable;
    turnout.dropped += participation.dropped;
    turnout.late += participation.late;
    turnout.received += participation.received();
    turnout.seconds += participation.seconds;
}

pub(crate) fn failure(error: FederationError, epoch: usize, advice: &str) -> ModelError {
    match error {
        FederationError::Diverged { what, .. } => ModelError::Diverged { epoch, advice: format!("{what}; {advice}") },
        FederationError::File(_) | FederationError::Histories(_) => ModelError::File(error.to_string()),
        other => ModelError::Data(other.to_string()),
    }
}

impl Simulation {
    /// Trains as [`Recommender::fit`] does, to the same bytes, and reads histories as they are needed.
    ///
    /// # Errors
    /// As [`Recommender::fit`], and if the file cannot be read or is damaged.
    pub fn fit_file(&mut self, histories: HistoryFile, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.fit_from(histories.into(), None, fit)
    }

    /// Adapts a user's private model to a sequence that has grown since the last round, as a device does that takes new
    /// interactions; returns whether it did. For a model at rest.
    pub fn adapt(&mut self, user: usize, sequence: &[u32], rng: &mut Rng) -> bool {
        let State::Trained(TrainedModel { private, histories, .. }) = &mut self.state else { return false };
        let (width, items) = (self.client.private_values(), ascending(sequence));
        let history = History { sequence, ..(&items).into() };
        self.client.adapt(&mut private[user * width..][..width], history, histories.catalog_size(), rng)
    }

    /// The client as it trains, with what follows from the population.
    fn scheduled_client(&self) -> Result<DynClient, HistoryFileError> {
        let (_, _, histories) = self.parts();
        let population = Population::of_lengths(&histories.lengths()?, histories.catalog_size());
        Ok(self.model.client(Some(&self.model.schedule(self.config.cohort(), &population))))
    }

    /// Scores for a user with this history (items ascending, each once) who was not in training: a new private model is
    /// trained for so many rounds while the shared model is frozen. Anybody who has the shared model can do this.
    ///
    /// # Errors
    /// If the model was not fitted, or there is nothing to train on.
    pub fn train_newcomer(
        &self,
        history: History<'_>,
        rounds: usize,
        rng: &Rng,
        into: &mut [f32],
    ) -> Result<(), ModelError> {
        let (shared, _, histories) = self.parts();
        let items = histories.catalog_size();
        if shared.tables().is_empty() || into.len() != items {
            return Err(ModelError::Data("a newcomer is scored by a model that was fitted".to_owned()));
        }
        let failed = |error: &dyn std::fmt::Display| ModelError::Data(format!("a newcomer: {error}"));
        let client = self.scheduled_client().map_err(|error| failed(&error))?;
        let mut private = vec![0.0; client.private_values()];
        client.init_private(&mut private, &mut rng.stream(streams::PRIVATE, 0));
        let (prepared, mut scratch) = (client.prepare(shared), client.scratch(items));
        for round in 0..rounds as u64 {
            let mut trained = Trained::new(&shared.layout());
            let input = TrainInput { shared, prepared: &prepared, private: &mut private, history, hidden: &[] };
            let mut rng = rng.stream(streams::NEWCOMER, round);
            client.train(input, &mut scratch, &mut rng, &mut trained).map_err(|error| failed(&error))?;
        }
        client.score(shared, &private, history, into);
        Ok(())
    }
}

impl Recommender for Simulation {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.fit_from(self.histories(train), Some(train), fit)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        let mut page = Page::default();
        let (shared, private, history) = self.of(user, &mut page);
        self.client.score(shared, private, history, into);
    }

    fn score_after(&self, user: usize, history: History<'_>, into: &mut [f32]) {
        if !self.model.is_sequential() {
            return self.score(user, into);
        }
        let items = ascending(history.items);
        let history = History { items: &items, sequence: history.items, ..history };
        let mut page = Page::default();
        let (shared, private, _) = self.of(user, &mut page);
        self.client.score(shared, private, history, into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        let needs_only_history = self.client.private_values() == 0;
        if needs_only_history {
            self.client.score(self.parts().0, &[], history, into);
        }
        needs_only_history
    }

    fn footprint(&self) -> Option<DeviceFootprint> {
        self.footprint
    }

    fn is_calibrated(&self) -> bool {
        self.client.is_calibrated()
    }

    fn reason_kind(&self) -> ReasonKind {
        self.client.reason_kind()
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let mut page = Page::default();
        let (shared, private, history) = self.of(user, &mut page);
        let client = self.scheduled_client().unwrap_or_else(|error| panic!("{error}"));
        client.explain(shared, private, history, items)
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.set_features(Some(catalog))
    }

    fn tensors(&self) -> Vec<Tensor> {
        let (width, (shared, private, _)) = (self.client.private_values(), self.parts());
        let users = private.len().checked_div(width).unwrap_or_else(|| self.parts().2.users());
        let users = stored::floats(USERS, [users, width], private.to_vec());
        let slices = self.model.server().tensors();
        std::iter::once(users).chain(slices.iter().map(|slice| slice.store(shared))).collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let (width, items) = (self.client.private_values(), train.catalog_size());
        let lengths: Vec<u32> =
            self.histories(train).lengths().map_err(|error| ModelError::Restore(error.to_string()))?;
        self.fit_to(&Population::of_lengths(&lengths, items), items, tensors);
        let private = stored::take_floats(tensors, USERS, &[train.users(), width])?.to_vec();
        let layout = (items > 0).then(|| self.model.server().layout(items)).transpose();
        let layout = layout.map_err(|error| ModelError::Restore(error.to_string()))?;
        let mut shared = layout.as_ref().map_or_else(Parameters::default, Parameters::zeros);
        self.model.server().tensors().iter().try_for_each(|slice| slice.restore(tensors, &mut shared))?;
        self.state = State::Trained(TrainedModel { shared, private, histories: self.histories(train) });
        Ok(())
    }
}
