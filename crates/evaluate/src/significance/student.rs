//! Student's t-test for paired values.

use super::mean_and_deviation;
use statrs::function::beta::checked_beta_reg;

/// Result of a paired t-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PairedT {
    /// Mean difference / its standard error.
    pub(super) t: f64,
    /// Two-sided.
    pub(super) p: f64,
}

/// Tests whether the mean of paired differences is 0.
///
/// Differences that are all equal have no spread to compare with: all 0 gives t = 0 and p = 1, another constant an
/// infinite t and p = 0. NaN below two pairs.
pub(super) fn paired_t(differences: &[f64]) -> PairedT {
    let (mean, deviation) = mean_and_deviation(differences);
    let n = differences.len() as f64;
    let t = if mean == 0.0 && deviation == 0.0 { 0.0 } else { mean / (deviation / n.sqrt()) };
    PairedT { t, p: two_sided(t, n - 1.0) }
}

/// P(|T| >= |t|) = I_x(df / 2, 1 / 2) with x = df / (df + t^2): exact in the far tail, where 1 - cdf would be 0.
fn two_sided(t: f64, degrees: f64) -> f64 {
    if t.is_nan() {
        return f64::NAN;
    }
    let x = degrees / (degrees + t * t);
    checked_beta_reg(degrees / 2.0, 0.5, x).unwrap_or(f64::NAN)
}

/// Cohen's d of paired values (d_z): mean difference / standard deviation of the differences. 0 if there is none.
pub(super) fn cohens_d(differences: &[f64]) -> f64 {
    let (mean, deviation) = mean_and_deviation(differences);
    if mean == 0.0 && deviation == 0.0 { 0.0 } else { mean / deviation }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-10 * expected.abs(), "{found}, expected {expected}");
    }

    #[test]
    fn agrees_with_scipy() {
        let a = [20, 27, 35, 8, 63, 30, 42, 17, 52, 25];
        let b = [16, 30, 26, 7, 51, 32, 28, 12, 37, 19];
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(a - b) / 64.0).collect();
        let found = paired_t(&differences);
        close(found.t, 3.029452574216091);
        close(found.p, 0.01425932259876033);
        close(cohens_d(&differences), 0.9579970197983133);
    }

    #[test]
    fn agrees_with_scipy_in_the_far_tail() {
        let differences: Vec<f64> =
            (0..200).map(|i| 1.0 + f64::from((i * 7) % 13) / 13.0 - f64::from((i * 5) % 11) / 11.0).collect();
        let found = paired_t(&differences);
        close(found.t, 33.03826032786683);
        close(found.p, 1.0057920818929248e-82);
        close(cohens_d(&differences), 2.3361577916441125);
    }

    #[test]
    fn handles_constant_differences() {
        assert_eq!(paired_t(&[0.0; 4]), PairedT { t: 0.0, p: 1.0 });
        assert_eq!(paired_t(&[-0.5; 4]), PairedT { t: f64::NEG_INFINITY, p: 0.0 });
        assert!(paired_t(&[0.5]).p.is_nan());
        assert_eq!(cohens_d(&[0.0; 4]), 0.0);
    }
}
