//! The round loop of the simulator: a coordinator and a fleet.

use crate::selection::select_cohort;
use crate::{
    ParticipationStats, Call, Aggregate, Coordinator, Aggregation, Downloads, FederationError, Fleet, PrivacyEngine,
    Observer, Offer, Schedule, Population, RoundReport, RoundRules, RowUpdates, PrivacySpent, Strategy,
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
    pub participation: ParticipationStats,
    /// Bytes from the server to devices, as encoded: the terms for all asked, the model for all who train.
    pub down: u64,
}

impl EpochReport {
    /// Mean loss of the samples before each step; `None` if nobody learnt.
    pub fn loss(&self) -> Option<f64> {
        (self.participation.samples > 0).then(|| self.participation.loss / self.participation.samples as f64)
    }
}

/// An epoch of which some rounds are done.
#[derive(Default)]
pub(crate) struct PartialEpoch {
    pub(crate) rounds: u64,
    pub(crate) report: EpochReport,
}

/// What a federation begins with.
pub struct Setup {
    /// How updates become the next shared model.
    pub strategy: Box<dyn Strategy>,
    /// Who is asked, for how much work.
    pub schedule: Schedule,
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
    pub baseline_loss: f64,
}

/// Server, devices, configuration: one training task. One that has failed is over: a failed round is not repeated.
pub struct Federation<F> {
    pub(crate) fleet: F,
    pub(crate) coordinator: Coordinator,
    pub(crate) schedule: Schedule,
    baseline_loss: f64,
    /// Virtual seconds since training began.
    pub(crate) clock: f64,
    aggregate: Aggregate,
    pub(crate) row_updates: RowUpdates,
    pub(crate) partial_epoch: PartialEpoch,
}

impl<F: Fleet> Federation<F> {
    /// Before the first round.
    pub fn new(fleet: F, setup: Setup, rng: Rng) -> Self {
        let Setup { strategy, schedule, population, start, model, values, samples, criteria, baseline_loss } =
            setup;
        let terms = TermsDraft { model, values, samples, criteria, ..TermsDraft::default() };
        let mut coordinator = Coordinator::new(strategy, start, terms, schedule.cohort, rng);
        coordinator.ask_among(population.devices);
        Self {
            fleet,
            schedule,
            baseline_loss,
            clock: 0.0,
            partial_epoch: PartialEpoch::default(),
            aggregate: coordinator.aggregate(),
            row_updates: RowUpdates::new(coordinator.layout()),
            coordinator,
        }
    }

    /// The same with other rules for asking and for the end of a round.
    #[must_use]
    pub fn with_rules(mut self, rules: RoundRules) -> Self {
        self.coordinator = self.coordinator.with_rules(rules);
        self
    }

    /// The same with updates added up so.
    #[must_use]
    pub fn with_aggregation(mut self, counting: Aggregation) -> Self {
        self.coordinator = self.coordinator.with_aggregation(counting);
        self.aggregate = self.coordinator.aggregate();
        self
    }

    /// The same with updates protected so.
    ///
    /// # Errors
    /// If the layers do not go together or with how updates are added up.
    pub fn with_privacy(mut self, privacy_engine: Option<PrivacyEngine>) -> Result<Self, FederationError> {
        if let Some(privacy_engine) = privacy_engine {
            self.coordinator = self.coordinator.with_privacy(privacy_engine)?;
            self.aggregate = self.coordinator.aggregate();
        }
        Ok(self)
    }

    /// What was spent of differential privacy so far, if there is any.
    pub fn spent(&self) -> Option<PrivacySpent> {
        self.coordinator.spent()
    }

    /// The same with another way to bring the shared model to devices.
    ///
    /// # Errors
    /// If its values cannot be written that way.
    pub fn with_downloads(mut self, downloads: Downloads) -> Result<Self, FederationError> {
        self.coordinator = self.coordinator.with_downloads(downloads)?;
        Ok(self)
    }

    /// The same with cohorts drawn by weight, one a device of the population.
    ///
    /// # Errors
    /// If there is not one weight a device, or a weight is negative or not finite, or all are 0.
    pub fn weighting(mut self, weights: &[f64]) -> Result<Self, FederationError> {
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
    pub fn round(&mut self) -> Result<(ParticipationStats, u64), FederationError> {
        self.round_before(&mut ())
    }

    fn round_before(&mut self, observer: &mut dyn Observer) -> Result<(ParticipationStats, u64), FederationError> {
        self.coordinator.check_budget()?;
        let Self { fleet, coordinator: server, aggregate, .. } = self;
        server.renew(aggregate);
        let (round, rng, wanted) = (server.round(), server.randomness(), server.wanted());
        let ask = server.rules.ask(wanted);
        let gathered = select_cohort(&mut server.selector, fleet, ask, (round.0, self.clock), &rng)?;
        let (cohort, now) = (gathered.drawn.cohort, self.clock + gathered.waited);
        let call = Call { cohort, wanted, rules: server.rules, now };
        let terms = server.announcement.freeze(server.shared.version, cohort.len())?;
        let offer = Offer::new(&server.distribution, &server.shared, &server.layout);
        let participation = fleet.run(&terms, &call, &offer, &rng, aggregate);
        server.announcement.thaw(terms);
        let mut participation = participation?;
        participation.unavailable = gathered.drawn.unavailable;
        participation.seconds += gathered.waited;
        self.clock += participation.seconds;
        let down = participation.asked * server.announcement.bytes() + participation.downloaded;
        if let Some(privacy_engine) = &mut server.privacy_engine {
            privacy_engine.record_participants(cohort)?;
        }
        let changed = server.apply(round, aggregate);
        let report = RoundReport { round: round.0, participation: &participation, down, aggregate };
        self.row_updates.after_round(&report);
        observer.after_round(&report);
        if let Some(recorder) = fleet.recorder() {
            recorder.sum(round.0, aggregate);
        }
        aggregate.clear();
        changed.map(|()| (participation, down))
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
        let (participation, down) = self.round_before(observer)?;
        self.partial_epoch.report.participation.add(&participation);
        self.partial_epoch.report.down += down;
        self.partial_epoch.rounds += 1;
        if self.partial_epoch.rounds < self.schedule.rounds as u64 {
            return Ok(None);
        }
        let report = std::mem::take(&mut self.partial_epoch).report;
        match report.loss() {
            Some(loss) if loss.is_nan() || loss > DIVERGED * self.baseline_loss => {
                let what =
                    format!("the mean loss is {loss:.2}, where guessing has {:.2}", self.baseline_loss);
                Err(FederationError::Diverged { round: self.rounds().saturating_sub(1), what })
            }
            _ => {
                observer.after_epoch(&report);
                Ok(Some(report))
            }
        }
    }
}
