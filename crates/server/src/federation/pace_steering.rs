//! Pace steering: spreads the check-ins of devices over time.

use super::config::FederationConfig;

/// Seconds until a device that has nothing to do should check in again.
///
/// The mean is `check_in_seconds`, or more if that many devices would exceed `check_ins_per_second`. Each device gets its own
/// delay, uniform between half and one and a half times the mean, so that devices that came together do not come back together.
pub(crate) fn check_in_delay(config: &FederationConfig, devices: usize, device: u32, now: u64) -> u32 {
    let at_limit = devices as u64 / u64::from(config.check_ins_per_second);
    let mean = u64::from(config.check_in_seconds).max(at_limit);
    let seconds = mean as f64 * (0.5 + uniform(u64::from(device) << 32 ^ now));
    (seconds.round() as u64).min(86_400) as u32
}

/// A number between 0 and 1, by hashing.
fn uniform(seed: u64) -> f64 {
    let hash = blake3::hash(&seed.to_le_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_and_grow_with_the_number_of_devices() {
        let config = FederationConfig::new("fcf");
        let few: Vec<u32> = (0..2000).map(|device| check_in_delay(&config, 2000, device, 12)).collect();
        assert!(few.iter().all(|seconds| (30..=90).contains(seconds)));
        let mean = few.iter().sum::<u32>() as f64 / 2000.0;
        assert!((mean - 60.0).abs() < 2.0, "{mean}");
        let busiest = (30..=90).map(|second| few.iter().filter(|&&each| each == second).count()).max();
        assert!(busiest.unwrap() < 80, "{busiest:?} of 2000 devices in one second");
        let many: u64 = (0..2000).map(|device| u64::from(check_in_delay(&config, 1_000_000, device, 12))).sum();
        assert!((many as f64 / 2000.0 - 1000.0).abs() < 30.0);
        let immediate = FederationConfig { check_in_seconds: 0, ..config };
        assert_eq!(check_in_delay(&immediate, 200, 3, 12), 0);
    }
}
