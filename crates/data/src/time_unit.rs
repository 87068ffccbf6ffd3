//! Units of time, converted to seconds since 1970.

use crate::builder::TimeUnit;

/// Converts times to seconds; returns a message if they were in another unit.
///
/// Where the source does not state the unit, it is inferred from the size: for present dates, seconds have 10 digits, milliseconds 13,
/// microseconds 16, nanoseconds 19. The limits are 10^11, 10^14 and 10^17 (seconds until the year 5138; the other
/// units from 1973 on). The median decides for the whole set, so that one odd row cannot change the others.
pub(crate) fn to_seconds(times: &mut [i64], unit: TimeUnit) -> Option<String> {
    let (per_second, name) = match unit {
        TimeUnit::Days => {
            times.iter_mut().for_each(|time| *time = time.saturating_mul(86_400));
            return Some("times were whole days; now seconds at midnight UTC".to_owned());
        }
        TimeUnit::PerSecond(1) => return None,
        TimeUnit::PerSecond(per_second) => (per_second, unit_name(per_second)),
        TimeUnit::Unknown => guess(times)?,
    };
    times.iter_mut().for_each(|time| *time = time.div_euclid(per_second));
    Some(format!("times were in {name}; now in whole seconds"))
}

fn unit_name(per_second: i64) -> &'static str {
    match per_second {
        1_000 => "milliseconds",
        1_000_000 => "microseconds",
        _ => "nanoseconds",
    }
}

fn guess(times: &[i64]) -> Option<(i64, &'static str)> {
    // Seconds are by far the most common: most sets need no copy.
    if times.iter().all(|time| time.unsigned_abs() < 100_000_000_000) {
        return None;
    }
    let mut sizes: Vec<u64> = times.iter().map(|time| time.unsigned_abs()).collect();
    let middle = sizes.len() / 2;
    let per_second = match *sizes.select_nth_unstable(middle).1 {
        0..100_000_000_000 => return None,
        100_000_000_000..100_000_000_000_000 => 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
        _ => 1_000_000_000,
    };
    Some((per_second, unit_name(per_second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(times: &[i64], unit: TimeUnit) -> Vec<i64> {
        let mut times = times.to_vec();
        to_seconds(&mut times, unit);
        times
    }

    #[test]
    fn infers_the_unit_from_the_size() {
        let second = 1_700_000_000;
        for scale in [1, 1_000, 1_000_000, 1_000_000_000] {
            let times = [(second - 5) * scale, second * scale + scale / 2, second * scale];
            assert_eq!(converted(&times, TimeUnit::Unknown), [second - 5, second, second], "{scale}");
        }
        assert_eq!(converted(&[1 << 31, 1 << 33, -5], TimeUnit::Unknown), [1 << 31, 1 << 33, -5]);
        assert_eq!(converted(&[5, 6, 900_000_000_000_000], TimeUnit::Unknown), [5, 6, 900_000_000_000_000]);
        assert_eq!(converted(&[], TimeUnit::Unknown), [0i64; 0]);
    }

    #[test]
    fn uses_a_declared_unit() {
        assert_eq!(converted(&[14_364], TimeUnit::Days), [1_241_049_600]);
        assert_eq!(converted(&[1_999, -1], TimeUnit::PerSecond(1_000)), [1, -1]);
        assert_eq!(converted(&[1 << 60], TimeUnit::PerSecond(1)), [1 << 60]);
        assert_eq!(converted(&[i64::MAX], TimeUnit::Days), [i64::MAX]);
    }
}
