//! Calendar days from Unix seconds, in UTC.

use chrono::DateTime;

/// The day of a Unix time as `2000-04-25`; a dash outside the calendar.
pub(super) fn day(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0).map_or("–".into(), |time| time.format("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn formats_days_before_and_after_1970() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(-1), "1969-12-31");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(4_107_542_400), "2100-03-01");
    }
}
