//! Confidence intervals by resampling users.

use crate::quantiles::quantile;
use rayon::prelude::*;
use serde::Serialize;
use sottovoce_core::Rng;

/// A range that holds the mean with the confidence asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Percentile bootstrap interval of the mean, such as `confidence` 0.95 from 1,000 `resamples`.
///
/// Values that are not numbers are left out first. Each resample has an own stream of the seed, so the result is the
/// same on any number of threads. `None` without values or resamples.
pub fn bootstrap_mean(values: &[f64], confidence: f64, resamples: usize, seed: u64) -> Option<Interval> {
    let values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    if values.is_empty() || resamples == 0 {
        return None;
    }
    let root = Rng::new(seed);
    let mut means: Vec<f64> = (0..resamples)
        .into_par_iter()
        .map(|resample| {
            let mut rng = root.stream("bootstrap", resample as u64);
            let sum: f64 = values.iter().map(|_| values[rng.index(values.len())]).sum();
            sum / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    Some(Interval { low: quantile(&means, tail), high: quantile(&means, 1.0 - tail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_has_the_stated_coverage() {
        let mut rng = Rng::new(9);
        let covered = (0..300)
            .filter(|&trial| {
                let values: Vec<f64> = (0..80).map(|_| rng.exponential()).collect();
                let interval = bootstrap_mean(&values, 0.9, 400, trial).unwrap();
                interval.low <= 1.0 && 1.0 <= interval.high
            })
            .count();
        assert!((250..=288).contains(&covered), "{covered} of 300, expected about 270 or a few less");
    }

    #[test]
    fn depends_on_the_seed_but_not_on_threads() {
        let values: Vec<f64> = (0..500).map(|i| f64::from(i % 17)).chain([f64::NAN]).collect();
        let on = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| bootstrap_mean(&values, 0.95, 200, seed)).unwrap()
        };
        assert_eq!(on(1, 4), on(3, 4));
        assert_ne!(on(1, 4), on(1, 5));
        assert_eq!(bootstrap_mean(&[f64::NAN], 0.95, 10, 0), None);
    }
}
