//! Reasons for a recommendation: what of a person's own history, or of the item itself, speaks for it.
//!
//! A model states what its reasons are ([`ReasonKind`]) and gives them. Models of one kind share the computation:
//!
//! - `linear_system`: iALS and FCF, whose user vector solves a linear system of the user's items;
//! - `vectors`: models that train a user vector step by step (FPL, FedMF, GMF, BPR-MF and others);
//! - `left_out`: autoencoders, which score from the history alone.
//!
//! Models whose score is a sum over the history (EASE, the nearest neighbours) or over features need nothing shared.
//! Reasons need what is on the device and nothing else. They may name items that their owner hides or withholds:
//! reasons are computed for the owner and do not leave.

mod left_out;
mod linear_system;
mod vectors;

pub(crate) use left_out::by_leaving_out;
pub(crate) use linear_system::{LinearSystem, by_linear_system};
pub(crate) use vectors::by_vectors;

use std::borrow::Cow;

/// Something that speaks for an item, or, with a negative weight, against it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// What it is.
    pub because: Because,
    /// How much it counts; [`ReasonKind`] says in which sense.
    pub weight: f32,
}

impl Reason {
    /// That the person's history has an item.
    pub(crate) fn had(item: u32, weight: f32) -> Self {
        Self { because: Because::Had(item), weight }
    }
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// An item of the person's own history.
    Had(u32),
    /// That many people have the item.
    Popular {
        /// How many.
        people: u32,
    },
    /// The item's bias: it is liked by everybody more than other items are.
    Bias,
    /// A feature that the item has, by its number among the catalog's facts.
    Fact(u32),
    /// What is left of the weight when all that can be named is taken off.
    Rest,
}

impl Because {
    /// In words, given the names of items and of features; `None` for what has no words.
    pub fn in_words<'a>(
        self,
        item: impl FnOnce(u32) -> Cow<'a, str>,
        feature: impl FnOnce(u32) -> String,
    ) -> Option<String> {
        Some(match self {
            Self::Had(had) => format!("because of {}", item(had)),
            Self::Popular { people } => format!("{people} users have it"),
            Self::Bias => "popular with everybody".to_owned(),
            Self::Fact(fact) => feature(fact),
            Self::Rest => return None,
        })
    }
}

/// What the reasons of a model are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasonKind {
    /// It has none.
    #[default]
    None,
    /// It has none, because it goes by the order of the whole history.
    Order,
    /// Weights are parts of the score: they add up to it.
    Shares,
    /// The user's vector is rebuilt from the vectors of their items. Weights add up to how far the item's score is
    /// above the catalog's mean, but how they are divided among items of the history is an approximation.
    Vectors,
    /// By how much the score falls, relative to the catalog's mean, when the item is left out of the history. Each
    /// weight is exact; they do not add up to the score.
    LeftOut,
}

impl ReasonKind {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Order => "order",
            Self::Shares => "shares",
            Self::Vectors => "vectors",
            Self::LeftOut => "left-out",
        }
    }

    /// Whether there are any.
    pub fn has_reasons(self) -> bool {
        !matches!(self, Self::None | Self::Order)
    }

    /// A sentence on the reasons of the model of this name: what its percentages mean, or why there are none.
    pub fn sentence(self, model: &str) -> String {
        match self {
            Self::None => format!("{model} has no reasons: its scores do not come apart by item or feature."),
            Self::Order => {
                format!("{model} has no reasons: it goes by the order of the whole history, not by single items.")
            }
            Self::Shares => "Percentages are exact: parts of what speaks for the item.".to_owned(),
            Self::Vectors => "Percentages are an approximation: what has been learnt of the person is rebuilt from \
                              their items."
                .to_owned(),
            Self::LeftOut => "Percentages compare by how much the score falls when an item is left out of the \
                              history."
                .to_owned(),
        }
    }
}

/// The strongest reasons for an item that have words, strongest first, ties as given; each with its share of everything
/// that speaks for the item. What is given several times counts together.
///
/// ```
/// use sottovoce_models::{Because, Reason, strongest};
/// let reason = |because, weight| Reason { because, weight };
/// let reasons = [(Because::Had(4), 1.0), (Because::Rest, 1.0), (Because::Had(7), 2.0), (Because::Bias, -3.0)];
/// let reasons = reasons.map(|(because, weight)| reason(because, weight));
/// assert_eq!(strongest(&reasons, 1), [(Because::Had(7), 0.5)]);
/// ```
pub fn strongest(reasons: &[Reason], count: usize) -> Vec<(Because, f64)> {
    let mut sums: Vec<(Because, f64)> = Vec::with_capacity(reasons.len());
    for &Reason { because, weight } in reasons {
        match sums.iter_mut().find(|(same, _)| *same == because) {
            Some((_, sum)) => *sum += f64::from(weight),
            None => sums.push((because, f64::from(weight))),
        }
    }
    sums.retain(|(_, weight)| *weight > 0.0);
    let total: f64 = sums.iter().map(|(_, weight)| weight).sum();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = sums.into_iter().filter(|(because, _)| *because != Because::Rest);
    named.take(count).map(|(because, weight)| (because, weight / total)).collect()
}
