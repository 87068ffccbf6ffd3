//! Numbers of the nodes, predicates and predicate chains within reach.

use super::GraphConfig;
use super::display_names;
use crate::error::{DataError, Result};
use crate::intern::{Full, Interner};
use rustc_hash::FxHashMap;
use sottovoce_core::Names;

/// A feature: its chain in the upper half, its object in the lower.
pub(super) type Key = u64;

/// The chain and the object of a feature.
pub(super) fn parts(key: Key) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

/// A feature of a chain and an object.
pub(super) fn key(chain: u32, object: u32) -> Key {
    u64::from(chain) << 32 | u64::from(object)
}

/// A chain of predicates: one more than another.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    before: u32,
    predicate: u32,
    pub(super) hops: u8,
    /// Whether it has a predicate whose features are dropped.
    pub(super) dropped: bool,
}

/// The chain of no predicates.
pub(super) const EMPTY_CHAIN: u32 = 0;

/// Texts by number.
pub(super) struct Vocabulary<'p> {
    plan: &'p GraphConfig,
    pub(super) nodes: Interner,
    predicate_texts: Interner,
    /// Whether features with each predicate are dropped.
    pub(super) dropped: Vec<bool>,
    pub(super) chains: Vec<Chain>,
    extended: FxHashMap<(u32, u32), u32>,
}

impl<'p> Vocabulary<'p> {
    pub(super) fn new(plan: &'p GraphConfig) -> Self {
        let none = Chain { before: EMPTY_CHAIN, predicate: 0, hops: 0, dropped: false };
        Self {
            plan,
            nodes: Interner::default(),
            predicate_texts: Interner::default(),
            dropped: Vec::new(),
            chains: vec![none],
            extended: FxHashMap::default(),
        }
    }

    /// A node's number; new ones get the next.
    pub(super) fn node(&mut self, text: &str) -> Result<u32> {
        self.nodes.number(text.as_bytes()).map_err(|Full| full("nodes"))
    }

    /// A predicate's number; new ones get the next.
    pub(super) fn predicate(&mut self, text: &str) -> Result<u32> {
        let number = self.predicate_texts.number(text.as_bytes()).map_err(|Full| full("predicates"))?;
        if number as usize == self.dropped.len() {
            let forward = text.strip_prefix('^').unwrap_or(text);
            let local = display_names::local(forward);
            let dropped = self.plan.drop.iter().any(|drop| drop == forward || drop == local);
            self.dropped.push(dropped);
        }
        Ok(number)
    }

    /// The chain with one predicate more.
    pub(super) fn extend_chain(&mut self, chain: u32, predicate: u32) -> u32 {
        let (chains, of_predicates) = (&mut self.chains, &self.dropped);
        *self.extended.entry((chain, predicate)).or_insert_with(|| {
            let Chain { hops, dropped, .. } = chains[chain as usize];
            let dropped = dropped || of_predicates[predicate as usize];
            chains.push(Chain { before: chain, predicate, hops: hops.saturating_add(1), dropped });
            chains.len() as u32 - 1
        })
    }

    /// The chain that a feature file writes: predicates joined by `~`.
    pub(super) fn chain(&mut self, text: &str) -> Result<u32> {
        let mut chain = EMPTY_CHAIN;
        for predicate in text.split('~') {
            let predicate = self.predicate(predicate)?;
            chain = self.extend_chain(chain, predicate);
        }
        Ok(chain)
    }

    /// The texts, after the last was added.
    pub(super) fn into_texts(self) -> Texts {
        let Self { nodes, predicate_texts, chains, .. } = self;
        Texts { nodes: nodes.into_names(), predicates: predicate_texts.into_names(), chains }
    }
}

fn full(what: &'static str) -> DataError {
    DataError::TooLarge("graph".to_owned(), what)
}

/// Texts of a finished vocabulary.
pub(super) struct Texts {
    nodes: Names,
    predicates: Names,
    chains: Vec<Chain>,
}

impl Texts {
    /// A feature as the graph writes it, to order by: hops, predicates, object.
    pub(super) fn order(&self, key: Key) -> (u8, Vec<&str>, &str) {
        let (chain, object) = parts(key);
        (self.chains[chain as usize].hops, self.predicates_of(chain), &self.nodes[object as usize])
    }

    /// The readable name of a feature; the object by its label if it has one.
    pub(super) fn words(&self, key: Key, labels: &FxHashMap<u32, String>) -> String {
        let (chain, object) = parts(key);
        let predicates: Vec<String> = self.predicates_of(chain).into_iter().map(display_names::predicate).collect();
        let object = match labels.get(&object) {
            Some(label) => display_names::plain(label),
            None => display_names::thing(&self.nodes[object as usize]),
        };
        format!("{}: {object}", predicates.join(" > "))
    }

    pub(super) fn hops(&self, key: Key) -> u8 {
        self.chains[parts(key).0 as usize].hops
    }

    fn predicates_of(&self, mut chain: u32) -> Vec<&str> {
        let mut all = Vec::new();
        while chain != EMPTY_CHAIN {
            let Chain { before, predicate, .. } = self.chains[chain as usize];
            all.push(&self.predicates[predicate as usize]);
            chain = before;
        }
        all.reverse();
        all
    }
}
