//! One worker of the simulator: devices one after the other, in the same memory.

use crate::behaviour::{Course, Fate};
use crate::download::{Kept, Prices};
use crate::{
    Attendance, Collected, Delivery, Disclosure, FederationError, HistorySource, Page, Profile, Recorder,
};
use sottovoce_core::Rng;
use sottovoce_models::{Bounds, DevicePart, Task};
use sottovoce_privacy::quantize::to_signed;
use sottovoce_privacy::{SecureRng, PrivacyMechanism};
use sottovoce_protocol::{
    Disclosed, DisclosureSeeds, Keyed, Layout, Ledger, RowOrigin, Parameters, Policy, Received, RoundTerms, Trained, codec,
};

/// What all devices of a round see or are.
pub(crate) struct Round<'a, D: DevicePart> {
    pub(crate) device: &'a D,
    pub(crate) histories: &'a HistorySource,
    pub(crate) disclosure: &'a Disclosure,
    pub(crate) profile: &'a Profile,
    pub(crate) recorder: Option<&'a dyn Recorder>,
    pub(crate) terms: &'a RoundTerms,
    pub(crate) shared: &'a Parameters,
    pub(crate) prepared: &'a D::Prepared,
    pub(crate) prices: &'a Prices,
    pub(crate) delivery: Delivery,
    pub(crate) course: &'a Course,
    pub(crate) rng: &'a Rng,
}

/// What a stretch of devices keep, from device `first` on.
pub(crate) struct Column<'a> {
    pub(crate) first: u32,
    /// Private models, one device after the other.
    pub(crate) private: &'a mut [f32],
    /// Those with which they learn what they show; empty where nobody keeps anything at home for good.
    pub(crate) shown: &'a mut [f32],
    /// Versions of the shared model; empty where they do not matter.
    pub(crate) versions: &'a mut [Kept],
}

impl<'a> Column<'a> {
    /// The devices before `end`, whose private models have `width` values, and the others.
    pub(crate) fn split_before(self, end: u32, width: usize) -> (Self, Self) {
        let devices = (end - self.first) as usize;
        let (private, private_after) = self.private.split_at_mut(devices * width);
        let (shown, shown_after) = self.shown.split_at_mut((devices * width).min(self.shown.len()));
        let (versions, versions_after) = self.versions.split_at_mut(devices.min(self.versions.len()));
        let mine = Column { first: self.first, private, shown, versions };
        (mine, Column { first: end, private: private_after, shown: shown_after, versions: versions_after })
    }

    fn of(&mut self, device: u32, width: usize) -> Own<'_> {
        let place = (device - self.first) as usize;
        Own {
            private: &mut self.private[place * width..][..width],
            shown: self.shown.get_mut(place * width..).map_or(&mut [], |rest| {
                let width = width.min(rest.len());
                &mut rest[..width]
            }),
            version: self.versions.get_mut(place),
        }
    }
}

/// What one device keeps.
struct Own<'a> {
    private: &'a mut [f32],
    shown: &'a mut [f32],
    version: Option<&'a mut Kept>,
}

/// Memory that one device after the other works in.
pub(crate) struct Lane<S> {
    scratch: S,
    policy: Policy,
    ledger: Ledger,
    /// Emptied between devices.
    trained: Trained,
    /// What owners learn for themselves alone; thrown away.
    aside: Trained,
    /// What an owner shows of their history, where they keep some of it at home for good.
    shown: Vec<u32>,
    /// For delivery by bytes.
    bytes: Vec<u8>,
    received: Received,
    /// For updates that go as integers with noise.
    words: Vec<u32>,
    /// For histories in a file.
    page: Page,
}

impl<S> Lane<S> {
    pub(crate) fn new(scratch: S, policy: Policy, layout: &Layout) -> Self {
        let (trained, received) = (Trained::new(layout), Received::new(layout));
        let (ledger, page) = (Ledger::totals_only(), Page::default());
        let (bytes, words, shown, aside) = (Vec::new(), Vec::new(), Vec::new(), Trained::new(layout));
        Self { scratch, policy, ledger, trained, aside, shown, bytes, received, words, page }
    }

    /// Trains a part of the cohort.
    pub(crate) fn run<D: DevicePart<Scratch = S>>(
        &mut self,
        round: &Round<'_, D>,
        cohort: &[u32],
        mut column: Column<'_>,
        into: &mut Collected,
    ) -> Result<Attendance, FederationError> {
        let width = round.device.private_values();
        let before = self.ledger.totals();
        let mut attendance = Attendance { asked: cohort.len() as u64, ..Attendance::default() };
        for &device in cohort {
            self.one(round, device, column.of(device, width), into, &mut attendance)?;
        }
        let after = self.ledger.totals();
        attendance.rows = after.rows - before.rows;
        attendance.bytes = match into.how().protects().filter(|protected| protected.sends_quantized()) {
            Some(protected) => attendance.sent * protected.upload_bytes(round.terms.cohort_size),
            None => after.bytes - before.bytes,
        };
        attendance.bytes += attendance.sent * into.how().protection().map_or(0, |summed| summed.beside);
        Ok(attendance)
    }

    fn one<D: DevicePart<Scratch = S>>(
        &mut self,
        round: &Round<'_, D>,
        device: u32,
        own: Own<'_>,
        into: &mut Collected,
        attendance: &mut Attendance,
    ) -> Result<(), FederationError> {
        round.disclosure.become_of(device, &mut self.policy)?;
        if self.policy.check_terms(round.terms).is_err() {
            return Ok(());
        }
        let mut rng = round.rng.stream("device", u64::from(device));
        let kept = round.disclosure.kept(device, &self.policy);
        let history = round.histories.of(device as usize, &mut self.page)?;
        let bounded =
            into.how().protects().and_then(|protected| Some((protected, protected.config().per_example()?)));
        let parts = self.policy.withholds_items();
        let (shared, prepared) = (round.shared, round.prepared);
        let (private, shown) = if parts {
            self.shown.clear();
            self.shown.extend(self.policy.disclosed_items(history, kept));
            if !own.private.is_empty() {
                self.aside.expect_no_disclosure();
                let task = Task { shared, prepared, private: own.private, history, hidden: &[] };
                let mut rng = rng.stream("own", 0);
                let learnt = round.device.train(task, &mut self.scratch, &mut rng, &mut self.aside);
                learnt.map_err(|error| FederationError::training(device, &error))?;
                self.aside.clear();
            }
            (own.shown, &self.shown[..])
        } else {
            (own.private, history)
        };
        // Where interactions are taken one by one, by chance, those at home have none; whether the device takes part must not
        // depend on which those are.
        let learnt = if bounded.is_some() { history } else { shown };
        match parts && bounded.is_none() {
            true => self.trained.expect_disclosed_items(&self.policy),
            false => self.trained.expect_policy(&self.policy),
        }
        let task = Task { shared, prepared, private, history: learnt, hidden: self.policy.hidden() };
        let lesson = match bounded {
            Some((protected, each)) => {
                let mut generator = SecureRng::simulated(round.rng, "steps", u64::from(device));
                let mut noise = |sums: &mut [i64]| protected.add_noise(&mut generator, sums);
                let mut bounds = Bounds {
                    chance: &Bounds::chances(each.rate, &self.policy, kept),
                    clip: each.clip.into(),
                    steps: protected.steps(),
                    noise: &mut noise,
                };
                round.device.train_on_each(task, &mut bounds, &mut rng, &mut self.trained)
            }
            None => round.device.train(task, &mut self.scratch, &mut rng, &mut self.trained),
        };
        let lesson = lesson.map_err(|error| FederationError::training(device, &error))?;
        if lesson.samples == 0 {
            // Who shows nothing has learnt for themselves, and says no.
            if parts && !history.is_empty() {
                attendance.trained += 1;
                attendance.downloaded += round.prices.charge(own.version);
            }
            return Ok(());
        }
        if !round.terms.criteria.is_empty() {
            let reported = round.profile.report(round.terms, (device, shown), &lesson, &mut self.trained);
            reported.map_err(|error| FederationError::training(device, &error))?;
        }
        attendance.trained += 1;
        attendance.downloaded += round.prices.charge(own.version);
        attendance.samples += lesson.samples;
        attendance.loss += lesson.loss;
        let fate = round.course.fate(device);
        if fate == Fate::Lost {
            attendance.dropped += 1;
            self.trained.clear();
            return Ok(());
        }
        attendance.sent += 1;
        // An empty buffer takes the place of the one that travels; it holds no memory.
        let trained = std::mem::replace(&mut self.trained, Trained::new(&Layout::default()));
        let draws = DisclosureSeeds { per_round: rng.next_u64(), fixed: kept };
        let disclosed = trained
            .disclose(&self.policy, round.terms, 0, &mut self.ledger, draws)
            .map_err(|error| FederationError::disclosing(device, round.terms.round.0, &error))?;
        if fate == Fate::Late {
            attendance.late += 1;
            self.trained = disclosed.recycle();
            return Ok(());
        }
        if into.how().protects().is_some_and(PrivacyMechanism::sends_quantized) {
            self.send_words(round, device, disclosed, into);
            return Ok(());
        }
        let seen = round.recorder.map(|recorder| (recorder, device));
        self.deliver(round.delivery, disclosed, seen, into)
            .map_err(|error| FederationError::receiving(device, &error))
    }

    /// Adds all words of an update, as a seal would be opened to them: sums of integers are the same however they come about.
    fn send_words<D: DevicePart<Scratch = S>>(
        &mut self,
        round: &Round<'_, D>,
        device: u32,
        disclosed: Disclosed,
        into: &mut Collected,
    ) {
        match into.how().protects().filter(|protected| protected.adds_noise()) {
            Some(protected) => {
                let mut generator = SecureRng::simulated(round.rng, "noise", u64::from(device));
                protected.quantize(disclosed.update(), &mut generator, &mut self.words);
                into.add_words(&self.words);
            }
            None => into.add(disclosed.update()),
        }
        if let (Some(recorder), Some(protected)) = (round.recorder, into.how().protects()) {
            let number = round.terms.round.0;
            match protected.is_sealed() {
                true => recorder.sealed(number, device),
                false => {
                    recorder.upload(number, device, as_seen(&self.words, protected, round.shared).update());
                }
            }
        }
        self.trained = disclosed.recycle();
    }

    fn deliver(
        &mut self,
        delivery: Delivery,
        disclosed: Disclosed,
        seen: Option<(&dyn Recorder, u32)>,
        into: &mut Collected,
    ) -> Result<(), sottovoce_protocol::DecodeError> {
        let show = |received: &Received| {
            if let Some((recorder, device)) = seen {
                recorder.upload(received.round().0, device, received.update());
            }
        };
        if delivery == Delivery::Direct {
            let received = disclosed.into_received();
            show(&received);
            into.add(received.update());
            self.trained = received.recycle();
            return Ok(());
        }
        self.bytes.clear();
        codec::encode_update(&disclosed, &mut self.bytes);
        self.trained = disclosed.recycle();
        codec::decode_update(&self.bytes, &mut self.received)?;
        show(&self.received);
        into.add(self.received.update());
        Ok(())
    }
}

/// What the server reads in the words of one device: all rows, with that device's noise.
pub(crate) fn as_seen(words: &[u32], protected: &PrivacyMechanism, shared: &Parameters) -> Trained {
    let layout = shared.layout();
    let mut seen = Trained::new(&layout);
    let read = protected.quantizer().dequantize(&to_signed(words), 1, |table, row, _, values| {
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
