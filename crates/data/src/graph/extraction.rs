//! Feature extraction: from the sources of a graph to facts.

use super::feature_files::{self, numbered};
use super::mapping::{items_of, roots};
use super::source::{Content, Source, Syntax};
use super::traversal;
use super::triples::BadLineHandler;
use super::vocabulary::{Key, Texts, Vocabulary, parts};
use super::{GraphConfig, GraphReport};
use crate::error::Result;
use crate::intern::Interner;
use crate::load::LoadOptions;
use rustc_hash::{FxHashMap, FxHashSet};
use sottovoce_core::{Catalog, Facts, Names};

/// Items and features they have.
pub(super) type Pairs = Vec<(u32, Key)>;

/// The state of an extraction.
pub(super) struct FeatureExtraction<'p> {
    plan: &'p GraphConfig,
    catalog: &'p Catalog,
    skip: bool,
    vocabulary: Vocabulary<'p>,
    report: GraphReport,
    pairs: Pairs,
}

impl<'p> FeatureExtraction<'p> {
    pub(super) fn new(plan: &'p GraphConfig, catalog: &'p Catalog, options: &LoadOptions) -> Self {
        let (vocabulary, report) = (Vocabulary::new(plan), GraphReport::default());
        Self { plan, catalog, skip: options.skip_bad, vocabulary, report, pairs: Pairs::new() }
    }

    pub(super) fn run(mut self, sources: &[Source<'_>]) -> Result<(Facts, GraphReport)> {
        let items = items_of(self.catalog)?;
        self.read_feature_files(sources, &items)?;
        self.traverse(sources, &items)?;
        self.drop_rare();
        let keys: FxHashSet<Key> = self.pairs.iter().map(|&(_, key)| key).collect();
        let objects: FxHashSet<u32> = keys.iter().map(|&key| parts(key).1).collect();
        let has_labels = |source: &Source<'_>| {
            matches!(source, Source::File(_, Content::Triples(Syntax::NTriples | Syntax::Turtle)) | Source::Town(_))
        };
        let labels = if sources.iter().any(has_labels) {
            traversal::labels(sources, &|node| objects.contains(&node), &self.vocabulary, self.skip)?
        } else {
            FxHashMap::default()
        };
        let texts = self.vocabulary.into_texts();
        let facts = finish(&self.pairs, keys, &texts, &labels, self.catalog.len());
        self.report.linked = (0..facts.items()).filter(|&item| !facts.of(item).is_empty()).count();
        Ok((facts, self.report))
    }

    /// Feature files and categories.
    fn read_feature_files(&mut self, sources: &[Source<'_>], items: &Interner) -> Result<()> {
        let mut bad_lines = BadLineHandler { skip: self.skip, report: &mut self.report };
        let numbers = numbered(sources, &mut bad_lines)?;
        for source in sources {
            match source {
                Source::File(file, Content::Features(columns)) => {
                    let from = (file, *columns);
                    let (vocabulary, pairs) = (&mut self.vocabulary, &mut self.pairs);
                    feature_files::features(from, numbers.as_ref(), items, vocabulary, &mut bad_lines, pairs)?;
                }
                Source::Categories => {
                    feature_files::categories(self.catalog, &mut self.vocabulary, &mut self.pairs)?;
                }
                _ => (),
            }
        }
        let (chain, hops) = (|key| self.vocabulary.chains[parts(key).0 as usize], self.plan.hops);
        let before = self.pairs.len();
        self.pairs.retain(|&(_, key)| !chain(key).dropped);
        self.report.auxiliary += (before - self.pairs.len()) as u64;
        self.pairs.retain(|&(_, key)| chain(key).hops <= hops);
        Ok(())
    }

    /// Statements.
    fn traverse(&mut self, sources: &[Source<'_>], items: &Interner) -> Result<()> {
        if !sources.iter().any(|source| matches!(source, Source::File(_, Content::Triples(_)) | Source::Town(_))) {
            return Ok(());
        }
        let GraphConfig { hops, least_items, inverse, ref base, .. } = *self.plan;
        let (vocabulary, report, skip) = (&mut self.vocabulary, &mut self.report, self.skip);
        let roots = roots(sources, self.catalog, base, items, vocabulary, (skip, report))?;
        let reach = traversal::reach(sources, &roots, (hops, inverse), vocabulary, (skip, report))?;
        reach.features(&roots, (hops, least_items), vocabulary, report, &mut self.pairs);
        Ok(())
    }

    /// Drops features of too few items over all sources.
    fn drop_rare(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let mut items: FxHashMap<Key, u32> = FxHashMap::default();
        self.pairs.iter().for_each(|&(_, key)| *items.entry(key).or_default() += 1);
        let least = self.plan.least_items;
        let rare: FxHashSet<Key> =
            items.into_iter().filter(|&(_, count)| (count as usize) < least).map(|(key, _)| key).collect();
        self.report.rare += rare.len();
        self.pairs.retain(|(_, key)| !rare.contains(key));
    }
}

/// Numbers the features by hops and text, so that the order of files does not matter.
fn finish(pairs: &Pairs, keys: FxHashSet<Key>, texts: &Texts, labels: &FxHashMap<u32, String>, items: usize) -> Facts {
    let mut keys: Vec<Key> = keys.into_iter().collect();
    keys.sort_unstable_by(|&a, &b| texts.order(a).cmp(&texts.order(b)));
    let names: Names = keys.iter().map(|&key| texts.words(key, labels)).collect();
    let hops = keys.iter().map(|&key| texts.hops(key)).collect();
    let numbers: FxHashMap<Key, u32> = keys.iter().zip(0..).map(|(&key, number)| (key, number)).collect();
    let mut features: Vec<u32> = pairs.iter().map(|(_, key)| numbers[key]).collect();
    features.shrink_to_fit();
    let mut start = 0;
    let lists = (0..items as u32).map(|item| {
        let end = start + pairs[start..].iter().take_while(|pair| pair.0 == item).count();
        let own = &features[start..end];
        start = end;
        own
    });
    Facts::new(&names, hops, lists)
}
