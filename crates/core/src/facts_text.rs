//! Facts in the text form of a catalog, as servers send it to devices.
//!
//! The items' lines have a fourth column, `facts`: the indices of an item's features, ascending, separated by
//! spaces. After the last item comes an empty line, a line `hops<TAB>words`, and one line per feature.

use crate::{Facts, Names};
use std::fmt::Write;
use thiserror::Error;

/// The header of a catalog with facts.
pub const CATALOG_HEADER: &str = "item\ttitle\tcategories\tfacts";

/// The header of the features.
const HEADER: &str = "hops\twords";

/// Text that cannot be read as facts.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct FactsError {
    /// The line in the catalog's text, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl Facts {
    /// The fourth column of an item's line.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn item_text(&self, item: usize) -> String {
        let numbers: Vec<String> = self.of(item).iter().map(|number| number.to_string()).collect();
        numbers.join(" ")
    }

    /// The text after the items, including the empty line.
    pub fn features_text(&self) -> String {
        let mut text = format!("\n{HEADER}\n");
        for (feature, name) in self.names().iter().enumerate() {
            let _ = writeln!(text, "{}\t{}", self.hops(feature), name.replace(['\t', '\n', '\r'], " "));
        }
        text
    }

    /// The facts of a catalog's text, and the part of the text that is about items; `None` if its header names no facts.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub fn of_catalog(text: &str) -> Result<Option<(Facts, &str)>, FactsError> {
        let Some(rest) = text.strip_prefix(CATALOG_HEADER).filter(|rest| rest.starts_with('\n')) else {
            return Ok(None);
        };
        let rest = &rest[1..];
        let end = if rest.starts_with('\n') { Some(0) } else { rest.find("\n\n").map(|end| end + 1) };
        let count = |text: &str| text.lines().count();
        let Some(end) = end else {
            return Err(wrong(1 + count(rest), "no empty line and no features after the items"));
        };
        let (items, features) = (&rest[..end], &rest[end + 1..]);
        let (names, hops) = read_features(features, count(items) + 3)?;
        let mut facts = Facts::of_features(&names, hops);
        for (index, line) in items.lines().enumerate() {
            let own = line.split('\t').nth(3).unwrap_or_default();
            let numbers: Option<Vec<u32>> = own.split_ascii_whitespace().map(|number| number.parse().ok()).collect();
            let fits = |numbers: &Vec<u32>| numbers.iter().all(|&number| (number as usize) < facts.features());
            let Some(numbers) = numbers.filter(fits) else {
                let features = facts.features();
                let expected = format!("the facts are not numbers below {features}, the number of features");
                return Err(wrong(index + 2, &expected));
            };
            facts.push(numbers);
        }
        facts.shrink();
        let about_items = &text[..text.len() - rest.len() + end];
        Ok(Some((facts, about_items)))
    }
}

fn wrong(line: usize, reason: &str) -> FactsError {
    FactsError { line, reason: reason.to_owned() }
}

/// Names and hops of the features; `line` is the number of the header's line.
fn read_features(text: &str, line: usize) -> Result<(Names, Vec<u8>), FactsError> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(wrong(line, "expected the header `hops<TAB>words`"));
    }
    let (mut names, mut hops) = (Names::new(), Vec::new());
    for (index, text) in lines.enumerate() {
        let (far, words) = text.split_once('\t').unwrap_or((text, ""));
        match far.parse::<u8>() {
            Ok(far @ 1..) if !words.is_empty() => {
                hops.push(far);
                names.push(words);
            }
            _ => return Err(wrong(line + 1 + index, "expected a feature: hops from 1, a tab, and words")),
        }
    }
    if hops.is_empty() {
        return Err(wrong(line + 1, "no features"));
    }
    Ok((names, hops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_round_trip_through_a_catalogs_text() {
        let facts = Facts::of_lists(&[("a: x", 1), ("b > c: y", 2)], &[vec![0, 1], vec![], vec![1]]);
        let items: String = (0..3).map(|item| format!("{item}\t\tc\t{}\n", facts.item_text(item))).collect();
        let text = format!("{CATALOG_HEADER}\n{items}{}", facts.features_text());
        let (found, about_items) = Facts::of_catalog(&text).unwrap().unwrap();
        assert_eq!((found, about_items.lines().count()), (facts, 4));
        assert_eq!(Facts::of_catalog("item\ttitle\tcategories\na\n"), Ok(None));
    }

    #[test]
    fn errors_name_the_line() {
        let said = |rest: &str| Facts::of_catalog(&format!("{CATALOG_HEADER}\n{rest}")).unwrap_err().to_string();
        let features = "\nhops\twords\n1\ta\n";
        assert!(said("7\t\t\t0\n").starts_with("line 2: no empty line"));
        assert!(
            said(&format!("7\t\t\t0\n8\t\t\t1\n{features}")).starts_with("line 3: the facts are not numbers below 1")
        );
        assert!(said(&format!("7\t\t\tx\n{features}")).starts_with("line 2: the facts"));
        assert!(said("7\t\t\t0\n\nhops\n").starts_with("line 4: expected the header"));
        assert!(said("7\t\t\t\n\nhops\twords\n").starts_with("line 5: no features"));
        assert!(said("7\t\t\t0\n\nhops\twords\n1\ta\n0\tb\n").starts_with("line 6: expected a feature"));
    }
}
