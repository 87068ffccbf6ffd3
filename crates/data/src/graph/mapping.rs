//! The mapping of items to entities of the graph.

use super::GraphReport;
use super::source::{Content, Source};
use super::triples::{BadLineHandler, rows};
use super::vocabulary::Vocabulary;
use crate::error::{DataError, Result};
use crate::intern::Interner;
use sottovoce_core::Catalog;

/// The prefix of the town's places.
const TOWN: &str = "http://town.example/place/";

/// The items of a catalog by their ids.
pub(super) fn items_of(catalog: &Catalog) -> Result<Interner> {
    let mut items = Interner::default();
    for id in catalog.ids.iter() {
        let too_large = |_| DataError::TooLarge("catalog".to_owned(), "item ids");
        items.number(id.as_bytes()).map_err(too_large)?;
    }
    Ok(items)
}

/// Nodes and the items they are, ascending by item.
pub(super) type Roots = Vec<(u32, u32)>;

/// Finds the items' nodes: by mappings if there are any, else by name.
pub(super) fn roots(
    sources: &[Source<'_>],
    catalog: &Catalog,
    base: &str,
    items: &Interner,
    vocabulary: &mut Vocabulary<'_>,
    (skip, report): (bool, &mut GraphReport),
) -> Result<Roots> {
    let mut roots = Roots::new();
    let mut mapped = false;
    for source in sources {
        let Source::File(file, Content::Mapping(columns)) = source else { continue };
        mapped = true;
        let mut bad_lines = BadLineHandler { skip, report };
        rows(file, *columns, ["item", "entity"], &mut bad_lines, &mut |[id, entity], _| {
            if let Some(item) = items.get(id.as_bytes()) {
                roots.push((item, vocabulary.node(entity)?));
            }
            Ok(())
        })?;
    }
    let town = sources.iter().any(|source| matches!(source, Source::Town(_)));
    let triples = sources.iter().any(|source| matches!(source, Source::File(_, Content::Triples(_))));
    for (named, base) in [(town, TOWN), (triples && !mapped, base)] {
        if !named {
            continue;
        }
        for (item, id) in (0..).zip(catalog.ids.iter()) {
            roots.push((item, vocabulary.node(&format!("{base}{id}"))?));
        }
    }
    roots.sort_unstable();
    roots.dedup();
    Ok(roots)
}
