//! A curious server: sees what a server sees, and attacks.

use crate::attacks::cluster::{self, Memberships};
use crate::attacks::{self, Attack, Disaggregation};
use crate::evidence::Evidence;
use crate::findings::{self, Checkpoint, Findings, Scores};
use crate::sums::{Round, Sums};
use crate::{AuditError, ExposedTables, Subjects};
use rayon::prelude::*;
use sottovoce_federation::{Aggregate, Recorder};
use sottovoce_models::choices;
use sottovoce_models::settings::Choice as _;
use sottovoce_protocol::{Parameters, Update};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

choices! {
    /// What the curious server sees.
    #[derive(Default)]
    pub enum View {
        /// Single uploads.
        #[default]
        Uploads => "uploads",
        /// Each round's sum, and who was in it: what secure aggregation reveals.
        Sums => "sums",
    }
}

impl View {
    /// The attacks that it allows.
    pub(crate) fn attacks(self) -> &'static [Attack] {
        match self {
            View::Uploads => Attack::ON_UPLOADS,
            View::Sums => Attack::ON_SUMS,
        }
    }
}

impl std::str::FromStr for View {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| format!("`{text}` is no view; views are: {}", Self::NAMES.join(", ")))
    }
}

/// Index of devices that are not audited.
const NOT_AUDITED: u32 = u32::MAX;

/// A [`Recorder`] that plays the curious server.
pub struct CuriousServer {
    tables: ExposedTables,
    subjects: Subjects,
    view: View,
    /// Numbers of rounds after which attacks are evaluated, ascending.
    checkpoints: Vec<u64>,
    /// By device, the index among the subjects.
    subject_index: Vec<u32>,
    /// By subject and table.
    evidence: Vec<Mutex<Vec<Evidence>>>,
    /// By subject: uploads, and those that say which cluster they are of by cluster.
    memberships: Vec<Mutex<(u64, Memberships)>>,
    /// The shared model that devices were given last.
    shared: RwLock<Parameters>,
    observations: Mutex<Observations>,
    /// Whether any device sent anything, audited or not.
    received_any: AtomicBool,
}

/// Observations that are not about one subject.
#[derive(Default)]
struct Observations {
    rounds: u64,
    /// Devices whose upload arrived in the current round.
    senders: Vec<u32>,
    /// By exposed table.
    sums: Vec<Sums>,
    over_rounds: Vec<Checkpoint>,
    /// Whether uploads were sealed, so that only sums can be seen.
    sealed: bool,
}

impl Observations {
    /// The rounds with sums, oldest first.
    fn rounds_with_sums(&self) -> impl Iterator<Item = &Round> {
        self.sums.first().into_iter().flat_map(Sums::rounds)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CuriousServer {
    /// Before the first round; attacks are evaluated at the end, and after `checkpoints` rounds, ascending.
    pub fn new(tables: ExposedTables, subjects: Subjects, view: View, checkpoints: Vec<u64>) -> Self {
        let devices = subjects.devices();
        let mut subject_index = vec![NOT_AUDITED; devices.last().map_or(0, |&last| last as usize + 1)];
        (0..).zip(devices).for_each(|(index, &device)| subject_index[device as usize] = index);
        let none = || vec![Evidence::default(); tables.tables().len()];
        let evidence = devices.iter().map(|_| Mutex::new(none())).collect();
        let memberships = devices.iter().map(|_| Mutex::default()).collect();
        let (shared, observations, received_any) = Default::default();
        Self {
            tables,
            subjects,
            view,
            checkpoints,
            subject_index,
            evidence,
            memberships,
            shared,
            observations,
            received_any,
        }
    }

    /// The index of a device among the subjects.
    fn index_of(&self, device: u32) -> Option<usize> {
        let index = self.subject_index.get(device as usize).filter(|&&index| index != NOT_AUDITED);
        index.map(|&index| index as usize)
    }

    fn shared(&self) -> RwLockReadGuard<'_, Parameters> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can be seen: no more than sums where uploads are sealed.
    fn actual_view(&self, observations: &Observations) -> View {
        if observations.sealed { View::Sums } else { self.view }
    }

    /// The attacks that can be tried: those that the view allows on the tables that there are.
    fn attacks(&self, observations: &Observations) -> Vec<Attack> {
        let view = self.actual_view(observations);
        let on_items = if self.tables.first().is_some() { view.attacks() } else { &[] };
        let on_clusters = (view == View::Uploads && self.tables.has_clusters()).then_some(Attack::Cluster);
        on_items.iter().copied().chain(on_clusters).collect()
    }

    /// Scores of all items for each subject that sent anything, by each attack that the view allows. If none of them
    /// did, all items have the same score.
    fn scores(&self, observations: &Observations) -> Scores {
        let scores = self.scores_of_senders(observations);
        if scores.iter().any(Option::is_some) {
            return scores;
        }
        let attacks = self.attacks(observations).len();
        vec![Some(vec![vec![0.0; self.subjects.items()]; attacks]); scores.len()]
    }

    fn scores_of_senders(&self, observations: &Observations) -> Scores {
        let tables = &self.tables;
        if self.actual_view(observations) == View::Sums {
            let disaggregation: Vec<_> = observations.sums.iter().map(Disaggregation::of).collect();
            let scores = |&user: &u32| {
                let took_part = observations.rounds_with_sums().any(|round| round.has(user));
                took_part.then(|| attacks::on_sums(tables, &observations.sums, &disaggregation, user).into())
            };
            return self.subjects.devices().par_iter().map(scores).collect();
        }
        let shared = self.shared();
        let on_items = if tables.first().is_some() { Attack::ON_UPLOADS } else { &[] };
        let memberships: Vec<Memberships> = self.memberships.iter().map(|own| lock(own).1.clone()).collect();
        let mut by_cluster = match tables.has_clusters() {
            true => cluster::scores(&self.subjects, &memberships, findings::is_own_account),
            false => Vec::new(),
        };
        // Whoever says no cluster, where others do, is scored as anybody.
        let anybody = &self.subjects.popularity;
        let scores = |(evidence, uploads): (&Mutex<Vec<Evidence>>, &Mutex<(u64, Memberships)>)| {
            let evidence = lock(evidence);
            let by = |attack: &Attack| attacks::on_uploads(*attack, tables, &evidence, &shared);
            (lock(uploads).0 > 0).then(|| on_items.iter().map(by).collect::<Vec<_>>())
        };
        let mut scores: Scores = self.evidence.par_iter().zip(&self.memberships).map(scores).collect();
        for (scores, by_cluster) in scores.iter_mut().zip(&mut by_cluster) {
            if let Some(scores) = scores {
                scores.push(by_cluster.take().unwrap_or_else(|| anybody.clone()));
            }
        }
        scores
    }

    /// Evaluates all attacks.
    ///
    /// # Errors
    /// If no round was recorded, or others sent updates and no audited user did: then the wrong users are audited, or
    /// too few.
    pub fn conclude(&self) -> Result<Findings, AuditError> {
        let observations = lock(&self.observations);
        let view = self.actual_view(&observations);
        let uploads: u64 = match view {
            View::Uploads => self.memberships.iter().map(|uploads| lock(uploads).0).sum(),
            View::Sums => {
                let rounds = |user: u32| observations.rounds_with_sums().filter(|round| round.has(user)).count();
                self.subjects.devices().iter().map(|&user| rounds(user) as u64).sum()
            }
        };
        if observations.rounds == 0 || (uploads == 0 && self.received_any.load(Relaxed)) {
            return Err(AuditError::NoUploads);
        }
        let vectors = self.tables.first().map_or_else(Vec::new, |table| table.item_vectors(&self.shared()));
        let on = self.attacks(&observations);
        let attacks = findings::evaluate_attacks(&self.subjects, &on, self.scores(&observations), &vectors);
        let over_rounds = observations.over_rounds.clone();
        Ok(Findings { view: view.name(), rounds: observations.rounds, uploads, attacks, over_rounds })
    }
}

impl Recorder for CuriousServer {
    fn begin(&self, _: u64, shared: &Parameters, cohort: &[u32]) {
        let mut last = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let concerned = || cohort.iter().any(|&device| self.index_of(device).is_some());
        if last.is_empty() || self.view == View::Sums || concerned() {
            last.clone_from(shared);
        }
    }

    fn upload(&self, _: u64, device: u32, update: &Update) {
        self.received_any.store(true, Relaxed);
        if self.view == View::Sums {
            lock(&self.observations).senders.push(device);
            return;
        }
        let Some(index) = self.index_of(device) else { return };
        {
            let mut own = lock(&self.memberships[index]);
            own.0 += 1;
            if let Some(cluster) = self.tables.cluster_of(update) {
                *own.1.entry(cluster).or_default() += 1;
            }
        }
        let shared = self.shared();
        for (table, evidence) in self.tables.tables().iter().zip(&mut *lock(&self.evidence[index])) {
            if let Some(rows) = table.rows(update) {
                evidence.add(table, rows, &shared);
            }
        }
    }

    fn sealed(&self, _: u64, device: u32) {
        self.received_any.store(true, Relaxed);
        let mut observations = lock(&self.observations);
        observations.sealed = true;
        observations.senders.push(device);
    }

    fn sum(&self, round: u64, aggregate: &Aggregate) {
        let mut observations = lock(&self.observations);
        observations.rounds = round + 1;
        let mut senders = std::mem::take(&mut observations.senders);
        if self.actual_view(&observations) == View::Sums {
            senders.sort_unstable();
            let shared = self.shared();
            observations.sums.resize_with(self.tables.tables().len(), Sums::default);
            for (table, sums) in self.tables.tables().iter().zip(&mut observations.sums) {
                sums.record(table, senders.clone(), aggregate, table.height(&shared));
            }
        }
        if self.checkpoints.binary_search(&observations.rounds).is_ok() {
            let scores = self.scores(&observations);
            let attacks = self.attacks(&observations);
            let checkpoint = findings::checkpoint(&self.subjects, observations.rounds, &attacks, &scores);
            observations.over_rounds.push(checkpoint);
        }
    }
}
