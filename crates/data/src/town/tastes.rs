//! The taste groups: what their members like in places and read about.

use super::places::{CUISINES, STYLES};
use super::taxonomy::{LEAVES, LEAVES_A_TOP, PAGE_TREE, TOPICS, TOPICS_A_SECTION, TOPS};
use sottovoce_core::{Rng, math};

/// How much a group's liking differs between main categories, categories, cuisines, styles and prices, and between
/// places for no reason in the knowledge graph (standard deviations of log weights, at `taste=1`).
pub(super) const SPREAD: Spread =
    Spread { top: 0.8, leaf: 1.1, cuisine: 0.6, style: 0.5, price: 0.35, unexplained: 0.9 };

pub(super) struct Spread {
    pub(super) top: f64,
    pub(super) leaf: f64,
    pub(super) cuisine: f64,
    pub(super) style: f64,
    pub(super) price: f64,
    pub(super) unexplained: f64,
}

/// What the members of a taste group have in common. Likings are logarithms: 0 is indifferent, 1 is e times as often.
#[derive(Clone, Debug)]
pub struct Group {
    /// Liking of each place category.
    pub categories: [f64; LEAVES],
    /// Liking of each cuisine.
    pub cuisines: [f64; CUISINES.len()],
    /// Liking of each architectural style.
    pub styles: [f64; STYLES.len()],
    /// Liking of one more step of price.
    pub price: f64,
    /// How often members read about each page category, as shares that add up to 1.
    pub topics: [f64; TOPICS],
    /// Share of the residents who belong here; shares of all groups add up to 1.
    pub share: f64,
}

impl Group {
    /// Taste over the place categories, as shares that add up to 1.
    pub fn taste(&self) -> [f32; LEAVES] {
        let weights = self.categories.map(math::exp);
        let total: f64 = weights.iter().sum();
        weights.map(|weight| (weight / total) as f32)
    }
}

/// All groups of a town.
pub(super) fn groups(count: usize, strength: f64, root: &Rng) -> Vec<Group> {
    let mut all: Vec<Group> =
        (0..count).map(|index| group(strength, &mut root.stream("group", index as u64))).collect();
    let total: f64 = all.iter().map(|group| group.share).sum();
    for group in &mut all {
        group.share /= total;
    }
    all
}

fn group(strength: f64, rng: &mut Rng) -> Group {
    let tops: [f64; TOPS] = std::array::from_fn(|_| strength * SPREAD.top * rng.normal());
    let categories = std::array::from_fn(|leaf| tops[leaf / LEAVES_A_TOP] + strength * SPREAD.leaf * rng.normal());
    let cuisines = std::array::from_fn(|_| strength * SPREAD.cuisine * rng.normal());
    let styles = std::array::from_fn(|_| strength * SPREAD.style * rng.normal());
    let price = strength * SPREAD.price * rng.normal();
    Group { categories, cuisines, styles, price, topics: topics(&tops, rng), share: math::exp(0.4 * rng.normal()) }
}

/// People read about what they like to visit, and about other things.
fn topics(tops: &[f64; TOPS], rng: &mut Rng) -> [f64; TOPICS] {
    let weights: [f64; TOPICS] = std::array::from_fn(|topic| {
        let visited = tops[PAGE_TREE[topic / TOPICS_A_SECTION].1];
        math::exp(1.2 * visited + 1.0 * rng.normal())
    });
    let total: f64 = weights.iter().sum();
    weights.map(|weight| weight / total)
}
