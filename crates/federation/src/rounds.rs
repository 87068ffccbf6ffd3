//! The round loop.

use crate::announcement::Announcement;
use crate::distribution::Distribution;
use crate::gathering::gather;
use crate::{
    Attendance, Call, Collected, Downloads, FederationError, Fleet, Observer, Offer, Plan, Population,
    RoundReport, RoundRules, RowUpdates, Selector, Strategy,
};
use sottovoce_core::{Rng, math};
use sottovoce_protocol::{Layout, ModelSpec, ModelVersion, Parameters, RoundId, SharedModel, ValueEncoding};

/// Mean loss of an epoch from which on training counts as diverged. Guessing has ln 2 = 0.69; scores without bound, right
/// or wrong by chance, come to 10.
const DIVERGED_LOSS: f64 = 4.0;

/// What an epoch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpochReport {
    /// Who took part, over all rounds.
    pub attendance: Attendance,
    /// Bytes from the server to devices, as encoded: the terms for all asked, the model for all who train.
    pub down: u64,
}

impl EpochReport {
    /// Mean loss of the samples before each step; `None` if nobody learnt.
    pub fn loss(&self) -> Option<f64> {
        (self.attendance.samples > 0).then(|| self.attendance.loss / self.attendance.samples as f64)
    }
}

/// An epoch of which some rounds are done.
#[derive(Default)]
pub(crate) struct UnderWay {
    pub(crate) rounds: u64,
    pub(crate) report: EpochReport,
}

/// What a federation begins with.
pub struct Setup {
    /// How updates become the next shared model.
    pub strategy: Box<dyn Strategy>,
    /// Who is asked, for how much work.
    pub plan: Plan,
    /// Who may be asked.
    pub population: Population,
    /// The shared model before the first round.
    pub start: Parameters,
    /// The model as the terms name it.
    pub model: ModelSpec,
    /// How devices write the values they send.
    pub values: ValueEncoding,
}

/// Server, devices, configuration: one training task. One that has failed is over: a failed round is not repeated.
pub struct Federation<F> {
    pub(crate) fleet: F,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) plan: Plan,
    pub(crate) shared: SharedModel,
    pub(crate) distribution: Distribution,
    pub(crate) layout: Layout,
    pub(crate) announcement: Announcement,
    selector: Selector,
    rules: RoundRules,
    /// Virtual seconds since training began.
    pub(crate) clock: f64,
    collected: Collected,
    pub(crate) row_updates: RowUpdates,
    rng: Rng,
    pub(crate) under_way: UnderWay,
}

impl<F: Fleet> Federation<F> {
    /// Before the first round.
    pub fn new(fleet: F, setup: Setup, rng: Rng) -> Self {
        let Setup { strategy, plan, population, start, model, values } = setup;
        let layout = start.layout();
        let announcement = Announcement::new(model, values);
        let shared = SharedModel {
            federation: announcement.terms().federation,
            version: ModelVersion(0),
            parameters: start,
        };
        Self {
            fleet,
            strategy,
            plan,
            distribution: Distribution::plain(),
            shared,
            announcement,
            selector: Selector::new(population.devices),
            rules: RoundRules::default(),
            clock: 0.0,
            under_way: UnderWay::default(),
            collected: Collected::new(&layout),
            row_updates: RowUpdates::new(&layout),
            layout,
            rng,
        }
    }

    /// The same with other rules for asking and for the end of a round.
    #[must_use]
    pub fn under(mut self, rules: RoundRules) -> Self {
        self.rules = rules;
        self
    }

    /// The same with another way to bring the shared model to devices.
    ///
    /// # Errors
    /// If its values cannot be written that way.
    pub fn distributing(mut self, downloads: Downloads) -> Result<Self, FederationError> {
        self.distribution = Distribution::new(downloads, &self.shared)?;
        Ok(self)
    }

    /// The same with cohorts drawn by weight, one a device of the population.
    ///
    /// # Errors
    /// If there is not one weight a device, or a weight is negative or not finite, or all are 0.
    pub fn weighing(mut self, weights: &[f64]) -> Result<Self, FederationError> {
        self.selector = self.selector.weighted(weights)?;
        Ok(self)
    }

    /// The fleet.
    pub fn fleet(&self) -> &F {
        &self.fleet
    }

    /// The shared model.
    pub fn shared(&self) -> &Parameters {
        &self.shared.parameters
    }

    /// The shared model as devices hold it that have its current version.
    pub fn distributed(&self) -> &Parameters {
        &self.distribution.held(&self.shared).parameters
    }

    /// Rounds done.
    pub fn rounds(&self) -> u64 {
        self.announcement.round().0
    }

    /// Virtual seconds since training began.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// How often each row was sent so far.
    pub fn row_updates(&self) -> &RowUpdates {
        &self.row_updates
    }

    /// Fleet and shared model as devices hold it, when training is over.
    pub fn into_parts(self) -> (F, Parameters) {
        (self.fleet, self.distribution.into_held(self.shared).parameters)
    }

    /// What to change after divergence.
    pub fn advice(&self) -> String {
        self.strategy.advice()
    }

    /// One round; returns who took part and the bytes sent to them.
    ///
    /// # Errors
    /// If a device fails, nobody can be reached any more, or the shared model is no longer finite.
    pub fn round(&mut self) -> Result<(Attendance, u64), FederationError> {
        self.round_before(&mut ())
    }

    fn round_before(&mut self, observer: &mut dyn Observer) -> Result<(Attendance, u64), FederationError> {
        let round = self.announcement.round();
        let rng = self.rng.stream("round", round.0);
        let wanted = self.plan.cohort.size(self.selector.population().len());
        let ask = self.rules.ask(wanted);
        let gathered = gather(&mut self.selector, &self.fleet, ask, (round.0, self.clock), &rng)?;
        let call = Call {
            cohort: gathered.drawn.cohort,
            wanted,
            rules: self.rules,
            now: self.clock + gathered.waited,
        };
        let terms = self.announcement.freeze(self.shared.version, call.cohort.len())?;
        let offer = Offer::new(&self.distribution, &self.shared, &self.layout);
        let attended = self.fleet.run(&terms, &call, &offer, &rng, &mut self.collected);
        self.announcement.thaw(terms);
        let mut attended = attended?;
        attended.unavailable = gathered.drawn.unavailable;
        attended.seconds += gathered.waited;
        self.clock += attended.seconds;
        let down = attended.asked * self.announcement.bytes() + attended.downloaded;
        let changed = self.absorb(round);
        let report = RoundReport { round: round.0, attendance: &attended, down, collected: &self.collected };
        self.row_updates.after_round(&report);
        observer.after_round(&report);
        self.collected.clear();
        changed.map(|()| (attended, down))
    }

    fn absorb(&mut self, round: RoundId) -> Result<(), FederationError> {
        self.strategy.absorb(&mut self.shared.parameters, &self.collected);
        self.shared.version = ModelVersion(self.shared.version.0 + 1);
        match first_infinite(&self.shared.parameters, &self.collected) {
            Some((table, row)) => {
                let what = format!("row {row} of table {table:?} is no longer finite");
                Err(FederationError::Diverged { round: round.0, what })
            }
            None => self.distribution.follow(&self.shared, &self.collected),
        }
    }

    /// The rest of an epoch's rounds; a whole epoch unless one is under way.
    ///
    /// # Errors
    /// If a device fails, nobody can be reached any more, or training diverges: numbers without bound, or a mean loss far
    /// above guessing.
    pub fn epoch(&mut self) -> Result<EpochReport, FederationError> {
        self.epoch_before(&mut ())
    }

    /// The same before the eyes of an observer.
    ///
    /// # Errors
    /// As [`epoch`](Self::epoch).
    pub fn epoch_before(&mut self, observer: &mut dyn Observer) -> Result<EpochReport, FederationError> {
        loop {
            if let Some(report) = self.step(observer)? {
                return Ok(report);
            }
        }
    }

    /// The next round of an epoch; returns what the epoch came to if that was its last.
    ///
    /// # Errors
    /// As [`epoch`](Self::epoch).
    pub fn step(&mut self, observer: &mut dyn Observer) -> Result<Option<EpochReport>, FederationError> {
        let (attendance, down) = self.round_before(observer)?;
        self.under_way.report.attendance.add(&attendance);
        self.under_way.report.down += down;
        self.under_way.rounds += 1;
        if self.under_way.rounds < self.plan.rounds as u64 {
            return Ok(None);
        }
        let report = std::mem::take(&mut self.under_way).report;
        match report.loss() {
            Some(loss) if loss.is_nan() || loss > DIVERGED_LOSS => {
                let what = format!("the mean loss is {loss:.2}, where guessing has 0.69");
                Err(FederationError::Diverged { round: self.rounds().saturating_sub(1), what })
            }
            _ => {
                observer.after_epoch(&report);
                Ok(Some(report))
            }
        }
    }
}

/// The first changed row with a value that is not finite.
fn first_infinite(shared: &Parameters, changed: &Collected) -> Option<(String, usize)> {
    for (table, sums) in shared.tables().iter().zip(changed.tables()) {
        let infinite = |&(row, ..): &(usize, u32, &[f32])| !math::all_finite(table.row(row));
        if let Some((row, ..)) = sums.rows().find(infinite) {
            return Some((table.shape().name.clone(), row));
        }
    }
    None
}
