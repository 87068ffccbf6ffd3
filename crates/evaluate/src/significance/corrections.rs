//! Corrections for many comparisons in one table.

/// Bonferroni: each p times the number of comparisons, at most 1. A comparison without a p (NaN) is not counted.
pub(super) fn bonferroni(p: &[f64]) -> Vec<f64> {
    let count = p.iter().filter(|p| !p.is_nan()).count() as f64;
    p.iter().map(|&p| if p.is_nan() { p } else { (p * count).min(1.0) }).collect()
}

/// Holm's step-down: the smallest p times m, the next times m - 1 and so on, never below one before, at most 1.
/// As safe as [`bonferroni`] and never weaker. A comparison without a p (NaN) is not counted.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&index| !p[index].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = p.to_vec();
    let mut greatest = 0.0f64;
    for (place, &index) in order.iter().enumerate() {
        greatest = greatest.max((p[index] * (order.len() - place) as f64).min(1.0));
        corrected[index] = greatest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15 || found.is_nan() && expected.is_nan(), "{found} {expected}");
        }
    }

    #[test]
    fn corrections_computed_by_hand() {
        let p = [0.03, 0.01, 0.6, 0.02, 0.025];
        close(&bonferroni(&p), &[0.15, 0.05, 1.0, 0.1, 0.125]);
        // Ascending: 0.01 * 5, 0.02 * 4, 0.025 * 3 -> not below 0.08, 0.03 * 2 -> not below 0.08, 0.6 * 1.
        close(&holm(&p), &[0.08, 0.05, 0.6, 0.08, 0.08]);
        close(&holm(&[0.4, f64::NAN, 0.03]), &[0.4, f64::NAN, 0.06]);
        close(&bonferroni(&[0.4, f64::NAN, 0.03]), &[0.8, f64::NAN, 0.06]);
    }
}
