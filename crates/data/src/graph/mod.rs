//! Knowledge graphs: what is known of the items beside who met them.
//!
//! A graph is a set of statements, subject -predicate-> object. [`read_graph`] finds the items of a catalog in it, walks up
//! to `hops` statements away from each and makes a feature of each chain of predicates together with what it leads to.
//! Auxiliary predicates and features of very few items are left out. Files are gone through once for each hop, and only
//! what can be reached is held.
//!
//! Statements come from N-Triples, Turtle or tab-separated files; beside them there are mappings from items to entities,
//! and files that list items' features outright. A catalog's own categories are a graph of one hop (`categories`), and
//! the synthetic town has one of its own (`town`).
//!
//! ```
//! use sottovoce_core::Catalog;
//! use sottovoce_data::{GraphPlan, LoadOptions, graph_of_bytes};
//! let text = b"item\tpredicate\tobject\n7\tdirector\tFellini\n9\tdirector\tFellini\n9\tgenre\tdrama\n";
//! let catalog = Catalog::of_ids(["7", "8", "9"].into_iter().collect());
//! let plan = GraphPlan { least_items: 2, ..GraphPlan::default() };
//! let (facts, notes) = graph_of_bytes(&plan, &[("facts.tsv", text)], &catalog, &LoadOptions::default())?;
//! assert_eq!((facts.name(0).as_str(), facts.items_with(0).to_vec()), ("director: Fellini", vec![0, 2]));
//! assert_eq!((notes.linked, notes.rare), (2, 1));
//! # Ok::<(), sottovoce_data::DataError>(())
//! ```

mod about;
mod explore;
mod gather;
mod listed;
mod mapping;
mod source;
mod triples;
mod vocabulary;
mod words;

pub use about::{FactsDescription, Frequent, describe_facts};

use crate::error::DataError;
use crate::files::Files;
use crate::load::LoadOptions;
use gather::Gathering;
use serde::Serialize;
use sottovoce_core::{Catalog, Facts};
use source::{Place, Source};

/// Predicates that say nothing of an item's content; by their local names.
pub const AUXILIARY: &[&str] = &[
    "wikiPageWikiLink",
    "sameAs",
    "type",
    "hypernym",
    "seeAlso",
    "wordnet_type",
    "wikiPageExternalLink",
    "thumbnail",
    "wasDerivedFrom",
    "wikiPageUsesTemplate",
];

/// Which graph, and what is kept of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphPlan {
    /// Files, or `categories`, or `town`. `mapping=FILE`, `triples=FILE`, `features=FILE` and `predicates=FILE` say what a
    /// file holds where its first line does not.
    pub sources: Vec<String>,
    /// How many statements away from an item is looked, from 1 to 4.
    pub hops: u8,
    /// Features of fewer items are left out.
    pub least_items: usize,
    /// Features with one of these predicates are left out: as the graph writes it, or its local name.
    pub drop: Vec<String>,
    /// Whether statements are followed from object to subject as well.
    pub inverse: bool,
    /// What stands before an item's id in its entity's name, where no mapping does.
    pub base: String,
    /// Whether the graph comes before cleaning: the items that have a feature are counted over the whole set, and items of
    /// which nothing is known are left out of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

impl Default for GraphPlan {
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

/// What was met while a graph was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GraphNotes {
    /// The files that were read.
    pub files: Vec<String>,
    /// Statements in them.
    pub statements: u64,
    /// Statements that were held, being within reach of an item.
    pub within_reach: u64,
    /// Items that the graph knows.
    pub linked: usize,
    /// Items of mappings and feature files that the catalog does not have.
    pub strangers: usize,
    /// Facts left out for their predicate.
    pub auxiliary: u64,
    /// Features left out because fewer items have them than asked for.
    pub rare: usize,
    /// Bad lines that were skipped on request.
    pub skipped: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

impl GraphNotes {
    /// What people should know of it, a sentence each.
    pub fn lines(&self, facts: &Facts) -> Vec<String> {
        let mut lines = vec![format!(
            "the graph knows {} of {} items by {} features",
            self.linked,
            facts.items(),
            facts.features()
        )];
        if self.skipped > 0 {
            let examples = self.examples.join("; ");
            lines.push(format!("{} bad lines of the graph were skipped, such as {examples}", self.skipped));
        }
        lines
    }
}

/// Most hops that can be asked for: beyond, everything is near everything.
pub const MOST_HOPS: u8 = 4;

/// Reads a graph for a catalog; `data` names the data set, whose town it may be.
///
/// # Errors
/// If a file is not there, cannot be told, or has a bad line that is not to be skipped; if nothing is asked for.
pub fn read_graph(
    plan: &GraphPlan,
    data: &str,
    catalog: &Catalog,
    options: &LoadOptions,
) -> Result<(Facts, GraphNotes), DataError> {
    let found: Result<Vec<Source<'_>>, DataError> =
        plan.sources.iter().map(|text| Source::find(text, data, options)).collect();
    gather(plan, &found?, catalog, options)
}

/// The same from named contents instead of files; their names may say what they hold as in [`GraphPlan::sources`].
///
/// # Errors
/// As [`read_graph`].
pub fn graph_of_bytes(
    plan: &GraphPlan,
    files: &[(&str, &[u8])],
    catalog: &Catalog,
    options: &LoadOptions,
) -> Result<(Facts, GraphNotes), DataError> {
    let one = |(name, _): &(&str, &[u8])| {
        Source::open(Place { files: Files::Memory(files), file: (*name).to_owned() })
    };
    let found: Result<Vec<Source<'_>>, DataError> = files.iter().map(one).collect();
    gather(plan, &found?, catalog, options)
}

fn gather(
    plan: &GraphPlan,
    sources: &[Source<'_>],
    catalog: &Catalog,
    options: &LoadOptions,
) -> Result<(Facts, GraphNotes), DataError> {
    let wrong = |what, text: String, expected: &str| DataError::Specification {
        what,
        text,
        expected: expected.to_owned(),
    };
    if !(1..=MOST_HOPS).contains(&plan.hops) {
        return Err(wrong("hops", plan.hops.to_string(), "a number from 1 to 4"));
    }
    if sources.is_empty() {
        return Err(wrong("graph", String::new(), "files, `categories` or `town`"));
    }
    Gathering::new(plan, catalog, options).run(sources)
}

#[cfg(test)]
mod tests;
