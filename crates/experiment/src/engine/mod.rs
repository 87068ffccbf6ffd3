//! Running an experiment: every trial once, in any order, with one result.
//!
//! Rows are independent of each other; within a row, a grid is tried side by side and a search point by point (or
//! `at_once` at a time). Which trials are run is decided from recorded results alone, so neither the number of jobs nor
//! an interruption changes what comes out.

mod line;

use crate::file::{DataSet, Experiment};
use crate::journal::{Existing, Journal, JournalError, Recorded};
use crate::outcome::{DataCard, Outcome, TrialError};
use crate::plan::{self, Place, Trial};
use crate::results::Results;
use line::Step;
pub(crate) use line::{Candidate, Line, PassedOver};
use sottovoce_models::Flow;
use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Carries out trials.
pub trait Trials: Sync {
    /// Loads, cleans and splits a data set and says what it is.
    ///
    /// # Errors
    /// If the data set cannot be had.
    fn describe(&self, data: &DataSet) -> Result<DataCard, TrialError>;

    /// Trains and judges one model. The same trial gives the same outcome, cost aside.
    ///
    /// # Errors
    /// If the setting does not work, something else is wrong, or it was asked to stop.
    fn run(&self, trial: &Trial, observer: &Observer<'_>) -> Result<Outcome, TrialError>;
}

/// What happens while an experiment runs.
pub enum Event<'a> {
    /// The plan is made.
    Begun {
        /// Trials planned, at most.
        trials: usize,
        /// Those recorded by an earlier run.
        recorded: usize,
        /// Whether the journal's last line was torn and its trial runs again.
        torn: bool,
    },
    /// A trial starts.
    Started(&'a Trial),
    /// A trial has trained for another epoch.
    Epoch {
        /// The trial.
        trial: &'a Trial,
        /// Epochs done.
        epoch: usize,
        /// Epochs planned.
        epochs: usize,
    },
    /// A trial is finished and recorded.
    Finished {
        /// The trial.
        trial: &'a Trial,
        /// How it ended.
        outcome: &'a Recorded,
        /// Trials recorded by now.
        recorded: usize,
        /// Trials planned, at most.
        trials: usize,
    },
}

/// Lets a trial tell how far it is, and lets it know when to stop.
pub struct Observer<'a> {
    trial: &'a Trial,
    report: &'a (dyn Fn(Event<'_>) + Sync),
    stop: &'a AtomicBool,
}

impl Observer<'_> {
    /// To be called after each epoch; on [`Flow::Stop`] the trial should end with [`TrialError::Interrupted`].
    pub fn epoch(&self, epoch: usize, epochs: usize) -> Flow {
        (self.report)(Event::Epoch { trial: self.trial, epoch, epochs });
        if self.stop.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    }
}

/// How an experiment is run.
pub struct Options<'a> {
    /// The run folder.
    pub folder: &'a Path,
    /// What to do if it has a journal.
    pub existing: Existing,
    /// Trials that run side by side. One trial already uses all cores where its model can; more jobs help with many
    /// small trials, cost memory, and make times less comparable.
    pub jobs: usize,
    /// Set it (from a signal handler) to end the run after what is under way has stopped.
    pub stop: &'a AtomicBool,
    /// Is told what happens, from several threads.
    pub report: &'a (dyn Fn(Event<'_>) + Sync),
}

/// Why an experiment has no results.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run folder cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A data set cannot be had.
    #[error("data set {data}: {reason}")]
    Data {
        /// Its label.
        data: String,
        /// What is wrong.
        reason: String,
    },
    /// A trial could not be carried out.
    #[error("{trial}: {reason}")]
    Trial {
        /// The trial in words.
        trial: String,
        /// What is wrong.
        reason: String,
    },
    /// Settings that only fail in combination.
    #[error("{row}: {reason}")]
    Plan {
        /// The row's label.
        row: String,
        /// What is wrong.
        reason: String,
    },
    /// The run was asked to stop; the same command goes on from here.
    #[error("interrupted; run the same command again to go on from here")]
    Interrupted,
}

/// Runs an experiment, or what is left of it, and gathers the results.
///
/// # Errors
/// If the run folder, a data set or a trial cannot be used, or the run was interrupted. What was finished is kept.
pub fn run(experiment: &Experiment, trials: &dyn Trials, options: &Options<'_>) -> Result<Results, RunError> {
    let fingerprint = plan::fingerprint(experiment);
    let mut journal = Journal::open(options.folder, &experiment.title, &fingerprint, options.existing)?;
    let cards = describe(experiment, trials, &mut journal, options)?;
    let lines = Place::all(experiment).into_iter().map(|place| {
        let row = place.contender.label.clone();
        Line::new(place).map_err(|reason| RunError::Plan { row, reason })
    });
    let engine = Engine::new(journal, lines.collect::<Result<_, _>>()?, trials, options)?;
    let (journal, lines) = engine.work()?;
    Results::gather(experiment, &fingerprint, cards, &lines, &journal)
}

/// Looks at every data set first: better a missing one is found before hours of work than after.
fn describe(
    experiment: &Experiment,
    trials: &dyn Trials,
    journal: &mut Journal,
    options: &Options<'_>,
) -> Result<Vec<DataCard>, RunError> {
    let mut cards = Vec::new();
    for data in &experiment.data {
        if options.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let card = trials.describe(data).map_err(|error| match error {
            TrialError::Interrupted => RunError::Interrupted,
            other => RunError::Data { data: data.label.clone(), reason: other.to_string() },
        })?;
        journal.data(&plan::hash(data), &data.label, &card)?;
        cards.push(card);
    }
    Ok(cards)
}

struct Engine<'a> {
    state: Mutex<State>,
    changed: Condvar,
    trials: &'a dyn Trials,
    options: &'a Options<'a>,
    /// Trials planned, at most.
    planned: usize,
}

struct State {
    journal: Journal,
    lines: Vec<Line>,
    /// Trials that may start, by line and place in the line: the order in which one job takes them.
    ready: BTreeMap<(usize, usize), Trial>,
    running: HashSet<String>,
    error: Option<RunError>,
}

impl State {
    /// Asks every line what it needs, given what is recorded.
    fn refresh(&mut self) -> Result<(), RunError> {
        self.ready.clear();
        for (number, line) in self.lines.iter_mut().enumerate() {
            let row = line.place.contender.label.clone();
            let step = line.advance(&self.journal).map_err(|reason| RunError::Plan { row, reason })?;
            if let Step::Need(trials) = step {
                self.ready.extend(trials.into_iter().enumerate().map(|(at, trial)| ((number, at), trial)));
            }
        }
        Ok(())
    }

    /// The first trial that nobody runs.
    fn take(&mut self) -> Option<Trial> {
        let trial = self.ready.values().find(|trial| !self.running.contains(&trial.key))?.clone();
        self.running.insert(trial.key.clone());
        Some(trial)
    }

    fn recorded(&self) -> usize {
        self.lines.iter().map(|line| line.recorded(&self.journal)).sum()
    }
}

impl<'a> Engine<'a> {
    fn new(
        journal: Journal,
        lines: Vec<Line>,
        trials: &'a dyn Trials,
        options: &'a Options<'a>,
    ) -> Result<Self, RunError> {
        let planned = lines.iter().map(|line| line.place.trials()).sum();
        let torn = journal.torn;
        let mut state =
            State { journal, lines, ready: BTreeMap::new(), running: HashSet::new(), error: None };
        state.refresh()?;
        (options.report)(Event::Begun { trials: planned, recorded: state.recorded(), torn });
        Ok(Self { state: Mutex::new(state), changed: Condvar::new(), trials, options, planned })
    }

    /// Trials run on threads of their own, not in the pool that models share: a trial that waits for the pool must not
    /// be handed another trial to run meanwhile.
    fn work(self) -> Result<(Journal, Vec<Line>), RunError> {
        std::thread::scope(|scope| {
            for _ in 1..self.options.jobs.max(1) {
                scope.spawn(|| self.job());
            }
            self.job();
        });
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.error {
            Some(error) => Err(error),
            None if !state.ready.is_empty() => Err(RunError::Interrupted),
            None => Ok((state.journal, state.lines)),
        }
    }

    fn job(&self) {
        while let Some(trial) = self.next() {
            (self.options.report)(Event::Started(&trial));
            let observer = Observer { trial: &trial, report: self.options.report, stop: self.options.stop };
            let outcome = catch_unwind(AssertUnwindSafe(|| self.trials.run(&trial, &observer)))
                .unwrap_or_else(|panic| Err(TrialError::Broken(format!("panicked: {}", words(&*panic)))));
            self.finish(&trial, outcome);
        }
    }

    /// Waits for a trial to run; `None` when there is none any more.
    fn next(&self) -> Option<Trial> {
        let mut state = self.lock();
        loop {
            if state.error.is_some() || self.options.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(trial) = state.take() {
                return Some(trial);
            }
            if state.running.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, trial: &Trial, outcome: Result<Outcome, TrialError>) {
        let mut state = self.lock();
        state.running.remove(&trial.key);
        let told = self.record(&mut state, trial, outcome);
        if let Err(error) = told {
            state.error.get_or_insert(error);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn record(
        &self,
        state: &mut State,
        trial: &Trial,
        outcome: Result<Outcome, TrialError>,
    ) -> Result<(), RunError> {
        let outcome = match outcome {
            Ok(outcome) => Ok(outcome),
            Err(TrialError::Failed(reason)) => Err(reason),
            Err(TrialError::Interrupted) => return Err(RunError::Interrupted),
            Err(TrialError::Broken(reason)) => {
                return Err(RunError::Trial { trial: trial.describe(), reason });
            }
        };
        state.journal.record(&trial.key, &trial.describe(), outcome)?;
        state.refresh()?;
        if let Some(outcome) = state.journal.trial(&trial.key) {
            let recorded = state.recorded();
            (self.options.report)(Event::Finished { trial, outcome, recorded, trials: self.planned });
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
