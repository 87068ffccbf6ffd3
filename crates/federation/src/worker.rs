//! A worker of the simulator: one device after the other, in the same memory.

use crate::availability::{RoundTimeline, UploadFate};
use crate::device_versions::{DownloadCosts, HeldVersion};
use crate::footprint::TrainingTime;
use crate::{
    Aggregate, Delivery, Disclosure, FederationError, HistorySource, Page, ParticipationStats, Recorder,
    SimulatedFigures,
};
use sottovoce_client::{Buffers, Declined, Device, Round, SimulatedRandomness, Training};
use sottovoce_core::Rng;
use sottovoce_models::federated::{DynClient, WorkingMemory};
use sottovoce_privacy::PrivacyMechanism;
use sottovoce_privacy::quantize::to_signed;
use sottovoce_protocol::{
    DecodeError, Disclosed, Keyed, Layout, Ledger, Parameters, Policy, Received, RowOrigin, Trained, codec,
};

/// What all simulated devices of a round have in common.
pub(crate) struct SimulatedRound<'a> {
    pub(crate) client: Round<'a>,
    pub(crate) histories: &'a HistorySource,
    pub(crate) disclosure: &'a Disclosure,
    pub(crate) figures: &'a SimulatedFigures,
    pub(crate) recorder: Option<&'a dyn Recorder>,
    pub(crate) costs: &'a DownloadCosts,
    pub(crate) delivery: Delivery,
    pub(crate) timeline: &'a RoundTimeline,
    /// The run's root.
    pub(crate) root: &'a Rng,
    /// The round's stream.
    pub(crate) rng: &'a Rng,
}

/// The state of consecutive devices, from device `first` on.
pub(crate) struct DeviceSlab<'a> {
    pub(crate) first: u32,
    /// Private models, one device after the other.
    pub(crate) private: &'a mut [f32],
    /// Private models trained only on disclosed items; empty where nobody withholds any.
    pub(crate) disclosed: &'a mut [f32],
    /// Versions of the shared model; empty where they do not matter.
    pub(crate) versions: &'a mut [HeldVersion],
}

impl<'a> DeviceSlab<'a> {
    /// The devices before `end`, whose private models have `width` values, and the others.
    pub(crate) fn split_before(self, end: u32, width: usize) -> (Self, Self) {
        let devices = (end - self.first) as usize;
        let (private, private_after) = self.private.split_at_mut(devices * width);
        let (disclosed, disclosed_after) = self.disclosed.split_at_mut((devices * width).min(self.disclosed.len()));
        let (versions, versions_after) = self.versions.split_at_mut(devices.min(self.versions.len()));
        let mine = DeviceSlab { first: self.first, private, disclosed, versions };
        let others =
            DeviceSlab { first: end, private: private_after, disclosed: disclosed_after, versions: versions_after };
        (mine, others)
    }

    fn of(&mut self, device: u32, width: usize) -> DeviceState<'_> {
        let index = (device - self.first) as usize;
        DeviceState {
            private: &mut self.private[index * width..][..width],
            disclosed: self.disclosed.get_mut(index * width..).map_or(&mut [], |rest| {
                let width = width.min(rest.len());
                &mut rest[..width]
            }),
            version: self.versions.get_mut(index),
        }
    }
}

/// The state of one device.
struct DeviceState<'a> {
    private: &'a mut [f32],
    disclosed: &'a mut [f32],
    version: Option<&'a mut HeldVersion>,
}

/// Memory that one device after the other uses.
pub(crate) struct Worker {
    buffers: Buffers,
    policy: Policy,
    ledger: Ledger,
    /// For delivery by bytes.
    bytes: Vec<u8>,
    received: Received,
    /// For histories in a file.
    page: Page,
    pub(crate) time: TrainingTime,
}

impl Worker {
    /// How large the model's working memory is, for models that can tell.
    pub(crate) fn working_memory(&self, client: &DynClient) -> Option<WorkingMemory> {
        self.buffers.working_memory(client)
    }

    pub(crate) fn new(buffers: Buffers, policy: Policy, layout: &Layout) -> Self {
        let (ledger, received) = (Ledger::totals_only(), Received::new(layout));
        Self {
            buffers,
            policy,
            ledger,
            bytes: Vec::new(),
            received,
            page: Page::default(),
            time: TrainingTime::default(),
        }
    }

    /// Runs a part of the cohort.
    pub(crate) fn run(
        &mut self,
        round: &SimulatedRound<'_>,
        cohort: &[u32],
        mut slab: DeviceSlab<'_>,
        into: &mut Aggregate,
    ) -> Result<ParticipationStats, FederationError> {
        let width = round.client.client.private_values();
        let before = self.ledger.totals();
        let mut stats = ParticipationStats { asked: cohort.len() as u64, ..ParticipationStats::default() };
        for &device in cohort {
            self.run_device(round, device, slab.of(device, width), into, &mut stats)?;
        }
        let after = self.ledger.totals();
        stats.rows = after.rows - before.rows;
        stats.bytes = after.bytes - before.bytes;
        stats.bytes += stats.sent * into.aggregation.quantized_sum.as_ref().map_or(0, |sum| sum.token_bytes);
        Ok(stats)
    }

    fn run_device(
        &mut self,
        round: &SimulatedRound<'_>,
        device: u32,
        state: DeviceState<'_>,
        into: &mut Aggregate,
        stats: &mut ParticipationStats,
    ) -> Result<(), FederationError> {
        let SimulatedRound { client, root, rng, .. } = round;
        round.disclosure.become_of(device, &mut self.policy)?;
        let randomness = SimulatedRandomness { root, round: rng, user: u64::from(device) };
        let mut own = Device {
            private: state.private,
            disclosed: state.disclosed,
            history: round.histories.of(device as usize, &mut self.page)?,
            figures: &round.figures.of_device(device),
            policy: &self.policy,
        };
        let trained = self.time.measure(|| client.train(&mut own, &randomness, &mut self.buffers));
        let session = match trained {
            Ok(Training::Trained(session)) => session,
            Ok(Training::NothingDisclosed) => {
                self.time.count(0);
                stats.trained += 1;
                stats.downloaded += round.costs.charge(state.version);
                return Ok(());
            }
            Err(Declined::Policy(_) | Declined::NoHistory) => return Ok(()),
            Err(Declined::NotFinite) => {
                let what = format!("the private model of device {device} is no longer finite");
                return Err(FederationError::Diverged { round: client.terms.round.0, what });
            }
            Err(error) => return Err(FederationError::device(device, "training", &error)),
        };
        self.time.count(session.stats.samples);
        stats.trained += 1;
        stats.downloaded += round.costs.charge(state.version);
        stats.samples += session.stats.samples;
        stats.loss += session.stats.loss;
        let fate = round.timeline.fate(device);
        if fate == UploadFate::Lost {
            stats.dropped += 1;
            self.buffers.discard();
            return Ok(());
        }
        stats.sent += 1;
        let disclosed = client
            .disclose(session, (&self.policy, 0), &mut self.ledger, &mut self.buffers)
            .map_err(|error| FederationError::disclosing(device, client.terms.round.0, &error))?;
        if fate == UploadFate::Late {
            stats.late += 1;
            self.buffers.recycle(disclosed.recycle());
            return Ok(());
        }
        if client.sends_quantized() {
            self.send_quantized(round, device, disclosed, &randomness, into);
            return Ok(());
        }
        let delivered = self.deliver(round, device, disclosed, into);
        delivered.map_err(|error| FederationError::device(device, "receiving", &error))
    }

    /// Adds a quantized update. A seal would open to the same: sums of integers do not depend on how they come about.
    fn send_quantized(
        &mut self,
        round: &SimulatedRound<'_>,
        device: u32,
        disclosed: Disclosed,
        randomness: &SimulatedRandomness<'_>,
        into: &mut Aggregate,
    ) {
        let aggregation = into.aggregation.clone();
        let Some(privacy) = aggregation.privacy() else { return };
        let number = round.client.terms.round.0;
        match privacy.adds_noise() {
            true => {
                round.client.quantize(&disclosed, randomness, &mut self.buffers);
                into.add_quantized(&self.buffers.quantized);
            }
            false => into.add(disclosed.update()),
        }
        match round.recorder {
            Some(recorder) if privacy.is_sealed() => recorder.sealed(number, device),
            Some(recorder) => {
                let seen = as_seen(&self.buffers.quantized, privacy, round.client.shared);
                recorder.upload(number, device, seen.update());
            }
            None => {}
        }
        self.buffers.recycle(disclosed.recycle());
    }

    fn deliver(
        &mut self,
        round: &SimulatedRound<'_>,
        device: u32,
        disclosed: Disclosed,
        into: &mut Aggregate,
    ) -> Result<(), DecodeError> {
        let show = |received: &Received| {
            if let Some(recorder) = round.recorder {
                recorder.upload(received.round().0, device, received.update());
            }
        };
        if round.delivery == Delivery::Direct {
            let received = disclosed.into_received();
            show(&received);
            into.add_from(device, received.update());
            self.buffers.recycle(received.recycle());
            return Ok(());
        }
        self.bytes.clear();
        codec::encode_update(&disclosed, &mut self.bytes);
        self.buffers.recycle(disclosed.recycle());
        codec::decode_update(&self.bytes, &mut self.received)?;
        show(&self.received);
        into.add_from(device, self.received.update());
        Ok(())
    }
}

/// What the server reads in one device's quantized update: all rows, with that device's noise.
pub(crate) fn as_seen(words: &[u32], privacy: &PrivacyMechanism, shared: &Parameters) -> Trained {
    let layout = shared.layout();
    let mut seen = Trained::new(&layout);
    let read = privacy.quantizer().dequantize(&to_signed(words), 1, |table, row, _, values| {
        let into = match layout.shapes()[table].keyed {
            Keyed::Dense if row == 0 => seen.whole(table),
            Keyed::Dense => Ok(seen.values_mut(table)),
            _ => seen.push_row(table, row as u32, RowOrigin::Other),
        };
        if let Ok(into) = into {
            let start = if layout.shapes()[table].keyed == Keyed::Dense { row * values.len() } else { 0 };
            into[start..][..values.len()].copy_from_slice(values);
        }
    });
    debug_assert!(read.is_ok(), "noise goes with whole tables only");
    seen
}
