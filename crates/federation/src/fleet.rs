//! Carrying a round to devices and back; in one process, over all cores.

use crate::assembly::{Assembly, Spare};
use crate::behaviour::{Behaviour, Habits};
use crate::cut::Cut;
use crate::download::Downloaded;
use crate::lane::{Column, Lane, Round};
use crate::state::{put_f32s, take_f32s};
use crate::{Collected, Disclosure, FederationError, HistorySource, Offer, Profile, Recorder, RoundRules};
use sottovoce_core::Rng;
use sottovoce_models::DevicePart;
use sottovoce_protocol::{Layout, RoundTerms};
use std::io::{self, Read, Write};
use std::mem::take;
use std::sync::Arc;

/// Who took part in a round, and what that came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attendance {
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
    /// Devices whose update came when the round was over, and was thrown away.
    pub late: u64,
    /// Samples they learnt from.
    pub samples: u64,
    /// Sum of the samples' losses; a real server does not see it.
    pub loss: f64,
    /// Rows they sent, late ones included.
    pub rows: u64,
    /// Bytes they sent, as encoded, late ones included.
    pub bytes: u64,
    /// Bytes of the shared model that were sent to those who trained, as encoded.
    pub downloaded: u64,
    /// Virtual seconds that it took, waiting for somebody to ask included.
    pub seconds: f64,
}

impl Attendance {
    pub(crate) fn add(&mut self, other: &Attendance) {
        self.unavailable += other.unavailable;
        self.asked += other.asked;
        self.trained += other.trained;
        self.dropped += other.dropped;
        self.sent += other.sent;
        self.late += other.late;
        self.samples += other.samples;
        self.loss += other.loss;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.downloaded += other.downloaded;
        self.seconds += other.seconds;
    }

    /// Updates that came in time.
    pub fn received(&self) -> u64 {
        self.sent - self.late
    }
}

/// A call for a round.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Devices asked, ascending.
    pub cohort: &'a [u32],
    /// Updates that are enough.
    pub wanted: usize,
    /// When the round is over.
    pub rules: RoundRules,
    /// Seconds since training began.
    pub now: f64,
}

/// Knows when devices can be asked.
pub trait Presence {
    /// Seconds from `at` until a device can be asked, 0 if it can be; `None` if it never can.
    fn wait(&self, device: u32, at: f64) -> Option<f64>;
}

/// The devices of a federation, wherever they are.
pub trait Fleet {
    /// Asks a cohort to train under these terms and adds what they disclose in time `into` an empty sum.
    ///
    /// # Errors
    /// If a device fails; the message names it and the stage.
    fn run(
        &mut self,
        terms: &RoundTerms,
        call: &Call<'_>,
        offer: &Offer<'_>,
        rng: &Rng,
        into: &mut Collected,
    ) -> Result<Attendance, FederationError>;

    /// Writes what it keeps of its devices from round to round, for a checkpoint; nothing where devices keep it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let _ = out;
        Ok(())
    }

    /// Takes back what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// If it cannot be read.
    fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let _ = from;
        Ok(())
    }

    /// Who can be asked when; `None` if everybody can at this time.
    fn presence(&self) -> Option<&dyn Presence> {
        None
    }

    /// Who is shown what the server sees; `None` if nobody is.
    fn recorder(&self) -> Option<&dyn Recorder> {
        None
    }
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
pub struct InProcess<D: DevicePart> {
    device: D,
    histories: HistorySource,
    /// Private models, one device after the other.
    private: Vec<f32>,
    /// Those with which they learn what they show, in the same order; empty where nobody keeps anything at home for good.
    shown: Vec<f32>,
    disclosure: Disclosure,
    layout: Layout,
    delivery: Delivery,
    behaviour: Behaviour,
    downloaded: Downloaded,
    profile: Profile,
    recorder: Option<Arc<dyn Recorder>>,
    spare: Spare<D::Scratch>,
}

impl<D: DevicePart> InProcess<D> {
    /// One device for each history; items ascending, each once.
    pub fn new(
        device: D,
        histories: impl Into<HistorySource>,
        layout: Layout,
        disclosure: Disclosure,
        rng: &Rng,
    ) -> Self {
        let histories = histories.into();
        let width = device.private_values();
        let begin = |label| {
            let mut all = vec![0.0; width * histories.users()];
            for (user, private) in all.chunks_exact_mut(width.max(1)).enumerate() {
                device.start(private, &mut rng.stream(label, user as u64));
            }
            all
        };
        let private = begin("private");
        let shown = if disclosure.parts_histories() { begin("shown") } else { Vec::new() };
        let (delivery, behaviour) = (Delivery::Direct, Behaviour::new(Habits::default(), rng));
        let (downloaded, profile, recorder, spare) = Default::default();
        Self {
            device,
            histories,
            private,
            shown,
            disclosure,
            layout,
            delivery,
            behaviour,
            downloaded,
            profile,
            recorder,
            spare,
        }
    }

    /// The same with another way of delivery.
    #[must_use]
    pub fn delivering(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// The same with devices of other habits.
    #[must_use]
    pub fn behaving(mut self, habits: Habits, rng: &Rng) -> Self {
        self.behaviour = Behaviour::new(habits, rng);
        self
    }

    /// The same with devices that can say this of themselves.
    #[must_use]
    pub fn reporting(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The same with somebody who is shown what the server sees.
    #[must_use]
    pub fn recorded_by(mut self, recorder: Option<Arc<dyn Recorder>>) -> Self {
        self.recorder = recorder;
        self
    }

    /// The devices' half of the model.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// All private models, one device after the other.
    pub fn private(&self) -> &[f32] {
        &self.private
    }

    /// Everyone's history.
    pub fn histories(&self) -> &HistorySource {
        &self.histories
    }

    /// Histories and private models, when training is over.
    pub fn into_parts(self) -> (HistorySource, Vec<f32>) {
        (self.histories, self.private)
    }
}

impl<D: DevicePart> Fleet for InProcess<D> {
    fn run(
        &mut self,
        terms: &RoundTerms,
        call: &Call<'_>,
        offer: &Offer<'_>,
        rng: &Rng,
        into: &mut Collected,
    ) -> Result<Attendance, FederationError> {
        let cohort = call.cohort;
        let cut = Cut::new(&self.layout, cohort.len());
        let count = cut.parts();
        let (prices, held) = self.downloaded.ready(offer, (cohort, self.histories.users()), self.delivery)?;
        let shared = &held.as_ref().unwrap_or(offer.model()).parameters;
        if let Some(recorder) = &self.recorder {
            recorder.begin(terms.round.0, shared, cohort);
        }
        let course = self.behaviour.play(cohort, call.wanted, &call.rules, call.now, rng);
        let seconds = course.seconds;
        let round = Round {
            device: &self.device,
            histories: &self.histories,
            disclosure: &self.disclosure,
            profile: &self.profile,
            recorder: self.recorder.as_deref(),
            terms,
            shared,
            prepared: &self.device.prepare(shared),
            prices: &prices,
            delivery: self.delivery,
            course,
            rng,
        };
        let spare_lane = || {
            let scratch = self.device.scratch(self.histories.catalog_size());
            Lane::new(scratch, self.disclosure.policy(), &self.layout)
        };
        if count == 1 {
            let column = Column {
                first: 0,
                private: &mut self.private,
                shown: &mut self.shown,
                versions: &mut self.downloaded.versions,
            };
            let lanes = &mut self.spare.lanes;
            if lanes.is_empty() {
                lanes.push(spare_lane());
            }
            // Where it is: rounds of one device are too short to move it.
            let attended = lanes[0].run(&round, cohort, column, into);
            return Ok(Attendance { seconds, ..attended? });
        }
        let width = self.device.private_values();
        let counting = into.how().clone();
        let counting = &counting;
        let assembly = Assembly::new(count, take(&mut self.spare), into);
        let all = Column {
            first: 0,
            private: &mut self.private,
            shown: &mut self.shown,
            versions: &mut self.downloaded.versions,
        };
        let (round, assembly_of, layout, spare_lane) = (&round, &assembly, &self.layout, &spare_lane);
        // First in, first out: parts get smaller, see `Cut`.
        rayon::scope_fifo(|scope| {
            let mut rest = all;
            for part in 0..count {
                let cohort = &cohort[cut.part(part)];
                // A cohort ascends, so that each part has its own stretch of private models.
                let end = cohort.last().map_or(rest.first, |&last| last + 1);
                let (mine, others) = rest.split_before(end, width);
                rest = others;
                scope.spawn_fifo(move |_| {
                    let (lane, sum) = assembly_of.begin();
                    let mut lane = lane.unwrap_or_else(spare_lane);
                    let mut sum = sum.unwrap_or_else(|| Collected::counting(layout, counting));
                    sum.follow(counting);
                    let attended = lane.run(round, cohort, mine, &mut sum);
                    assembly_of.end(part, lane, attended, sum);
                });
            }
        });
        let (attended, spare) = assembly.finish();
        self.spare = spare;
        Ok(Attendance { seconds, ..attended? })
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_f32s(out, &self.private)?;
        put_f32s(out, &self.shown)?;
        self.downloaded.save(out)?;
        self.behaviour.save(out)
    }

    fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        take_f32s(from, &mut self.private)?;
        take_f32s(from, &mut self.shown)?;
        self.downloaded.restore(self.histories.users(), from)?;
        self.behaviour.restore(from)
    }

    fn presence(&self) -> Option<&dyn Presence> {
        (!self.behaviour.always_there()).then_some(&self.behaviour)
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        self.recorder.as_deref()
    }
}
