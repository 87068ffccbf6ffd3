//! A federated model as a recommender that is trained in the simulator.
//!
//! A model's own file says what its halves are and how it plans its rounds ([`FederatedModel`]); everything else that
//! makes it a [`Recommender`] is here.

use crate::settings::Common;
use crate::state::unfit;
use crate::summaries;
use crate::tensors::{self, Part};
use crate::{
    EpochReport, Federation, FederationError, PrivacyEngine, HistoryFile, HistorySource, InProcess, Page, Schedule,
    Population, SimulatedFigures, Recorder, Setup, Strategy,
};
use sottovoce_core::{Catalog, Histories, Rng};
use sottovoce_evaluate::communication::tcc;
use sottovoce_models::settings::Settings;
use sottovoce_models::{
    ClientModel, Fit, Flow, Milestone, ModelError, Progress, Reason, Recommender, ServerModel, Summary, TrainInput,
    Tensor, stored,
};
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{Keyed, ModelSpec, Parameters, Trained};
use std::io::{self, Read};
use std::sync::Arc;

/// A recommender that can learn from histories that stay in a file.
pub trait Streaming: Recommender {
    /// Learns as [`Recommender::fit`] does, to the same bytes, and reads histories as they are needed.
    ///
    /// # Errors
    /// As [`Recommender::fit`], and if the file cannot be read or is damaged.
    fn fit_file(&mut self, histories: HistoryFile, fit: &mut Fit<'_>) -> Result<Summary, ModelError>;

    /// Scores for somebody with this history (items ascending, each once) whom the model does not know: a private model that
    /// begins anew and learns for so many lessons while the shared model is held still. It takes what everybody has who has
    /// the shared model, and nothing else.
    ///
    /// # Errors
    /// If the model was not fitted, or the history cannot be learnt from.
    fn score_newcomer(
        &self,
        history: &[u32],
        lessons: usize,
        rng: &Rng,
        into: &mut [f32],
    ) -> Result<(), ModelError>;
}

/// What a model adds to what all federated ones have.
pub(crate) trait FederatedModel: Send + Sync + Sized {
    /// The server's half.
    type Server: ServerModel;
    /// The device's half.
    type Client: ClientModel;

    /// The name in the registry; names the model's random stream too.
    const NAME: &'static str;

    /// Takes up what is known of the items, before anything else is asked; models that go by histories alone do not care.
    ///
    /// # Errors
    /// If the model goes by something that is not known.
    fn know(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        let _ = catalog;
        Ok(())
    }

    /// From checked settings.
    fn new(settings: &Settings) -> Self;

    /// Settings that all federated models have.
    fn common(&self) -> &Common;

    /// The server's half.
    fn shared(&self) -> Self::Server;

    /// How a population's epoch is partition into rounds.
    fn schedule(&self, population: &Population) -> Schedule;

    /// Samples that a device learns from in an epoch, as far as the settings say; `None` if that follows from histories, and
    /// 1 if it is all that there is to learn from, whatever that is.
    fn samples_a_device(&self) -> Option<usize> {
        Some(1)
    }

    /// The device's half; without a schedule one that scores but does not train.
    fn device(&self, schedule: Option<&Schedule>) -> Self::Client;

    /// The model as round terms name it, with everything that a device needs to know.
    fn spec(device: &Self::Client) -> ModelSpec;

    /// How updates become the next shared model, in a population of this many devices that learn.
    fn strategy(&self, devices: usize) -> Box<dyn Strategy>;

    /// Mean loss of a sample for a model that guesses, with a catalog of this size.
    fn baseline_loss(&self, items: usize) -> f64 {
        let _ = items;
        std::f64::consts::LN_2
    }

    /// Vectors that an epoch sends in a cohort of this size, as the papers count (CCE).
    fn vectors(&self, schedule: &Schedule, cohort: usize, items: usize) -> f64;

    /// The shared model as it is stored: all columns of all tables, by names other than [`USERS`].
    fn parts(&self) -> Vec<Part>;
}

/// A model by its settings, to be trained in the simulator.
pub(crate) fn build<M: FederatedModel + 'static>(settings: &Settings) -> Box<dyn Recommender> {
    Box::new(Simulated::new(M::new(settings)))
}

/// The same, to learn from a file.
pub(crate) fn streaming<M: FederatedModel + 'static>(settings: &Settings) -> Box<dyn Streaming> {
    Box::new(Simulated::new(M::new(settings)))
}

/// The same before the eyes of somebody who is disclosed what the server sees.
pub(crate) fn recorded<M: FederatedModel + 'static>(
    settings: &Settings,
    recorder: Arc<dyn Recorder>,
) -> Box<dyn Recommender> {
    Box::new(Simulated { recorder: Some(recorder), ..Simulated::new(M::new(settings)) })
}

/// The tensor of all private models.
const USERS: &str = "users";

/// A model, and what was learnt with it.
pub(crate) struct Simulated<M: FederatedModel> {
    model: M,
    /// For scores only.
    device: M::Client,
    learnt: Learnt<M::Client>,
    recorder: Option<Arc<dyn Recorder>>,
}

type Simulation<D> = Federation<InProcess<D>>;

/// Where the model is.
enum Learnt<D: ClientModel> {
    /// In training.
    Federation(Box<Simulation<D>>),
    /// At rest.
    Parts(Parts),
}

/// A model at rest.
#[derive(Default)]
struct Parts {
    /// Empty for an empty catalog.
    shared: Parameters,
    /// All private models.
    private: Vec<f32>,
    histories: HistorySource,
}

impl<M: FederatedModel> Simulated<M> {
    /// Before any training.
    pub(crate) fn new(model: M) -> Self {
        let device = model.device(None);
        Self { model, device, learnt: Learnt::Parts(Parts::default()), recorder: None }
    }

    fn shared(&self) -> &Parameters {
        match &self.learnt {
            Learnt::Federation(federation) => federation.distributed(),
            Learnt::Parts(parts) => &parts.shared,
        }
    }

    fn private(&self) -> &[f32] {
        match &self.learnt {
            Learnt::Federation(federation) => federation.fleet().private(),
            Learnt::Parts(parts) => &parts.private,
        }
    }

    fn histories(&self) -> &HistorySource {
        match &self.learnt {
            Learnt::Federation(federation) => federation.fleet().histories(),
            Learnt::Parts(parts) => &parts.histories,
        }
    }

    /// A person's private model and history.
    fn of<'a>(&'a self, user: usize, page: &'a mut Page) -> (&'a [f32], &'a [u32]) {
        let width = self.device.private_values();
        let history = self.histories().of(user, page).unwrap_or_else(|error| panic!("{error}"));
        (&self.private()[user * width..][..width], history)
    }

    /// A federation of these people, and the vectors that its epochs send.
    fn found(
        &self,
        train: HistorySource,
        people: Option<&Histories>,
        fit: &Fit<'_>,
    ) -> Result<(Simulation<M::Client>, f64), FederationError> {
        let (model, common) = (&self.model, self.model.common());
        let rng = Rng::new(fit.seed).stream(M::NAME, 0);
        let (users, items) = (train.users(), train.catalog_size());
        let lengths = train.lengths()?;
        let population = Population::of_lengths(&lengths, items);
        let devices = population.devices.clone();
        let schedule = model.schedule(&population);
        let cohort = schedule.cohort.size(devices.len());
        let vectors = model.vectors(&schedule, cohort, items);
        let rounds = (schedule.rounds * common.epochs) as u64;
        let start = model.shared().start(items, &mut rng.stream("shared", 0))?;
        let device = model.device(Some(&schedule));
        let asked = common.counting.asked()?;
        let (spec, disclosure) = (M::spec(&device), common.disclosure(users, &rng)?);
        let parts = disclosure.parts_histories() && !asked.is_empty();
        let disclosed = people.filter(|_| parts).map(|people| disclosure.disclosed(people)).transpose()?;
        let asked_for = asked.iter().map(|asked| asked.name.as_str());
        let profile = SimulatedFigures::of(asked_for, disclosed.as_ref().or(people), fit.catalog)?;
        let fleet = InProcess::new(device, train, start.layout(), disclosure, &rng)
            .with_device_profile(common.attending.profile()?, &rng)
            .reporting(profile)
            .with_recorder(self.recorder.clone());
        let (strategy, values) = (model.strategy(devices.len()), common.values);
        let (samples, criteria) = (common.counting.samples(), asked);
        let baseline_loss = model.baseline_loss(items);
        let setup = Setup {
            strategy,
            schedule,
            population,
            start,
            model: spec,
            values,
            samples,
            criteria,
            baseline_loss,
        };
        let federation = Federation::new(fleet, setup, rng.stream("rounds", 0));
        let generator = SecureRng::simulated(&rng, "privacy_engine", 0);
        let privacy_engine = common.privacy_engine((cohort, devices.len()), rounds, None, generator)?;
        check_bounds::<M>(federation.fleet().device(), privacy_engine.as_ref())?;
        let federation = federation
            .with_aggregation(common.counting.with_aggregation()?)
            .with_privacy(privacy_engine)?
            .with_downloads(common.downloads)?;
        Ok((common.attending.apply(federation, (&lengths, &devices), fit.watch.users())?, vectors))
    }

    /// Takes up what is known of the items.
    fn take_in(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        self.model.know(catalog)?;
        self.device = self.model.device(None);
        Ok(())
    }

    /// `people` are the histories with all that is known of them, if they are in memory.
    fn fit_from(
        &mut self,
        train: HistorySource,
        people: Option<&Histories>,
        fit: &mut Fit<'_>,
    ) -> Result<Summary, ModelError> {
        self.take_in(fit.catalog)?;
        if train.catalog_size() == 0 {
            let private = vec![0.0; train.users() * self.device.private_values()];
            self.learnt = Learnt::Parts(Parts { private, histories: train, ..Parts::default() });
            return Ok(Summary::default());
        }
        let (federation, vectors) = self.found(train, people, fit).map_err(|error| failure(error, 0, ""))?;
        self.learnt = Learnt::Federation(Box::new(federation));
        let summary = self.learn(vectors, fit);
        self.rest();
        summary
    }

    /// Ends training: keeps the model and lets the rest go.
    fn rest(&mut self) {
        let nothing = Learnt::Parts(Parts::default());
        self.learnt = match std::mem::replace(&mut self.learnt, nothing) {
            Learnt::Federation(federation) => {
                let (fleet, shared) = federation.into_parts();
                let (histories, private) = fleet.into_parts();
                Learnt::Parts(Parts { shared, private, histories })
            }
            rest => rest,
        };
    }

    /// Trains in `self.learnt`, so that the watch sees the model as it is.
    fn learn(&mut self, vectors: f64, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let epochs = self.model.common().epochs;
        let (mut summary, mut ended) = (self.take_up(fit)?, None);
        while summary.epochs < epochs {
            let Learnt::Federation(federation) = &mut self.learnt else { break };
            let epoch = summary.epochs + 1;
            let report = match federation.step(&mut ()) {
                Err(FederationError::Budget(why)) => {
                    ended = Some(why);
                    break;
                }
                step => step.map_err(|error| failure(error, epoch, &federation.advice()))?,
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
                self.keep(&summary, &milestone, fit)?;
            }
        }
        if let Learnt::Federation(federation) = &self.learnt {
            summary.turnout.rounds = federation.rounds();
            summary.privacy = federation.spent().map(|spent| spent.told(ended));
            let layout = federation.distributed().layout();
            let by_item = layout.shapes().iter().position(|shape| shape.keyed == Keyed::Items);
            summary.updates_by_item =
                by_item.map_or_else(Vec::new, |table| federation.row_updates().tables()[table].clone());
        }
        Ok(summary)
    }

    /// Goes back to where an interrupted training was kept, if it was.
    fn take_up(&mut self, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let (Learnt::Federation(federation), Some(mut from)) = (&mut self.learnt, fit.watch.resume()?) else {
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
        restore().map_err(|error: io::Error| {
            ModelError::Checkpoint(format!("the checkpoint does not fit: {error}"))
        })
    }

    fn keep(&self, summary: &Summary, milestone: &Milestone, fit: &mut Fit<'_>) -> Result<(), ModelError> {
        let Learnt::Federation(federation) = &self.learnt else { return Ok(()) };
        fit.watch.keep(milestone, &mut |out| {
            summaries::save(summary, out)?;
            federation.save(out)
        })
    }
}

/// Checks that a model can learn under the noise that is asked for.
pub(crate) fn check_bounds<M: FederatedModel>(
    device: &M::Client,
    privacy_engine: Option<&PrivacyEngine>,
) -> Result<(), FederationError> {
    let each = privacy_engine.and_then(|privacy_engine| privacy_engine.protection().per_example());
    if each.is_none() || device.bounds_interactions() {
        return Ok(());
    }
    Err(FederationError::Setting {
        key: "noise",
        found: "sgd".to_owned(),
        expected: format!(
            "central, local or distributed: {} does not learn by a sum over interactions alone, so that one could be bounded by itself",
            M::NAME
        ),
    })
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

fn failure(error: FederationError, epoch: usize, advice: &str) -> ModelError {
    match error {
        FederationError::Diverged { what, .. } => {
            ModelError::Diverged { epoch, advice: format!("{what}; {advice}") }
        }
        FederationError::File { .. } | FederationError::NoFile { .. } | FederationError::Histories(_) => {
            ModelError::File(error.to_string())
        }
        other => ModelError::Data(other.to_string()),
    }
}

impl<M: FederatedModel> Streaming for Simulated<M> {
    fn fit_file(&mut self, histories: HistoryFile, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.fit_from(histories.into(), None, fit)
    }

    fn score_newcomer(
        &self,
        history: &[u32],
        lessons: usize,
        rng: &Rng,
        into: &mut [f32],
    ) -> Result<(), ModelError> {
        let (shared, items) = (self.shared(), self.histories().catalog_size());
        if shared.tables().is_empty() || into.len() != items {
            return Err(ModelError::Data("a newcomer is scored by a model that was fitted".to_owned()));
        }
        let unlearnable = |error: &dyn std::fmt::Display| ModelError::Data(format!("a newcomer: {error}"));
        let lengths = self.histories().lengths().map_err(|error| unlearnable(&error))?;
        let device = self.model.device(Some(&self.model.schedule(&Population::of_lengths(&lengths, items))));
        let mut private = vec![0.0; device.private_values()];
        device.start(&mut private, &mut rng.stream("private", 0));
        let (prepared, mut scratch) = (device.prepare(shared), device.scratch(items));
        for stats in 0..lessons as u64 {
            let mut trained = Trained::new(&shared.layout());
            let task = TrainInput { shared, prepared: &prepared, private: &mut private, history, hidden: &[] };
            let mut rng = rng.stream("stats", stats);
            device.train(task, &mut scratch, &mut rng, &mut trained).map_err(|error| unlearnable(&error))?;
        }
        device.score(shared, &private, history, into);
        Ok(())
    }
}

impl<M: FederatedModel> Recommender for Simulated<M> {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.fit_from(train.deduplicated().into(), Some(train), fit)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        let mut page = Page::default();
        let (private, history) = self.of(user, &mut page);
        self.device.score(self.shared(), private, history, into);
    }

    fn reasons(&self, user: usize, item: u32) -> Vec<Reason> {
        let mut page = Page::default();
        let (private, history) = self.of(user, &mut page);
        self.device.reasons(self.shared(), private, history, item)
    }

    fn know(&mut self, catalog: &Catalog) -> Result<(), ModelError> {
        self.take_in(Some(catalog))
    }

    fn tensors(&self) -> Vec<Tensor> {
        let (width, private) = (self.device.private_values(), self.private());
        let users = stored::floats(USERS, [private.len() / width, width], private.to_vec());
        let parts = self.model.parts();
        std::iter::once(users).chain(parts.iter().map(|part| part.store(self.shared()))).collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let (width, items) = (self.device.private_values(), train.catalog_size());
        let private = stored::take_floats(tensors, USERS, &[train.users(), width])?.to_vec();
        let layout = (items > 0).then(|| self.model.shared().layout(items)).transpose();
        let layout = layout.map_err(|error| ModelError::Restore(error.to_string()))?;
        let shared = tensors::restore(&self.model.parts(), tensors, layout.as_ref())?;
        self.learnt = Learnt::Parts(Parts { shared, private, histories: train.deduplicated().into() });
        Ok(())
    }
}
