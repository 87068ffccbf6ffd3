//! Dates and times of day as data sets write them.

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
    let day = days(number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?)?;
    if rest.is_empty() {
        return Some(day * 86_400);
    }
    let rest = rest.strip_prefix(['T', ' ', 't'])?;
    let (clock, offset) = split_offset(rest)?;
    Some(day * 86_400 + time_of_day(clock)? - offset)
}

/// The time of day and the offset from UTC in seconds.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    match text.find(['+', '-']) {
        Some(place) => Some((text[..place].trim_end(), offset(&text[place..])?)),
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
    let seconds = match parts.next() {
        None => 0,
        Some(part) => {
            let (seconds, fraction) = part.split_once('.').unwrap_or((part, ""));
            fraction.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
            number(seconds)?
        }
    };
    (hours < 24 && minutes < 60 && seconds <= 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

/// `Tue Apr 03 18:00:09 +0000 2012`.
fn unix_style(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, month, day, clock, zone, year] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let zone = if zone.starts_with(['+', '-']) { offset(zone)? } else { return None };
    Some(days(number(year)?, month, number(day)?)? * 86_400 + time_of_day(clock)? - zone)
}

fn number(text: &str) -> Option<i64> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar; `None` for a date that does not exist.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=month_length(year, month)).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last; 400 years have 146,097 days.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

fn month_length(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A point in time as `2012-04-03T18:00:09Z`; `None` outside the years 0 to 9999.
pub fn show(seconds: i64) -> Option<String> {
    let (day, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = day.checked_add(719_468)?;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hours, minutes) = (clock / 3600, clock / 60 % 60);
    (0..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{date:02}T{hours:02}:{minutes:02}:{:02}Z", clock % 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_spellings_of_one_moment_agree() {
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
    fn what_is_not_a_moment_is_refused() {
        for text in
            ["2013-02-29", "2013-13-01", "2013-01-01T25:00", "13-01-01", "Tue Apr 03 2012", "2012-04-0x", "é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn showing_and_parsing_agree(seconds in -62_000_000_000i64..250_000_000_000) {
            prop_assert_eq!(parse(&show(seconds).unwrap()), Some(seconds));
        }
    }
}
