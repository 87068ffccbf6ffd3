//! Traversal of the statements from the items.

use super::GraphReport;
use super::extraction::Pairs;
use super::mapping::Roots;
use super::source::{Content, Source, Syntax};
use super::triples::{BadLineHandler, Statement, each, each_rdf};
use super::vocabulary::{EMPTY_CHAIN, Key, Vocabulary, key};
use crate::error::Result;
use rustc_hash::FxHashMap;

const LABEL: &str = "http://www.w3.org/2000/01/rdf-schema#label";

/// Statements within reach, by subject.
pub(super) struct Reach {
    /// Where each node's statements end.
    ends: Vec<u32>,
    /// Predicates and objects.
    steps: Vec<(u32, u32)>,
}

/// Visits all statements of all sources.
pub(super) fn statements(
    sources: &[Source<'_>],
    bad_lines: &mut BadLineHandler<'_>,
    visit: &mut dyn FnMut(&Statement<'_>) -> Result<()>,
) -> Result<()> {
    for source in sources {
        match source {
            Source::File(file, Content::Triples(syntax)) => each(file, *syntax, bad_lines, visit)?,
            Source::Town(text) => each_rdf("town", Syntax::NTriples, &text[..], bad_lines, visit)?,
            _ => (),
        }
    }
    Ok(())
}

/// The state of a node in the traversal.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Not to be expanded.
    Leaf,
    /// Expanded in this hop.
    Now,
    /// To be expanded in the next hop.
    Next,
    /// Expanded.
    Done,
}

/// Collects the statements within reach of the roots: one pass over the sources per hop.
pub(super) fn reach(
    sources: &[Source<'_>],
    roots: &Roots,
    (hops, inverse): (u8, bool),
    vocabulary: &mut Vocabulary<'_>,
    (skip, report): (bool, &mut GraphReport),
) -> Result<Reach> {
    let mut taken = Taken { stages: vec![Stage::Leaf; vocabulary.nodes.len()], edges: Vec::new(), dropped: 0 };
    roots.iter().for_each(|&(_, node)| taken.stages[node as usize] = Stage::Now);
    for hop in 1..=hops {
        // Bad lines were reported in the first pass.
        let mut again = GraphReport::default();
        let mut bad_lines = BadLineHandler { skip, report: if hop == 1 { &mut *report } else { &mut again } };
        let mut read = 0;
        statements(sources, &mut bad_lines, &mut |statement| {
            read += 1;
            taken.meet(statement, inverse, vocabulary)
        })?;
        report.statements = read;
        if !taken.go_on() {
            break;
        }
    }
    taken.edges.sort_unstable();
    taken.edges.dedup();
    report.auxiliary += taken.dropped;
    let mut ends = vec![0u32; vocabulary.nodes.len()];
    taken.edges.iter().for_each(|edge| ends[edge[0] as usize] += 1);
    let mut sum = 0;
    ends.iter_mut().for_each(|end| {
        sum += *end;
        *end = sum;
    });
    Ok(Reach { ends, steps: taken.edges.into_iter().map(|[_, predicate, object]| (predicate, object)).collect() })
}

/// Statements collected so far.
struct Taken {
    stages: Vec<Stage>,
    /// Subject, predicate, object.
    edges: Vec<[u32; 3]>,
    dropped: u64,
}

impl Taken {
    fn meet(&mut self, statement: &Statement<'_>, inverse: bool, vocabulary: &mut Vocabulary<'_>) -> Result<()> {
        let Statement { subject, predicate, object, literal } = *statement;
        if predicate == LABEL {
            return Ok(());
        }
        if let Some(from) = self.now(subject, vocabulary) {
            self.take(from, predicate, object, literal.is_none(), vocabulary)?;
        }
        let back = if inverse && literal.is_none() { self.now(object, vocabulary) } else { None };
        if let Some(from) = back {
            self.take(from, &format!("^{predicate}"), subject, true, vocabulary)?;
        }
        Ok(())
    }

    /// The number of a node that is being expanded.
    fn now(&self, node: &str, vocabulary: &Vocabulary<'_>) -> Option<u32> {
        let known = vocabulary.nodes.get(node.as_bytes())?;
        (self.stages.get(known as usize) == Some(&Stage::Now)).then_some(known)
    }

    fn take(
        &mut self,
        from: u32,
        predicate: &str,
        object: &str,
        walkable: bool,
        vocabulary: &mut Vocabulary<'_>,
    ) -> Result<()> {
        let predicate = vocabulary.predicate(predicate)?;
        if vocabulary.dropped[predicate as usize] {
            self.dropped += 1;
            return Ok(());
        }
        let object = vocabulary.node(object)?;
        self.stages.resize(vocabulary.nodes.len(), Stage::Leaf);
        let stage = &mut self.stages[object as usize];
        if walkable && *stage == Stage::Leaf {
            *stage = Stage::Next;
        }
        self.edges.push([from, predicate, object]);
        Ok(())
    }

    /// Advances to the next hop; whether there is any node to expand.
    fn go_on(&mut self) -> bool {
        let mut any = false;
        for stage in &mut self.stages {
            match stage {
                Stage::Now => *stage = Stage::Done,
                Stage::Next => (*stage, any) = (Stage::Now, true),
                _ => (),
            }
        }
        any
    }
}

impl Reach {
    fn steps(&self, node: u32) -> &[(u32, u32)] {
        let node = node as usize;
        let start = if node == 0 { 0 } else { self.ends[node - 1] as usize };
        &self.steps[start..self.ends[node] as usize]
    }

    /// The features that at least so many items have, as pairs. Rare ones are counted but not held: the graph is
    /// traversed twice.
    pub(super) fn features(
        &self,
        roots: &Roots,
        (hops, least): (u8, usize),
        vocabulary: &mut Vocabulary<'_>,
        report: &mut GraphReport,
        into: &mut Pairs,
    ) {
        let mut items: FxHashMap<Key, u32> = FxHashMap::default();
        self.each_item(roots, hops, vocabulary, &mut |_, found| {
            found.iter().for_each(|&key| *items.entry(key).or_default() += 1);
        });
        let common = |key: &Key| items.get(key).is_some_and(|&count| count as usize >= least);
        report.rare += items.values().filter(|&&count| (count as usize) < least).count();
        self.each_item(roots, hops, vocabulary, &mut |item, found| {
            into.extend(found.iter().filter(|key| common(key)).map(|&key| (item, key)));
        });
    }

    /// Calls with each item's features, ascending and distinct.
    fn each_item(&self, roots: &Roots, hops: u8, vocabulary: &mut Vocabulary<'_>, call: &mut dyn FnMut(u32, &[Key])) {
        let mut found = Vec::new();
        for same in roots.chunk_by(|one, next| one.0 == next.0) {
            found.clear();
            for &(_, root) in same {
                self.walk(root, root, EMPTY_CHAIN, hops, vocabulary, &mut found);
            }
            found.sort_unstable();
            found.dedup();
            call(same[0].0, &found);
        }
    }

    fn walk(&self, root: u32, node: u32, chain: u32, left: u8, vocabulary: &mut Vocabulary<'_>, found: &mut Vec<Key>) {
        for &(predicate, object) in self.steps(node) {
            let chain = vocabulary.extend_chain(chain, predicate);
            // A path back to the item carries no information.
            if object == root {
                continue;
            }
            found.push(key(chain, object));
            if left > 1 {
                self.walk(root, object, chain, left - 1, vocabulary, found);
            }
        }
    }
}

/// The labels of nodes: English ones, or the first there is.
pub(super) fn labels(
    sources: &[Source<'_>],
    wanted: &dyn Fn(u32) -> bool,
    vocabulary: &Vocabulary<'_>,
    skip: bool,
) -> Result<FxHashMap<u32, String>> {
    let mut labels: FxHashMap<u32, (bool, String)> = FxHashMap::default();
    let mut told = GraphReport::default();
    let mut bad_lines = BadLineHandler { skip, report: &mut told };
    statements(sources, &mut bad_lines, &mut |statement| {
        let (LABEL, Some(language)) = (statement.predicate, statement.literal) else { return Ok(()) };
        let node = vocabulary.nodes.get(statement.subject.as_bytes());
        let Some(node) = node.filter(|&node| wanted(node)) else { return Ok(()) };
        let english = language.is_empty() || language.starts_with("en");
        let known = labels.get(&node);
        if known.is_none_or(|(known, _)| english && !known) {
            labels.insert(node, (english, statement.object.to_owned()));
        }
        Ok(())
    })?;
    Ok(labels.into_iter().map(|(node, (_, label))| (node, label)).collect())
}
