//! Statistics of a data set.

use crate::date;
use crate::fingerprint::fingerprint;
use crate::format::Format;
use crate::interactions::{Dataset, Interactions, group};
use crate::load_report::LoadReport;
use serde::Serialize;

/// Statistics of a data set. Repeated pairs are counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// What the set is called.
    pub name: String,
    /// The format it was read in.
    pub format: Format,
    /// Users.
    pub users: usize,
    /// Items with interactions.
    pub items: usize,
    /// Interactions.
    pub interactions: usize,
    /// Interactions / (users * items).
    pub density: f64,
    /// Whether the set has timestamps.
    pub timestamps: bool,
    /// The first moment, in seconds since 1970.
    pub first_time: Option<i64>,
    /// The last moment.
    pub last_time: Option<i64>,
    /// The first moment as a date and time in UTC.
    pub first_date: Option<String>,
    /// The last moment as a date and time in UTC.
    pub last_date: Option<String>,
    /// The ratings, if there are any.
    pub ratings: Option<Ratings>,
    /// Repeated interactions of a (user, item) pair.
    pub repeats: usize,
    /// Interactions a user.
    pub history: HistoryLengths,
    /// Interactions an item.
    pub popularity: Popularity,
    /// Categories that some item has.
    pub categories: usize,
    /// Items with a category.
    pub items_with_category: usize,
    /// Items with a title.
    pub items_with_title: usize,
    /// The [`fingerprint`] of the interactions.
    pub fingerprint: String,
    /// The report of loading.
    #[serde(rename = "notes")]
    pub report: LoadReport,
}

/// Statistics of ratings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratings {
    /// The lowest.
    pub min: f32,
    /// The highest.
    pub max: f32,
    /// The mean.
    pub mean: f64,
    /// The (lower) median.
    pub median: f32,
    /// How many values there are.
    pub distinct: usize,
    /// How often each value occurs, ascending; left out beyond 20 values.
    pub counts: Vec<(f32, usize)>,
}

/// Distribution of interactions over users.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HistoryLengths {
    /// The fewest.
    pub min: usize,
    /// 25th percentile.
    pub quarter: usize,
    /// Median.
    pub median: usize,
    /// 75th percentile.
    pub three_quarters: usize,
    /// 90th percentile.
    pub nine_tenths: usize,
    /// The most.
    pub max: usize,
    /// The mean.
    pub mean: f64,
}

/// Distribution of interactions over items.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Popularity {
    /// Gini coefficient of the interactions an item: 0 all equal, 1 one item has them all.
    pub gini: f64,
    /// Share of the interactions that the most popular 1 % of the items have (at least one item).
    pub top_1_percent: f64,
    /// The same for 10 %.
    pub top_10_percent: f64,
    /// The same for 20 %.
    pub top_20_percent: f64,
    /// The short head: the most popular items that together hold 80 % of the interactions.
    pub head: usize,
    /// Interactions of the most popular item.
    pub max: usize,
    /// The (lower) median.
    pub median: usize,
    /// Items with one interaction.
    pub once: usize,
}

/// Describes a loaded set.
pub fn describe(set: &Dataset) -> Description {
    let mut description = describe_interactions(&set.name, set.format, &set.interactions);
    description.report = set.report.clone();
    description
}

/// Describes interactions, cleaned ones for instance.
pub fn describe_interactions(name: &str, format: Format, all: &Interactions) -> Description {
    let (first, last) = (all.time.iter().min().copied(), all.time.iter().max().copied());
    let categories = all.catalog.categories.as_ref();
    let items = 0..all.catalog.len();
    let cells = all.users.len() as f64 * all.catalog.len() as f64;
    Description {
        name: name.to_owned(),
        format,
        users: all.users.len(),
        items: all.catalog.len(),
        interactions: all.len(),
        density: if cells > 0.0 { all.len() as f64 / cells } else { 0.0 },
        timestamps: !all.time.is_empty(),
        first_time: first,
        last_time: last,
        first_date: first.and_then(date::format_date),
        last_date: last.and_then(date::format_date),
        ratings: ratings(&all.rating),
        repeats: repeats(all),
        history: history(&counts(&all.user, all.users.len())),
        popularity: popularity(&counts(&all.item, all.catalog.len())),
        categories: categories.map_or(0, |categories| used(categories, all.catalog.len())),
        items_with_category: categories
            .map_or(0, |categories| items.clone().filter(|&item| !categories.of(item).is_empty()).count()),
        items_with_title: items.filter(|&item| all.catalog.title(item).is_some()).count(),
        fingerprint: fingerprint(all),
        report: LoadReport::default(),
    }
}

fn counts(column: &[u32], values: usize) -> Vec<usize> {
    let mut counts = vec![0; values];
    for &value in column {
        counts[value as usize] += 1;
    }
    counts.sort_unstable();
    counts
}

fn used(categories: &sottovoce_core::Categories, items: usize) -> usize {
    let mut used = vec![false; categories.names().len()];
    for item in 0..items {
        categories.of(item).iter().for_each(|&category| used[category as usize] = true);
    }
    used.into_iter().filter(|used| *used).count()
}

fn repeats(all: &Interactions) -> usize {
    let (starts, rows) = group(&all.user, all.users.len());
    let mut owner = vec![u32::MAX; all.catalog.len()];
    let mut repeats = 0;
    for user in 0..all.users.len() {
        for &row in &rows[starts[user]..starts[user + 1]] {
            let before = std::mem::replace(&mut owner[all.item[row as usize] as usize], user as u32);
            repeats += usize::from(before == user as u32);
        }
    }
    repeats
}

fn ratings(all: &[f32]) -> Option<Ratings> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let mut counts: Vec<(f32, usize)> = Vec::new();
    for &rating in &sorted {
        match counts.last_mut() {
            Some((value, count)) if *value == rating => *count += 1,
            _ => counts.push((rating, 1)),
        }
    }
    let distinct = counts.len();
    Some(Ratings {
        min: *sorted.first()?,
        max: *sorted.last()?,
        mean: sorted.iter().map(|&rating| f64::from(rating)).sum::<f64>() / sorted.len() as f64,
        median: at(&sorted, 0.5)?,
        distinct,
        counts: if distinct > 20 { Vec::new() } else { counts },
    })
}

/// The value that a share of the sorted values does not pass.
fn at<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

fn history(sorted: &[usize]) -> HistoryLengths {
    let quantile = |share| at(sorted, share).unwrap_or(0);
    let total: usize = sorted.iter().sum();
    HistoryLengths {
        min: quantile(0.0),
        quarter: quantile(0.25),
        median: quantile(0.5),
        three_quarters: quantile(0.75),
        nine_tenths: quantile(0.9),
        max: quantile(1.0),
        mean: if sorted.is_empty() { 0.0 } else { total as f64 / sorted.len() as f64 },
    }
}

fn popularity(sorted: &[usize]) -> Popularity {
    let total: usize = sorted.iter().sum();
    if total == 0 {
        return Popularity::default();
    }
    let top = |share: f64| {
        let items = ((share * sorted.len() as f64) as usize).max(1);
        sorted.iter().rev().take(items).sum::<usize>() as f64 / total as f64
    };
    Popularity {
        gini: gini(sorted, total),
        top_1_percent: top(0.01),
        top_10_percent: top(0.1),
        top_20_percent: top(0.2),
        head: head(sorted, total),
        max: sorted.last().copied().unwrap_or(0),
        median: at(sorted, 0.5).unwrap_or(0),
        once: sorted.iter().filter(|&&count| count == 1).count(),
    }
}

/// sum((2i - N - 1) m_i) / ((N - 1) sum m_i) over ascending counts m_1..m_N.
fn gini(sorted: &[usize], total: usize) -> f64 {
    let n = sorted.len() as f64;
    if sorted.len() < 2 {
        return 0.0;
    }
    let weighted: f64 =
        sorted.iter().enumerate().map(|(i, &count)| (2.0 * (i + 1) as f64 - n - 1.0) * count as f64).sum();
    weighted / ((n - 1.0) * total as f64)
}

/// Items from the most popular on until they hold 80 %; the one that crosses is in.
fn head(sorted: &[usize], total: usize) -> usize {
    let mut held = 0;
    for (items, &count) in sorted.iter().rev().enumerate() {
        if held * 5 >= total * 4 {
            return items;
        }
        held += count;
    }
    sorted.len()
}
