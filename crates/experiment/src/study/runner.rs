//! Carries a study out.

use super::course::{Course, Ending, Judged};
use super::data::Prepared;
use super::results::{Results, Row, Tried};
use super::store::Store;
use super::{Aggregation, Configuration, Study};
use crate::journal::{Existing, JournalError};
use crate::plan::hash;
use rayon::prelude::*;
use sottovoce_core::Rng;
use sottovoce_data::images::ImageDataError;
use sottovoce_federation::{
    Cohort, Counting, Disclosure, Federation, FederationError, Guard, InProcess, Mean, Over, Plan,
    Population, Profile, Score, Setup, Weighing,
};
use sottovoce_models::classifier::{Classifier, ClassifierShared, Criterion, Network, Schooling};
use sottovoce_models::{DevicePart, SharedPart, criteria};
use sottovoce_neural::{Arithmetic, NeuralError};
use sottovoce_protocol::{CriterionRequest, ModelSpec, Policy, ValueEncoding};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use thiserror::Error;

/// How a study is run.
pub struct Options<'a> {
    /// The run folder.
    pub folder: &'a Path,
    /// What to do if it was begun before.
    pub existing: Existing,
    /// Configurations that run side by side; each uses as many cores as it has devices in a round.
    pub jobs: usize,
    /// Where bare names of data sets are looked up.
    pub data_dir: Option<&'a Path>,
    /// Set it (from a signal handler, say) to end the run after the rounds under way.
    pub stop: &'a AtomicBool,
    /// Is told what happens, from several threads.
    pub report: &'a (dyn Fn(Event<'_>) + Sync),
}

/// What happens while a study runs.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// So many configurations are next, of which so many were done before.
    Begun {
        /// Configurations.
        configurations: usize,
        /// Done before.
        recorded: usize,
    },
    /// A configuration has done another round.
    Round {
        /// Which.
        configuration: &'a Configuration,
        /// Rounds done.
        round: usize,
        /// The global accuracy.
        accuracy: f64,
    },
    /// A configuration is finished and written down.
    Finished {
        /// Which.
        configuration: &'a Configuration,
        /// What it was like.
        course: &'a Course,
    },
}

/// Why a study has no results.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The images cannot be had.
    #[error(transparent)]
    Images(#[from] ImageDataError),
    /// The run folder cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The network does not suit the images.
    #[error("the network does not suit the images: {0}")]
    Network(#[from] NeuralError),
    /// A configuration could not be carried out.
    #[error("{configuration}: {reason}")]
    Broken {
        /// Which.
        configuration: String,
        /// What happened.
        reason: String,
    },
    /// The run was asked to stop.
    #[error("stopped; the same command goes on from here")]
    Interrupted,
}

/// Runs what the run folder does not have yet, and gathers everything.
///
/// # Errors
/// If the images cannot be had, the folder cannot be used, or a configuration fails otherwise than by diverging.
pub fn run(study: &Study, options: &Options<'_>) -> Result<Results, StudyError> {
    let data = Prepared::load(&study.images, options.data_dir)?;
    let fingerprint = hash(&(study, &study.training.rates, &study.seeds, &study.aggregations));
    let store = Store::open(options.folder, &fingerprint, options.existing)?;
    let network = Network::new(
        study.training.network,
        data.images.shape(),
        data.images.classes(),
        Arithmetic::Machine,
    )?;
    let work = Work { study, data: &data, network, store, options, stop: AtomicBool::new(false) };
    let (rate, tried) = work.choose_rate()?;
    let configurations = work.configurations(rate);
    let courses = work.all(&configurations)?;
    let seeds = study.seeds.len();
    let rows = study.aggregations.iter().zip(courses.chunks(seeds));
    Ok(Results {
        title: study.title.clone(),
        data: data.card(&study.images),
        devices: data.clients.len(),
        targets: study.targets.clone(),
        shares: study.devices.clone(),
        rounds: study.rounds,
        parameters: work.network.layout().len(),
        seeds: study.seeds.clone(),
        rate,
        tried,
        rows: rows
            .map(|(label, courses)| Row { label: label.to_string(), courses: courses.to_vec() })
            .collect(),
    })
}

struct Work<'a> {
    study: &'a Study,
    data: &'a Prepared,
    network: Network,
    store: Store,
    options: &'a Options<'a>,
    stop: AtomicBool,
}

type Images = Federation<InProcess<Classifier>>;

impl Work<'_> {
    /// The rate with which the baseline is fastest, by the first seed.
    fn choose_rate(&self) -> Result<(f64, Vec<Tried>), StudyError> {
        let (rates, seed) = (&self.study.training.rates, self.study.seeds[0]);
        if let [rate] = rates[..] {
            return Ok((rate, Vec::new()));
        }
        let baseline = &self.study.aggregations[0];
        let of = |&rate: &f64| Configuration { aggregation: baseline.clone(), rate, seed };
        let courses = self.all(&rates.iter().map(of).collect::<Vec<_>>())?;
        let devices = self.data.clients.len();
        let tried: Vec<Tried> = rates
            .iter()
            .zip(&courses)
            .map(|(&rate, course)| Tried::of(rate, course, self.study, devices))
            .collect();
        Ok((Tried::best(&tried).unwrap_or(rates[0]), tried))
    }

    /// Seeds vary fastest.
    fn configurations(&self, rate: f64) -> Vec<Configuration> {
        let of = |aggregation: &Aggregation| {
            let aggregation = aggregation.clone();
            self.study.seeds.iter().map(move |&seed| Configuration {
                aggregation: aggregation.clone(),
                rate,
                seed,
            })
        };
        self.study.aggregations.iter().flat_map(of).collect()
    }

    /// The courses of these, in their order; the first failure ends all.
    fn all(&self, configurations: &[Configuration]) -> Result<Vec<Course>, StudyError> {
        let key = |configuration: &Configuration| configuration.key(self.study, &self.data.fingerprint);
        let mut known = Vec::new();
        for configuration in configurations {
            known.push(self.store.finished(&key(configuration))?);
        }
        let recorded = known.iter().flatten().count();
        (self.options.report)(Event::Begun { configurations: configurations.len(), recorded });
        let missing: Vec<usize> = (0..known.len()).filter(|&place| known[place].is_none()).collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        // Threads of their own and not the pool's: a worker that waits for its round's devices would take up another
        // configuration and come back to its own only when that is over.
        std::thread::scope(|scope| {
            for _ in 0..self.options.jobs.clamp(1, missing.len().max(1)) {
                scope.spawn(|| {
                    while let Some(&place) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let course = self.one(&configurations[place], &key(&configurations[place]));
                        if course.is_err() {
                            self.stop.store(true, Ordering::Relaxed);
                        }
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((place, course));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        // What went wrong is worth more than that others were stopped by it.
        done.sort_by_key(|(_, course)| matches!(course, Err(StudyError::Interrupted)));
        for (place, course) in done {
            known[place] = Some(course?);
        }
        known.into_iter().map(|course| course.ok_or(StudyError::Interrupted)).collect()
    }

    /// One training, from its start or its last checkpoint.
    fn one(&self, configuration: &Configuration, key: &str) -> Result<Course, StudyError> {
        let broken = |error: FederationError| StudyError::Broken {
            configuration: configuration.describe(),
            reason: error.to_string(),
        };
        let mut federation = self.found(configuration).map_err(broken)?;
        let mut course = self.take_up(&mut federation, key)?;
        let (before, started) = (course.seconds, Instant::now());
        while course.ending == Ending::UnderWay {
            if self.stop.load(Ordering::Relaxed) || self.options.stop.load(Ordering::Relaxed) {
                return Err(StudyError::Interrupted);
            }
            match federation.round() {
                Ok((attendance, _)) => {
                    course.bytes_up += attendance.bytes;
                    let loss = attendance.loss / attendance.samples.max(1) as f64;
                    course.add(&self.judge(&federation)?, &self.study.targets, loss);
                    course.ending = self.ending(&course);
                }
                Err(FederationError::Diverged { what, .. }) => course.ending = Ending::Diverged(what),
                Err(error) => return Err(broken(error)),
            }
            course.seconds = before + started.elapsed().as_secs_f64();
            let (round, accuracy) = (course.rounds(), course.accuracy.last().copied().unwrap_or(0.0));
            (self.options.report)(Event::Round { configuration, round, accuracy });
            if course.ending == Ending::UnderWay && round.is_multiple_of(self.study.checkpoint_every) {
                let mut state = Vec::new();
                federation.save(&mut state).map_err(|error| self.store.unfit(key, &error.to_string()))?;
                self.store.keep(key, &course, &state)?;
            }
        }
        self.store.finish(key, &course)?;
        (self.options.report)(Event::Finished { configuration, course: &course });
        Ok(course)
    }

    fn take_up(&self, federation: &mut Images, key: &str) -> Result<Course, StudyError> {
        let Some((course, state)) = self.store.begun(key)? else {
            return Ok(Course::new(self.study.targets.len()));
        };
        let mut from = &state[..];
        federation.restore(&mut from).map_err(|error| self.store.unfit(key, &error.to_string()))?;
        if from.is_empty() {
            Ok(course)
        } else {
            Err(self.store.unfit(key, "it holds more than this training has").into())
        }
    }

    fn ending(&self, course: &Course) -> Ending {
        let Study { targets, devices, stop_at, rounds, .. } = self.study;
        let people = self.data.clients.len();
        let there =
            |target: usize| devices.iter().all(|&share| course.round_of(target, share, people).is_some());
        if stop_at.is_some_and(|accuracy| course.round_of_accuracy(accuracy).is_some()) {
            Ending::Accuracy
        } else if stop_at.is_none() && (0..targets.len()).all(there) {
            Ending::Targets
        } else if course.rounds() >= *rounds {
            Ending::Rounds
        } else {
            Ending::UnderWay
        }
    }

    /// A federation of the clients, before its first round.
    fn found(&self, configuration: &Configuration) -> Result<Images, FederationError> {
        let (training, clients) = (&self.study.training, &self.data.clients);
        let rng = Rng::new(configuration.seed).stream("classifier", 0);
        let schooling =
            Schooling { epochs: training.epochs, batch: training.batch, rate: configuration.rate };
        let device = Classifier::new(self.network.clone(), self.data.images.clone(), schooling);
        let shared = ClassifierShared::new(self.network.clone());
        let start = shared.start(self.data.images.len(), &mut rng.stream("shared", 0))?;
        let order = &configuration.aggregation.0;
        let disclosure = Disclosure::same(Policy::new(1.0)?, &rng).reporting(1.0, clients.len(), &rng);
        let fleet = InProcess::new(device, clients.train.clone(), start.layout(), disclosure, &rng)
            .reporting(self.profile(order));
        let asked = |criterion: &Criterion| {
            let name = criterion.asked_as();
            CriterionRequest { name: name.to_owned(), purpose: criteria::why(name).to_owned() }
        };
        let population = Population::of(&clients.train);
        let setup = Setup {
            strategy: Box::new(Mean { rate: 1.0, over: Over::All }),
            plan: Plan { cohort: Cohort::Fraction(training.share), triples: 1, rounds: 1 },
            population,
            start,
            model: ModelSpec { name: "classifier".to_owned(), ..ModelSpec::default() },
            values: ValueEncoding::F32,
            samples: false,
            criteria: order.iter().map(asked).collect(),
            guessing_loss: sottovoce_core::math::ln(self.data.images.classes() as f64),
        };
        let weighing = Weighing::Criteria { score: Score::Prioritised, count: order.len() };
        let counting = Counting::new(Guard::None, weighing)?;
        Ok(Federation::new(fleet, setup, rng.stream("rounds", 0)).counting(counting))
    }

    /// What devices know of themselves before they train.
    fn profile(&self, order: &[Criterion]) -> Profile {
        let clients = &self.data.clients.train;
        order.iter().fold(Profile::new(), |profile, criterion| {
            let values: Option<Vec<f64>> =
                clients.iter().map(|own| criterion.value(&self.data.images, own)).collect();
            values.map_or(profile.clone(), |values| profile.with(criterion.asked_as(), values))
        })
    }

    /// All devices' own test images, looked at with the shared model.
    fn judge(&self, federation: &Images) -> Result<Judged, StudyError> {
        let device = federation.fleet().device();
        let parameters = device.prepare(federation.distributed());
        let test = &self.data.clients.test;
        let clients: Vec<usize> = (0..test.users()).collect();
        let few = clients.len().div_ceil(4 * rayon::current_num_threads()).max(1);
        let parts: Vec<Vec<Vec<bool>>> = clients
            .par_chunks(few)
            .map(|clients| {
                let mut working = device.scratch(0);
                let of = |&client: &usize| {
                    let mut right = vec![false; test.of(client).len()];
                    device
                        .judge(&parameters, test.of(client), &mut working, |place, is| right[place] = is)?;
                    Ok(right)
                };
                clients.iter().map(of).collect::<Result<_, NeuralError>>()
            })
            .collect::<Result<_, _>>()?;
        let devices = parts.iter().flatten().map(|own| (own.len(), own.iter().filter(|&&is| is).count()));
        Ok(Judged { devices: devices.collect(), right: parts.iter().flatten().flatten().copied().collect() })
    }
}
