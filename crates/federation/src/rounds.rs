//! The round loop of the simulator: a coordinator and a fleet.

use crate::gathering::gather;
use crate::{
    Attendance, Call, Collected, Coordinator, Counting, Downloads, FederationError, Fleet, Guardian,
    Observer, Offer, Plan, Population, RoundReport, RoundRules, RowUpdates, Spent, Strategy,
};
use sottovoce_core::Rng;
use sottovoce_protocol::{CriterionRequest, ModelSpec, Parameters, TermsDraft, ValueEncoding};

/// Times the mean loss of guessing from which on training counts as diverged. Of samples that are right or wrong guessing has
/// ln 2 = 0.69; scores without bound, right or wrong by chance, come to 10.
const DIVERGED: f64 = 5.8;

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
    /// Whether devices are asked how many samples they learnt from.
    pub samples: bool,
    /// What else they are asked to say of themselves.
    pub criteria: Vec<CriterionRequest>,
    /// Mean loss of a sample for a model that guesses.
    pub guessing_loss: f64,
}

/// Server, devices, configuration: one training task. One that has failed is over: a failed round is not repeated.
pub struct Federation<F> {
    pub(crate) fleet: F,
    pub(crate) coordinator: Coordinator,
    pub(crate) plan: Plan,
    guessing_loss: f64,
    /// Virtual seconds since training began.
    pub(crate) clock: f64,
    collected: Collected,
    pub(crate) row_updates: RowUpdates,
    pub(crate) under_way: UnderWay,
}

impl<F: Fleet> Federation<F> {
    /// Before the first round.
    pub fn new(fleet: F, setup: Setup, rng: Rng) -> Self {
        let Setup { strategy, plan, population, start, model, values, samples, criteria, guessing_loss } =
            setup;
        let terms = TermsDraft { model, values, samples, criteria, ..TermsDraft::default() };
        let mut coordinator = Coordinator::new(strategy, start, terms, plan.cohort, rng);
        coordinator.ask_among(population.devices);
        Self {
            fleet,
            plan,
            guessing_loss,
            clock: 0.0,
            under_way: UnderWay::default(),
            collected: coordinator.collected(),
            row_updates: RowUpdates::new(coordinator.layout()),
            coordinator,
        }
    }

    /// The same with other rules for asking and for the end of a round.
    #[must_use]
    pub fn under(mut self, rules: RoundRules) -> Self {
        self.coordinator = self.coordinator.under(rules);
        self
    }

    /// The same with updates added up so.
    #[must_use]
    pub fn counting(mut self, counting: Counting) -> Self {
        self.coordinator = self.coordinator.counting(counting);
        self.collected = self.coordinator.collected();
        self
    }

    /// The same with updates protected so.
    ///
    /// # Errors
    /// If the layers do not go together or with how updates are added up.
    pub fn protecting(mut self, guardian: Option<Guardian>) -> Result<Self, FederationError> {
        if let Some(guardian) = guardian {
            self.coordinator = self.coordinator.protecting(guardian)?;
            self.collected = self.coordinator.collected();
        }
        Ok(self)
    }

    /// What was spent of differential privacy so far, if there is any.
    pub fn spent(&self) -> Option<Spent> {
        self.coordinator.spent()
    }

    /// The same with another way to bring the shared model to devices.
    ///
    /// # Errors
    /// If its values cannot be written that way.
    pub fn distributing(mut self, downloads: Downloads) -> Result<Self, FederationError> {
        self.coordinator = self.coordinator.distributing(downloads)?;
        Ok(self)
    }

    /// The same with cohorts drawn by weight, one a device of the population.
    ///
    /// # Errors
    /// If there is not one weight a device, or a weight is negative or not finite, or all are 0.
    pub fn weighing(mut self, weights: &[f64]) -> Result<Self, FederationError> {
        self.coordinator.weigh(weights)?;
        Ok(self)
    }

    /// The fleet.
    pub fn fleet(&self) -> &F {
        &self.fleet
    }

    /// The shared model.
    pub fn shared(&self) -> &Parameters {
        &self.coordinator.shared().parameters
    }

    /// The shared model as devices hold it that have its current version.
    pub fn distributed(&self) -> &Parameters {
        &self.coordinator.distributed().parameters
    }

    /// Rounds done.
    pub fn rounds(&self) -> u64 {
        self.coordinator.round().0
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
        let Coordinator { distribution, shared, .. } = self.coordinator;
        (self.fleet, distribution.into_held(shared).parameters)
    }

    /// What to change after divergence.
    pub fn advice(&self) -> String {
        self.coordinator.advice()
    }

    /// One round; returns who took part and the bytes sent to them.
    ///
    /// # Errors
    /// If a device fails, nobody can be reached any more, or the shared model is no longer finite.
    pub fn round(&mut self) -> Result<(Attendance, u64), FederationError> {
        self.round_before(&mut ())
    }

    fn round_before(&mut self, observer: &mut dyn Observer) -> Result<(Attendance, u64), FederationError> {
        self.coordinator.may_go_on()?;
        let Self { fleet, coordinator: server, collected, .. } = self;
        server.renew(collected);
        let (round, rng, wanted) = (server.round(), server.randomness(), server.wanted());
        let ask = server.rules.ask(wanted);
        let gathered = gather(&mut server.selector, fleet, ask, (round.0, self.clock), &rng)?;
        let (cohort, now) = (gathered.drawn.cohort, self.clock + gathered.waited);
        let call = Call { cohort, wanted, rules: server.rules, now };
        let terms = server.announcement.freeze(server.shared.version, cohort.len())?;
        let offer = Offer::new(&server.distribution, &server.shared, &server.layout);
        let attended = fleet.run(&terms, &call, &offer, &rng, collected);
        server.announcement.thaw(terms);
        let mut attended = attended?;
        attended.unavailable = gathered.drawn.unavailable;
        attended.seconds += gathered.waited;
        self.clock += attended.seconds;
        let down = attended.asked * server.announcement.bytes() + attended.downloaded;
        if let Some(guardian) = &mut server.guardian {
            guardian.took_part(cohort)?;
        }
        let changed = server.absorb(round, collected);
        let report = RoundReport { round: round.0, attendance: &attended, down, collected };
        self.row_updates.after_round(&report);
        observer.after_round(&report);
        if let Some(recorder) = fleet.recorder() {
            recorder.sum(round.0, collected);
        }
        collected.clear();
        changed.map(|()| (attended, down))
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
            Some(loss) if loss.is_nan() || loss > DIVERGED * self.guessing_loss => {
                let what =
                    format!("the mean loss is {loss:.2}, where guessing has {:.2}", self.guessing_loss);
                Err(FederationError::Diverged { round: self.rounds().saturating_sub(1), what })
            }
            _ => {
                observer.after_epoch(&report);
                Ok(Some(report))
            }
        }
    }
}
