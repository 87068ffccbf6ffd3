//! Where a part of a graph is, and what it holds.

use crate::error::DataError;
use crate::fields::{Delimiter, Fields};
use crate::files::{Files, unpacked_name};
use crate::lines::Lines;
use crate::load::{DATA_DIR, LoadOptions};
use crate::town::{Town, TownSpec};
use std::path::{Path, PathBuf};

/// A file somewhere.
pub(super) struct Place<'a> {
    pub(super) files: Files<'a>,
    pub(super) file: String,
}

impl Place<'_> {
    pub(super) fn label(&self) -> String {
        self.files.label(&self.file)
    }
}

/// A part of a graph.
pub(super) enum Source<'a> {
    /// Statements.
    Triples(Place<'a>, Syntax),
    /// Items and the entities they are in the graph.
    Mapping(Place<'a>, Columns<2>),
    /// Items and their features.
    Features(Place<'a>, Columns<3>),
    /// What numbers of predicates in a feature file stand for, and how many hops they are.
    Predicates(Place<'a>, Columns<2>),
    /// The catalog's own categories.
    Categories,
    /// The synthetic town's graph, as N-Triples.
    Town(Vec<u8>),
}

/// How statements are written.
#[derive(Clone, Copy)]
pub(super) enum Syntax {
    NTriples,
    Turtle,
    DatasetBuilder(Columns<3>),
}

/// Which columns of a tab-separated file are meant.
#[derive(Clone, Copy)]
pub(super) struct Columns<const N: usize> {
    pub(super) at: [usize; N],
    /// Whether the first line names them.
    pub(super) header: bool,
}

const ITEM: &[&str] = &["item", "item_id"];
const SUBJECT: &[&str] = &["subject", "head_id", "head"];
const PREDICATE: &[&str] = &["predicate", "predicate_id", "relation", "relation_id"];
const OBJECT: &[&str] = &["object", "object_id", "tail", "tail_id", "value"];
const ENTITY: &[&str] = &["entity", "entity_id", "dbpedia_uri", "uri", "iri"];
const CHAIN: &[&str] = &["predicate_chain"];
const NUMBER: &[&str] = &["predicate_id"];

impl Source<'_> {
    /// The part that a plan names.
    pub(super) fn find(text: &str, data: &str, options: &LoadOptions) -> Result<Source<'static>, DataError> {
        match text {
            "categories" => return Ok(Source::Categories),
            "town" => return town(data),
            _ => (),
        }
        let (role, name) = role(text);
        let path = locate(name, options)?;
        let (Some(folder), Some(file)) = (path.parent(), path.file_name().and_then(|file| file.to_str()))
        else {
            return Err(DataError::io(path.display(), std::io::ErrorKind::NotFound.into()));
        };
        let place = Place { files: Files::Disk(folder.to_owned()), file: file.to_owned() };
        recognise(place, role, name)
    }
}

impl<'a> Source<'a> {
    /// The part that a place holds; its name may say what it is.
    pub(super) fn open(place: Place<'a>) -> Result<Source<'a>, DataError> {
        let name = place.file.clone();
        let (role, name) = role(&name);
        recognise(place, role, name)
    }
}

/// `mapping=FILE` and the like.
fn role(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((role, name)) if ["mapping", "triples", "features", "predicates"].contains(&role) => {
            (Some(role), name)
        }
        _ => (None, text),
    }
}

/// A path, or one below the folder of data sets.
fn locate(name: &str, options: &LoadOptions) -> Result<PathBuf, DataError> {
    let path = Path::new(name);
    let folder = options.data_dir.clone().or_else(|| std::env::var_os(DATA_DIR).map(PathBuf::from));
    let below = folder.filter(|_| path.is_relative()).map(|folder| folder.join(name));
    let found = [Some(path.to_owned()), below].into_iter().flatten().find(|path| path.is_file());
    found.ok_or_else(|| DataError::NotFound {
        name: name.to_owned(),
        searched: " of a graph, here or under the folder of data sets".to_owned(),
        advice: "; a graph is named by its files, or is `categories` or `town`".to_owned(),
    })
}

fn town(data: &str) -> Result<Source<'static>, DataError> {
    let wrong = |reason: String| DataError::Specification {
        what: "graph",
        text: "town".to_owned(),
        expected: format!("a data set that is a synthetic town, whose graph it is ({reason})"),
    };
    let spec: TownSpec = data.parse().map_err(|error| wrong(format!("{error}")))?;
    let town = Town::build(&spec).map_err(|error| wrong(error.to_string()))?;
    let mut text = Vec::new();
    town.write_ntriples(&mut text).map_err(|error| DataError::io("town", error))?;
    Ok(Source::Town(text))
}

/// Tells what a file holds by its ending, its first line, or what was said of it.
fn recognise<'a>(place: Place<'a>, role: Option<&str>, name: &str) -> Result<Source<'a>, DataError> {
    let plain = unpacked_name(name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| plain.ends_with(ending));
    if ends(&[".nt", ".ntriples"]) {
        return Ok(Source::Triples(place, Syntax::NTriples));
    }
    if ends(&[".ttl", ".turtle"]) {
        return Ok(Source::Triples(place, Syntax::Turtle));
    }
    let first = first_line(&place)?;
    let kind = match role {
        Some(role) => Some(by_role(role, &first)),
        None => by_header(&first).or_else(|| by_shape(&first)),
    };
    let Some(kind) = kind else {
        let reason = "expected .nt, .ttl, or tab-separated text with a header such as subject, predicate, object; \
            item, predicate, object; or item, entity";
        return Err(DataError::Unrecognised { file: place.label(), reason: reason.to_owned() });
    };
    Ok(match kind {
        Kind::Triples(columns) => Source::Triples(place, Syntax::Table(columns)),
        Kind::Mapping(columns) => Source::Mapping(place, columns),
        Kind::Features(columns) => Source::Features(place, columns),
        Kind::Predicates(columns) => Source::Predicates(place, columns),
    })
}

enum Kind {
    Triples(Columns<3>),
    Mapping(Columns<2>),
    Features(Columns<3>),
    Predicates(Columns<2>),
}

fn first_line(place: &Place<'_>) -> Result<Vec<String>, DataError> {
    let mut lines = Lines::new(place.files.open(&place.file)?);
    let line = lines.next().map_err(|error| DataError::io(place.label(), error))?;
    let Some(line) = line.filter(|line| !line.is_empty()) else {
        return Err(DataError::Empty { file: place.label() });
    };
    let mut fields = Fields::default();
    // Tabs are never quoted.
    let _ = fields.cut(line, Delimiter::Byte(b'\t'));
    Ok(fields.texts(line))
}

/// Columns by the names in a header: each the first that has one of its names. Types after a colon do not count.
fn named<const N: usize>(first: &[String], names: [&[&str]; N]) -> Option<Columns<N>> {
    let column = |names: &[&str]| {
        let plain = |field: &String| field.split(':').next().unwrap_or_default().to_lowercase();
        first.iter().position(|field| names.contains(&plain(field).as_str()))
    };
    let mut at = [0; N];
    for (at, names) in at.iter_mut().zip(names) {
        *at = column(names)?;
    }
    Some(Columns { at, header: true })
}

fn by_header(first: &[String]) -> Option<Kind> {
    named(first, [CHAIN, NUMBER])
        .map(Kind::Predicates)
        .or_else(|| named(first, [SUBJECT, PREDICATE, OBJECT]).map(Kind::Triples))
        .or_else(|| named(first, [ITEM, PREDICATE, OBJECT]).map(Kind::Features))
        .or_else(|| named(first, [ITEM, ENTITY]).map(Kind::Mapping))
}

fn by_role(role: &str, first: &[String]) -> Kind {
    let header = false;
    match role {
        "triples" => Kind::Triples(
            named(first, [SUBJECT, PREDICATE, OBJECT]).unwrap_or(Columns { at: [0, 1, 2], header }),
        ),
        "features" => Kind::Features(
            named(first, [ITEM, PREDICATE, OBJECT]).unwrap_or(Columns { at: [0, 1, 2], header }),
        ),
        "predicates" => {
            Kind::Predicates(named(first, [CHAIN, NUMBER]).unwrap_or(Columns { at: [0, 1], header }))
        }
        _ => Kind::Mapping(named(first, [ITEM, ENTITY]).unwrap_or(Columns { at: [0, 1], header })),
    }
}

/// Without a header: two columns are a mapping; so are three of which only the last is an address (item, title,
/// entity); other three are statements.
fn by_shape(first: &[String]) -> Option<Kind> {
    let address = |field: &String| field.starts_with("http") || field.starts_with('<');
    let header = false;
    match first {
        [_, _] => Some(Kind::Mapping(Columns { at: [0, 1], header })),
        [item, title, entity] if address(entity) && !address(item) && !address(title) => {
            Some(Kind::Mapping(Columns { at: [0, 2], header }))
        }
        [_, _, _] => Some(Kind::Triples(Columns { at: [0, 1, 2], header })),
        _ => None,
    }
}
