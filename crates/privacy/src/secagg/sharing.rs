//! Shamir's sharing of 32 secret bytes over GF(256).

use crate::SecureRng;
use vsss_rs::Gf256;

/// One share of 32 bytes; at which point it lies, its holder's place in the neighbourhood says.
pub(crate) type Share = [u8; 32];

/// `count` shares of a secret, `threshold` of which open it; the first lies at point 1. `None` where the numbers cannot be.
pub(crate) fn split(
    secret: &[u8; 32],
    threshold: usize,
    count: usize,
    source: &mut SecureRng,
) -> Option<Vec<Share>> {
    let shares = Gf256::split_bytes(threshold, count, secret, source).ok()?;
    shares.iter().map(|share| share.get(1..)?.try_into().ok()).collect()
}

/// The secret that shares at these points say; with fewer than the threshold, something else.
pub(crate) fn combine(shares: &[(u8, Share)]) -> Option<[u8; 32]> {
    let lengthened: Vec<Vec<u8>> = shares
        .iter()
        .map(|(point, share)| std::iter::once(*point).chain(share.iter().copied()).collect())
        .collect();
    Gf256::combine_bytes(lengthened).ok()?.try_into().ok()
}

/// The secret that satisfies `known`, from any `threshold` neighbouring ones of the shares: a false share here and there is
/// worked around while enough others are there.
pub(crate) fn recover(
    shares: &[(u8, Share)],
    threshold: usize,
    known: impl Fn(&[u8; 32]) -> bool,
) -> Option<[u8; 32]> {
    let turns = if shares.len() > threshold { shares.len() } else { 1 };
    let around = |turn: usize| -> Vec<(u8, Share)> {
        shares.iter().cycle().skip(turn).take(threshold).copied().collect()
    };
    (0..turns).filter_map(|turn| combine(&around(turn))).find(|secret| known(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(shares: &[Share]) -> Vec<(u8, Share)> {
        shares.iter().zip(1..).map(|(share, point)| (point, *share)).collect()
    }

    proptest! {
        #[test]
        fn any_threshold_of_shares_open_and_one_less_does_not(secret: [u8; 32], seed: [u8; 32], t in 2usize..20, more in 0usize..20, at in 0usize..20) {
            let shares = points(&split(&secret, t, t + more, &mut SecureRng::new(seed)).unwrap());
            let mut turned = shares;
            turned.rotate_left(at % (t + more));
            prop_assert_eq!(combine(&turned[..t]), Some(secret));
            if t > 2 {
                prop_assert_ne!(combine(&turned[..t - 1]), Some(secret));
            }
        }
    }

    #[test]
    fn false_shares_are_worked_around_while_enough_others_are_there() {
        let secret = [9; 32];
        let mut shares = points(&split(&secret, 5, 8, &mut SecureRng::new([1; 32])).unwrap());
        shares[2].1[0] ^= 1;
        shares[4].1[7] ^= 1;
        assert_eq!(recover(&shares, 5, |found| *found == secret), Some(secret));
        assert_eq!(recover(&shares[..5], 5, |found| *found == secret), None);
        assert_eq!(recover(&shares[..3], 5, |found| *found == secret), None);
    }

    #[test]
    fn numbers_that_cannot_be_give_nothing() {
        assert!(split(&[0; 32], 1, 4, &mut SecureRng::new([1; 32])).is_none());
        assert!(split(&[0; 32], 5, 4, &mut SecureRng::new([1; 32])).is_none());
        assert!(split(&[0; 32], 5, 256, &mut SecureRng::new([1; 32])).is_none());
        assert!(combine(&[]).is_none());
    }
}
