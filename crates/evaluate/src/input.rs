//! The input of an evaluation, and its protocol.

use serde::{Deserialize, Serialize};
use sottovoce_core::{Categories, Histories};
use std::fmt;
use thiserror::Error;

/// A input or a protocol that cannot be evaluated.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EvaluateError {
    /// No cutoff was given.
    #[error("no cutoff: expected at least one list length, such as 10")]
    NoCutoff,
    /// A cutoff of 0.
    #[error("cutoff 0: expected a list length of at least 1")]
    ZeroCutoff,
    /// Sampling without negatives.
    #[error("0 sampled negatives: expected at least 1")]
    NoNegatives,
    /// Parts that belong to different users or catalogs. Fields: which part; users or items; number in the part; number
    /// in the training part.
    #[error("{0} has {2} {1}, but the training part has {3}")]
    Shape(&'static str, &'static str, usize, usize),
}

/// Training and test histories of one data set, with the same users and items.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationInput<'a> {
    /// What the model was trained on. Defines popularity, the short head and the categories' share of interactions.
    pub train: &'a Histories,
    /// More that the users are known to have, such as the validation part when the test part is evaluated: never
    /// recommended, and no more to be found than the training part.
    pub also_seen: Option<&'a Histories>,
    /// The items to be recommended. A repeated item counts once.
    pub test: &'a Histories,
    /// Categories of the items, for the bias disparity.
    pub categories: Option<&'a Categories>,
}

impl<'a> EvaluationInput<'a> {
    /// Nothing but a training and a test part.
    pub fn new(train: &'a Histories, test: &'a Histories) -> Self {
        Self { train, also_seen: None, test, categories: None }
    }

    /// Number of users, with and without test items.
    pub fn users(&self) -> usize {
        self.train.users()
    }

    /// Number of items in the catalog.
    pub fn items(&self) -> usize {
        self.train.catalog_size()
    }

    /// Items the user is known to have: training part, then [`also_seen`](Self::also_seen).
    pub(crate) fn seen(&self, user: usize) -> impl Iterator<Item = u32> + '_ {
        let more = self.also_seen.map_or(&[][..], |part| part.of(user));
        self.train.of(user).iter().chain(more).copied()
    }

    /// Makes sure that all parts speak of the same users and items.
    pub(crate) fn check(&self) -> Result<(), EvaluateError> {
        for (part, histories) in [("the part also seen", self.also_seen), ("the test part", Some(self.test))] {
            if let Some(histories) = histories {
                expect_same(part, "users", histories.users(), self.users())?;
                expect_same(part, "items", histories.catalog_size(), self.items())?;
            }
        }
        self.categories.map_or(Ok(()), |all| expect_same("the table of categories", "items", all.items(), self.items()))
    }
}

pub(crate) fn expect_same(
    part: &'static str,
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), EvaluateError> {
    if found == expected { Ok(()) } else { Err(EvaluateError::Shape(part, what, found, expected)) }
}

/// How a model is evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// List lengths k to measure at; order and repeats do not matter.
    pub cutoffs: Vec<usize>,
    /// Which items compete.
    pub candidates: Candidates,
}

impl Protocol {
    /// The default: every item the user does not have competes.
    pub fn all_unrated(cutoffs: impl IntoIterator<Item = usize>) -> Self {
        Self { cutoffs: cutoffs.into_iter().collect(), candidates: Candidates::AllUnrated }
    }
}

/// The items that compete for a place in a user's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidates {
    /// Every item of the catalog that the user is not known to have.
    #[default]
    AllUnrated,
    /// The user's test items against a few random others. Easier than the full ranking: the two never share a table.
    Sampled {
        /// How many items, distinct and neither seen nor in the user's test part; fewer if there are not so many.
        negatives: usize,
        /// Determines the draw; each user has an own stream.
        seed: u64,
    },
}

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllUnrated => f.write_str("all unrated items"),
            Self::Sampled { negatives, seed } => write!(f, "sampled: {negatives} negatives, seed {seed}"),
        }
    }
}

/// Cutoffs ascending and without repeats.
pub(crate) fn ascending(cutoffs: &[usize]) -> Result<Vec<usize>, EvaluateError> {
    let mut cutoffs = cutoffs.to_vec();
    cutoffs.sort_unstable();
    cutoffs.dedup();
    match cutoffs.first() {
        None => Err(EvaluateError::NoCutoff),
        Some(0) => Err(EvaluateError::ZeroCutoff),
        Some(_) => Ok(cutoffs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_parts_of_different_shape() {
        let three = Histories::from_lists(&[vec![0], vec![1], vec![2]], 4).unwrap();
        let two = Histories::from_lists(&[vec![0], vec![1]], 4).unwrap();
        let wide = Histories::from_lists(&[vec![0], vec![1], vec![]], 9).unwrap();
        let message = |input: EvaluationInput| input.check().unwrap_err().to_string();
        assert_eq!(
            message(EvaluationInput::new(&three, &two)),
            "the test part has 2 users, but the training part has 3"
        );
        let input = EvaluationInput { also_seen: Some(&wide), ..EvaluationInput::new(&three, &three) };
        assert_eq!(message(input), "the part also seen has 9 items, but the training part has 4");
        let categories = Categories::default();
        let input = EvaluationInput { categories: Some(&categories), ..EvaluationInput::new(&three, &three) };
        assert_eq!(message(input), "the table of categories has 0 items, but the training part has 4");
    }

    #[test]
    fn sorts_cutoffs() {
        assert_eq!(ascending(&[10, 1, 5, 1]), Ok(vec![1, 5, 10]));
        assert_eq!(ascending(&[]), Err(EvaluateError::NoCutoff));
        assert_eq!(ascending(&[3, 0]), Err(EvaluateError::ZeroCutoff));
    }
}
