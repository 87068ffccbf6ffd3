//! Days, in UTC.

use anyhow::{Context, Result};
use chrono::{Days, NaiveDate};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Days that frequency looks back, with the day itself.
const MONTH: u64 = 30;

/// A day in UTC.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(NaiveDate);

impl Day {
    /// So many days before.
    #[must_use]
    pub fn minus(self, days: u64) -> Self {
        Self(self.0.checked_sub_days(Days::new(days)).unwrap_or(NaiveDate::MIN))
    }

    /// So many days after.
    #[must_use]
    pub fn plus(self, days: u64) -> Self {
        Self(self.0.checked_add_days(Days::new(days)).unwrap_or(NaiveDate::MAX))
    }

    /// Days since 1970.
    pub fn number(self) -> i64 {
        self.start().div_euclid(86_400)
    }

    /// Its first second, since 1970.
    pub fn start(self) -> i64 {
        self.0.and_time(chrono::NaiveTime::MIN).and_utc().timestamp()
    }

    /// Its last second: the moment of its scores. Counted from there, days that passed are calendar days, and the 30
    /// days of frequency are 30 calendar days. That is why counts by day are all that must be remembered.
    pub fn end(self) -> i64 {
        self.start() + 86_399
    }

    /// The number of the first day whose visits count.
    pub fn month_start(self) -> i64 {
        self.minus(MONTH - 1).number()
    }
}

impl FromStr for Day {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let day = NaiveDate::parse_from_str(text, "%Y-%m-%d");
        // The same day must always have the same name.
        let day = day.ok().map(Self).filter(|day| day.to_string() == text);
        day.with_context(|| format!("`{text}` is not a day: expected one such as 2026-11-01"))
    }
}

impl TryFrom<String> for Day {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m-%d"))
    }
}
