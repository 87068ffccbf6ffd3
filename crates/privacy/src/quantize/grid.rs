//! The quantisation grid: multiples of a power of two.

use thiserror::Error;

/// The largest sum: integers are added modulo 2^32 and read as signed.
const ROOM: f64 = 2_147_483_647.0;
/// The finest and the coarsest grid.
const BITS: std::ops::RangeInclusive<i32> = -16..=30;

/// The grid to which values are rounded, so that sums are exact and noise is added to integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Values are clamped to this magnitude.
    range: f32,
    /// Updates are clipped to this norm. `None`: not clipped.
    clip: Option<f32>,
    /// The norm of clipping.
    norm: Norm,
    /// There are 2^bits steps in 1.
    bits: i32,
}

/// The norm of an update, over all its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// L2.
    Euclidean,
    /// L1.
    Absolute,
}

impl Norm {
    fn length(self, values: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Euclidean => values.map(|value| value * value).sum::<f64>().sqrt(),
            Self::Absolute => values.map(f64::abs).sum(),
        }
    }
}

/// Why there is no grid.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum GridError {
    /// Not a positive number. Fields: what was given; the number.
    #[error("{0} = {1}: expected a number above 0")]
    NotPositive(&'static str, f32),
    /// Sums would exceed their bits on any grid. Fields: updates that are added; the largest value.
    #[error("{0} updates with values up to {1} leave no room in the bits of a sum")]
    NoRoom(u64, f32),
}

impl Grid {
    /// The finest grid on which the sum of so many updates, with noise up to `reach`, fits 32 bits. Clipping is by the
    /// L2 norm.
    ///
    /// # Errors
    /// If a bound is not a positive number, or there is no such grid.
    pub fn choose(range: f32, clip: Option<f32>, devices: u64, reach: f64) -> Result<Self, GridError> {
        Self::with_room(ROOM, (range, clip), devices, reach)
    }

    /// The same where sums have this many bits, their sign among them.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub fn for_sums_of(bits: u32, range: f32, devices: u64) -> Result<Self, GridError> {
        Self::with_room(power(bits as i32 - 1) - 1.0, (range, None), devices, 0.0)
    }

    /// Whole numbers up to 1.
    pub fn of_ones() -> Self {
        Self { range: 1.0, clip: None, norm: Norm::Euclidean, bits: 0 }
    }

    fn with_room(room: f64, (range, clip): (f32, Option<f32>), devices: u64, reach: f64) -> Result<Self, GridError> {
        for (what, found) in [("range", Some(range)), ("clip", clip)] {
            if let Some(found) = found.filter(|found| !(found.is_finite() && *found > 0.0)) {
                return Err(GridError::NotPositive(what, found));
            }
        }
        let count = devices.max(1) as f64;
        // No value of a clipped update exceeds its norm.
        let range = clip.map_or(range, |clip| range.min(clip));
        let fits = |bits: &i32| {
            let one = power(*bits);
            let largest = (f64::from(range) * one).ceil();
            count * largest + reach * one <= room
        };
        let bits = BITS.rev().find(fits).ok_or(GridError::NoRoom(devices, range))?;
        Ok(Self { range, clip, norm: Norm::Euclidean, bits })
    }

    /// The same, clipping by this norm.
    #[must_use]
    pub fn measuring(self, norm: Norm) -> Self {
        Self { norm, ..self }
    }

    /// The same, so coarse that values within the range are integers of 24 bits, exact in an f32.
    #[must_use]
    pub fn within_24_bits(mut self) -> Self {
        while f64::from(self.range) * power(self.bits) > f64::from(1 << 24) {
            self.bits -= 1;
        }
        self
    }

    /// Steps of the grid in 1.
    pub fn steps(&self) -> f64 {
        power(self.bits)
    }

    /// The value of a number of steps.
    pub fn value(&self, steps: i64) -> f32 {
        (steps as f64 / power(self.bits)) as f32
    }

    /// How the values of one update are rounded: to the nearest step, or towards zero where that would exceed the
    /// clipping norm.
    pub(super) fn rounding<'a>(&self, values: impl Iterator<Item = &'a [f32]> + Clone) -> Rounding {
        let (steps, most) = (power(self.bits), (f64::from(self.range) * power(self.bits)).floor());
        let Some(clip) = self.clip else {
            return Rounding { factor: steps, most, nearest: true, within: true };
        };
        let norm = self.norm.length(values.clone().flatten().map(|&value| f64::from(value)));
        let clip = f64::from(clip);
        let within = norm <= clip;
        // A little less, so that rounding errors of the product do not matter.
        let factor = if within { steps } else { steps * (clip / norm) * (1.0 - 1e-12) };
        let nearest = Rounding { factor, most, nearest: true, within };
        let rounded = self.norm.length(values.flatten().map(|&value| f64::from(nearest.steps(value))));
        Rounding { nearest: rounded <= clip * steps, ..nearest }
    }
}

/// 2^bits, exactly.
fn power(bits: i32) -> f64 {
    let whole = (1u64 << bits.unsigned_abs()) as f64;
    if bits < 0 { 1.0 / whole } else { whole }
}

/// From values to steps, for one update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounding {
    factor: f64,
    most: f64,
    nearest: bool,
    /// Whether the update was within the clip.
    pub(super) within: bool,
}

impl Rounding {
    /// The same, rounded up or down by a number in 0..1 that is drawn for it, so that sums are right on average however
    /// coarse the grid is.
    pub(super) fn steps_at_random(&self, value: f32, drawn: f64) -> i32 {
        (f64::from(value) * self.factor + drawn).floor().clamp(-self.most, self.most) as i32
    }

    pub(super) fn steps(&self, value: f32) -> i32 {
        let scaled = f64::from(value) * self.factor;
        let rounded = if self.nearest { scaled.round_ties_even() } else { scaled.trunc() };
        rounded.clamp(-self.most, self.most) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, proptest};

    #[test]
    fn chooses_the_finest_grid_with_room() {
        let grid = Grid::choose(1.0, None, 100, 0.0).unwrap();
        assert_eq!(grid.steps(), f64::from(1 << 24));
        assert!(100.0 * grid.steps() < ROOM && 200.0 * grid.steps() > ROOM);
        let noisy = Grid::choose(1.0, Some(1.0), 100, 120.0).unwrap();
        assert!(noisy.steps() < grid.steps());
        assert_eq!(Grid::choose(1e6, None, 1 << 31, 0.0), Err(GridError::NoRoom(1 << 31, 1e6)));
        let error = Grid::choose(f32::NAN, None, 1, 0.0).unwrap_err();
        assert_eq!(error.to_string(), "range = NaN: expected a number above 0");
    }

    proptest! {
        #[test]
        fn clipped_updates_stay_within_the_norm(
            values in prop::collection::vec(-5.0f32..5.0, 1..60),
            clip in 0.01f32..3.0,
            devices in 1u64..100_000,
            absolute in any::<bool>(),
        ) {
            let norm = if absolute { Norm::Absolute } else { Norm::Euclidean };
            let grid = Grid::choose(10.0, Some(clip), devices, 12.0).unwrap().measuring(norm);
            let rounding = grid.rounding([&values[..]].into_iter());
            let steps = values.iter().map(|&value| f64::from(rounding.steps(value)));
            prop_assert!(norm.length(steps) <= f64::from(clip) * grid.steps());
        }

        #[test]
        fn rounding_error_is_at_most_half_a_step(value in any::<f32>(), devices in 1u64..1000) {
            let grid = Grid::choose(4.0, None, devices, 0.0).unwrap();
            let rounding = grid.rounding([&[value][..]].into_iter());
            let back = grid.value(i64::from(rounding.steps(value)));
            let expected = if value.is_nan() { 0.0 } else { value.clamp(-4.0, 4.0) };
            prop_assert!(f64::from(back - expected).abs() <= 0.5 / grid.steps() + 1e-7 * 4.0, "{value} {back}");
        }
    }
}
