//! Statistics of facts.

use serde::Serialize;
use sottovoce_core::Facts;
use std::fmt;

/// Statistics of facts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactsDescription {
    /// Items of the catalog.
    pub items: usize,
    /// Items that have a feature.
    pub linked: usize,
    /// The others.
    pub without: WithoutFacts,
    /// Features.
    pub features: usize,
    /// Features by how many hops away they are: from 1 on.
    pub by_hops: Vec<usize>,
    /// Pairs of an item and a feature.
    pub facts: usize,
    /// Features of an item, of those that have any: the median.
    pub median_of_item: usize,
    /// Features of an item: the most.
    pub most_of_item: usize,
    /// Items of a feature: fewest, median and most.
    pub items_of_feature: [usize; 3],
    /// The features that most items have.
    pub frequent: Vec<Frequent>,
}

/// A feature and how many items have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frequent {
    /// Its name.
    pub feature: String,
    /// Items that have it.
    pub items: usize,
}

/// Items of which nothing is known, and how much they are used. Models that score by facts alone neither recommend them
/// nor learn from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WithoutFacts {
    /// Items without any feature.
    pub items: usize,
    /// Interactions with them.
    pub interactions: usize,
    /// Interactions in all.
    #[serde(skip)]
    pub of: usize,
}

impl WithoutFacts {
    /// From the item of each interaction.
    pub fn of(facts: &Facts, interactions: &[u32]) -> Self {
        let unknown = |item: usize| facts.of(item).is_empty();
        Self {
            items: (0..facts.items()).filter(|&item| unknown(item)).count(),
            interactions: interactions.iter().filter(|&&item| unknown(item as usize)).count(),
            of: interactions.len(),
        }
    }
}

impl fmt::Display for WithoutFacts {
    /// `564 items with 7.5 % of the interactions`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.interactions as f64 / self.of.max(1) as f64;
        write!(f, "{} items with {share:.1} % of the interactions", self.items)
    }
}

/// How many of the most frequent features are listed.
const LISTED: usize = 5;

/// Describes facts, with the item of each interaction.
pub fn describe_facts(facts: &Facts, interactions: &[u32]) -> FactsDescription {
    let mut of_items: Vec<usize> =
        (0..facts.items()).map(|item| facts.of(item).len()).filter(|&count| count > 0).collect();
    of_items.sort_unstable();
    let mut features: Vec<(usize, usize)> =
        (0..facts.features()).map(|feature| (facts.items_with(feature).len(), feature)).collect();
    features.sort_unstable_by_key(|&(items, feature)| (std::cmp::Reverse(items), feature));
    let mut by_hops = Vec::new();
    for feature in 0..facts.features() {
        let place = facts.hops(feature).max(1) as usize;
        by_hops.resize(by_hops.len().max(place), 0);
        by_hops[place - 1] += 1;
    }
    let items_of = |place: Option<&(usize, usize)>| place.map_or(0, |&(items, _)| items);
    FactsDescription {
        items: facts.items(),
        linked: of_items.len(),
        without: WithoutFacts::of(facts, interactions),
        features: facts.features(),
        by_hops,
        facts: facts.len(),
        median_of_item: of_items.get(of_items.len() / 2).copied().unwrap_or(0),
        most_of_item: of_items.last().copied().unwrap_or(0),
        items_of_feature: [
            items_of(features.last()),
            items_of(features.get(features.len() / 2)),
            items_of(features.first()),
        ],
        frequent: features
            .iter()
            .take(LISTED)
            .map(|&(items, feature)| Frequent { feature: facts.name(feature), items })
            .collect(),
    }
}
