//! Training, validation and test parts.

use crate::error::{DataError, Result};
use crate::interactions::{Interactions, pick_values, survivors};
use serde::Serialize;
use sottovoce_core::{Catalog, Histories, Names, Rng};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How each user's history is split. As text: `temporal:0.8`, `newest:0.2`, `random:0.8`, `last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// The earliest interactions of each user, this share of them, are for training; the rest is held out.
    Temporal(f64),
    /// The newest interactions of each user, `floor(share n)` of them, are held out; the rest is for training. Of equal
    /// times, those that come first in the input are the newest: a stable sort, newest first. Without times, the last
    /// in the input are the newest.
    Newest(f64),
    /// A random share of each user's interactions is for training.
    Random(f64),
    /// Leave one out: all but each user's last interaction are for training.
    Last,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Split::Temporal(share) => write!(f, "temporal:{share}"),
            Split::Newest(share) => write!(f, "newest:{share}"),
            Split::Random(share) => write!(f, "random:{share}"),
            Split::Last => f.write_str("last"),
        }
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            DataError::Specification(
                "split",
                text.to_owned(),
                "temporal:SHARE or random:SHARE for training (as in temporal:0.8), newest:SHARE for the test part (as in \
                 newest:0.2), or last"
                    .to_owned(),
            )
        };
        if text == "last" {
            return Ok(Split::Last);
        }
        let (kind, share) = text.split_once(':').ok_or_else(wrong)?;
        let share: f64 = share.parse().map_err(|_| wrong())?;
        if !(share > 0.0 && share < 1.0) {
            return Err(wrong());
        }
        match kind {
            "temporal" => Ok(Split::Temporal(share)),
            "newest" => Ok(Split::Newest(share)),
            "random" => Ok(Split::Random(share)),
            _ => Err(wrong()),
        }
    }
}

impl Split {
    /// Training interactions of `n`, at least 1: `floor(share n)`, or the rest of `floor(share n)` held out.
    fn training(self, n: usize) -> usize {
        match self {
            Split::Temporal(share) | Split::Random(share) => floor(share, n).max(1).min(n),
            Split::Newest(share) => (n - floor(share, n)).max(1).min(n),
            Split::Last => n.saturating_sub(1).max(1).min(n),
        }
    }
}

/// `floor(share n)`. The small addend undoes the rounding of the product: 0.29 * 100 is 28.999999999999996, and means
/// 29.
fn floor(share: f64, n: usize) -> usize {
    (share * n as f64 + 1e-9) as usize
}

/// Which items are in the catalog of a split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CatalogRule {
    /// All items of the data set.
    #[default]
    All,
    /// Items that somebody has in the training part, the validation part included. The others can neither be sampled as
    /// negatives nor recommended; test interactions with them still count among a user's test items.
    Training,
}

impl CatalogRule {
    /// Its names in files and on the command line.
    pub const NAMES: [(&'static str, CatalogRule); 2] =
        [("all", CatalogRule::All), ("training", CatalogRule::Training)];
}

/// Items that nobody has in training and that are therefore not in the catalog ([`CatalogRule::Training`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdItems {
    /// How many they are.
    pub items: usize,
    /// How many of them each user has in the test part; empty under [`CatalogRule::All`].
    test: Vec<u32>,
}

impl ColdItems {
    /// How many of them each user has in the test part; `None` if the catalog has all items.
    pub fn test_items(&self) -> Option<&[u32]> {
        (!self.test.is_empty()).then_some(&self.test[..])
    }

    /// How many test items they are, over all users.
    pub fn test_interactions(&self) -> usize {
        self.test.iter().map(|&count| count as usize).sum()
    }

    /// A sentence, if there are such items.
    pub fn messages(&self) -> Vec<String> {
        let (items, test) = (self.items, self.test_interactions());
        let text = format!(
            "{items} items that nobody has in training are not in the catalog; {test} test interactions with them count \
             as missed"
        );
        if items > 0 { vec![text] } else { Vec::new() }
    }
}

/// A data set split into parts with the same users and items.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSplit {
    /// The users' ids.
    pub users: Names,
    /// The items.
    pub catalog: Catalog,
    /// For training.
    pub train: Histories,
    /// For the choice of settings.
    pub validation: Option<Histories>,
    /// For evaluation.
    pub test: Histories,
    /// Items that are not in the catalog, and test interactions with them, which are not in the test part.
    pub cold: ColdItems,
    /// Users without a test part.
    pub without_test: usize,
}

/// How a data set is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitConfig {
    /// How the test part is held out.
    pub test: Split,
    /// How a validation part is taken off the training part.
    pub validation: Option<Split>,
    /// Held-out interactions rated below it are in no part: they are neither trained on nor expected to be recommended.
    /// Without ratings in the set, it has no effect.
    pub relevant: Option<f32>,
    /// Which items are in the catalog.
    pub catalog: CatalogRule,
    /// For random splits.
    pub seed: u64,
}

/// Splits each user's history; `validation` splits the training part once more in the same way.
///
/// Histories are in time order; equal times keep their input order. A random split is drawn for each user from the
/// seed and the user's id alone, so it does not depend on other users or the order of rows.
pub fn split(clean: &Interactions, how: Split, validation: Option<Split>, seed: u64) -> DataSplit {
    split_with(clean, SplitConfig { test: how, validation, relevant: None, catalog: CatalogRule::All, seed })
}

/// Splits with all options.
pub fn split_with(clean: &Interactions, how: SplitConfig) -> DataSplit {
    let SplitConfig { test: how, validation, relevant, catalog: rule, seed } = how;
    let relevant = relevant.filter(|_| !clean.rating.is_empty());
    let (starts, rows) = clean.rows_in_time();
    let mut parts = [Part::default(), Part::default(), Part::default()];
    let (mut without_test, mut training) = (0, Vec::new());
    for user in 0..clean.users.len() {
        let history = &rows[starts[user]..starts[user + 1]];
        let draw = |label| Rng::new(seed).stream(label, 0).stream(&clean.users[user], 0);
        let (mut train, mut test) = divide(clean, history, how, || draw("test"));
        if rule == CatalogRule::Training {
            training.extend_from_slice(&train);
        }
        let mut held = Vec::new();
        if let Some(how) = validation {
            (train, held) = divide(clean, &train, how, || draw("validation"));
        }
        if let Some(least) = relevant {
            test.retain(|&row| clean.rating[row as usize] >= least);
            held.retain(|&row| clean.rating[row as usize] >= least);
        }
        without_test += usize::from(test.is_empty());
        for (part, rows) in parts.iter_mut().zip([&train, &held, &test]) {
            part.push(rows);
        }
    }
    let (catalog, numbers, cold) = match rule {
        CatalogRule::All => (clean.catalog.clone(), None, ColdItems::default()),
        CatalogRule::Training => {
            let (kept, numbers) = survivors(&clean.catalog.ids, &clean.item, &training);
            let test = parts[2].drop_rows(clean, |row| numbers[clean.item[row as usize] as usize] == u32::MAX);
            let mut catalog = clean.catalog.select(&kept);
            catalog.facts = catalog.facts.map(|facts| Arc::new(facts.without_unused_features()));
            (catalog, Some(numbers), ColdItems { items: clean.catalog.len() - kept.len(), test })
        }
    };
    let [train, held, test] = parts.map(|part| part.histories(clean, numbers.as_deref(), catalog.len()));
    DataSplit {
        users: clean.users.clone(),
        catalog,
        train,
        validation: validation.map(|_| held),
        test,
        cold,
        without_test,
    }
}

/// A user's rows for training and those held out, both in time order.
fn divide(all: &Interactions, history: &[u32], how: Split, rng: impl Fn() -> Rng) -> (Vec<u32>, Vec<u32>) {
    let training = how.training(history.len());
    if matches!(how, Split::Newest(_)) {
        let mut history = history.to_vec();
        if !all.time.is_empty() {
            history.sort_by_key(|&row| (all.time[row as usize], Reverse(row)));
        }
        let held = history.split_off(training);
        return (history, held);
    }
    if !matches!(how, Split::Random(_)) {
        return (history[..training].to_vec(), history[training..].to_vec());
    }
    // Drawn by item, so that the order of rows without times does not matter.
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.sort_by_key(|&row| all.item[history[row] as usize]);
    rng().shuffle(&mut order);
    let mut held = vec![false; history.len()];
    for &row in &order[training..] {
        held[row] = true;
    }
    let of = |wanted| history.iter().zip(&held).filter(move |(_, held)| **held == wanted).map(|(row, _)| *row);
    (of(false).collect(), of(true).collect())
}

#[derive(Default)]
struct Part {
    ends: Vec<usize>,
    rows: Vec<u32>,
}

impl Part {
    fn push(&mut self, rows: &[u32]) {
        self.rows.extend_from_slice(rows);
        self.ends.push(self.rows.len());
    }

    /// Drops rows; returns how many distinct items each user lost.
    fn drop_rows(&mut self, all: &Interactions, is_dropped: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut left = Part::default();
        let (mut start, mut lost) = (0, Vec::with_capacity(self.ends.len()));
        for &end in &self.ends {
            let (dropped, kept): (Vec<u32>, Vec<u32>) = self.rows[start..end].iter().partition(|row| is_dropped(**row));
            let mut items: Vec<u32> = dropped.iter().map(|&row| all.item[row as usize]).collect();
            items.sort_unstable();
            items.dedup();
            lost.push(items.len() as u32);
            left.push(&kept);
            start = end;
        }
        *self = left;
        lost
    }

    /// With these new numbers of the items, if they have new ones.
    fn histories(self, all: &Interactions, numbers: Option<&[u32]>, catalog_size: usize) -> Histories {
        let offsets = std::iter::once(0).chain(self.ends).collect();
        let number = |item: u32| numbers.map_or(item, |numbers| numbers[item as usize]);
        let items = self.rows.iter().map(|&row| number(all.item[row as usize])).collect();
        let (ratings, times) = (pick_values(&all.rating, &self.rows), pick_values(&all.time, &self.rows));
        Histories::from_columns(offsets, items, ratings, times, catalog_size)
            .unwrap_or_else(|error| unreachable!("rows of one data set fit together: {error}"))
    }
}
