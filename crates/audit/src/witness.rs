//! Sees what a server sees, keeps what attacks need, and tells how far they get.

use crate::attacks::{self, Attack, Disaggregation};
use crate::findings::{self, Findings, Moment};
use crate::sums::Sums;
use crate::{AuditError, Evidence, Subjects, Surface};
use rayon::prelude::*;
use sottovoce_federation::{Collected, Recorder};
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
pub struct Witness {
    surface: Surface,
    subjects: Subjects,
    view: View,
    /// Numbers of rounds after which it is told how far attacks get, ascending.
    moments: Vec<u64>,
    /// By device, the place among the subjects.
    places: Vec<u32>,
    people: Vec<Mutex<Evidence>>,
    /// The shared model as devices were given it last.
    shared: RwLock<Parameters>,
    heard: Mutex<Heard>,
    /// Whether anybody sent anything, audited or not.
    somebody_sent: AtomicBool,
}

/// What belongs to no person alone.
#[derive(Default)]
struct Heard {
    rounds: u64,
    /// Devices whose upload came in the round under way.
    present: Vec<u32>,
    sums: Sums,
    course: Vec<Moment>,
    /// Whether uploads were sealed, so that there are sums and nothing else.
    sealed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Witness {
    /// Before the first round; `moments` are the numbers of rounds after which to look how far attacks get, ascending.
    pub fn new(surface: Surface, subjects: Subjects, view: View, moments: Vec<u64>) -> Self {
        let devices = subjects.devices();
        let mut places = vec![NOBODY; devices.last().map_or(0, |&last| last as usize + 1)];
        (0..).zip(devices).for_each(|(place, &device)| places[device as usize] = place);
        let people = devices.iter().map(|_| Mutex::default()).collect();
        let (shared, heard, somebody_sent) = Default::default();
        Self { surface, subjects, view, moments, places, people, shared, heard, somebody_sent }
    }

    /// The place of a device among the subjects.
    fn place(&self, device: u32) -> Option<usize> {
        self.places.get(device as usize).filter(|&&place| place != NOBODY).map(|&place| place as usize)
    }

    /// What can be seen, which is less than was to be looked at where uploads are sealed.
    fn seen(&self, heard: &Heard) -> View {
        if heard.sealed { View::Sums } else { self.view }
    }

    /// Scores of all items for each subject that sent anything, by each attack that the view allows. Where none of them did, no
    /// attack can tell items apart.
    fn scores(&self, heard: &Heard) -> Vec<Option<Vec<Vec<f32>>>> {
        let scores = self.scores_of_senders(heard);
        if scores.iter().any(Option::is_some) {
            return scores;
        }
        let attacks = self.seen(heard).attacks().len();
        vec![Some(vec![vec![0.0; self.subjects.popularity().len()]; attacks]); scores.len()]
    }

    fn scores_of_senders(&self, heard: &Heard) -> Vec<Option<Vec<Vec<f32>>>> {
        let (surface, devices) = (&self.surface, self.subjects.devices());
        if self.seen(heard) == View::Sums {
            let took_part =
                |person: &u32| heard.sums.rounds().any(|round| round.present.binary_search(person).is_ok());
            let taken_apart = Disaggregation::of(&heard.sums);
            let of = |person: &u32| {
                took_part(person)
                    .then(|| attacks::on_sums(surface, &heard.sums, &taken_apart, *person).into())
            };
            return devices.par_iter().map(of).collect();
        }
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let of = |person: &Mutex<Evidence>| {
            let evidence = lock(person);
            let scores = |attack: &Attack| attacks::on_uploads(*attack, surface, &evidence, &shared);
            (evidence.uploads > 0).then(|| Attack::ON_UPLOADS.iter().map(scores).collect())
        };
        self.people.par_iter().map(of).collect()
    }

    /// What came of it all.
    ///
    /// # Errors
    /// If no round was recorded, or others sent updates and no audited person did: then the wrong people are audited, or too few.
    pub fn conclude(&self) -> Result<Findings, AuditError> {
        let heard = lock(&self.heard);
        if heard.rounds == 0 {
            return Err(AuditError::Nothing);
        }
        let scores = self.scores(&heard);
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let view = self.seen(&heard);
        let vectors = self.surface.item_vectors(&shared);
        let uploads: u64 = match view {
            View::Uploads => self.people.iter().map(|person| u64::from(lock(person).uploads)).sum(),
            View::Sums => {
                let of = |person: &&u32| {
                    heard.sums.rounds().filter(|round| round.present.binary_search(person).is_ok()).count()
                };
                self.subjects.devices().iter().map(|person| of(&person) as u64).sum()
            }
        };
        if uploads == 0 && self.somebody_sent.load(Relaxed) {
            return Err(AuditError::Nothing);
        }
        let counted = findings::Counted { rounds: heard.rounds, uploads };
        Ok(findings::conclude(&self.subjects, view, scores, &vectors, counted, heard.course.clone()))
    }
}

impl Recorder for Witness {
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
            lock(&self.heard).present.push(device);
            return;
        }
        let Some(place) = self.place(device) else { return };
        let Some(rows) = self.surface.rows(update) else { return };
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        lock(&self.people[place]).take(&self.surface, rows, &shared);
    }

    fn sealed(&self, _: u64, device: u32) {
        self.somebody_sent.store(true, Relaxed);
        let mut heard = lock(&self.heard);
        heard.sealed = true;
        heard.present.push(device);
    }

    fn sum(&self, round: u64, collected: &Collected) {
        let mut heard = lock(&self.heard);
        heard.rounds = round + 1;
        let mut present = std::mem::take(&mut heard.present);
        if self.seen(&heard) == View::Sums {
            present.sort_unstable();
            let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
            heard.sums.keep(&self.surface, present, collected, self.surface.height(&shared));
        }
        if self.moments.binary_search(&heard.rounds).is_ok() {
            let scores = self.scores(&heard);
            let attacks = self.seen(&heard).attacks();
            let moment = findings::moment(&self.subjects, heard.rounds, attacks, &scores);
            heard.course.push(moment);
        }
    }
}
