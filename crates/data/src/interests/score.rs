//! Scores of interest.

use super::clicks::Clicks;
use std::collections::BTreeMap;

/// The score from which a person counts as interested.
pub const THRESHOLD: u32 = 3;

/// Seconds on a category's pages up to which it counts as clicked by accident.
const ACCIDENT: f64 = 10.0;
const DAY: i64 = 86_400;
/// How far frequency looks back.
const MONTH: i64 = 30 * DAY;

/// What a person's clicks say of one category.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interest {
    /// The category.
    pub category: u32,
    /// 0 to 5: how recent the last visit is.
    pub recency: u32,
    /// 0 to 5: how frequent visits were in the last 30 days.
    pub frequency: u32,
    /// Seconds spent in all; `None` if the log does not tell for every visit, which then all count as meant.
    pub seconds: Option<f64>,
}

impl Interest {
    /// 0 to 10: recency and frequency together; 0 if all the time spent there is 10 seconds or less.
    pub fn score(&self) -> u32 {
        match self.seconds {
            Some(seconds) if seconds <= ACCIDENT => 0,
            _ => self.recency + self.frequency,
        }
    }

    /// Whether the score is [`THRESHOLD`] or more.
    pub fn interested(&self) -> bool {
        self.score() >= THRESHOLD
    }
}

/// 0 to 5: recency by whole and partial days since the last visit, which was so many seconds ago.
pub fn recency(seconds: i64) -> u32 {
    match seconds.div_euclid(DAY) {
        ..2 => 5,
        2 => 4,
        3..6 => 3,
        6..10 => 2,
        10..30 => 1,
        _ => 0,
    }
}

/// 0 to 5: frequency by visits in the last 30 days.
pub fn frequency(visits: u32) -> u32 {
    match visits {
        0 => 0,
        1..5 => 1,
        5..10 => 2,
        10..15 => 3,
        15..20 => 4,
        _ => 5,
    }
}

/// Everybody's interests at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Interests {
    people: Vec<Vec<Interest>>,
}

impl Interests {
    /// Scores all categories that people clicked on, as of the moment of the log.
    pub fn score(clicks: &Clicks) -> Self {
        struct Seen {
            last: i64,
            visits: u32,
            /// `None` once a visit's are unknown.
            seconds: Option<f64>,
        }
        let now = clicks.now();
        let mut people: Vec<BTreeMap<u32, Seen>> = Vec::new();
        people.resize_with(clicks.people().len(), BTreeMap::new);
        for click in clicks.iter() {
            for &category in click.categories {
                let seen = people[click.person as usize].entry(category).or_insert(Seen {
                    last: i64::MIN,
                    visits: 0,
                    seconds: Some(0.0),
                });
                seen.last = seen.last.max(click.time);
                seen.visits += u32::from(now - click.time < MONTH);
                seen.seconds = seen.seconds.zip(click.seconds).map(|(sum, seconds)| sum + f64::from(seconds));
            }
        }
        let interest = |(category, seen): (u32, Seen)| Interest {
            category,
            recency: recency(now - seen.last),
            frequency: frequency(seen.visits),
            seconds: seen.seconds,
        };
        Self { people: people.into_iter().map(|seen| seen.into_iter().map(interest).collect()).collect() }
    }

    /// Number of people.
    pub fn people(&self) -> usize {
        self.people.len()
    }

    /// What one person's clicks say, by category.
    ///
    /// # Panics
    /// If there is no such person.
    pub fn of(&self, person: usize) -> &[Interest] {
        &self.people[person]
    }

    /// The categories that a person is interested in.
    ///
    /// # Panics
    /// If there is no such person.
    pub fn interested(&self, person: usize) -> impl Iterator<Item = u32> + '_ {
        self.people[person].iter().filter(|interest| interest.interested()).map(|interest| interest.category)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_table_4() {
        let days = [0, 1, 2, 3, 5, 6, 9, 10, 29, 30, 400].map(|days| recency(days * DAY));
        assert_eq!(days, [5, 5, 4, 3, 3, 2, 2, 1, 1, 0, 0]);
        assert_eq!((recency(2 * DAY - 1), recency(30 * DAY - 1)), (5, 1));
        let visits = [0, 1, 4, 5, 9, 10, 14, 15, 19, 20, 99].map(frequency);
        assert_eq!(visits, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    }

    #[test]
    fn short_visits_do_not_count() {
        let interest = |seconds| Interest { category: 0, recency: 5, frequency: 2, seconds };
        assert_eq!([Some(10.0), Some(10.5), None].map(|seconds| interest(seconds).score()), [0, 7, 7]);
        let weak = Interest { recency: 1, frequency: 1, ..interest(None) };
        assert!(!weak.interested() && Interest { recency: 2, ..weak }.interested());
    }
}
