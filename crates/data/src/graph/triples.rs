//! Streaming the statements and rows of graph files.

use super::GraphReport;
use super::source::{Columns, GraphFile, Syntax};
use crate::error::{BadLine, DataError, Result, shorten};
use crate::fields::{Delimiter, Fields};
use crate::lines::Lines;
use crate::text;
use oxrdf::{NamedOrBlankNode, Term, Triple};
use oxttl::{NTriplesParser, TurtleParseError, TurtleParser};
use std::io::{BufReader, Read};

/// A statement.
pub(super) struct Statement<'a> {
    pub(super) subject: &'a str,
    pub(super) predicate: &'a str,
    pub(super) object: &'a str,
    /// The language of an object that is text; `None` for a resource, about which there may be more statements.
    pub(super) literal: Option<&'a str>,
}

/// Skips and counts bad lines, or makes them errors.
pub(super) struct BadLineHandler<'n> {
    pub(super) skip: bool,
    pub(super) report: &'n mut GraphReport,
}

impl BadLineHandler<'_> {
    /// Counts a bad line, or makes it an error.
    pub(super) fn handle(&mut self, bad: BadLine) -> Result<()> {
        if !self.skip {
            return Err(DataError::BadLine(Box::new(bad)));
        }
        self.report.bad.add(&bad);
        Ok(())
    }
}

/// Visits the statements of a file.
pub(super) fn each(
    file: &GraphFile<'_>,
    syntax: Syntax,
    bad_lines: &mut BadLineHandler<'_>,
    visit: &mut dyn FnMut(&Statement<'_>) -> Result<()>,
) -> Result<()> {
    let columns = match syntax {
        Syntax::Table(columns) => columns,
        _ => {
            let bytes = BufReader::with_capacity(64 << 10, file.open()?);
            return each_rdf(&file.label(), syntax, bytes, bad_lines, visit);
        }
    };
    rows(file, columns, ["subject", "predicate", "object"], bad_lines, &mut |[subject, predicate, object], _| {
        visit(&Statement { subject: bare(subject), predicate: bare(predicate), object: bare(object), literal: None })
    })
}

/// Visits the statements of N-Triples or Turtle.
pub(super) fn each_rdf(
    label: &str,
    syntax: Syntax,
    bytes: impl Read,
    bad_lines: &mut BadLineHandler<'_>,
    visit: &mut dyn FnMut(&Statement<'_>) -> Result<()>,
) -> Result<()> {
    let parsed: Box<dyn Iterator<Item = Result<Triple, TurtleParseError>>> = match syntax {
        Syntax::Turtle => Box::new(TurtleParser::new().for_reader(bytes)),
        _ => Box::new(NTriplesParser::new().for_reader(bytes)),
    };
    for triple in parsed {
        match triple {
            Ok(triple) => of_triple(&triple, visit)?,
            Err(TurtleParseError::Io(error)) => return Err(DataError::io(label, error)),
            Err(TurtleParseError::Syntax(error)) => {
                let at = error.location().start;
                bad_lines.handle(BadLine {
                    file: label.to_owned(),
                    line: at.line + 1,
                    field: "statement",
                    expected: "a statement in N-Triples or Turtle".to_owned(),
                    text: shorten(format!("column {}: {}", at.column + 1, error.message()).as_bytes()),
                })?;
            }
        }
    }
    Ok(())
}

fn of_triple(triple: &Triple, visit: &mut dyn FnMut(&Statement<'_>) -> Result<()>) -> Result<()> {
    let subject = match &triple.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str(),
        NamedOrBlankNode::BlankNode(node) => node.as_str(),
    };
    let (object, literal) = match &triple.object {
        Term::NamedNode(node) => (node.as_str(), None),
        Term::BlankNode(node) => (node.as_str(), None),
        Term::Literal(literal) => (literal.value(), Some(literal.language().unwrap_or_default())),
    };
    visit(&Statement { subject, predicate: triple.predicate.as_str(), object, literal })
}

/// Without the angle brackets that some tables put around IRIs.
fn bare(text: &str) -> &str {
    text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text)
}

/// Receives the columns asked for and the line's number.
type Visit<'v, const N: usize> = dyn FnMut([&str; N], u64) -> Result<()> + 'v;

/// Visits some columns of a tab-separated file, none of which may be empty.
pub(super) fn rows<const N: usize>(
    file: &GraphFile<'_>,
    columns: Columns<N>,
    names: [&'static str; N],
    bad_lines: &mut BadLineHandler<'_>,
    visit: &mut Visit<'_, N>,
) -> Result<()> {
    let label = file.label();
    let mut lines = Lines::new(file.open()?);
    let mut fields = Fields::default();
    let mut number = 0;
    while let Some(line) = lines.next().map_err(|error| DataError::io(&label, error))? {
        number += 1;
        if line.is_empty() || (number == 1 && columns.header) {
            continue;
        }
        // Tabs are never quoted.
        let _ = fields.split(line, Delimiter::Byte(b'\t'));
        let found = columns.at.map(|at| text::decode(fields.get(line, at)).0);
        match found.iter().position(|text| text.is_empty()) {
            None => visit(std::array::from_fn(|k| &*found[k]), number)?,
            Some(empty) => bad_lines.handle(BadLine {
                file: label.clone(),
                line: number,
                field: names[empty],
                expected: format!("text in column {} of {}", columns.at[empty] + 1, fields.len()),
                text: shorten(line),
            })?,
        }
    }
    Ok(())
}
