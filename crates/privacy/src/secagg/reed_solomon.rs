//! Secrets from shares of which some are false.
//!
//! Shamir's shares are a Reed-Solomon code: of `n` shares with threshold `t`, up to `(n - t) / 2` may be false, and the
//! polynomial is still the only one that close. Gao's algorithm (2003) finds it: interpolate what came, then stop the
//! extended Euclidean algorithm with the product of all `x - point` halfway.

use super::shamir::{Share, combine, invert, multiply};

/// Coefficients in GF(2^8) by ascending power, the last one not zero.
type Polynomial = Vec<u8>;

/// A secret, and which of the shares it came from were false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) secret: [u8; 32],
    /// Positions in the list of shares, ascending.
    pub(crate) wrong: Vec<usize>,
}

/// The secret that satisfies `is_right`. Tries the first `threshold` shares, which costs least; then corrects errors;
/// then every run of `threshold` consecutive shares, which finds some secrets beyond what a code can correct. False
/// shares are named if one of the first `threshold` was false, and then all of them.
pub(crate) fn recover(
    shares: &[(u8, Share)],
    threshold: usize,
    is_right: impl Fn(&[u8; 32]) -> bool,
) -> Option<Recovered> {
    if shares.len() < threshold || threshold < 2 {
        return None;
    }
    if let Some(secret) = combine(&shares[..threshold]).filter(&is_right) {
        return Some(Recovered { secret, wrong: Vec::new() });
    }
    if let Some(corrected) = correct(shares, threshold).filter(|found| is_right(&found.secret)) {
        return Some(corrected);
    }
    let run = |start: usize| shares.iter().cycle().skip(start).take(threshold).copied().collect::<Vec<_>>();
    let found = (1..shares.len()).map(run).find_map(|run| Some((combine(&run).filter(&is_right)?, run)));
    found.map(|(secret, run)| Recovered { secret, wrong: unlike(&run, shares) })
}

/// Positions of the shares that do not lie on the polynomial of these.
pub(crate) fn unlike(of: &[(u8, Share)], shares: &[(u8, Share)]) -> Vec<usize> {
    let differs = |(x, share): &(u8, Share)| {
        // In characteristic 2, f(x) is the value at 0 of the same points moved by x.
        let moved: Vec<_> = of.iter().map(|(point, share)| (point ^ x, *share)).collect();
        !of.contains(&(*x, *share)) && combine(&moved) != Some(*share)
    };
    shares.iter().enumerate().filter(|(_, share)| differs(share)).map(|(position, _)| position).collect()
}

/// The secret of the only polynomials that differ from few enough of the shares, byte by byte.
fn correct(shares: &[(u8, Share)], threshold: usize) -> Option<Recovered> {
    let points: Vec<u8> = shares.iter().map(|(x, _)| *x).collect();
    let (all, basis) = interpolation(&points)?;
    let (mut secret, mut wrong) = ([0; 32], vec![false; shares.len()]);
    for byte in 0..32 {
        let mut through = vec![0; points.len()];
        for (base, (_, share)) in basis.iter().zip(shares) {
            add_scaled(&mut through, share[byte], base);
        }
        let found = gao(&all, trimmed(through), points.len() + threshold, threshold)?;
        secret[byte] = found.first().copied().unwrap_or(0);
        for (wrong, (x, share)) in wrong.iter_mut().zip(shares) {
            *wrong |= evaluate(&found, *x) != share[byte];
        }
    }
    let wrong = wrong.iter().enumerate().filter(|(_, wrong)| **wrong).map(|(position, _)| position).collect();
    Some(Recovered { secret, wrong })
}

/// The product of all `x - point`, and for each point the polynomial that is 1 there and 0 at the others. `None` if a
/// point is there twice.
fn interpolation(points: &[u8]) -> Option<(Polynomial, Vec<Polynomial>)> {
    let mut all: Polynomial = vec![1];
    for &point in points {
        all.push(0);
        for power in (0..all.len()).rev() {
            let lower = if power > 0 { all[power - 1] } else { 0 };
            all[power] = lower ^ multiply(all[power], point);
        }
    }
    let base = |&point: &u8| {
        let mut others = divide(all.clone(), &[point, 1]).0;
        let weight = invert(evaluate(&others, point));
        others.iter_mut().for_each(|coefficient| *coefficient = multiply(*coefficient, weight));
        (weight != 0).then_some(others)
    };
    let basis = points.iter().map(base).collect::<Option<_>>()?;
    Some((all, basis))
}

/// The Euclidean algorithm until the remainder has a degree below half of `stop`, and the quotient that then must be
/// the code word.
fn gao(all: &[u8], through: Polynomial, stop: usize, threshold: usize) -> Option<Polynomial> {
    let (mut before, mut remainder) = (all.to_vec(), through);
    let (mut factor_before, mut factor): (Polynomial, Polynomial) = (Vec::new(), vec![1]);
    while !remainder.is_empty() && 2 * (remainder.len() - 1) >= stop {
        let (quotient, next) = divide(before, &remainder);
        before = std::mem::replace(&mut remainder, next);
        let mut next = factor_before;
        next.resize(next.len().max(quotient.len() + factor.len()), 0);
        for (power, coefficient) in quotient.iter().enumerate() {
            add_scaled(&mut next[power..], *coefficient, &factor);
        }
        factor_before = std::mem::replace(&mut factor, trimmed(next));
    }
    let (word, rest) = divide(remainder, &factor);
    (rest.is_empty() && word.len() <= threshold).then_some(word)
}

/// Quotient and remainder; the divisor is not zero.
fn divide(mut dividend: Polynomial, divisor: &[u8]) -> (Polynomial, Polynomial) {
    let (Some(&leading), true) = (divisor.last(), dividend.len() >= divisor.len()) else {
        return (Vec::new(), dividend);
    };
    let scale = invert(leading);
    let mut quotient = vec![0; dividend.len() + 1 - divisor.len()];
    for power in (0..quotient.len()).rev() {
        let coefficient = multiply(dividend[power + divisor.len() - 1], scale);
        quotient[power] = coefficient;
        add_scaled(&mut dividend[power..], coefficient, divisor);
    }
    (trimmed(quotient), trimmed(dividend))
}

fn add_scaled(to: &mut [u8], scale: u8, what: &[u8]) {
    if scale != 0 {
        to.iter_mut().zip(what).for_each(|(sum, coefficient)| *sum ^= multiply(*coefficient, scale));
    }
}

fn evaluate(polynomial: &[u8], x: u8) -> u8 {
    polynomial.iter().rev().fold(0, |sum, coefficient| multiply(sum, x) ^ coefficient)
}

fn trimmed(mut polynomial: Polynomial) -> Polynomial {
    let length = polynomial.iter().rposition(|coefficient| *coefficient != 0).map_or(0, |last| last + 1);
    polynomial.truncate(length);
    polynomial
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecureRng;
    use crate::secagg::shamir::split;
    use proptest::prelude::*;

    fn shares(secret: &[u8; 32], threshold: usize, count: usize, seed: [u8; 32]) -> Vec<(u8, Share)> {
        let shares = split(secret, threshold, count, &mut SecureRng::new(seed)).unwrap();
        (1..).zip(shares).collect()
    }

    /// Makes this many shares false, drawn at random; returns their positions.
    fn falsify(shares: &mut [(u8, Share)], count: usize, seed: [u8; 32]) -> Vec<usize> {
        let mut source = SecureRng::new(seed).stream("liars", 0);
        let mut places: Vec<usize> = (0..shares.len()).collect();
        for last in (1..places.len()).rev() {
            places.swap(last, source.next_u32() as usize % (last + 1));
        }
        places.truncate(count);
        places.sort_unstable();
        for &place in &places {
            // One bit, one byte, or everything.
            match source.next_u32() % 3 {
                0 => shares[place].1[source.next_u32() as usize % 32] ^= 1 << (source.next_u32() % 8),
                1 => shares[place].1[source.next_u32() as usize % 32] ^= 1 + (source.next_u32() % 255) as u8,
                _ => shares[place].1.iter_mut().for_each(|byte| *byte ^= 1 + (source.next_u32() % 255) as u8),
            }
        }
        places
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn false_shares_up_to_half_of_the_slack_are_corrected_and_named(
            secret: [u8; 32], seed: [u8; 32], t in 2usize..40, more in 0usize..40, less in 0usize..4,
        ) {
            let mut all = shares(&secret, t, t + more, seed);
            let count = (more / 2).saturating_sub(less);
            let liars = falsify(&mut all, count, seed);
            // Also without knowing which secret is right.
            let found = correct(&all, t).unwrap();
            prop_assert_eq!((found.secret, &found.wrong), (secret, &liars));
            let found = recover(&all, t, |found| *found == secret).unwrap();
            prop_assert_eq!(found.secret, secret);
            let named = if liars.first().is_some_and(|first| *first < t) { liars } else { Vec::new() };
            prop_assert_eq!(found.wrong, named);
        }

        #[test]
        fn too_many_false_shares_are_never_taken_for_the_secret(
            secret: [u8; 32], seed: [u8; 32], t in 2usize..12, more in 0usize..12, beyond in 1usize..12,
        ) {
            let mut all = shares(&secret, t, t + more, seed);
            let liars = (more / 2 + beyond).min(t + more);
            falsify(&mut all, liars, seed);
            if let Some(found) = recover(&all, t, |found| *found == secret) {
                prop_assert_eq!(found.secret, secret);
            }
        }
    }

    #[test]
    fn two_false_shares_among_72_do_not_hide_the_secret() {
        let secret = [0xa5; 32];
        // Every pair of positions would take long; these meet all runs of 66 consecutive shares.
        for (one, other) in [(0, 36), (5, 40), (0, 71), (35, 36), (10, 66)] {
            let mut all = shares(&secret, 66, 72, [7; 32]);
            all[one].1[3] ^= 0x40;
            all[other].1 = [0; 32];
            let found = recover(&all, 66, |found| *found == secret).unwrap();
            assert_eq!((found.secret, found.wrong), (secret, vec![one, other]));
        }
    }

    #[test]
    fn points_there_twice_and_too_few_shares_are_refused() {
        let mut all = shares(&[1; 32], 3, 5, [1; 32]);
        assert_eq!(recover(&all[..2], 3, |_| true), None);
        all[1].0 = all[0].0;
        assert_eq!(correct(&all, 3), None);
    }
}
