//! Simulated devices: many of them in one process, on all cores.

use crate::availability::{DeviceBehaviour, DeviceProfile};
use crate::device_versions::DeviceVersions;
use crate::footprint::TrainingTime;
use crate::ordered_reduce::{OrderedReduce, WorkerPool};
use crate::partition::Partition;
use crate::state::{put_f32s, take_f32s};
use crate::worker::{DeviceSlab, SimulatedRound, Worker};
use crate::{
    Aggregate, Disclosure, DownloadMessage, FederationError, HistorySource, Offer, Recorder, RoundRules,
    SimulatedFigures,
};
use sottovoce_client::{Buffers, Round, streams};
use sottovoce_core::Rng;
use sottovoce_models::DeviceFootprint;
use sottovoce_models::federated::DynClient;
use sottovoce_protocol::{Keyed, Layout, RoundTerms};
use std::io::{self, Read, Write};
use std::mem::take;
use std::sync::Arc;

/// Who took part in a round, and what they did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ParticipationStats {
    /// Devices that would have been asked and could not be reached.
    pub unavailable: u64,
    /// Devices asked.
    pub asked: u64,
    /// Devices that trained.
    pub trained: u64,
    /// Devices that trained and whose update was lost.
    pub dropped: u64,
    /// Devices that trained and sent an update.
    pub sent: u64,
    /// Devices whose update came after the round was over and was discarded.
    pub late: u64,
    /// Samples they trained on.
    pub samples: u64,
    /// Sum of the samples' losses; a real server does not see it.
    pub loss: f64,
    /// Rows they sent, late ones included.
    pub rows: u64,
    /// Bytes they sent, as encoded, late ones included.
    pub bytes: u64,
    /// Bytes of the shared model that were sent to those who trained, as encoded.
    pub downloaded: u64,
    /// Virtual seconds that it took, including the wait until devices were available.
    pub seconds: f64,
}

impl ParticipationStats {
    pub(crate) fn add(&mut self, other: &ParticipationStats) {
        let mut other = *other;
        for (count, more) in self.counts_mut().into_iter().zip(other.counts_mut()) {
            *count += *more;
        }
        self.loss += other.loss;
        self.seconds += other.seconds;
    }

    /// All counts, in the order in which a checkpoint has them.
    pub(crate) fn counts_mut(&mut self) -> [&mut u64; 10] {
        let Self { unavailable, asked, trained, dropped, sent, late, samples, rows, bytes, downloaded, .. } = self;
        [unavailable, asked, trained, dropped, sent, late, samples, rows, bytes, downloaded]
    }

    /// Updates that came in time.
    pub fn received(&self) -> u64 {
        self.sent - self.late
    }
}

/// A round that a cohort is called into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundCall<'a> {
    /// Devices asked, ascending.
    pub(crate) cohort: &'a [u32],
    /// Updates that are enough.
    pub(crate) wanted: usize,
    /// When the round is over.
    pub(crate) rules: RoundRules,
    /// Seconds since training began.
    pub(crate) now: f64,
}

/// How models and updates travel in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Past the bytes: what would be held after encoding and decoding is handed over, and the bytes are counted.
    #[default]
    Direct,
    /// Encoded, and decoded by the other side. Gives the same model, slower.
    Bytes,
}

/// Many simulated devices, trained on all cores.
pub struct SimulatedDevices {
    client: DynClient,
    pub(crate) histories: HistorySource,
    /// Private models, one device after the other.
    private: Vec<f32>,
    /// Private models trained only on disclosed items, in the same order; empty where nobody withholds any.
    disclosed: Vec<f32>,
    disclosure: Disclosure,
    layout: Layout,
    delivery: Delivery,
    behaviour: DeviceBehaviour,
    versions: DeviceVersions,
    figures: SimulatedFigures,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pool: WorkerPool,
    /// Bytes of the whole shared model as the last round sent it.
    shared_bytes: u64,
    /// The run's root.
    root: Rng,
}

impl SimulatedDevices {
    /// One device for each history; items ascending, each once. `root` is the run's root.
    pub fn new(
        client: DynClient,
        histories: impl Into<HistorySource>,
        layout: Layout,
        disclosure: Disclosure,
        root: &Rng,
    ) -> Self {
        let histories = histories.into();
        let width = client.private_values();
        let init = |label| {
            let mut all = vec![0.0; width * histories.users()];
            for (user, private) in all.chunks_exact_mut(width.max(1)).enumerate() {
                client.init_private(private, &mut root.stream(label, user as u64));
            }
            all
        };
        let (delivery, versions, figures, recorder, pool) = Default::default();
        Self {
            private: init(streams::PRIVATE),
            disclosed: if disclosure.withholds_items() { init(streams::DISCLOSED) } else { Vec::new() },
            behaviour: DeviceBehaviour::new(DeviceProfile::default(), root),
            root: root.clone(),
            client,
            histories,
            disclosure,
            layout,
            delivery,
            versions,
            figures,
            recorder,
            pool,
            shared_bytes: 0,
        }
    }

    /// The same with another way of delivery.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// The same with devices of another profile.
    #[must_use]
    pub fn with_device_profile(mut self, profile: DeviceProfile) -> Self {
        self.behaviour = DeviceBehaviour::new(profile, &self.root);
        self
    }

    /// The same with devices that can report these figures.
    #[must_use]
    pub fn with_figures(mut self, figures: SimulatedFigures) -> Self {
        self.figures = figures;
        self
    }

    /// The same with these private models, one device after the other, where there are as many values.
    #[must_use]
    pub(crate) fn with_private(mut self, private: Option<Vec<f32>>) -> Self {
        if let Some(private) = private.filter(|private| private.len() == self.private.len()) {
            self.private = private;
        }
        self
    }

    /// The same with a recorder that is shown what the server sees.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Option<Arc<dyn Recorder>>) -> Self {
        self.recorder = recorder;
        self
    }

    /// The model's client half.
    pub fn client(&self) -> &DynClient {
        &self.client
    }

    /// All private models, one device after the other.
    pub fn private(&self) -> &[f32] {
        &self.private
    }

    /// What training took of a device so far.
    pub(crate) fn footprint(&self) -> DeviceFootprint {
        let (users, workers) = (self.histories.users().max(1), &self.pool.workers);
        let working = workers.first().and_then(|worker| worker.working_memory(&self.client));
        let time = TrainingTime::sum(workers.iter().map(|worker| worker.time));
        let shapes = self.layout.shapes();
        let in_catalog = shapes.iter().filter(|shape| shape.keyed == Keyed::Items).map(|shape| shape.rows as usize);
        let item_vectors = working.map_or_else(|| in_catalog.max().unwrap_or(0), |working| working.item_vectors);
        DeviceFootprint {
            item_vectors,
            private_values: self.client.private_values(),
            shared_values: shapes.iter().map(|shape| shape.rows as usize * shape.cols as usize).sum(),
            private_bytes: size_of::<f32>() * (self.private.len() + self.disclosed.len()) / users,
            shared_bytes: self.shared_bytes as usize,
            working_bytes: working.map(|working| working.bytes),
            round_seconds: time.of_round(),
            session_seconds: working.and_then(|_| time.of_samples(item_vectors)),
        }
    }

    /// Histories and private models, when training is over.
    pub fn into_parts(self) -> (HistorySource, Vec<f32>) {
        (self.histories, self.private)
    }

    /// Who can be reached when; `None` if everybody can at this time.
    pub(crate) fn reachability(&self) -> Option<&DeviceBehaviour> {
        (!self.behaviour.always_reachable()).then_some(&self.behaviour)
    }

    /// Asks a cohort to train under these terms and adds what it discloses in time `into` an empty aggregate.
    ///
    /// # Errors
    /// If a device fails; the message names it and the stage.
    pub(crate) fn run(
        &mut self,
        terms: &RoundTerms,
        call: &RoundCall<'_>,
        offer: &Offer<'_>,
        rng: &Rng,
        into: &mut Aggregate,
    ) -> Result<ParticipationStats, FederationError> {
        let cohort = call.cohort;
        let partition = Partition::new(&self.layout, cohort.len());
        self.shared_bytes = offer.bytes(&DownloadMessage::Whole);
        let (costs, held) = self.versions.prepare(offer, (cohort, self.histories.users()), self.delivery)?;
        let shared = &held.as_ref().unwrap_or(offer.model()).parameters;
        if let Some(recorder) = &self.recorder {
            recorder.begin(terms.round.0, shared, cohort);
        }
        let timeline = self.behaviour.simulate(cohort, call.wanted, &call.rules, call.now, rng);
        let seconds = timeline.seconds;
        let aggregation = into.aggregation.clone();
        let (items, prepared) = (self.histories.catalog_size(), self.client.prepare(shared));
        let round = SimulatedRound {
            client: Round::new((terms, aggregation.privacy()), &self.client, (shared, &prepared), items),
            histories: &self.histories,
            disclosure: &self.disclosure,
            figures: &self.figures,
            recorder: self.recorder.as_deref(),
            costs: &costs,
            delivery: self.delivery,
            timeline,
            root: &self.root,
            rng,
        };
        let new_worker = || {
            let buffers = Buffers::new(&self.client, items, &self.layout);
            Worker::new(buffers, self.disclosure.policy(), &self.layout)
        };
        let all = DeviceSlab {
            first: 0,
            private: &mut self.private,
            disclosed: &mut self.disclosed,
            versions: &mut self.versions.versions,
        };
        let parts = partition.parts();
        if parts == 1 {
            let workers = &mut self.pool.workers;
            if workers.is_empty() {
                workers.push(new_worker());
            }
            // In place: rounds of one device are too short to move it.
            let stats = workers[0].run(&round, cohort, all, into);
            return Ok(ParticipationStats { seconds, ..stats? });
        }
        let width = self.client.private_values();
        let reduce = OrderedReduce::new(parts, take(&mut self.pool), into);
        let (round, reduce_into, layout, aggregation) = (&round, &reduce, &self.layout, &aggregation);
        let new_worker = &new_worker;
        // First in, first out: parts get smaller, see `Partition`.
        rayon::scope_fifo(|scope| {
            let mut rest = all;
            for part in 0..parts {
                let cohort = &cohort[partition.part(part)];
                // A cohort ascends, so that each part has its own range of private models.
                let end = cohort.last().map_or(rest.first, |&last| last + 1);
                let (mine, others) = rest.split_before(end, width);
                rest = others;
                scope.spawn_fifo(move |_| {
                    let (worker, sum) = reduce_into.begin();
                    let mut worker = worker.unwrap_or_else(new_worker);
                    let mut sum = sum.unwrap_or_else(|| Aggregate::with(layout, aggregation));
                    sum.renew(aggregation);
                    let stats = worker.run(round, cohort, mine, &mut sum);
                    reduce_into.end(part, worker, stats, sum);
                });
            }
        });
        let (stats, pool) = reduce.finish();
        self.pool = pool;
        Ok(ParticipationStats { seconds, ..stats? })
    }

    /// Writes the state of all devices, for a checkpoint.
    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_f32s(out, &self.private)?;
        put_f32s(out, &self.disclosed)?;
        self.versions.save(out)?;
        self.behaviour.save(out)
    }

    /// Reads what [`save`](Self::save) wrote.
    pub(crate) fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        take_f32s(from, &mut self.private)?;
        take_f32s(from, &mut self.disclosed)?;
        self.versions.restore(self.histories.users(), from)?;
        self.behaviour.restore(from)
    }
}
