//! The logistic function from a table, for loops that wait for it.

use sottovoce_core::math;

/// Entries for each unit of x.
const RESOLUTION: usize = 64;
/// The table reaches from -LIMIT to LIMIT; beyond, the function is within 2e-7 of 0 or 1.
const LIMIT: usize = 16;
const SIZE: usize = 2 * LIMIT * RESOLUTION;

/// 1 / (1 + e^-x) by linear interpolation, within 4e-6: a third of the latency of computing it.
pub(crate) struct Logistic {
    values: Box<[f32; SIZE + 1]>,
}

impl Logistic {
    /// Fills the table.
    pub(crate) fn new() -> Self {
        let mut values = Box::new([0.0; SIZE + 1]);
        for (place, value) in values.iter_mut().enumerate() {
            let x = place as f64 / RESOLUTION as f64 - LIMIT as f64;
            *value = (1.0 / (1.0 + math::exp(-x))) as f32;
        }
        Self { values }
    }

    /// The function at x; 0.5 or less for a NaN, which the caller must find otherwise.
    #[inline(always)]
    pub(crate) fn at(&self, x: f32) -> f32 {
        const EDGE: f32 = (LIMIT * RESOLUTION - 1) as f32;
        let place = (x * RESOLUTION as f32).clamp(-EDGE, EDGE) + (LIMIT * RESOLUTION) as f32;
        let below = place as u32 as usize % SIZE;
        let (low, high) = (self.values[below], self.values[below + 1]);
        low + (place - below as f32) * (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_close_rising_and_bounded() {
        let table = Logistic::new();
        let mut last = 0.0;
        for step in -30_000..30_000 {
            let x = step as f32 * 1e-3;
            let value = table.at(x);
            assert!((f64::from(value) - 1.0 / (1.0 + (-f64::from(x)).exp())).abs() < 4e-6, "{x}");
            assert!(value >= last && value <= 1.0, "{x}");
            last = value;
        }
        assert!(table.at(f32::INFINITY) > 0.999_999 && table.at(f32::NEG_INFINITY) < 1e-6);
    }
}
