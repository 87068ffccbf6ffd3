//! Hours of the day and days of the week, what suits them, and long tails.

use super::START;
use super::alias::Alias;
use super::taxonomy::TOPS;
use sottovoce_core::{Rng, math};

const HOUR: i64 = 3600;
const WEEK_HOURS: i64 = 168;

/// Seconds within which a check-in belongs to the same outing as the one before.
pub(super) const OUTING_GAP: i64 = 3 * HOUR;

/// How busy the hours of a working day and of a day at the weekend are.
const WORKDAY: [f64; 24] = [
    2.0, 1.0, 0.5, 0.5, 0.5, 1.0, 3.0, 6.0, 8.0, 6.0, 5.0, 6.0, 10.0, 9.0, 6.0, 5.0, 6.0, 9.0, 12.0, 13.0, 12.0, 9.0,
    6.0, 4.0,
];
const WEEKEND: [f64; 24] = [
    7.0, 5.0, 3.0, 1.5, 0.5, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 12.0, 13.0, 12.0, 11.0, 11.0, 11.0, 12.0, 13.0, 14.0, 14.0,
    12.0, 10.0, 9.0,
];

/// Chance that an idea for a main category of places suits the night, the morning, the afternoon, the evening.
const PARTS_OF_DAY: [[f32; TOPS]; 4] = [
    [0.3, 0.8, 1.0, 0.2, 0.3, 0.2, 0.1, 0.2, 0.1, 0.7],
    [0.4, 0.8, 0.1, 0.5, 0.8, 0.8, 0.7, 1.0, 0.7, 1.0],
    [0.9, 0.7, 0.2, 0.9, 1.0, 0.8, 1.0, 0.8, 1.0, 0.7],
    [1.0, 0.9, 0.8, 0.9, 0.4, 0.7, 0.5, 0.5, 0.3, 0.6],
];

/// The main category that most naturally follows each one on an outing: after dinner a drink, after a drink a dance.
const NEXT: [usize; TOPS] = [1, 2, 2, 0, 1, 1, 1, 6, 0, 0];

/// How well main category `top` follows `last` on the same outing.
pub(super) fn after(last: usize, top: usize) -> f32 {
    if NEXT[last] == top {
        1.0
    } else if last == top {
        0.25
    } else {
        0.4
    }
}

/// How well each main category suits the hour.
pub(super) fn at_hour(time: i64) -> &'static [f32; TOPS] {
    &PARTS_OF_DAY[((time - START).rem_euclid(24 * HOUR) / (6 * HOUR)) as usize]
}

/// When people are out.
#[derive(Clone, Debug)]
pub(super) struct Rhythm {
    hours: Alias,
}

impl Rhythm {
    /// The week begins on Monday, as [`START`] does.
    pub(super) fn new() -> Self {
        let week: Vec<f64> = (0..7).flat_map(|day| if day < 5 { WORKDAY } else { WEEKEND }).collect();
        Self { hours: Alias::new(&week) }
    }

    /// A moment from `from` (included) to `until` (not included), at least a week apart.
    pub(super) fn moment(&self, from: i64, until: i64, rng: &mut Rng) -> i64 {
        let week = WEEK_HOURS * HOUR;
        let (first, last) = ((from - START) / week, (until - 1 - START) / week);
        loop {
            let of_week = first + i64::from(rng.below((last - first + 1) as u32));
            let hour = self.hours.draw(rng) as i64;
            let time = START + of_week * week + hour * HOUR + i64::from(rng.below(HOUR as u32));
            if (from..until).contains(&time) {
                return time;
            }
        }
    }
}

/// A log-normal number with this mean and this standard deviation of its logarithm.
pub(super) fn long_tailed(mean: f64, spread: f64, rng: &mut Rng) -> f64 {
    mean * math::exp(spread * rng.normal() - spread * spread / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_within_bounds_and_follow_the_hours() {
        let rhythm = Rhythm::new();
        let mut rng = Rng::new(5);
        let (from, until) = (START + 10 * 86_400 + 7, START + 24 * 86_400);
        let hours: Vec<i64> = (0..20_000)
            .map(|_| rhythm.moment(from, until, &mut rng))
            .inspect(|time| assert!((from..until).contains(time)))
            .map(|time| (time - START) / HOUR % 24)
            .collect();
        let at = |hour| hours.iter().filter(|&&drawn| drawn == hour).count();
        assert!(at(19) > 8 * at(4), "{} {}", at(19), at(4));
    }

    #[test]
    fn long_tailed_has_the_given_mean() {
        let mut rng = Rng::new(6);
        let mean = (0..100_000).map(|_| long_tailed(22.0, 1.0, &mut rng)).sum::<f64>() / 100_000.0;
        assert!((mean - 22.0).abs() < 0.5, "{mean}");
    }
}
