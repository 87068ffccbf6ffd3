//! Information gain of a feature about a user's choices.

use sottovoce_core::math;

/// The information gain (6.7) of a feature that `own` of a user's `positives` items have, and `other` of `negatives`
/// items that the user does not have, in bits; eq. (6.8) and (6.9) with 0 log 0 = 0. As many negatives as positives have the
/// entropy 1 to begin with, as in the thesis.
///
/// ```
/// use sottovoce_models::federated::kgflex::information_gain;
/// assert_eq!(information_gain([2, 0], [2, 2]), 1.0);
/// assert_eq!(information_gain([1, 1], [2, 2]), 0.0);
/// ```
pub fn information_gain(having: [u32; 2], all: [u32; 2]) -> f64 {
    gain(having.map(f64::from), all.map(f64::from))
}

/// The same where there may be more negatives than positives: each positive counts for as many as there are negatives to
/// one of it, so that both sides weigh alike, whatever their number.
pub(super) fn balanced_gain([own, other]: [u32; 2], [positives, negatives]: [u32; 2]) -> f64 {
    let (positives, negatives) = (f64::from(positives), f64::from(negatives));
    let a_positive = negatives / positives.max(1.0);
    gain([f64::from(own) * a_positive, f64::from(other)], [positives * a_positive, negatives])
}

fn gain([own, other]: [f64; 2], [positives, negatives]: [f64; 2]) -> f64 {
    let all = positives + negatives;
    let part = |p: f64, n: f64| (p + n) / all * entropy(p, n);
    let without = part((positives - own).max(0.0), (negatives - other).max(0.0));
    let gain = entropy(positives, negatives) - part(own, other) - without;
    // Of features without information, rounding may leave slightly less or more than 0.
    if all > 0.0 && gain > 1e-12 { gain } else { 0.0 }
}

/// The entropy of a choice between so many and so many, in bits (6.4).
fn entropy(p: f64, n: f64) -> f64 {
    if p <= 0.0 || n <= 0.0 {
        return 0.0;
    }
    let all = p + n;
    let term = |count: f64| {
        let share = count / all;
        -share * math::log2(share)
    };
    term(p) + term(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, proptest};

    /// Example 6.3: Pink was in the Rijksmuseum and the Vondelpark, and not on Piazza Navona and in Central Park.
    #[test]
    fn the_thesis_example() {
        let gain = |p, n| information_gain([p, n], [2, 2]);
        // <location, Amsterdam>, <type, Art Museum>, <type, Urban Park>, <type, Location>.
        assert_eq!([gain(2, 0), gain(1, 1), gain(2, 2)], [1.0, 0.0, 0.0]);
        assert!((gain(1, 0) - 0.311_278_124_459_133).abs() < 1e-12, "{}", gain(1, 0));
    }

    /// From the samples one by one: H(D) - H(D | f), by frequencies.
    fn by_hand(samples: &[(bool, bool)]) -> f64 {
        let bits = |samples: &[(bool, bool)]| {
            let of = |class| samples.iter().filter(|sample| sample.0 == class).count() as f64;
            let shares = [of(true) / samples.len() as f64, of(false) / samples.len() as f64];
            shares.iter().filter(|&&share| share > 0.0).map(|share| -share * share.log2()).sum::<f64>()
        };
        let split = |value| samples.iter().copied().filter(|sample| sample.1 == value).collect::<Vec<_>>();
        let rest = [split(true), split(false)];
        let weighed = rest.iter().filter(|part| !part.is_empty());
        bits(samples) - weighed.map(|part| part.len() as f64 / samples.len() as f64 * bits(part)).sum::<f64>()
    }

    proptest! {
        #[test]
        fn it_is_the_entropy_that_samples_lose(samples in prop::collection::vec(any::<(bool, bool)>(), 1..200)) {
            let count = |class, feature| samples.iter().filter(|sample| **sample == (class, feature)).count() as u32;
            let with = [count(true, true), count(false, true)];
            let all = [with[0] + count(true, false), with[1] + count(false, false)];
            let (found, expected) = (information_gain(with, all), by_hand(&samples));
            prop_assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
