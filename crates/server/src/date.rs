//! Dates for people.

use crate::storage::Millis;

const MINUTE: Millis = 60_000;
const DAY: Millis = 24 * 60 * MINUTE;

/// A time as date and time of the day in UTC, to the minute: `2026-10-17 02:00 UTC`.
pub fn utc(time: Millis) -> String {
    // The civil date from days since 1970, by H. Hinnant's algorithm: years begin in March, eras have 400 of them.
    let days = (time / DAY) as i64 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let minutes = time % DAY / MINUTE;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (1_709_251_140, "2024-02-29 23:59 UTC"),
            (1_792_202_400, "2026-10-17 02:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1000), expected);
        }
    }
}
