//! Wilcoxon's signed-rank test.

use statrs::function::erf::erfc;

/// Up to this many differences without ties the exact distribution is used.
const EXACT_UP_TO: usize = 50;

/// Result of a signed-rank test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SignedRank {
    /// The smaller of the rank sums of positive and negative differences.
    pub(super) statistic: f64,
    /// Two-sided.
    pub(super) p: f64,
}

/// Tests whether paired differences lie symmetrically around 0.
///
/// Differences of 0 are dropped (Wilcoxon's way). Up to 50 differences without ties have the exact p; otherwise it
/// comes from the normal approximation with corrections for ties and continuity. p = 1 if nothing is left.
pub(super) fn wilcoxon(differences: &[f64]) -> SignedRank {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|&difference| difference != 0.0).collect();
    if sorted.is_empty() {
        return SignedRank { statistic: 0.0, p: 1.0 };
    }
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranked = rank(&sorted);
    let n = sorted.len();
    let all = (n * (n + 1)) as f64 / 2.0;
    let statistic = ranked.positive.min(all - ranked.positive);
    let exact = n <= EXACT_UP_TO && ranked.ties == 0.0;
    let p = if exact { exact_p(statistic as usize, n) } else { normal_p(statistic, n as f64, ranked.ties) };
    SignedRank { statistic, p }
}

struct Ranked {
    /// Sum of the ranks of positive differences; equal ones share their mean rank.
    positive: f64,
    /// Sum of t^3 - t over groups of t equal differences.
    ties: f64,
}

fn rank(sorted: &[f64]) -> Ranked {
    let (mut positive, mut ties, mut start) = (0.0, 0.0, 0);
    for group in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        let size = group.len() as f64;
        let shared = start as f64 + (size + 1.0) / 2.0;
        positive += shared * group.iter().filter(|&&difference| difference > 0.0).count() as f64;
        ties += size * size * size - size;
        start += group.len();
    }
    Ranked { positive, ties }
}

/// Of all 2^n choices of signs, the share with a rank sum of at most `statistic`, twice.
fn exact_p(statistic: usize, n: usize) -> f64 {
    // sums[s]: number of subsets of the ranks so far with sum s; at most 2^50, exact in f64.
    let mut sums = vec![0.0; n * (n + 1) / 2 + 1];
    sums[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..sums.len()).rev() {
            sums[sum] += sums[sum - rank];
        }
    }
    let tail: f64 = sums[..=statistic].iter().sum();
    (2.0 * tail / f64::from(n as u32).exp2()).min(1.0)
}

fn normal_p(statistic: f64, n: f64, ties: f64) -> f64 {
    let mean = n * (n + 1.0) / 4.0;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    let distance = (mean - statistic - 0.5).max(0.0);
    erfc(distance / variance.sqrt() / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(differences: &[f64], statistic: f64, p: f64) {
        let found = wilcoxon(differences);
        assert_eq!(found.statistic, statistic);
        assert!((found.p - p).abs() <= 1e-10 * p, "{}, expected {p}", found.p);
    }

    fn waves(n: i32) -> Vec<f64> {
        (0..n).map(|i| f64::from((i * 37) % 61) / 61.0 - (f64::from((i * 23 + 5) % 59) / 59.0 - 0.11)).collect()
    }

    #[test]
    fn exact_p_agrees_with_scipy() {
        check(&[4.0, -3.0, 9.0, 1.0, 12.0, -2.0, 14.0, 5.0, 15.0, 6.0], 5.0, 0.01953125);
        check(&[1.0, 2.0, 3.0, -4.5, 5.25], 4.0, 0.4375);
        check(&waves(50), 483.0, 0.13807290852462017);
        // Zeros are dropped, and do not end the exact test.
        check(&[1.0, 0.0, 2.0, 3.0, -4.5, 0.0, 5.25], 4.0, 0.4375);
    }

    #[test]
    fn normal_approximation_agrees_with_scipy() {
        let a = [4, 2, 6, 8, 1, 4, 7, 2, 0, 5, 3, 4];
        let b = [2, 2, 4, 6, 2, 1, 4, 2, 1, 3, 4, 0];
        let tied: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(a - b) / 8.0).collect();
        check(&tied, 6.0, 0.030643077579498194);
        check(&waves(60), 685.0, 0.09112597086696379);
        let far: Vec<f64> =
            (0..200).map(|i| (1.0 + f64::from((i * 7) % 13) / 13.0) - f64::from((i * 5) % 11) / 11.0).collect();
        check(&far, 0.0, 1.4458406428440708e-34);
    }

    #[test]
    fn p_is_1_without_or_with_balanced_differences() {
        assert_eq!(wilcoxon(&[0.0, 0.0]), SignedRank { statistic: 0.0, p: 1.0 });
        assert_eq!(wilcoxon(&[1.0, -1.0]).p, 1.0);
        assert_eq!(wilcoxon(&[2.0, 1.0, -3.0]).p, 1.0);
    }
}
