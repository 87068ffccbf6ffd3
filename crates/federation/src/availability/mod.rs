//! How simulated devices behave: when they can be reached, how long they take, whether they come back.
//!
//! This is the simulator's stand-in for people and networks. What the server makes of it (whom it asks, when a round is
//! over) is in `cohort` and `closing`, which do not know whether devices are simulated.
//!
//! A device whose update is lost or late has trained all the same: its private model has changed, as on a phone that
//! loses its connection after the work. Only the shared model does without it.

mod diurnal;
mod trace;

use crate::state::{put_u64s, take_numbers, unfit};
use crate::{Closing, RoundRules};
pub use diurnal::{Availability, Diurnal};
use sottovoce_core::{Rng, math};
use std::io::{self, Read, Write};
pub use trace::{Trace, TraceError};

/// What a population is like. The default: everybody is there, equally fast, and comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProfile {
    /// Who can be reached when.
    pub availability: Availability,
    /// Probability that an update is lost, for each device and round anew.
    pub dropout: f64,
    /// Share of devices whose updates are always lost.
    pub never_return: f64,
    /// Virtual seconds that a device of middling speed takes for its part of a round: download, training, upload.
    pub device_seconds: f64,
    /// How unlike devices' speeds are: standard deviation of the logarithm of the time they take (log-normal).
    pub straggler_spread: f64,
}

impl Default for DeviceProfile {
    fn default() -> Self {
        Self {
            availability: Availability::Always,
            dropout: 0.0,
            never_return: 0.0,
            device_seconds: 60.0,
            straggler_spread: 0.0,
        }
    }
}

/// What became of a device's update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFate {
    /// It came in time.
    Received,
    /// It came when the round was over, and is thrown away.
    Late,
    /// It never came.
    Lost,
}

/// How a round went in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RoundTimeline {
    /// Devices whose update does not count, ascending.
    missing: Vec<(u32, UploadFate)>,
    /// From asking to the end of the round.
    pub(crate) seconds: f64,
}

impl RoundTimeline {
    pub(crate) fn fate(&self, device: u32) -> UploadFate {
        if self.missing.is_empty() {
            return UploadFate::Received;
        }
        let index = self.missing.binary_search_by_key(&device, |&(device, _)| device);
        index.map_or(UploadFate::Received, |index| self.missing[index].1)
    }
}

/// When a device would answer, in seconds since it was asked.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: f64,
    /// Orders those who answer at the same time, by chance.
    tie: u64,
    device: u32,
    lost: bool,
}

/// A population of this profile, through time.
#[derive(Debug)]
pub(crate) struct DeviceBehaviour {
    profile: DeviceProfile,
    rng: Rng,
    /// Devices that were still at work when their round was over, ascending, and until when.
    busy: Vec<(u32, f64)>,
    answers: Vec<Answer>,
    timeline: RoundTimeline,
}

impl DeviceBehaviour {
    pub(crate) fn new(profile: DeviceProfile, rng: &Rng) -> Self {
        let rng = rng.stream("behaviour", 0);
        Self { profile, rng, busy: Vec::new(), answers: Vec::new(), timeline: RoundTimeline::default() }
    }

    /// Whether everybody can always be asked.
    pub(crate) fn always_reachable(&self) -> bool {
        self.profile.availability == Availability::Always && self.busy.is_empty()
    }

    /// Devices still at work in a round that is over, and until when.
    #[cfg(test)]
    fn busy(&self) -> &[(u32, f64)] {
        &self.busy
    }

    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.busy.len() as u64])?;
        self.busy.iter().try_for_each(|&(device, until)| put_u64s(out, &[u64::from(device), until.to_bits()]))
    }

    pub(crate) fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        self.busy.clear();
        let [busy] = take_numbers(from)?;
        for _ in 0..busy {
            let [device, until] = take_numbers(from)?;
            let device = u32::try_from(device).map_err(|_| unfit(format!("device {device}")))?;
            self.busy.push((device, f64::from_bits(until)));
        }
        Ok(())
    }

    /// Plays a round in which a cohort was asked at `now`.
    pub(crate) fn simulate(
        &mut self,
        cohort: &[u32],
        wanted: usize,
        rules: &RoundRules,
        now: f64,
        round: &Rng,
    ) -> &RoundTimeline {
        self.busy.retain(|&(_, until)| until > now);
        self.timeline.missing.clear();
        if self.is_even()
            && cohort.len() <= wanted
            && rules.deadline.is_none_or(|end| self.profile.device_seconds <= end)
        {
            self.timeline.seconds = if cohort.is_empty() { 0.0 } else { self.profile.device_seconds };
            return &self.timeline;
        }
        self.answer(cohort, round);
        let mut closing = Closing::new(rules, wanted, cohort.len());
        for &Answer { at, device, lost, .. } in &self.answers {
            if lost {
                // Without a deadline the server learns of a loss when the device should have answered.
                if rules.deadline.is_none() {
                    closing.lost(at);
                }
                self.timeline.missing.push((device, UploadFate::Lost));
            } else if !closing.answered(at) {
                self.timeline.missing.push((device, UploadFate::Late));
            }
        }
        let end = closing.wait_until(f64::INFINITY).unwrap_or(0.0);
        self.timeline.seconds = end;
        self.timeline.missing.sort_unstable_by_key(|&(device, _)| device);
        let at_work = self.answers.iter().filter(|answer| answer.at > end);
        self.busy.extend(at_work.map(|answer| (answer.device, now + answer.at)));
        self.busy.sort_unstable_by_key(|&(device, _)| device);
        &self.timeline
    }

    /// When each device would answer, in order of time.
    fn answer(&mut self, cohort: &[u32], round: &Rng) {
        self.answers.clear();
        let share = self.profile.never_return;
        let never_returns = |device| share > 0.0 && self.rng.stream("never", u64::from(device)).chance(share);
        for &device in cohort {
            let mut own = round.stream("answer", u64::from(device));
            let lost = own.chance(self.profile.dropout) || never_returns(device);
            let answer = Answer { at: self.seconds(device), tie: own.next_u64(), device, lost };
            self.answers.push(answer);
        }
        let order = |a: &Answer, b: &Answer| a.at.total_cmp(&b.at).then((a.tie, a.device).cmp(&(b.tie, b.device)));
        self.answers.sort_unstable_by(order);
    }

    /// Time that a device takes for its part of a round: log-normal over the population.
    fn seconds(&self, device: u32) -> f64 {
        let DeviceProfile { device_seconds, straggler_spread, .. } = self.profile;
        if straggler_spread == 0.0 {
            return device_seconds;
        }
        device_seconds * math::exp(straggler_spread * self.rng.stream("speed", u64::from(device)).normal())
    }

    /// Whether all answer at the same time.
    fn is_even(&self) -> bool {
        let DeviceProfile { dropout, never_return, straggler_spread, .. } = self.profile;
        dropout == 0.0 && never_return == 0.0 && straggler_spread == 0.0
    }
}

impl DeviceBehaviour {
    /// Seconds from `at` until a device can be asked, 0 if it can be; `None` if it never can.
    pub(crate) fn wait(&self, device: u32, at: f64) -> Option<f64> {
        let index = self.busy.binary_search_by_key(&device, |&(device, _)| device);
        let free = index.map_or(at, |index| self.busy[index].1.max(at));
        let wait = self.profile.availability.wait(device, free, &self.rng)?;
        Some(free - at + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(
        profile: DeviceProfile,
        rules: RoundRules,
        devices: u32,
        wanted: usize,
    ) -> (RoundTimeline, DeviceBehaviour) {
        let mut behaviour = DeviceBehaviour::new(profile, &Rng::new(4));
        let cohort: Vec<u32> = (0..devices).collect();
        let course = behaviour.simulate(&cohort, wanted, &rules, 100.0, &Rng::new(9)).clone();
        (course, behaviour)
    }

    fn count(course: &RoundTimeline, devices: u32, fate: UploadFate) -> usize {
        (0..devices).filter(|&device| course.fate(device) == fate).count()
    }

    #[test]
    fn slow_devices_are_late_and_at_work_beyond_the_round() {
        let profile = DeviceProfile { straggler_spread: 0.7, device_seconds: 10.0, ..DeviceProfile::default() };
        let rules = RoundRules { over_selection: 1.3, deadline: None };
        let (course, behaviour) = played(profile.clone(), rules, 1300, 1000);
        assert_eq!(count(&course, 1300, UploadFate::Late), 300);
        assert_eq!(behaviour.busy().len(), 300);
        let (slow, until) = behaviour.busy()[0];
        assert!(until > 100.0 + course.seconds);
        assert_eq!(behaviour.wait(slow, 100.0 + course.seconds), Some(until - 100.0 - course.seconds));
        assert!(!behaviour.always_reachable());
        // Half of a log-normal lies below its median.
        let median = RoundRules { over_selection: 1.0, deadline: Some(10.0) };
        let (course, _) = played(profile, median, 4000, 4000);
        assert!(count(&course, 4000, UploadFate::Received).abs_diff(2000) < 150);
        assert_eq!(course.seconds, 10.0);
    }

    #[test]
    fn some_are_lost_now_and_then_and_some_always() {
        let profile = DeviceProfile { dropout: 0.2, never_return: 0.1, ..DeviceProfile::default() };
        let mut behaviour = DeviceBehaviour::new(profile, &Rng::new(4));
        let cohort: Vec<u32> = (0..3000).collect();
        let mut lost = vec![0; 3000];
        for round in 0..20 {
            let rng = Rng::new(1).stream("round", round);
            let course = behaviour.simulate(&cohort, 3000, &RoundRules::default(), 0.0, &rng);
            assert_eq!(course.seconds, 60.0);
            cohort
                .iter()
                .for_each(|&device| lost[device as usize] += u32::from(course.fate(device) == UploadFate::Lost));
        }
        let always = lost.iter().filter(|&&times| times == 20).count();
        assert!(always.abs_diff(300) < 60, "{always}");
        let sometimes: u32 = lost.iter().filter(|&&times| times < 20).sum();
        assert!(sometimes.abs_diff(2700 * 4) < 500, "{sometimes}");
    }

    #[test]
    fn losses_are_waited_for_until_the_deadline_and_ties_are_broken_by_chance() {
        let profile = DeviceProfile { dropout: 0.5, ..DeviceProfile::default() };
        let rules = RoundRules { over_selection: 1.0, deadline: Some(90.0) };
        assert_eq!(played(profile, rules, 50, 50).0.seconds, 90.0);
        let early = RoundRules { over_selection: 2.0, deadline: None };
        let (course, behaviour) = played(DeviceProfile::default(), early, 400, 200);
        assert_eq!((course.seconds, count(&course, 400, UploadFate::Late)), (60.0, 200));
        assert!(behaviour.busy().is_empty());
        let first_half = (0..200).filter(|&device| course.fate(device) == UploadFate::Late).count();
        assert!(first_half.abs_diff(100) < 40, "{first_half}");
        let never = RoundRules { over_selection: 1.0, deadline: Some(59.0) };
        assert_eq!(count(&played(DeviceProfile::default(), never, 5, 5).0, 5, UploadFate::Late), 5);
    }
}
