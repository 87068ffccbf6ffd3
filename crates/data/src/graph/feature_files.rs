//! Features from feature files and categories.

use super::extraction::Pairs;
use super::source::{Columns, Content, GraphFile, Source};
use super::triples::{BadLineHandler, rows};
use super::vocabulary::{EMPTY_CHAIN, Vocabulary, key};
use crate::error::{BadLine, DataError, Result, shorten};
use crate::intern::Interner;
use rustc_hash::FxHashMap;
use sottovoce_core::Catalog;

/// Predicate chains by their numbers in feature files.
pub(super) type Numbered = FxHashMap<String, String>;

/// Reads the predicate chain of each number.
pub(super) fn numbered(sources: &[Source<'_>], bad_lines: &mut BadLineHandler<'_>) -> Result<Option<Numbered>> {
    let mut all = None;
    for source in sources {
        let Source::File(file, Content::Predicates(columns)) = source else { continue };
        let known = all.get_or_insert_with(Numbered::default);
        rows(file, *columns, ["predicate chain", "predicate number"], bad_lines, &mut |[chain, number], _| {
            known.insert(number.to_owned(), chain.to_owned());
            Ok(())
        })?;
    }
    Ok(all)
}

/// Adds the features of a feature file.
pub(super) fn features(
    (file, columns): (&GraphFile<'_>, Columns<3>),
    numbered: Option<&Numbered>,
    items: &Interner,
    vocabulary: &mut Vocabulary<'_>,
    bad_lines: &mut BadLineHandler<'_>,
    into: &mut Pairs,
) -> Result<()> {
    let label = file.label();
    let mut unknown = Vec::new();
    rows(file, columns, ["item", "predicate", "object"], bad_lines, &mut |[item, predicate, object], line| {
        let chain = match numbered {
            None => predicate,
            Some(numbered) => match numbered.get(predicate) {
                Some(chain) => chain,
                None => {
                    unknown.push(BadLine {
                        file: label.clone(),
                        line,
                        field: "predicate",
                        expected: "a number that the file of predicates has".to_owned(),
                        text: shorten(predicate.as_bytes()),
                    });
                    return Ok(());
                }
            },
        };
        let Some(item) = items.get(item.as_bytes()) else { return Ok(()) };
        let chain = vocabulary.chain(chain)?;
        into.push((item, key(chain, vocabulary.node(object)?)));
        Ok(())
    })?;
    unknown.into_iter().try_for_each(|bad| bad_lines.handle(bad))
}

/// Adds a catalog's categories as features.
pub(super) fn categories(catalog: &Catalog, vocabulary: &mut Vocabulary<'_>, into: &mut Pairs) -> Result<()> {
    let Some(categories) = &catalog.categories else {
        return Err(DataError::Specification(
            "graph",
            "categories".to_owned(),
            "a data set whose items have categories".to_owned(),
        ));
    };
    let predicate = vocabulary.predicate("category")?;
    let chain = vocabulary.extend_chain(EMPTY_CHAIN, predicate);
    for item in 0..catalog.len() {
        for &category in categories.of(item) {
            let object = vocabulary.node(&categories.names()[category as usize])?;
            into.push((item as u32, key(chain, object)));
        }
    }
    Ok(())
}
