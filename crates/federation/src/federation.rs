//! The simulator: a coordinator and simulated devices, round after round.

use crate::devices::RoundCall;
use crate::divergence;
use crate::selection::select_cohort;
use crate::{
    Aggregate, Coordinator, FederationError, Offer, ParticipationStats, RowUpdates, Schedule, SimulatedDevices,
};
use sottovoce_protocol::Parameters;

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
    /// Before the first round; `schedule` is the one that the coordinator's cohorts are of, and `baseline_loss` the
    /// mean loss of a sample for a model that knows nothing.
    pub fn new(devices: SimulatedDevices, coordinator: Coordinator, schedule: Schedule, baseline_loss: f64) -> Self {
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

    /// The server's half.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
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
        (self.devices, distribution.held.unwrap_or(shared).parameters)
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
        server.announcement.put_back(terms);
        server.announcement.round.0 += 1;
        let mut participation = participation?;
        participation.unavailable = selected.unavailable;
        participation.seconds += selected.waited;
        self.clock += participation.seconds;
        let down = participation.asked * server.announcement.bytes() + participation.downloaded;
        if let Some(privacy_engine) = &mut server.privacy_engine {
            privacy_engine.record_participants(server.selector.drawn())?;
        }
        let changed = server.apply(round, aggregate);
        server.take_up_table();
        self.row_updates.add(aggregate);
        if let Some(recorder) = &devices.recorder {
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
        if let Some(loss) = report.loss() {
            divergence::check_loss(self.rounds().saturating_sub(1), loss, self.baseline_loss)?;
        }
        Ok(Some(report))
    }
}
