//! Calendar days from Unix seconds, in UTC.

/// The day of a Unix time as `2000-04-25`.
pub(super) fn day(seconds: i64) -> String {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a count of days since 1970-01-01 in the proleptic Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year; 146,097 days make 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn known_days() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(-1), "1969-12-31");
        assert_eq!(day(956_703_932), "2000-04-25");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(4_107_542_400), "2100-03-01");
    }
}
