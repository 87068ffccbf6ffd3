//! Training, validation and test parts.

use crate::error::{DataError, Result};
use crate::interactions::{Interactions, pick_values};
use sottovoce_core::{Catalog, Histories, Names, Rng};
use std::fmt;
use std::str::FromStr;

/// How each user's history is split. As text: `temporal:0.8`, `random:0.8`, `last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// The earliest interactions of each user, this share of them, are for training; the rest is held out.
    Temporal(f64),
    /// A random share of each user's interactions is for training.
    Random(f64),
    /// Leave one out: all but each user's last interaction are for training.
    Last,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Split::Temporal(share) => write!(f, "temporal:{share}"),
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
                "temporal:SHARE, random:SHARE (a share between 0 and 1, as in temporal:0.8) or last".to_owned(),
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
            "random" => Ok(Split::Random(share)),
            _ => Err(wrong()),
        }
    }
}

impl Split {
    /// Training interactions of `n`: `floor(share n)`, at least 1. The small addend undoes the rounding of the product:
    /// 0.29 * 100 is 28.999999999999996, and means 29.
    fn training(self, n: usize) -> usize {
        match self {
            Split::Temporal(share) | Split::Random(share) => ((share * n as f64 + 1e-9) as usize).max(1).min(n),
            Split::Last => n.saturating_sub(1).max(1).min(n),
        }
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
    /// For random splits.
    pub seed: u64,
}

/// Splits each user's history; `validation` splits the training part once more in the same way.
///
/// Histories are in time order; equal times keep their input order. A random split is drawn for each user from the
/// seed and the user's id alone, so it does not depend on other users or the order of rows.
pub fn split(clean: &Interactions, how: Split, validation: Option<Split>, seed: u64) -> DataSplit {
    split_with(clean, SplitConfig { test: how, validation, relevant: None, seed })
}

/// Splits with all options.
pub fn split_with(clean: &Interactions, how: SplitConfig) -> DataSplit {
    let SplitConfig { test: how, validation, relevant, seed } = how;
    let relevant = relevant.filter(|_| !clean.rating.is_empty());
    let (starts, rows) = clean.rows_in_time();
    let mut parts = [Part::default(), Part::default(), Part::default()];
    let mut without_test = 0;
    for user in 0..clean.users.len() {
        let history = &rows[starts[user]..starts[user + 1]];
        let draw = |label| Rng::new(seed).stream(label, 0).stream(&clean.users[user], 0);
        let (mut train, mut test) = divide(clean, history, how, || draw("test"));
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
    let [train, held, test] = parts.map(|part| part.histories(clean));
    DataSplit {
        users: clean.users.clone(),
        catalog: clean.catalog.clone(),
        train,
        validation: validation.map(|_| held),
        test,
        without_test,
    }
}

/// A user's rows for training and those held out, both in time order.
fn divide(all: &Interactions, history: &[u32], how: Split, rng: impl Fn() -> Rng) -> (Vec<u32>, Vec<u32>) {
    let training = how.training(history.len());
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

    fn histories(self, all: &Interactions) -> Histories {
        let offsets = std::iter::once(0).chain(self.ends).collect();
        let items = self.rows.iter().map(|&row| all.item[row as usize]).collect();
        let (ratings, times) = (pick_values(&all.rating, &self.rows), pick_values(&all.time, &self.rows));
        Histories::from_columns(offsets, items, ratings, times, all.catalog.len())
            .unwrap_or_else(|error| unreachable!("rows of one data set fit together: {error}"))
    }
}
