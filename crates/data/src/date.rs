//! Dates and times of day as data sets write them.

use chrono::{DateTime, Datelike, NaiveDate};

/// Seconds since 1970 of `2012-04-03`, `2012-04-03T18:00:09.5+02:00` (or with a space, slashes, `Z`) and
/// `Tue Apr 03 18:00:09 +0000 2012`. Without an offset the time is UTC; fractions of a second are dropped.
pub(crate) fn parse(text: &str) -> Option<i64> {
    if !text.is_ascii() {
        return None;
    }
    let text = text.trim();
    iso(text).or_else(|| unix_style(text))
}

fn iso(text: &str) -> Option<i64> {
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let separator = date.as_bytes()[4];
    if !matches!(separator, b'-' | b'/') || date.as_bytes()[7] != separator {
        return None;
    }
    let midnight = midnight(number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?)?;
    if rest.is_empty() {
        return Some(midnight);
    }
    let rest = rest.strip_prefix(['T', ' ', 't'])?;
    let (clock, offset) = split_offset(rest)?;
    Some(midnight + time_of_day(clock)? - offset)
}

/// The time of day and the offset from UTC in seconds.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    match text.find(['+', '-']) {
        Some(sign) => Some((text[..sign].trim_end(), offset(&text[sign..])?)),
        None => Some((text, 0)),
    }
}

/// `+02:00`, `+0200` or `+02` in seconds.
fn offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits: String = text[1..].chars().filter(|&c| c != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (number(&digits)?, 0),
        4 => (number(&digits[..2])?, number(&digits[2..])?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// `18:00`, `18:00:09` or `18:00:09.123` in seconds.
fn time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let (seconds, fraction) = parts.next().map_or(("0", ""), |part| part.split_once('.').unwrap_or((part, "")));
    let seconds = number(seconds).filter(|_| fraction.bytes().all(|byte| byte.is_ascii_digit()))?;
    (hours < 24 && minutes < 60 && seconds <= 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

/// `Tue Apr 03 18:00:09 +0000 2012`.
fn unix_style(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, month, day, clock, zone, year] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let zone = if zone.starts_with(['+', '-']) { offset(zone)? } else { return None };
    Some(midnight(number(year)?, month, number(day)?)? + time_of_day(clock)? - zone)
}

fn number(text: &str) -> Option<i64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Seconds since 1970 of the beginning of a day; `None` for a date that does not exist.
fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32)?;
    Some(date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp())
}

/// Seconds since 1970 of a number of seconds, or of a date with or without a time of day; `None` if it is neither.
pub fn parse_time(text: &str) -> Option<i64> {
    crate::number::time(text.as_bytes())
}

/// A point in time as `2012-04-03T18:00:09Z`; `None` outside the years 0 to 9999.
pub fn format_date(seconds: i64) -> Option<String> {
    let time = DateTime::from_timestamp(seconds, 0).filter(|time| (0..=9999).contains(&time.year()))?;
    Some(time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_all_spellings_of_one_moment() {
        for text in [
            "2012-04-03T18:00:09Z",
            "2012-04-03 18:00:09",
            "2012/04/03 18:00:09.999",
            "2012-04-03T20:00:09+02:00",
            "2012-04-03T16:30:09-0130",
            "2012-04-03 18:00:09 UTC",
            "Tue Apr 03 18:00:09 +0000 2012",
            "Tue Apr 03 19:00:09 +0100 2012",
        ] {
            assert_eq!(parse(text), Some(1_333_476_009), "{text}");
        }
        assert_eq!(parse("1969-12-31"), Some(-86_400));
        assert_eq!(parse("2000-02-29"), Some(951_782_400));
    }

    #[test]
    fn rejects_invalid_dates() {
        for text in ["2013-02-29", "2013-13-01", "2013-01-01T25:00", "13-01-01", "Tue Apr 03 2012", "2012-04-0x", "é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatting_and_parsing_round_trip(seconds in -62_000_000_000i64..250_000_000_000) {
            prop_assert_eq!(parse(&format_date(seconds).unwrap()), Some(seconds));
        }
    }
}
