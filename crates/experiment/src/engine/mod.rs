//! Runs an experiment: every trial once, in any order, with one result.
//!
//! Rows are independent of each other; within a row, a grid is tried in parallel and a search point by point (or
//! `at_once` at a time). Which trials are run is decided from recorded results alone, so neither the number of jobs nor
//! an interruption changes the results.

mod row;

use crate::file::{DataSet, Experiment, RowSpec};
use crate::journal::{self, Existing, FolderError, Journal, Recorded};
use crate::outcome::{DataCard, Outcome, TrialError};
use crate::plan::{self, RowPlan, Trial};
use crate::results::Results;
use crate::training::cohort_note;
pub(crate) use row::{Candidate, RowProgress};
use sottovoce_models::Flow;
use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Carries out the trials of one kind of learner.
pub trait Trials: Sync {
    /// Loads, cleans and splits a data set and describes it.
    ///
    /// # Errors
    /// If the data set cannot be read.
    fn describe(&self, data: &DataSet) -> Result<DataCard, TrialError>;

    /// Trains and evaluates one model. The same trial gives the same outcome, cost aside.
    ///
    /// # Errors
    /// If the setting does not work, something else is wrong, or it was told to stop.
    fn run(&self, trial: &Trial, progress: &Progress<'_>) -> Result<Outcome, TrialError>;
}

/// What a running trial reports to, and where it may keep checkpoints.
pub struct Progress<'a> {
    /// To be called after each epoch or round with those done, those planned and a value to show. On [`Flow::Stop`] the
    /// trial should end with [`TrialError::Interrupted`].
    pub report: &'a dyn Fn(usize, usize, Option<f64>) -> Flow,
    /// A folder for the trial's checkpoints; it is removed when the trial is recorded.
    pub checkpoints: &'a Path,
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
    /// A data set is read.
    Data {
        /// Its name.
        label: String,
        /// What to know about how it was read: columns, units, what was left out.
        notes: &'a [String],
    },
    /// A trial starts.
    Started(&'a Trial),
    /// A trial has trained for another epoch, or for another round if it trains a classifier.
    Progress {
        /// The trial.
        trial: &'a Trial,
        /// Epochs or rounds done.
        done: usize,
        /// Epochs or rounds planned.
        planned: usize,
        /// The accuracy after a round.
        value: Option<f64>,
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

/// How an experiment is run.
pub struct Options<'a> {
    /// The run folder.
    pub folder: &'a Path,
    /// What to do if it has a journal.
    pub existing: Existing,
    /// Trials that run in parallel. One trial already uses all cores where its model can; more jobs help with many
    /// small trials, cost memory, and make times less comparable.
    pub jobs: usize,
    /// Set it (from a signal handler) to end the run after what is under way has stopped.
    pub stop: &'a AtomicBool,
    /// Called with each event, from several threads.
    pub report: &'a (dyn Fn(Event<'_>) + Sync),
}

impl<'a> Options<'a> {
    /// One trial at a time, resuming what is in the folder, without reporting.
    pub fn new(folder: &'a Path) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { folder, existing: Existing::Resume, jobs: 1, stop: &NEVER, report: &|_| {} }
    }
}

/// Why an experiment has no results.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run folder cannot be used.
    #[error(transparent)]
    Journal(#[from] FolderError),
    /// A data set cannot be read, a trial could not be carried out, or the settings of a row fail in combination:
    /// which, and what is wrong.
    #[error("{0}: {1}")]
    Failed(String, String),
    /// The run was told to stop.
    #[error("interrupted; run the same command again to resume")]
    Interrupted,
}

/// Runs an experiment, or what is left of it, and collects the results.
///
/// # Errors
/// If the run folder, a data set or a trial cannot be used, or the run was interrupted. What was finished is kept.
pub fn run(experiment: &Experiment, trials: &dyn Trials, options: &Options<'_>) -> Result<Results, RunError> {
    let fingerprint = plan::fingerprint(experiment);
    let mut journal = Journal::open(options.folder, &experiment.about.title, &fingerprint, options.existing)?;
    let cards = describe(experiment, trials, &mut journal, options)?;
    let rows = RowPlan::all(experiment).into_iter().map(|plan| {
        let row = plan.spec.label.clone();
        RowProgress::new(plan).map_err(|reason| RunError::Failed(row, reason))
    });
    let engine = Engine::new(journal, rows.collect::<Result<_, _>>()?, trials, options)?;
    let (journal, rows) = engine.work()?;
    Results::collect(experiment, &fingerprint, cards, &rows, &journal)
}

/// Describes every data set first, so that a missing one is found before hours of work and not after.
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
        let mut card = trials.describe(data).map_err(|error| match error {
            TrialError::Interrupted => RunError::Interrupted,
            other => RunError::Failed(format!("data set {}", data.label()), other.to_string()),
        })?;
        card.notes.extend(cohort_notes(experiment, data, &card));
        (options.report)(Event::Data { label: data.label(), notes: &card.notes });
        journal.data(&plan::hash(data), &data.label(), &card)?;
        cards.push(card);
    }
    Ok(cards)
}

/// Which rows ask for a larger cohort than a data set has people.
fn cohort_notes(experiment: &Experiment, data: &DataSet, card: &DataCard) -> Vec<String> {
    let takes_part = |row: &&RowSpec| row.only.as_ref().is_none_or(|labels| labels.contains(&data.label()));
    let note = |row: &RowSpec| {
        let cohort = row.fixed.iter().find(|(key, _)| key == "cohort").map(|(_, value)| value);
        let note = cohort_note(cohort, card.activity.iter().map(|&length| length as usize))?;
        Some(format!("{}: {note}", row.label))
    };
    let recommenders = experiment.rows.iter().filter(|row| row.learner.recommender().is_some());
    recommenders.filter(takes_part).filter_map(note).collect()
}

struct Engine<'a> {
    state: Mutex<State>,
    changed: Condvar,
    trials: &'a dyn Trials,
    options: &'a Options<'a>,
    /// Set when a trial could not be carried out: the others stop.
    broken: AtomicBool,
    /// Trials planned, at most.
    planned: usize,
}

struct State {
    journal: Journal,
    rows: Vec<RowProgress>,
    /// Trials that may start, by row and index in the row: the order in which one job takes them.
    ready: BTreeMap<(usize, usize), Trial>,
    running: HashSet<String>,
    error: Option<RunError>,
}

impl State {
    /// Asks every row for its next step, given what is recorded.
    fn refresh(&mut self) -> Result<(), RunError> {
        self.ready.clear();
        for (number, row) in self.rows.iter_mut().enumerate() {
            let label = row.plan.spec.label.clone();
            let trials = row.advance(&self.journal).map_err(|reason| RunError::Failed(label, reason))?;
            self.ready.extend(trials.into_iter().enumerate().map(|(at, trial)| ((number, at), trial)));
        }
        Ok(())
    }

    /// The first trial that is not running.
    fn take(&mut self) -> Option<Trial> {
        let trial = self.ready.values().find(|trial| !self.running.contains(&trial.key))?.clone();
        self.running.insert(trial.key.clone());
        Some(trial)
    }

    fn recorded(&self) -> usize {
        self.rows.iter().map(|row| row.recorded(&self.journal)).sum()
    }
}

impl<'a> Engine<'a> {
    fn new(
        journal: Journal,
        rows: Vec<RowProgress>,
        trials: &'a dyn Trials,
        options: &'a Options<'a>,
    ) -> Result<Self, RunError> {
        let planned = rows.iter().map(|row| row.plan.trials()).sum();
        let torn = journal.torn;
        let mut state = State { journal, rows, ready: BTreeMap::new(), running: HashSet::new(), error: None };
        state.refresh()?;
        (options.report)(Event::Begun { trials: planned, recorded: state.recorded(), torn });
        let broken = AtomicBool::new(false);
        Ok(Self { state: Mutex::new(state), changed: Condvar::new(), trials, options, broken, planned })
    }

    /// Trials run on threads of their own, not in the pool that models share: a trial that waits for the pool must not
    /// be handed another trial to run meanwhile.
    fn work(self) -> Result<(Journal, Vec<RowProgress>), RunError> {
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
            None => Ok((state.journal, state.rows)),
        }
    }

    fn job(&self) {
        while let Some(trial) = self.next() {
            (self.options.report)(Event::Started(&trial));
            let report = |done, planned, value| {
                (self.options.report)(Event::Progress { trial: &trial, done, planned, value });
                match self.options.stop.load(Ordering::Relaxed) || self.broken.load(Ordering::Relaxed) {
                    true => Flow::Stop,
                    false => Flow::Continue,
                }
            };
            let checkpoints = journal::checkpoints(self.options.folder, &trial.key);
            let progress = Progress { report: &report, checkpoints: &checkpoints };
            let outcome = catch_unwind(AssertUnwindSafe(|| self.trials.run(&trial, &progress)))
                .unwrap_or_else(|panic| Err(TrialError::Broken(format!("panicked: {}", message(&*panic)))));
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
        if let Err(error) = self.record(&mut state, trial, outcome) {
            state.error.get_or_insert(error);
            self.broken.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn record(&self, state: &mut State, trial: &Trial, outcome: Result<Outcome, TrialError>) -> Result<(), RunError> {
        let outcome = match outcome {
            Ok(outcome) => Ok(outcome),
            Err(TrialError::Failed(reason)) => Err(reason),
            Err(TrialError::Interrupted) => return Err(RunError::Interrupted),
            Err(TrialError::Broken(reason)) => return Err(RunError::Failed(trial.describe(), reason)),
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

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
