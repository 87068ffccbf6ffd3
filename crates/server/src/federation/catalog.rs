//! The catalog of a federation: which item each row of the item table is.

use std::collections::HashSet;

/// The first line.
pub const HEADER: &str = "item\ttitle\tcategories";
/// Bytes of a line at most.
const MOST_LINE: usize = 4096;
/// Items at most.
const MOST_ITEMS: usize = 50_000_000;

/// Why a text is no catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("catalog, line {line}: {reason}")]
pub struct CatalogError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Checks a catalog and counts its items: a header line, then `item<TAB>title<TAB>categories` a line, the last two of
/// which may be missing; categories are joined by `|`.
///
/// # Errors
/// Names the first line that is wrong.
pub fn check(text: &str) -> Result<usize, CatalogError> {
    let wrong = |line: usize, reason: String| CatalogError { line: line + 1, reason };
    let mut lines = text.lines().enumerate();
    match lines.next() {
        Some((_, first)) if first == HEADER || first == "item" || first == "item\ttitle" => (),
        first => {
            let found = first.map_or("nothing", |(_, line)| line);
            let found: String = found.chars().take(60).collect();
            return Err(wrong(
                0,
                format!("expected the header `item<TAB>title<TAB>categories`, found `{found}`"),
            ));
        }
    }
    let mut items = HashSet::new();
    for (number, line) in lines {
        let id = line.split('\t').next().unwrap_or_default();
        let reason = if line.len() > MOST_LINE {
            format!("longer than {MOST_LINE} bytes")
        } else if line.split('\t').count() > 3 {
            "more than three fields".to_owned()
        } else if id.trim().is_empty() {
            "no item id".to_owned()
        } else if items.len() == MOST_ITEMS {
            format!("more than {MOST_ITEMS} items")
        } else if !items.insert(id) {
            format!("item `{id}` was there before")
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
    fn items_are_counted_and_wrong_lines_named() {
        assert_eq!(check("item\ttitle\tcategories\n7\tHeat\tCrime|Drama\n9\t\t\n"), Ok(2));
        assert_eq!(check("item\n7\n9"), Ok(2));
        let wrong = |text: &str| check(text).unwrap_err().to_string();
        assert_eq!(wrong("item\n7\n7\n"), "catalog, line 3: item `7` was there before");
        assert_eq!(wrong("item\n7\n\n"), "catalog, line 3: no item id");
        assert_eq!(wrong("item\na\tb\tc\td"), "catalog, line 2: more than three fields");
        assert_eq!(wrong("item\n"), "catalog, line 2: no items");
        assert!(wrong("").contains("found `nothing`") && wrong("x").contains("found `x`"));
    }
}
