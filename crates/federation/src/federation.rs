//! The simulator: a coordinator and simulated devices, round after round.

use crate::devices::RoundCall;
use crate::selection::select_cohort;
use crate::{
    Aggregate, Aggregation, Coordinator, Downloads, FederationError, Offer, ParticipationStats, Population,
    PrivacyEngine, PrivacySpent, RoundRules, RowUpdates, Schedule, SimulatedDevices, Strategy,
};
use sottovoce_core::Rng;
use sottovoce_protocol::{CriterionRequest, ModelSpec, Parameters, TermsDraft, ValueEncoding};

/// Training has diverged once the mean loss is this many times that of a model that knows nothing, ln 2 = 0.69 for
/// pairs.
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
    /// Mean loss of the samples before each step; `None` if no device trained.
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
    /// Whether devices are asked how many samples they trained on.
    pub samples: bool,
    /// Criteria that devices are asked for.
    pub criteria: Vec<CriterionRequest>,
    /// Mean loss of a sample for a model that knows nothing.
    pub baseline_loss: f64,
}

/// Server, devices, configuration: one training task. One that has failed is over: a failed round is not repeated.
pub struct Federation {
    pub(crate) devices: SimulatedDevices,
    pub(crate) coordinator: Coordinator,
    pub(crate) schedule: Schedule,
    baseline_loss: f64,
    /// Virtual seconds since training began.
    pub(crate) clock: f64,
    aggregate: Aggregate,
    pub(crate) row_updates: RowUpdates,
    pub(crate) partial_epoch: PartialEpoch,
}

impl Federation {
    /// Before the first round.
    pub fn new(devices: SimulatedDevices, setup: Setup, rng: Rng) -> Self {
        let Setup { strategy, schedule, population, start, model, values, samples, criteria, baseline_loss } = setup;
        let terms = TermsDraft { model, values, samples, criteria, ..TermsDraft::default() };
        let mut coordinator = Coordinator::new(strategy, start, terms, schedule.cohort, rng);
        coordinator.ask_among(population.devices);
        Self {
            devices,
            schedule,
            baseline_loss,
            clock: 0.0,
            partial_epoch: PartialEpoch::default(),
            aggregate: coordinator.empty_aggregate(),
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

    /// The same with another aggregation.
    #[must_use]
    pub fn with_aggregation(mut self, aggregation: Aggregation) -> Self {
        self.coordinator = self.coordinator.with_aggregation(aggregation);
        self.aggregate = self.coordinator.empty_aggregate();
        self
    }

    /// The same with a privacy engine.
    ///
    /// # Errors
    /// If the layers do not go together or with how updates are added up.
    pub fn with_privacy(mut self, privacy_engine: Option<PrivacyEngine>) -> Result<Self, FederationError> {
        if let Some(privacy_engine) = privacy_engine {
            self.coordinator = self.coordinator.with_privacy(privacy_engine)?;
            self.aggregate = self.coordinator.empty_aggregate();
        }
        Ok(self)
    }

    /// The differential privacy spent so far, if there is any.
    pub fn privacy_spent(&self) -> Option<PrivacySpent> {
        self.coordinator.privacy_spent()
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
    pub fn with_weights(mut self, weights: &[f64]) -> Result<Self, FederationError> {
        self.coordinator.set_weights(weights)?;
        Ok(self)
    }

    /// The devices.
    pub fn devices(&self) -> &SimulatedDevices {
        &self.devices
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

    /// The devices, and the shared model as they hold it, when training is over.
    pub fn into_parts(self) -> (SimulatedDevices, Parameters) {
        let Coordinator { distribution, shared, .. } = self.coordinator;
        (self.devices, distribution.into_held(shared).parameters)
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
        self.coordinator.check_budget()?;
        let Self { devices, coordinator: server, aggregate, .. } = self;
        server.renew(aggregate);
        let (round, rng, wanted) = (server.round(), server.randomness(), server.wanted());
        let selected = select_cohort(server, &rng, devices.reachability(), self.clock)?;
        let terms = server.announcement.freeze(server.shared.version, server.selector.drawn().len())?;
        let now = self.clock + selected.waited;
        let call = RoundCall { cohort: server.selector.drawn(), wanted, rules: server.rules, now };
        let offer = Offer::new(&server.distribution, &server.shared, &server.layout);
        let participation = devices.run(&terms, &call, &offer, &rng, aggregate);
        server.announcement.thaw(terms);
        let mut participation = participation?;
        participation.unavailable = selected.unavailable;
        participation.seconds += selected.waited;
        self.clock += participation.seconds;
        let down = participation.asked * server.announcement.bytes() + participation.downloaded;
        if let Some(privacy_engine) = &mut server.privacy_engine {
            privacy_engine.record_participants(server.selector.drawn())?;
        }
        let changed = server.apply(round, aggregate);
        self.row_updates.add(aggregate);
        if let Some(recorder) = devices.recorder() {
            recorder.sum(round.0, aggregate);
        }
        aggregate.clear();
        changed.map(|()| (participation, down))
    }

    /// The rest of an epoch's rounds; a whole epoch unless one has begun.
    ///
    /// # Errors
    /// If a device fails, nobody can be reached any more, or training diverges: numbers without bound, or a mean loss
    /// far above that of a model that knows nothing.
    pub fn epoch(&mut self) -> Result<EpochReport, FederationError> {
        loop {
            if let Some(report) = self.step()? {
                return Ok(report);
            }
        }
    }

    /// The next round of an epoch; returns the epoch's report if that was its last.
    ///
    /// # Errors
    /// As [`epoch`](Self::epoch).
    pub fn step(&mut self) -> Result<Option<EpochReport>, FederationError> {
        let (participation, down) = self.round()?;
        self.partial_epoch.report.participation.add(&participation);
        self.partial_epoch.report.down += down;
        self.partial_epoch.rounds += 1;
        if self.partial_epoch.rounds < self.schedule.rounds as u64 {
            return Ok(None);
        }
        let report = std::mem::take(&mut self.partial_epoch).report;
        match report.loss() {
            Some(loss) if loss.is_nan() || loss > DIVERGED * self.baseline_loss => {
                let baseline = self.baseline_loss;
                let what = format!("the mean loss is {loss:.2}, where a model that knows nothing has {baseline:.2}");
                Err(FederationError::Diverged { round: self.rounds().saturating_sub(1), what })
            }
            _ => Ok(Some(report)),
        }
    }
}
