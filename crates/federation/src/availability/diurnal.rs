//! When simulated devices can be reached.

use super::Trace;
use sottovoce_core::Rng;

/// Seconds of a day.
pub(crate) const DAY: f64 = 86_400.0;
const HOUR: f64 = 3600.0;
/// The hour at which most devices can be reached: at night, on power and on an unmetered network.
const PEAK: f64 = 2.0;

/// Who can be reached when. Time is in virtual seconds since training began, at midnight.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Availability {
    /// Everybody, always.
    #[default]
    Always,
    /// Each device for the same hours every day, around its owner's own hour of the night.
    Diurnal(Diurnal),
    /// As recorded.
    Traced(Trace),
}

/// Devices that can be reached once a day for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diurnal {
    /// Hours a day that a device can be reached, above 0 and at most 24.
    pub hours: f64,
    /// Standard deviation, in hours, of the middle of that time, around two in the morning.
    pub spread: f64,
}

impl Diurnal {
    /// Seconds after midnight at which a device's time begins.
    fn start(&self, device: u32, root: &Rng) -> f64 {
        let middle = PEAK + self.spread * root.stream("hour", u64::from(device)).normal();
        ((middle - self.hours / 2.0) * HOUR).rem_euclid(DAY)
    }

    /// Seconds from `at` until the device can be reached; 0 if it can.
    fn wait(&self, device: u32, at: f64, root: &Rng) -> f64 {
        let since = (at - self.start(device, root)).rem_euclid(DAY);
        if since < self.hours * HOUR { 0.0 } else { DAY - since }
    }
}

impl Availability {
    /// Seconds from `at` until the device can be reached, 0 if it can; `None` if it never can. `root` is the same for
    /// all calls.
    pub(super) fn wait(&self, device: u32, at: f64, root: &Rng) -> Option<f64> {
        match self {
            Self::Always => Some(0.0),
            Self::Diurnal(diurnal) => Some(diurnal.wait(device, at, root)),
            Self::Traced(trace) => trace.wait(device, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_come_and_go_by_the_hour_and_back_the_next_day() {
        let root = Rng::new(3);
        let diurnal = Availability::Diurnal(Diurnal { hours: 8.0, spread: 2.0 });
        let present = |hour: f64| {
            let there = |device: &u32| diurnal.wait(*device, hour * HOUR, &root) == Some(0.0);
            (0..2000).filter(there).count()
        };
        let (night, noon) = (present(2.0), present(14.0));
        assert!(night > 1800 && noon < 20, "{night} {noon}");
        assert_eq!(present(2.0 + 48.0), night);
        let hours: usize = (0..24).map(|hour| present(f64::from(hour))).sum();
        assert!(hours.abs_diff(2000 * 8) < 600, "{hours}");
    }

    #[test]
    fn waiting_ends_when_a_device_can_be_reached() {
        let root = Rng::new(5);
        let diurnal = Availability::Diurnal(Diurnal { hours: 3.0, spread: 6.0 });
        for device in 0..200 {
            let at = f64::from(device) * 3000.0;
            let wait = diurnal.wait(device, at, &root).unwrap();
            assert!((0.0..=DAY).contains(&wait));
            assert_eq!(diurnal.wait(device, at + wait + 1.0, &root), Some(0.0));
            assert!(wait < 2.0 || diurnal.wait(device, at + wait - 1.0, &root).unwrap() > 0.0);
        }
    }
}
