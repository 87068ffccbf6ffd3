use super::*;
use std::collections::{BTreeMap, HashSet};

/// Pearson's chi-square of draws against weights of -reach..=reach (the rest in two more classes), and how many classes
/// of at least 10 expected draws there are, less one.
fn chi_square(draws: &[i64], reach: i64, weight: impl Fn(i64) -> f64) -> (f64, f64) {
    let total: f64 = (-40 * reach..=40 * reach).map(&weight).sum();
    let mut seen = BTreeMap::<i64, f64>::new();
    draws.iter().for_each(|&x| *seen.entry(x.clamp(-reach - 1, reach + 1)).or_default() += 1.0);
    let tail: f64 = (reach + 1..=40 * reach).map(&weight).sum();
    let (mut sum, mut classes) = (0.0, 0.0);
    for class in -reach - 1..=reach + 1 {
        let share = if class.abs() > reach { tail } else { weight(class) } / total;
        let expected = share * draws.len() as f64;
        if expected >= 10.0 {
            sum += (seen.get(&class).unwrap_or(&0.0) - expected).powi(2) / expected;
            classes += 1.0;
        }
    }
    (sum, classes - 1.0)
}

/// Five standard deviations of a chi-square distribution of so many degrees of freedom.
fn likely((sum, freedom): (f64, f64)) -> bool {
    (sum - freedom).abs() < 5.0 * (2.0 * freedom).sqrt()
}

fn draws(noise: &impl Noise, count: usize, seed: u8) -> Vec<i64> {
    let mut values = vec![0; count];
    noise.add_to(&mut SecureRng::new([seed; 32]), &mut values);
    values
}

/// The sigma that is drawn with.
fn rounded_up(sigma: f64) -> f64 {
    let Scale { mantissa, exponent } = Scale::at_least("sigma", sigma).unwrap();
    libm::scalbn(mantissa as f64, exponent)
}

#[test]
fn gaussian_frequencies_match() {
    for (seed, sigma) in [0.3, 0.9, 1.0, 2.5, 7.0, 30.0].into_iter().enumerate() {
        let noise = DiscreteGaussian::new(sigma).unwrap();
        let exact = rounded_up(sigma);
        assert!((1.0..1.000_14).contains(&(exact / sigma)));
        let reach = (4.0 * sigma).ceil() as i64;
        let found =
            chi_square(&draws(&noise, 60_000, seed as u8), reach, |x| (-(x as f64 / exact).powi(2) / 2.0).exp());
        assert!(likely(found), "sigma {sigma}: {found:?}");
    }
}

#[test]
fn laplace_frequencies_match() {
    for (seed, scale) in [0.2, 0.7, 1.0, 3.3, 20.0].into_iter().enumerate() {
        let noise = DiscreteLaplace::new(scale).unwrap();
        let exact = noise.above as f64 / noise.under as f64;
        assert!((1.0..1.000_14).contains(&(exact / scale)));
        let reach = (6.0 * scale).ceil() as i64;
        let found = chi_square(&draws(&noise, 60_000, 40 + seed as u8), reach, |x| (-(x.abs() as f64) / exact).exp());
        assert!(likely(found), "scale {scale}: {found:?}");
    }
}

/// The test can fail: the wrong sigma by 3 % is noticed.
#[test]
fn chi_square_detects_a_wrong_sigma() {
    let noise = DiscreteGaussian::new(7.0).unwrap();
    let found = chi_square(&draws(&noise, 60_000, 4), 28, |x| (-(x as f64 / 7.21).powi(2) / 2.0).exp());
    assert!(!likely(found), "{found:?}");
}

/// Kolmogorov-Smirnov against the continuous distribution, of which a wide grid is close, and the variance.
#[test]
fn wide_noise_is_close_to_normal() {
    for (seed, sigma) in [(1, 1000.0), (2, 12_345.0), (3, 3e6), (4, 1e12)] {
        let noise = DiscreteGaussian::new(sigma).unwrap();
        let mut values = draws(&noise, 40_000, seed);
        values.sort_unstable();
        let count = values.len() as f64;
        let gap = values.iter().enumerate().fold(0.0f64, |worst, (place, &x)| {
            let expected = crate::dp::normal::cdf((x as f64 + 0.5) / rounded_up(sigma));
            worst.max((expected - (place as f64 + 1.0) / count).abs())
        });
        // 1.95 / sqrt(n) is passed once in a thousand; grids of 1000 add under 0.001.
        assert!(gap < 1.95 / count.sqrt() + 0.001, "sigma {sigma}: {gap}");
        let variance = values.iter().map(|&x| (x as f64 / sigma).powi(2)).sum::<f64>() / count;
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / count).sqrt(), "sigma {sigma}: {variance}");
    }
}

#[test]
fn noise_is_added_and_reproducible() {
    let noise = DiscreteGaussian::new(5.0).unwrap();
    let mut values = [100i64; 50];
    noise.add_to(&mut SecureRng::new([9; 32]), &mut values);
    assert!(values.iter().zip(draws(&noise, 50, 9)).all(|(a, b)| *a == 100 + b));
    assert!(values.iter().any(|&v| v != 100));
}

#[test]
fn rejects_scales_out_of_range() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-4, 1e13] {
        let message = DiscreteGaussian::new(bad).unwrap_err().to_string();
        assert!(message.contains("sigma of Gaussian noise") && message.contains("2^-10"), "{message}");
        assert!(DiscreteLaplace::new(bad).is_err());
    }
    for good in [1.0 / 1024.0, (1u64 << 40) as f64] {
        let mut rng = SecureRng::new([8; 32]);
        DiscreteGaussian::new(good).unwrap().sample(&mut rng);
        DiscreteLaplace::new(good).unwrap().sample(&mut rng);
    }
}

/// Laplace noise as textbooks have it: sign and -ln of a uniform double.
fn naive_laplace(rng: &mut SecureRng, centre: f64) -> f64 {
    let uniform = ((rng.next_u64() >> 11) + 1) as f64 * (-53f64).exp2();
    let sign = if rng.next_u32() & 1 == 1 { 1.0 } else { -1.0 };
    centre + sign * uniform.ln()
}

/// Whether any of the sampler's uniform doubles gives `output` from `centre`.
fn reachable(output: f64, centre: f64) -> bool {
    let middle = ((-(output - centre).abs()).exp() * 53f64.exp2()).round();
    (-64..=64).map(|off| (middle + f64::from(off)) * (-53f64).exp2()).any(|uniform| {
        (0.0..=1.0).contains(&uniform) && uniform > 0.0 && {
            let size = uniform.ln();
            centre + size == output || centre - size == output
        }
    })
}

/// I. Mironov, "On Significance of the Least Significant Bits for Differential Privacy", CCS 2012: which doubles can
/// come out tells the two inputs apart with certainty. On integers both reach the same values.
#[test]
fn floating_point_noise_leaks_its_input_and_integer_noise_does_not() {
    let rng = &mut SecureRng::new([11; 32]);
    let outputs: Vec<f64> = (0..2000).map(|_| naive_laplace(rng, 0.0)).collect();
    assert!(outputs.iter().all(|&y| reachable(y, 0.0)), "the attacker's test misses no output of the right input");
    let leaked = outputs.iter().filter(|&&y| !reachable(y, 1.0)).count();
    assert!(leaked > 600, "{leaked} of 2000 outputs name their input");

    let noise = DiscreteLaplace::new(2.0).unwrap();
    let support = |centre: i64, seed: u8| -> HashSet<i64> {
        draws(&noise, 100_000, seed).into_iter().map(|x| x + centre).filter(|x| x.abs() <= 8).collect()
    };
    assert_eq!(support(0, 12), support(1, 13), "neighbouring inputs reach the same integers");
    assert_eq!(support(0, 12).len(), 17);
}
