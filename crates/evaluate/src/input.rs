//! The input of an evaluation, and its protocol.

use serde::{Deserialize, Serialize};
use sottovoce_core::{Categories, Histories};
use std::fmt;
use std::str::FromStr;
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
    /// Candidates that are none.
    #[error("candidates `{0}`: expected full, uniform:N or popular:N, N negatives of at least 1 (as in uniform:99)")]
    UnknownCandidates(String),
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
    /// By user, how many more test items there are that are not in the catalog, because nobody has them in training.
    /// They count as test items that no list can have, and as items of the long tail.
    pub cold_test: Option<&'a [u32]>,
    /// Categories of the items, for the bias disparity.
    pub categories: Option<&'a Categories>,
}

impl<'a> EvaluationInput<'a> {
    /// Nothing but a training and a test part.
    pub fn new(train: &'a Histories, test: &'a Histories) -> Self {
        Self { train, also_seen: None, test, cold_test: None, categories: None }
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

    /// Test items of a user that are not in the catalog.
    pub(crate) fn cold(&self, user: usize) -> usize {
        self.cold_test.map_or(0, |counts| counts[user] as usize)
    }

    /// Makes sure that all parts speak of the same users and items.
    pub(crate) fn check(&self) -> Result<(), EvaluateError> {
        for (part, histories) in [("the part also seen", self.also_seen), ("the test part", Some(self.test))] {
            if let Some(histories) = histories {
                expect_same(part, "users", histories.users(), self.users())?;
                expect_same(part, "items", histories.catalog_size(), self.items())?;
            }
        }
        if let Some(counts) = self.cold_test {
            expect_same("the list of test items outside the catalog", "users", counts.len(), self.users())?;
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
        /// Which items are drawn more often.
        #[serde(default)]
        sampling: Sampling,
        /// Determines the draw; each user has an own stream.
        seed: u64,
    },
}

/// How negatives are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// All items alike.
    #[default]
    Uniform,
    /// By the number of interactions that an item has in training. Items that nobody has there are never drawn: there
    /// are fewer negatives where too few others are left.
    Popularity,
}

impl Candidates {
    /// The same, drawn with this seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::AllUnrated => self,
            Self::Sampled { negatives, sampling, .. } => Self::Sampled { negatives, sampling, seed },
        }
    }

    /// What tables are labelled with, if the candidates are sampled.
    pub fn label(&self) -> Option<String> {
        match self {
            Self::AllUnrated => None,
            Self::Sampled { negatives, sampling: Sampling::Uniform, .. } => {
                Some(format!("sampled: {negatives} negatives"))
            }
            Self::Sampled { negatives, sampling: Sampling::Popularity, .. } => {
                Some(format!("sampled: {negatives} negatives by popularity"))
            }
        }
    }
}

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.label()) {
            (Self::Sampled { seed, .. }, Some(label)) => write!(f, "{label}, seed {seed}"),
            _ => f.write_str("all unrated items"),
        }
    }
}

/// `full`, `uniform:99` or `popular:99`, with seed 1; also `all` and `sampled:99`, as they were called.
impl FromStr for Candidates {
    type Err = EvaluateError;

    fn from_str(text: &str) -> Result<Self, EvaluateError> {
        let wrong = || EvaluateError::UnknownCandidates(text.to_owned());
        if matches!(text, "full" | "all") {
            return Ok(Self::AllUnrated);
        }
        let (how, negatives) = text.split_once(':').ok_or_else(wrong)?;
        let sampling = match how {
            "uniform" | "sampled" => Sampling::Uniform,
            "popular" => Sampling::Popularity,
            _ => return Err(wrong()),
        };
        let negatives = negatives.parse().ok().filter(|&negatives| negatives > 0).ok_or_else(wrong)?;
        Ok(Self::Sampled { negatives, sampling, seed: 1 })
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
    fn reads_candidates() {
        let sampled = |negatives, sampling| Ok(Candidates::Sampled { negatives, sampling, seed: 1 });
        for (text, expected) in [
            ("full", Ok(Candidates::AllUnrated)),
            ("all", Ok(Candidates::AllUnrated)),
            ("uniform:99", sampled(99, Sampling::Uniform)),
            ("sampled:5", sampled(5, Sampling::Uniform)),
            ("popular:99", sampled(99, Sampling::Popularity)),
        ] {
            assert_eq!(text.parse(), expected);
        }
        for text in ["", "uniform", "uniform:0", "uniform:-1", "popular:many", "best:3", "full:3"] {
            assert_eq!(text.parse::<Candidates>(), Err(EvaluateError::UnknownCandidates(text.to_owned())));
        }
        let popular = "popular:99".parse::<Candidates>().unwrap().with_seed(7);
        assert_eq!(popular.to_string(), "sampled: 99 negatives by popularity, seed 7");
        assert_eq!(Candidates::AllUnrated.label(), None);
    }

    #[test]
    fn sorts_cutoffs() {
        assert_eq!(ascending(&[10, 1, 5, 1]), Ok(vec![1, 5, 10]));
        assert_eq!(ascending(&[]), Err(EvaluateError::NoCutoff));
        assert_eq!(ascending(&[3, 0]), Err(EvaluateError::ZeroCutoff));
    }
}
