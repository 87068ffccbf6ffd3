//! Shamir secret sharing of 32 bytes over GF(2^8), byte by byte. Runs in constant time: no branch or index depends on a
//! secret.

use crate::SecureRng;

/// One share of 32 bytes; its evaluation point is its holder's position in the neighbourhood.
pub(crate) type Share = [u8; 32];

/// `count` shares of a secret, any `threshold` of which reconstruct it, at the points 1, 2 and so on. `None` unless
/// 2 <= `threshold` <= `count` <= 255.
pub(crate) fn split(secret: &[u8; 32], threshold: usize, count: usize, rng: &mut SecureRng) -> Option<Vec<Share>> {
    if threshold < 2 || threshold > count {
        return None;
    }
    let mut coefficients = vec![[0; 32]; threshold];
    coefficients[0] = *secret;
    for byte in 0..32 {
        coefficients[1..].iter_mut().for_each(|coefficient| coefficient[byte] = rng.next_u32() as u8);
    }
    let evaluate = |x: u8| {
        coefficients.iter().rev().fold([0; 32], |mut sum, coefficient| {
            sum.iter_mut().zip(coefficient).for_each(|(sum, byte)| *sum = multiply(*sum, x) ^ byte);
            sum
        })
    };
    Some((1..=u8::try_from(count).ok()?).map(evaluate).collect())
}

/// The secret that shares at these points reconstruct (Lagrange interpolation at 0); with fewer than the threshold,
/// something else. `None` for fewer than two shares, a point 0 or a point twice.
pub(crate) fn combine(shares: &[(u8, Share)]) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    for (own, (x, share)) in shares.iter().enumerate() {
        let others = shares.iter().enumerate().filter(|(other, _)| *other != own).map(|(_, (x, _))| *x);
        let (above, below) = others.fold((1, 1), |(a, b), other| (multiply(a, other), multiply(b, other ^ x)));
        if shares.len() < 2 || *x == 0 || below == 0 {
            return None;
        }
        let weight = multiply(above, invert(below));
        secret.iter_mut().zip(share).for_each(|(sum, byte)| *sum ^= multiply(*byte, weight));
    }
    (!shares.is_empty()).then_some(secret)
}

/// The product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1.
#[inline(always)]
pub(crate) fn multiply(mut a: u8, b: u8) -> u8 {
    let mut product = 0;
    for bit in 0..8 {
        product ^= a & (b >> bit & 1).wrapping_neg();
        a = (a << 1) ^ (0x1b & (a >> 7).wrapping_neg());
    }
    product
}

/// a^254, which is the inverse of a; 0 for 0.
pub(crate) fn invert(a: u8) -> u8 {
    let powers = (0..6).fold(a, |z, _| multiply(multiply(z, z), a));
    multiply(powers, powers)
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
        fn threshold_shares_reconstruct_and_fewer_do_not(secret: [u8; 32], seed: [u8; 32], t in 2usize..20, more in 0usize..20, at in 0usize..20) {
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
    fn field_arithmetic_matches_fips_197() {
        // FIPS 197, section 4.2: {57} x {83} = {c1}, {57} x {13} = {fe}.
        assert_eq!((multiply(0x57, 0x83), multiply(0x57, 0x13)), (0xc1, 0xfe));
        assert!((1..=255).all(|a| multiply(a, invert(a)) == 1));
        assert_eq!(invert(0), 0);
    }

    /// Devices that were updated in the middle of a round must share as before.
    #[test]
    fn shares_of_a_seed_do_not_change() {
        let shares = split(&[9; 32], 3, 4, &mut SecureRng::new([1; 32])).unwrap();
        let expected = "8c79ba43e4f504716f17ffc2feebe7fc19c3595183e4581af63892ef44a2e484";
        assert_eq!(crate::tokens::to_hex(&shares[3]), expected);
    }

    #[test]
    fn rejects_impossible_numbers_and_points() {
        for (threshold, count) in [(1, 4), (5, 4), (5, 256)] {
            assert!(split(&[0; 32], threshold, count, &mut SecureRng::new([1; 32])).is_none());
        }
        for shares in [&[][..], &[(1, [5; 32])], &[(0, [5; 32]), (1, [6; 32])], &[(2, [5; 32]), (2, [5; 32])]] {
            assert_eq!(combine(shares), None);
        }
    }
}
