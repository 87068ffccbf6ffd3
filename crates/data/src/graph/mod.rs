//! Knowledge graphs: features of the items from statements about them.
//!
//! A graph is a set of statements, subject -predicate-> object. [`read_graph`] finds the items of a catalog in it,
//! walks up to `hops` statements away from each and makes a feature of each chain of predicates together with what it
//! leads to. Auxiliary predicates and features of very few items are dropped. Files are read once for each hop, and
//! only statements within reach are held in memory.
//!
//! Statements come from N-Triples, Turtle or tab-separated files; beside them there are mappings from items to
//! entities, and files that list items' features outright. A catalog's own categories are a graph of one hop
//! (`categories`), and the synthetic town has one of its own (`town`).
//!
//! ```
//! use sottovoce_core::Catalog;
//! use sottovoce_data::{GraphConfig, LoadOptions, graph_of_bytes};
//! let text = b"item\tpredicate\tobject\n7\tdirector\tFellini\n9\tdirector\tFellini\n9\tgenre\tdrama\n";
//! let catalog = Catalog::of_ids(["7", "8", "9"].into_iter().collect());
//! let plan = GraphConfig { least_items: 2, ..GraphConfig::default() };
//! let (facts, report) = graph_of_bytes(&plan, &[("facts.tsv", text)], &catalog, &LoadOptions::default())?;
//! assert_eq!((facts.name(0).as_str(), facts.items_with(0).to_vec()), ("director: Fellini", vec![0, 2]));
//! assert_eq!((report.linked, report.rare), (2, 1));
//! # Ok::<(), sottovoce_data::DataError>(())
//! ```

mod describe;
mod display_names;
mod extraction;
mod feature_files;
mod mapping;
mod source;
mod traversal;
mod triples;
mod vocabulary;

pub use describe::{FactsDescription, Frequent, WithoutFacts, describe_facts};

use crate::error::{DataError, Result};
use crate::files::Files;
use crate::load::LoadOptions;
use crate::load_report::SkippedLines;
use extraction::FeatureExtraction;
use serde::Serialize;
use sottovoce_core::{Catalog, Facts};
use source::{GraphFile, Source};

/// Predicates without information about an item's content, by their local names.
#[rustfmt::skip]
pub const AUXILIARY: &[&str] = &[
    "wikiPageWikiLink", "sameAs", "type", "hypernym", "seeAlso", "wordnet_type", "wikiPageExternalLink",
    "thumbnail", "wasDerivedFrom", "wikiPageUsesTemplate",
];

/// Which graph to read, and which features to extract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphConfig {
    /// Files, or `categories`, or `town`. `mapping=FILE`, `triples=FILE`, `features=FILE` and `predicates=FILE` say
    /// what a file holds where its first line does not.
    pub sources: Vec<String>,
    /// Maximum distance from an item in statements, from 1 to 4.
    pub hops: u8,
    /// Features of fewer items are dropped.
    pub least_items: usize,
    /// Features with one of these predicates are dropped: as the graph writes it, or its local name.
    pub drop: Vec<String>,
    /// Whether statements are followed from object to subject as well.
    pub inverse: bool,
    /// Prefix of an item's id in its entity's name, where there is no mapping.
    pub base: String,
    /// Whether the graph is read before cleaning: features are counted over the whole set, and items without features
    /// are dropped from it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

impl Default for GraphConfig {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            hops: 2,
            least_items: 10,
            drop: AUXILIARY.iter().map(|&name| name.to_owned()).collect(),
            inverse: false,
            base: String::new(),
            first: false,
        }
    }
}

/// What was read, skipped and dropped while reading a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphReport {
    /// Statements in them.
    pub statements: u64,
    /// Items with features.
    pub linked: usize,
    /// Facts dropped for their predicate.
    pub auxiliary: u64,
    /// Features dropped because too few items have them.
    pub rare: usize,
    /// Bad lines that were skipped on request.
    pub bad: SkippedLines,
}

impl GraphReport {
    /// Messages for users, one sentence each, with the item of each interaction.
    pub fn messages(&self, facts: &Facts, interactions: &[u32]) -> Vec<String> {
        let mut lines = vec![format!(
            "the graph knows {} of {} items by {} features",
            self.linked,
            facts.items(),
            facts.features()
        )];
        let without = WithoutFacts::of(facts, interactions);
        if without.items > 0 {
            lines.push(format!("nothing is known of {without}: models that score by facts cannot recommend them"));
        }
        if self.bad.skipped > 0 {
            let SkippedLines { skipped, examples } = &self.bad;
            lines.push(format!("{skipped} bad lines of the graph were skipped, such as {}", examples.join("; ")));
        }
        lines
    }
}

/// Maximum number of hops: beyond, everything is near everything.
pub const MOST_HOPS: u8 = 4;

/// Reads a graph for a catalog; `data` names the data set, whose town it may be.
///
/// # Errors
/// If a file does not exist, is not recognised, or has a bad line that is not to be skipped; if there is no source.
pub fn read_graph(
    plan: &GraphConfig,
    data: &str,
    catalog: &Catalog,
    options: &LoadOptions,
) -> Result<(Facts, GraphReport)> {
    let found: Result<Vec<Source<'_>>> = plan.sources.iter().map(|text| Source::find(text, data, options)).collect();
    gather(plan, &found?, catalog, options)
}

/// Reads a graph from bytes in memory; names may state the content as in [`GraphConfig::sources`].
///
/// # Errors
/// As [`read_graph`].
pub fn graph_of_bytes(
    plan: &GraphConfig,
    files: &[(&str, &[u8])],
    catalog: &Catalog,
    options: &LoadOptions,
) -> Result<(Facts, GraphReport)> {
    let one =
        |(name, _): &(&str, &[u8])| Source::open(GraphFile { files: Files::Memory(files), name: (*name).to_owned() });
    let found: Result<Vec<Source<'_>>> = files.iter().map(one).collect();
    gather(plan, &found?, catalog, options)
}

fn gather(
    plan: &GraphConfig,
    sources: &[Source<'_>],
    catalog: &Catalog,
    options: &LoadOptions,
) -> Result<(Facts, GraphReport)> {
    let wrong = |what, text: String, expected: &str| DataError::Specification(what, text, expected.to_owned());
    if !(1..=MOST_HOPS).contains(&plan.hops) {
        return Err(wrong("hops", plan.hops.to_string(), "a number from 1 to 4"));
    }
    if sources.is_empty() {
        return Err(wrong("graph", String::new(), "files, `categories` or `town`"));
    }
    FeatureExtraction::new(plan, catalog, options).run(sources)
}

#[cfg(test)]
mod tests;
