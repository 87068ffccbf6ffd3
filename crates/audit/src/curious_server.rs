//! Sees what a server sees, keeps what attacks need, and tells how far they get.

use crate::attacks::{self, Attack, Disaggregation};
use crate::findings::{self, Checkpoint, Findings};
use crate::sums::{Round, Sums};
use crate::{AuditError, Evidence, ExposedTables, Subjects};
use rayon::prelude::*;
use sottovoce_federation::{Aggregate, Recorder};
use sottovoce_protocol::{Parameters, Update};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What the curious server looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Every upload by itself.
    #[default]
    Uploads,
    /// Each round's sum, and who was in it: what secure aggregation leaves to see.
    Sums,
}

impl View {
    /// Names; the first is the default.
    pub const NAMES: &'static [&'static str] = &["uploads", "sums"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The attacks that it allows.
    pub fn attacks(self) -> &'static [Attack] {
        match self {
            View::Uploads => Attack::ON_UPLOADS,
            View::Sums => Attack::ON_SUMS,
        }
    }
}

impl std::str::FromStr for View {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "uploads" => Ok(View::Uploads),
            "sums" => Ok(View::Sums),
            other => Err(format!("`{other}` is no view; views are: {}", Self::NAMES.join(", "))),
        }
    }
}

/// No device that is audited.
const NOBODY: u32 = u32::MAX;

/// A [`Recorder`] that plays the curious server.
pub struct CuriousServer {
    tables: ExposedTables,
    subjects: Subjects,
    view: View,
    /// Numbers of rounds after which it is told how far attacks get, ascending.
    checkpoints: Vec<u64>,
    /// By device, the place among the subjects.
    subject_index: Vec<u32>,
    people: Vec<Mutex<Vec<Evidence>>>,
    /// The shared model as devices were given it last.
    shared: RwLock<Parameters>,
    observations: Mutex<Observations>,
    /// Whether anybody sent anything, audited or not.
    somebody_sent: AtomicBool,
}

/// What belongs to no person alone.
#[derive(Default)]
struct Observations {
    rounds: u64,
    /// Devices whose upload came in the round under way.
    present: Vec<u32>,
    /// By exposed table.
    sums: Vec<Sums>,
    over_rounds: Vec<Checkpoint>,
    /// Whether uploads were sealed, so that there are sums and nothing else.
    sealed: bool,
}

impl Observations {
    /// The rounds of which there are sums, oldest first.
    fn rounds_seen(&self) -> impl Iterator<Item = &Round> {
        self.sums.first().into_iter().flat_map(Sums::rounds)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CuriousServer {
    /// Before the first round; `checkpoints` are the numbers of rounds after which to look how far attacks get, ascending.
    pub fn new(tables: ExposedTables, subjects: Subjects, view: View, checkpoints: Vec<u64>) -> Self {
        let devices = subjects.devices();
        let mut subject_index = vec![NOBODY; devices.last().map_or(0, |&last| last as usize + 1)];
        (0..).zip(devices).for_each(|(place, &device)| subject_index[device as usize] = place);
        let people =
            devices.iter().map(|_| Mutex::new(vec![Evidence::default(); tables.tables().len()])).collect();
        let (shared, observations, somebody_sent) = Default::default();
        Self {
            tables,
            subjects,
            view,
            checkpoints,
            subject_index,
            people,
            shared,
            observations,
            somebody_sent,
        }
    }

    /// The place of a device among the subjects.
    fn place(&self, device: u32) -> Option<usize> {
        self.subject_index.get(device as usize).filter(|&&place| place != NOBODY).map(|&place| place as usize)
    }

    /// What can be seen, which is less than was to be looked at where uploads are sealed.
    fn seen(&self, observations: &Observations) -> View {
        if observations.sealed { View::Sums } else { self.view }
    }

    /// Scores of all items for each subject that sent anything, by each attack that the view allows. Where none of them did, no
    /// attack can tell items apart.
    fn scores(&self, observations: &Observations) -> Vec<Option<Vec<Vec<f32>>>> {
        let scores = self.scores_of_senders(observations);
        if scores.iter().any(Option::is_some) {
            return scores;
        }
        let attacks = self.seen(observations).attacks().len();
        vec![Some(vec![vec![0.0; self.subjects.popularity().len()]; attacks]); scores.len()]
    }

    fn scores_of_senders(&self, observations: &Observations) -> Vec<Option<Vec<Vec<f32>>>> {
        let (tables, devices) = (&self.tables, self.subjects.devices());
        if self.seen(observations) == View::Sums {
            let took_part = |person: &u32| {
                observations.rounds_seen().any(|round| round.present.binary_search(person).is_ok())
            };
            let disaggregation: Vec<_> = observations.sums.iter().map(Disaggregation::of).collect();
            let of = |person: &u32| {
                took_part(person)
                    .then(|| attacks::on_sums(tables, &observations.sums, &disaggregation, *person).into())
            };
            return devices.par_iter().map(of).collect();
        }
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let of = |person: &Mutex<Vec<Evidence>>| {
            let evidence = lock(person);
            let scores = |attack: &Attack| attacks::on_uploads(*attack, tables, &evidence, &shared);
            (evidence[0].uploads > 0).then(|| Attack::ON_UPLOADS.iter().map(scores).collect())
        };
        self.people.par_iter().map(of).collect()
    }

    /// What came of it all.
    ///
    /// # Errors
    /// If no round was recorded, or others sent updates and no audited person did: then the wrong people are audited, or too few.
    pub fn conclude(&self) -> Result<Findings, AuditError> {
        let observations = lock(&self.observations);
        if observations.rounds == 0 {
            return Err(AuditError::Nothing);
        }
        let scores = self.scores(&observations);
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let view = self.seen(&observations);
        let vectors = self.tables.first().item_vectors(&shared);
        let uploads: u64 = match view {
            View::Uploads => self.people.iter().map(|person| u64::from(lock(person)[0].uploads)).sum(),
            View::Sums => {
                let of = |person: &&u32| {
                    observations
                        .rounds_seen()
                        .filter(|round| round.present.binary_search(person).is_ok())
                        .count()
                };
                self.subjects.devices().iter().map(|person| of(&person) as u64).sum()
            }
        };
        if uploads == 0 && self.somebody_sent.load(Relaxed) {
            return Err(AuditError::Nothing);
        }
        let totals = findings::Totals { rounds: observations.rounds, uploads };
        Ok(findings::conclude(
            &self.subjects,
            view,
            scores,
            &vectors,
            totals,
            observations.over_rounds.clone(),
        ))
    }
}

impl Recorder for CuriousServer {
    fn begin(&self, _: u64, shared: &Parameters, cohort: &[u32]) {
        let mut known = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let concerned = || cohort.iter().any(|&device| self.place(device).is_some());
        if known.is_empty() || self.view == View::Sums || concerned() {
            known.clone_from(shared);
        }
    }

    fn upload(&self, _: u64, device: u32, update: &Update) {
        self.somebody_sent.store(true, Relaxed);
        if self.view == View::Sums {
            lock(&self.observations).present.push(device);
            return;
        }
        let Some(place) = self.place(device) else { return };
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        for (table, evidence) in self.tables.tables().iter().zip(&mut *lock(&self.people[place])) {
            if let Some(rows) = table.rows(update) {
                evidence.take(table, rows, &shared);
            }
        }
    }

    fn sealed(&self, _: u64, device: u32) {
        self.somebody_sent.store(true, Relaxed);
        let mut observations = lock(&self.observations);
        observations.sealed = true;
        observations.present.push(device);
    }

    fn sum(&self, round: u64, aggregate: &Aggregate) {
        let mut observations = lock(&self.observations);
        observations.rounds = round + 1;
        let mut present = std::mem::take(&mut observations.present);
        if self.seen(&observations) == View::Sums {
            present.sort_unstable();
            let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
            observations.sums.resize_with(self.tables.tables().len(), Sums::default);
            for (table, sums) in self.tables.tables().iter().zip(&mut observations.sums) {
                sums.record(table, present.clone(), aggregate, table.height(&shared));
            }
        }
        if self.checkpoints.binary_search(&observations.rounds).is_ok() {
            let scores = self.scores(&observations);
            let attacks = self.seen(&observations).attacks();
            let checkpoint = findings::checkpoint(&self.subjects, observations.rounds, attacks, &scores);
            observations.over_rounds.push(checkpoint);
        }
    }
}
