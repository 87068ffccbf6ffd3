//! When a device should come back: spreads check-ins over time.

use super::config::FederationConfig;

/// Seconds until a device that has nothing to do now should check in again.
///
/// Their mean is what the configuration says, or more where so many devices would check in more often than is enough; each
/// gets its own, evenly spread from half to three halves of the mean, so that devices that came at the same time do not
/// come back at the same time.
pub(crate) fn come_back(config: &FederationConfig, devices: usize, device: u32, now: u64) -> u32 {
    let enough = devices as u64 / u64::from(config.check_ins_per_second);
    let mean = u64::from(config.check_in_seconds).max(enough);
    let share = spread(u64::from(device) << 32 ^ now);
    let seconds = mean as f64 * (0.5 + share);
    (seconds.round() as u64).min(86_400) as u32
}

/// Evenly from 0 to 1.
fn spread(of: u64) -> f64 {
    let hash = blake3::hash(&of.to_le_bytes());
    let [a, b, c, d, ..] = *hash.as_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_devices_come_back_later_and_not_together() {
        let config = FederationConfig::of("fcf");
        let few: Vec<u32> = (0..2000).map(|device| come_back(&config, 2000, device, 12)).collect();
        assert!(few.iter().all(|seconds| (30..=90).contains(seconds)));
        let mean = few.iter().sum::<u32>() as f64 / 2000.0;
        assert!((mean - 60.0).abs() < 2.0, "{mean}");
        let busiest = (30..=90).map(|second| few.iter().filter(|&&each| each == second).count()).max();
        assert!(busiest.unwrap() < 80, "{busiest:?} of 2000 devices in one second");
        let many: u64 = (0..2000).map(|device| u64::from(come_back(&config, 1_000_000, device, 12))).sum();
        assert!((many as f64 / 2000.0 - 1000.0).abs() < 30.0);
        let at_once = FederationConfig { check_in_seconds: 0, ..config };
        assert_eq!(come_back(&at_once, 200, 3, 12), 0);
    }
}
