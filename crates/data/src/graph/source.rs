//! The sources of a graph: where they are, and what they hold.

use crate::error::{DataError, Result};
use crate::fields::{Delimiter, Fields};
use crate::files::{Files, unpacked_name};
use crate::lines::Lines;
use crate::load::{LoadOptions, data_folder};
use crate::town::{Town, TownSpec};
use std::io::Read;
use std::path::{Path, PathBuf};

/// One file of a graph.
pub(super) struct GraphFile<'a> {
    pub(super) files: Files<'a>,
    pub(super) name: String,
}

impl GraphFile<'_> {
    pub(super) fn label(&self) -> String {
        self.files.label(&self.name)
    }

    pub(super) fn open(&self) -> Result<Box<dyn Read + '_>> {
        self.files.open(&self.name)
    }
}

/// A source of a graph.
pub(super) enum Source<'a> {
    /// A file and what it holds.
    File(GraphFile<'a>, Content),
    /// The catalog's own categories.
    Categories,
    /// The synthetic town's graph, as N-Triples.
    Town(Vec<u8>),
}

/// What a file holds.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// Statements.
    Triples(Syntax),
    /// Items and the entities they are in the graph.
    Mapping(Columns<2>),
    /// Items and their features.
    Features(Columns<3>),
    /// The predicate chains that the numbers in a feature file stand for.
    Predicates(Columns<2>),
}

/// How statements are written.
#[derive(Clone, Copy)]
pub(super) enum Syntax {
    NTriples,
    Turtle,
    Table(Columns<3>),
}

/// The columns to read of a tab-separated file.
#[derive(Clone, Copy)]
pub(super) struct Columns<const N: usize> {
    pub(super) at: [usize; N],
    /// Whether the first line names them.
    pub(super) header: bool,
}

/// The contents that a name can state, `mapping=FILE` for instance, in the order in which headers are tried.
const CONTENTS: [&str; 4] = ["predicates", "triples", "features", "mapping"];

const ITEM: &[&str] = &["item", "item_id"];
const SUBJECT: &[&str] = &["subject", "head_id", "head"];
const PREDICATE: &[&str] = &["predicate", "predicate_id", "relation", "relation_id"];
const OBJECT: &[&str] = &["object", "object_id", "tail", "tail_id", "value"];
const ENTITY: &[&str] = &["entity", "entity_id", "dbpedia_uri", "uri", "iri"];
const CHAIN: &[&str] = &["predicate_chain"];
const NUMBER: &[&str] = &["predicate_id"];

impl Source<'_> {
    /// The source that a configuration names.
    pub(super) fn find(text: &str, data: &str, options: &LoadOptions) -> Result<Source<'static>> {
        match text {
            "categories" => return Ok(Source::Categories),
            "town" => return town(data),
            _ => (),
        }
        let (stated, name) = split_name(text);
        let path = locate(name, options)?;
        let (Some(folder), Some(file)) = (path.parent(), path.file_name().and_then(|file| file.to_str())) else {
            return Err(DataError::io(path.display(), std::io::ErrorKind::NotFound.into()));
        };
        let file = GraphFile { files: Files::Disk(folder.to_owned()), name: file.to_owned() };
        recognise(file, stated, name)
    }
}

impl<'a> Source<'a> {
    /// A file whose name may state what it holds.
    pub(super) fn open(file: GraphFile<'a>) -> Result<Source<'a>> {
        let name = file.name.clone();
        let (stated, name) = split_name(&name);
        recognise(file, stated, name)
    }
}

/// `mapping=FILE` and the like.
fn split_name(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((stated, name)) if CONTENTS.contains(&stated) => (Some(stated), name),
        _ => (None, text),
    }
}

/// A path, or one below the folder of data sets.
fn locate(name: &str, options: &LoadOptions) -> Result<PathBuf> {
    let path = Path::new(name);
    let below = data_folder(options.data_dir.as_deref()).filter(|_| path.is_relative()).map(|folder| folder.join(name));
    let found = [Some(path.to_owned()), below].into_iter().flatten().find(|path| path.is_file());
    found.ok_or_else(|| {
        DataError::NotFound(
            name.to_owned(),
            " of a graph, here or under the folder of data sets".to_owned(),
            "; a graph is named by its files, or is `categories` or `town`".to_owned(),
        )
    })
}

fn town(data: &str) -> Result<Source<'static>> {
    let wrong = |reason: String| {
        DataError::Specification(
            "graph",
            "town".to_owned(),
            format!("a data set that is a synthetic town, whose graph it is ({reason})"),
        )
    };
    let spec: TownSpec = data.parse().map_err(|error| wrong(format!("{error}")))?;
    let town = Town::build(&spec).map_err(|error| wrong(error.to_string()))?;
    let mut text = Vec::new();
    town.write_ntriples(&mut text).map_err(|error| DataError::io("town", error))?;
    Ok(Source::Town(text))
}

/// Recognises what a file holds by its ending, by its first line, or by what was stated.
fn recognise<'a>(file: GraphFile<'a>, stated: Option<&str>, name: &str) -> Result<Source<'a>> {
    let plain = unpacked_name(name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| plain.ends_with(ending));
    if ends(&[".nt", ".ntriples"]) {
        return Ok(Source::File(file, Content::Triples(Syntax::NTriples)));
    }
    if ends(&[".ttl", ".turtle"]) {
        return Ok(Source::File(file, Content::Triples(Syntax::Turtle)));
    }
    let first = first_line(&file)?;
    let content = match stated {
        Some(stated) => content(stated, &first, true),
        None => CONTENTS.iter().find_map(|kind| content(kind, &first, false)).or_else(|| by_shape(&first)),
    };
    let Some(content) = content else {
        let reason = "expected .nt, .ttl, or tab-separated text with a header such as subject, predicate, object; \
            item, predicate, object; or item, entity";
        return Err(DataError::Unrecognised(file.label(), reason.to_owned()));
    };
    Ok(Source::File(file, content))
}

fn first_line(file: &GraphFile<'_>) -> Result<Vec<String>> {
    let mut lines = Lines::new(file.open()?);
    let line = lines.next().map_err(|error| DataError::io(file.label(), error))?;
    let Some(line) = line.filter(|line| !line.is_empty()) else {
        return Err(DataError::Empty(file.label()));
    };
    let mut fields = Fields::default();
    // Tabs are never quoted.
    let _ = fields.split(line, Delimiter::Byte(b'\t'));
    Ok(fields.texts(line))
}

/// The content of this kind, its columns found by a header; without one, the first columns if the kind was stated.
fn content(kind: &str, first: &[String], stated: bool) -> Option<Content> {
    match kind {
        "predicates" => columns(first, [CHAIN, NUMBER], stated).map(Content::Predicates),
        "triples" => {
            let columns = columns(first, [SUBJECT, PREDICATE, OBJECT], stated)?;
            Some(Content::Triples(Syntax::Table(columns)))
        }
        "features" => columns(first, [ITEM, PREDICATE, OBJECT], stated).map(Content::Features),
        _ => columns(first, [ITEM, ENTITY], stated).map(Content::Mapping),
    }
}

/// Columns by the names in a header: each the first that has one of its names. Types after a colon do not count.
fn columns<const N: usize>(first: &[String], names: [&[&str]; N], stated: bool) -> Option<Columns<N>> {
    let column = |names: &[&str]| {
        let plain = |field: &String| field.split(':').next().unwrap_or_default().to_lowercase();
        first.iter().position(|field| names.contains(&plain(field).as_str()))
    };
    let found: Option<Vec<usize>> = names.iter().map(|names| column(names)).collect();
    match found.and_then(|found| found.try_into().ok()) {
        Some(at) => Some(Columns { at, header: true }),
        None => stated.then(|| Columns { at: std::array::from_fn(|index| index), header: false }),
    }
}

/// Without a header: two columns are a mapping; so are three of which only the last is an address (item, title,
/// entity); other three are statements.
fn by_shape(first: &[String]) -> Option<Content> {
    let address = |field: &String| field.starts_with("http") || field.starts_with('<');
    let header = false;
    match first {
        [_, _] => Some(Content::Mapping(Columns { at: [0, 1], header })),
        [item, title, entity] if address(entity) && !address(item) && !address(title) => {
            Some(Content::Mapping(Columns { at: [0, 2], header }))
        }
        [_, _, _] => Some(Content::Triples(Syntax::Table(Columns { at: [0, 1, 2], header }))),
        _ => None,
    }
}
