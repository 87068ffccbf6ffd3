//! The catalog of a federation: the item of each row of the item table.

use sottovoce_core::{CATALOG_HEADER, Facts};
use sottovoce_text::HashedNgrams;
use std::collections::HashSet;
use std::sync::Arc;

/// The first line.
pub const HEADER: &str = "item\ttitle\tcategories";
/// Bytes of a line without its facts.
const MAX_LINE: usize = 4096;
/// Bytes of a line's facts.
const MAX_FACTS: usize = 60 << 10;
/// Items of a catalog.
const MAX_ITEMS: usize = 50_000_000;

/// Why a catalog is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("catalog, line {line}: {reason}")]
pub struct CatalogError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// A valid catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckedCatalog {
    /// Number of items.
    pub items: usize,
    /// Facts about them, if there are any.
    pub facts: Option<Arc<Facts>>,
}

/// Checks a catalog: a header line, then lines of `item<TAB>title<TAB>categories`, of which the last two may be
/// missing; categories are joined by `|`. A fourth column holds facts, which [`Facts::of_catalog`] parses. At the end
/// there may be an encoder of titles, which [`HashedNgrams::of_catalog`] parses.
///
/// # Errors
/// Names the first invalid line.
pub fn check(text: &str) -> Result<CheckedCatalog, CatalogError> {
    let (_, text) = HashedNgrams::of_catalog(text)
        .map_err(|error| CatalogError { line: text.lines().count(), reason: error.to_string() })?;
    let facts = Facts::of_catalog(text);
    let facts = facts.map_err(|error| CatalogError { line: error.line, reason: error.reason })?;
    let (facts, about_items) = facts.map_or((None, text), |(facts, items)| (Some(Arc::new(facts)), items));
    Ok(CheckedCatalog { items: count(about_items)?, facts })
}

/// Checks and counts the items.
fn count(text: &str) -> Result<usize, CatalogError> {
    let wrong = |line: usize, reason: String| CatalogError { line: line + 1, reason };
    let mut lines = text.lines().enumerate();
    let columns = match lines.next() {
        Some((_, CATALOG_HEADER)) => 4,
        Some((_, first)) if first == HEADER || first == "item" || first == "item\ttitle" => 3,
        first => {
            let found = first.map_or("nothing", |(_, line)| line);
            let found: String = found.chars().take(60).collect();
            return Err(wrong(0, format!("expected the header `item<TAB>title<TAB>categories`, found `{found}`")));
        }
    };
    let mut items = HashSet::new();
    for (number, line) in lines {
        let id = line.split('\t').next().unwrap_or_default();
        let facts = line.splitn(4, '\t').nth(3).filter(|_| columns == 4).map_or(0, str::len);
        let reason = if line.len() - facts > MAX_LINE {
            format!("longer than {MAX_LINE} bytes")
        } else if facts > MAX_FACTS {
            format!("facts of more than {MAX_FACTS} bytes")
        } else if line.split('\t').count() > columns {
            format!("more than {columns} fields")
        } else if id.trim().is_empty() {
            "no item id".to_owned()
        } else if items.len() == MAX_ITEMS {
            format!("more than {MAX_ITEMS} items")
        } else if !items.insert(id) {
            format!("item `{id}` appears twice")
        } else {
            continue;
        };
        return Err(wrong(number, reason));
    }
    if items.is_empty() { Err(wrong(1, "no items".to_owned())) } else { Ok(items.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_items_and_names_invalid_lines() {
        let items = |text: &str| check(text).map(|checked| checked.items);
        assert_eq!(items("item\ttitle\tcategories\n7\tHeat\tCrime|Drama\n9\t\t\n"), Ok(2));
        assert_eq!(items("item\n7\n9"), Ok(2));
        let with_facts = "item\ttitle\tcategories\tfacts\n7\tHeat\t\t0\n9\t\t\t\n\nhops\twords\n1\tdirector: Mann\n";
        let checked = check(with_facts).unwrap();
        assert_eq!((checked.items, checked.facts.unwrap().items_with(0).to_vec()), (2, vec![0]));
        let encoder = HashedNgrams::fit(Default::default(), ["Heat on DVD"]).unwrap().catalog_text();
        assert_eq!(items(&format!("{with_facts}{encoder}")), Ok(2));
        let damaged = check(&format!("item\n7\n{}", encoder.replace("\tU", "\t!"))).unwrap_err();
        assert_eq!((damaged.line, damaged.reason.starts_with("encoder: not Base64")), (4, true), "{damaged}");
        let unknown = check(&with_facts.replace("\t0\n", "\t4\n")).unwrap_err();
        assert_eq!(unknown.line, 2);
        let wrong = |text: &str| check(text).unwrap_err().to_string();
        assert_eq!(wrong("item\n7\n7\n"), "catalog, line 3: item `7` appears twice");
        assert_eq!(wrong("item\n7\n\n"), "catalog, line 3: no item id");
        assert_eq!(wrong("item\na\tb\tc\td"), "catalog, line 2: more than 3 fields");
        assert_eq!(wrong("item\n"), "catalog, line 2: no items");
        assert!(wrong("").contains("found `nothing`") && wrong("x").contains("found `x`"));
    }
}
