//! Statistics of facts.

use serde::Serialize;
use sottovoce_core::Facts;

/// Statistics of facts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactsDescription {
    /// Items of the catalog.
    pub items: usize,
    /// Items that have a feature.
    pub linked: usize,
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

/// How many of the most frequent features are listed.
const LISTED: usize = 5;

/// Describes facts.
pub fn describe_facts(facts: &Facts) -> FactsDescription {
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
