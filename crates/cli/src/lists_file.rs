//! Reads recommendation lists of other systems, such as Elliot, RecBole and LensKit, from delimited text.
//!
//! Scores stay in double precision: rounding them could make ties that the system which wrote them did not have.

use anyhow::{Context, Result, bail};
use sottovoce_evaluate::Order;
use std::io::BufRead;
use std::path::Path;

/// One line of a lists file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recommended {
    pub(crate) user: String,
    pub(crate) item: String,
    /// The score, the rank, or the line number.
    pub(crate) value: f64,
}

/// How the lists are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankedBy {
    /// A `rank` column, ascending.
    Rank,
    /// A `score` column, descending.
    Score,
    /// The order of the lines.
    LineOrder,
}

impl RankedBy {
    /// As the evaluation takes it.
    pub(crate) fn order(self) -> Order {
        match self {
            RankedBy::Score => Order::Score,
            RankedBy::Rank | RankedBy::LineOrder => Order::Rank,
        }
    }
}

/// Reads a lists file; says how it is ranked.
pub(crate) fn read(path: &Path) -> Result<(Vec<Recommended>, RankedBy)> {
    let source = sottovoce_data::open(path)?;
    parse(source).with_context(|| format!("{}", path.display()))
}

fn parse(source: impl BufRead) -> Result<(Vec<Recommended>, RankedBy)> {
    let mut lists = Vec::new();
    let mut layout: Option<Layout> = None;
    for (number, line) in source.split(b'\n').enumerate() {
        let line = line.with_context(|| format!("line {}", number + 1))?;
        let line = String::from_utf8(line).with_context(|| format!("line {}: not UTF-8", number + 1))?;
        let line = line.trim_start_matches('\u{feff}').trim_end_matches('\r');
        if line.trim().is_empty() {
            continue;
        }
        let is_first = layout.is_none();
        let layout = layout.get_or_insert_with(|| Layout::of(line));
        if !(is_first && layout.header) {
            lists.push(layout.read(line, lists.len()).with_context(|| format!("line {}", number + 1))?);
        }
    }
    match layout {
        Some(layout) if !lists.is_empty() => Ok((lists, layout.ranked_by)),
        _ => bail!("no recommendations in it"),
    }
}

/// Which column is what.
struct Layout {
    /// Whether the first line is a header.
    header: bool,
    separator: Option<char>,
    user: usize,
    item: usize,
    order: usize,
    ranked_by: RankedBy,
}

impl Layout {
    /// From the first line, which may be a header.
    fn of(line: &str) -> Self {
        let separator = ['\t', ',', ';'].into_iter().find(|&separator| line.contains(separator));
        let fields = split(line, separator);
        let named = |names: &[&str]| {
            let plain = |field: &str| field.split(':').next().unwrap_or("").trim().trim_matches('"').to_lowercase();
            fields.iter().position(|field| names.contains(&plain(field).as_str()))
        };
        let user = named(&["user", "user_id", "userid", "uid"]);
        let item = named(&["item", "item_id", "itemid", "iid"]);
        if let (Some(user), Some(item)) = (user, item) {
            let rank = named(&["rank"]).map(|order| (order, RankedBy::Rank));
            let score = named(&["score", "rating", "prediction"]).map(|order| (order, RankedBy::Score));
            let (order, ranked_by) = rank.or(score).unwrap_or((0, RankedBy::LineOrder));
            return Self { header: true, separator, user, item, order, ranked_by };
        }
        let ranked_by = if fields.len() > 2 { RankedBy::Score } else { RankedBy::LineOrder };
        Self { header: false, separator, user: 0, item: 1, order: 2, ranked_by }
    }

    fn read(&self, line: &str, number: usize) -> Result<Recommended> {
        let fields = split(line, self.separator);
        let field = |name: &str, index: usize| match fields.get(index).map(|field| field.trim_matches('"')) {
            Some(field) if !field.is_empty() => Ok(field),
            _ => bail!("no {name} in `{line}`"),
        };
        let value = |name: &str| -> Result<f64> {
            let text = field(name, self.order)?;
            match text.trim().parse() {
                Ok(number) if !f64::is_nan(number) => Ok(number),
                _ => bail!("{name}: expected a number, found `{text}`"),
            }
        };
        let value = match self.ranked_by {
            RankedBy::Rank => value("rank")?,
            RankedBy::Score => value("score")?,
            RankedBy::LineOrder => number as f64,
        };
        let (user, item) = (field("user", self.user)?, field("item", self.item)?);
        Ok(Recommended { user: user.to_owned(), item: item.to_owned(), value })
    }
}

fn split(line: &str, separator: Option<char>) -> Vec<&str> {
    match separator {
        Some(separator) => line.split(separator).collect(),
        None => line.split_whitespace().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> (Vec<String>, RankedBy) {
        let (mut lists, by) = parse(text.as_bytes()).unwrap();
        lists.sort_by(|a, b| a.value.total_cmp(&b.value));
        if by.order() == Order::Score {
            lists.reverse();
        }
        (lists.into_iter().map(|entry| entry.item).collect(), by)
    }

    #[test]
    fn ranks_lists_by_rank_score_or_line_order() {
        assert_eq!(items("item,score,user,rank\na,9,u,2\nb,1,u,1\n"), (vec!["b".into(), "a".into()], RankedBy::Rank));
        assert_eq!(items("u\ta\t0.25\r\nu\tb\t0.5\r\n"), (vec!["b".into(), "a".into()], RankedBy::Score));
        assert_eq!(items("user item\nu b\nu a"), (vec!["b".into(), "a".into()], RankedBy::LineOrder));
    }

    #[test]
    fn close_scores_stay_apart() {
        let text = "user\titem\tscore\nu\ta\t0.123456789012\nu\tb\t0.123456789013\n";
        assert_eq!(items(text).0, ["b", "a"]);
    }

    #[test]
    fn errors_name_their_line() {
        let message = |text: &str| format!("{:#}", parse(text.as_bytes()).unwrap_err());
        assert_eq!(message("user\titem\tscore\nu\ta\tnan\n"), "line 2: score: expected a number, found `nan`");
        assert_eq!(message("user,item\nu\n"), "line 2: no item in `u`");
        assert_eq!(message("\n\n"), "no recommendations in it");
        assert_eq!(message("user\titem\n"), "no recommendations in it");
    }
}
