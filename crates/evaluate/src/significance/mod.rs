//! Is the difference between two models more than chance?
//!
//! All tests are paired, on per-user values, and two-sided. With thousands of users even a tiny difference is
//! significant: the effect size stands beside every p.

mod bootstrap;
mod compare;
mod corrections;
mod student;
mod wilcoxon;

pub use bootstrap::{Interval, bootstrap_mean};
pub use compare::{Against, CompareError, Comparison, Corrected, compare};

/// Mean and sample standard deviation (n - 1); the deviation is NaN below two values, both are without any.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, if values.len() < 2 { f64::NAN } else { (squares / (n - 1.0)).sqrt() })
}
