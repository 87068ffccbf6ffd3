//! The owner's history, by the catalog's ids, so that it outlives a catalog.

use crate::Items;
use crate::bounds::ID_BYTES;
use sottovoce_client::Figures;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_core::Names;
use sottovoce_models::criteria;
use std::collections::HashMap;
use thiserror::Error;

/// A line of a history that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}, {field}: {found:?}: expected {expected}")]
pub struct ImportError {
    /// The line, from 1.
    pub line: usize,
    /// Which field.
    pub field: &'static str,
    /// What was found.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

/// Result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// New interactions.
    pub added: usize,
    /// Interactions that the history has already: the same item at the same time, or at an unknown one.
    pub repeated: usize,
    /// Of the new ones, those with items that the catalog does not know. They count as soon as it does.
    pub unknown: usize,
    /// Whether the private model adapted to the new ones, without a round.
    pub adapted: bool,
}

/// One person's interactions in order of import. An item may come several times, at different known times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    ids: Names,
    /// Seconds since 1970, or [`NO_TIME`].
    times: Vec<i64>,
}

const NO_TIME: i64 = i64::MIN;

/// A history in rows of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Ascending, each once.
    pub(crate) rows: Vec<u32>,
    /// Times and rows, in order of import.
    timed: Vec<(i64, u32)>,
    /// The rows in time order, repetitions included; those without a time come first, in order of import.
    sequence: Vec<u32>,
}

impl Rows {
    /// As models read it.
    pub(crate) fn history(&self) -> sottovoce_core::History<'_> {
        sottovoce_core::History { sequence: &self.sequence, ..(&self.rows).into() }
    }

    /// The latest interaction with one of these items, which ascend.
    fn latest_of(&self, items: &[u32]) -> Option<(i64, u32)> {
        // Of several at the same time, the one imported last.
        self.timed.iter().copied().filter(|(_, row)| items.binary_search(row).is_ok()).max_by_key(|(time, _)| *time)
    }
}

/// What a device can report about its items.
pub(crate) struct DeviceFigures<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) items: Option<&'a Items>,
    /// Seconds.
    pub(crate) now: u64,
}

impl Figures for DeviceFigures<'_> {
    fn latest(&self, items: &[u32]) -> Option<u32> {
        self.rows.latest_of(items).map(|(_, row)| row)
    }

    fn value(&self, criterion: &str, items: &[u32]) -> Option<f64> {
        match criterion {
            criteria::DIVERSITY => {
                let of = |row: u32| self.items.map_or_else(Vec::new, |all| all.categories(row as usize).collect());
                self.items.map(|_| criteria::diversity::<&str>(items, of) as f64)
            }
            criteria::RECENCY => {
                let now = i64::try_from(self.now).unwrap_or(i64::MAX);
                let (time, _) = self.rows.latest_of(items).filter(|&(time, _)| time != NO_TIME)?;
                Some(criteria::recency(time, now))
            }
            _ => None,
        }
    }
}

impl History {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// From ids in time order, without times; repeated ones count once.
    pub fn from_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut history = Self::new();
        history.extend(ids.into_iter().map(|id| (id, None)));
        history
    }

    /// Number of interactions.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Ids and times, in order of import.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Option<i64>)> {
        self.ids.iter().zip(&self.times).map(|(id, &time)| (id, (time != NO_TIME).then_some(time)))
    }

    /// Adds interactions that are new: with another item, or with the same at another time. Where a time is missing,
    /// the same item is the same interaction. Returns how many were new and how many were not.
    pub fn extend<'a>(&mut self, interactions: impl IntoIterator<Item = (&'a str, Option<i64>)>) -> (usize, usize) {
        let mut known: HashMap<String, Vec<i64>> = HashMap::new();
        for (id, &time) in self.ids.iter().zip(&self.times) {
            known.entry(id.to_owned()).or_default().push(time);
        }
        let (mut added, mut repeated) = (0, 0);
        for (id, time) in interactions {
            let (time, times) = (time.unwrap_or(NO_TIME), known.entry(id.to_owned()).or_default());
            let is_same = |&known: &i64| known == time || known == NO_TIME || time == NO_TIME;
            if !times.iter().any(is_same) {
                times.push(time);
                self.ids.push(id);
                self.times.push(time);
                added += 1;
            } else {
                repeated += 1;
            }
        }
        (added, repeated)
    }

    /// Number of interactions, from index `from` on, with items that a catalog does not have.
    pub fn unknown_to(&self, items: &Items, from: usize) -> usize {
        self.ids.iter().skip(from).filter(|id| items.find(id).is_none()).count()
    }

    /// The interactions with items of a catalog, in its rows.
    pub(crate) fn rows(&self, items: &Items) -> Rows {
        let known = self.ids.iter().zip(&self.times).filter_map(|(id, time)| Some((*time, items.find(id)?)));
        let timed: Vec<(i64, u32)> = known.collect();
        let mut rows: Vec<u32> = timed.iter().map(|&(_, row)| row).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut in_time = timed.clone();
        in_time.sort_by_key(|&(time, _)| time);
        Rows { rows, timed, sequence: in_time.into_iter().map(|(_, row)| row).collect() }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.texts(self.ids.iter());
        self.times.iter().for_each(|time| out.number(time.cast_unsigned()));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Self> {
        let ids: Names = from.texts("history")?;
        let time = |_| Ok(from.number("time of an interaction")?.cast_signed());
        let times = (0..ids.len()).map(time).collect::<Read<Vec<_>>>()?;
        Ok(Self { ids, times })
    }
}

/// Reads delimited text: an item's id and optionally a time in seconds since 1970, separated by tabs or commas. A
/// header that names the columns `item` and `timestamp` allows other columns, which are ignored; a column of users is
/// an error, because a history is one person's.
///
/// # Errors
/// If a line cannot be read; names line and field.
///
/// ```
/// let read = sottovoce_device::read_history("item,timestamp\n\"Casino, Royale\",120\n17,99.5\n").unwrap();
/// assert_eq!(read, [("Casino, Royale".to_owned(), Some(120)), ("17".to_owned(), Some(99))]);
/// ```
pub fn read_history(text: &str) -> Result<Vec<(String, Option<i64>)>, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut columns = Columns { item: 0, time: Some(1), most: 2 };
    let mut read = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        let fields = split(content, line)?;
        match Columns::named(&fields, line)? {
            Some(named) if read.is_empty() && line == 1 => columns = named,
            _ => read.push(columns.parse(&fields, line)?),
        }
    }
    Ok(read)
}

/// Meaning of the fields of a line.
struct Columns {
    item: usize,
    time: Option<usize>,
    /// Most fields that a line may have.
    most: usize,
}

impl Columns {
    /// From a header, if this line is one.
    fn named(fields: &[String], line: usize) -> Result<Option<Self>, ImportError> {
        let find =
            |names: &[&str]| fields.iter().position(|field| names.contains(&field.trim().to_lowercase().as_str()));
        let Some(item) = find(&["item", "item_id", "itemid"]).filter(|_| line == 1) else { return Ok(None) };
        if let Some(user) = find(&["user", "user_id", "userid"]) {
            let (found, expected) = (fields[user].clone(), "no column of users: a history is one person's");
            return Err(ImportError { line, field: "header", found, expected: expected.to_owned() });
        }
        Ok(Some(Self { item, time: find(&["timestamp", "time"]), most: fields.len() }))
    }

    fn parse(&self, fields: &[String], line: usize) -> Result<(String, Option<i64>), ImportError> {
        if fields.len() > self.most {
            let (found, expected) = (fields.join(" "), format!("at most {} fields", self.most));
            return Err(ImportError { line, field: "fields", found, expected });
        }
        let id = fields.get(self.item).map_or("", |id| id.trim());
        if id.is_empty() || id.len() > ID_BYTES {
            let (found, expected) = (id.chars().take(80).collect(), format!("an id of 1 to {ID_BYTES} bytes"));
            return Err(ImportError { line, field: "item", found, expected });
        }
        let time = self.time.and_then(|time| fields.get(time)).map_or("", |time| time.trim());
        let time = if time.is_empty() { None } else { Some(seconds(time, line)?) };
        Ok((id.to_owned(), time))
    }
}

fn seconds(text: &str, line: usize) -> Result<i64, ImportError> {
    let fraction = || text.parse::<f64>().ok().filter(|time| time.abs() < 1e15).map(|time| time.floor() as i64);
    text.parse().ok().filter(|&time| time != NO_TIME).or_else(fraction).ok_or_else(|| ImportError {
        line,
        field: "timestamp",
        found: text.to_owned(),
        expected: "seconds since 1970".to_owned(),
    })
}

/// The fields of a line, separated by tabs, or else by commas; the latter may be quoted.
fn split(line: &str, number: usize) -> Result<Vec<String>, ImportError> {
    if line.contains('\t') {
        return Ok(line.split('\t').map(str::to_owned).collect());
    }
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted || field.is_empty() => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    if quoted {
        let expected = "a quote that ends on its line".to_owned();
        return Err(ImportError { line: number, field: "fields", found: line.to_owned(), expected });
    }
    fields.push(field);
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_and_tables() {
        let owned = |id: &str, time| (id.to_owned(), time);
        assert_eq!(read_history("a\nb\n\nc").unwrap(), [owned("a", None), owned("b", None), owned("c", None)]);
        assert_eq!(read_history("a\t5\nitem\t-3\r\n").unwrap(), [owned("a", Some(5)), owned("item", Some(-3))]);
        let table = "rating\ttimestamp\titem\n4\t17\tx y\n5\t\tz\n";
        assert_eq!(read_history(table).unwrap(), [owned("x y", Some(17)), owned("z", None)]);
        assert_eq!(read_history("\"a \"\"b\"\"\",7").unwrap(), [owned("a \"b\"", Some(7))]);
    }

    #[test]
    fn errors_name_line_and_field() {
        let cases = [
            ("a\t5\nb\tsoon", "line 2, timestamp: \"soon\": expected seconds since 1970"),
            ("a\n\t5", "line 2, item: \"\": expected an id of 1 to 1024 bytes"),
            ("user,item\n1,2", "line 1, header: \"user\": expected no column of users: a history is one person's"),
            ("1,2,3", "line 1, fields: \"1 2 3\": expected at most 2 fields"),
            ("\"a,2", "line 1, fields: \"\\\"a,2\": expected a quote that ends on its line"),
        ];
        for (text, expected) in cases {
            assert_eq!(read_history(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn items_may_repeat_at_other_times_and_unknown_ones_count_once_the_catalog_has_them() {
        let mut history = History::from_ids(["b", "x"]);
        assert_eq!(history.extend([("a", Some(9)), ("b", None), ("c", Some(3)), ("a", Some(9))]), (2, 2));
        let parse = |ids: &str| Items::parse(format!("item\ttitle\tcategories\n{ids}").into_bytes()).unwrap();
        let (small, large) = (parse("a\nb\nc\n"), parse("x\na\nb\nc\n"));
        assert_eq!((history.unknown_to(&small, 0), history.unknown_to(&large, 0)), (1, 0));
        let rows = history.rows(&small);
        assert_eq!((&rows.rows[..], rows.latest_of(&[0, 1, 2])), (&[0, 1, 2][..], Some((9, 0))));
        assert_eq!(rows.latest_of(&[1, 2]), Some((3, 2)));
        assert_eq!(rows.history().sequence, [1, 2, 0]);
        let mut again = history.clone();
        assert_eq!(again.extend([("a", Some(4))]), (1, 0));
        assert_eq!(
            (&again.rows(&small).rows[..], &again.rows(&small).sequence[..]),
            (&[0, 1, 2][..], &[1, 2, 0, 0][..])
        );
        assert_eq!(history.rows(&large).rows, [0, 1, 2, 3]);
        assert_eq!(History::from_ids(["b", "a"]).rows(&small).latest_of(&[0, 1]), Some((NO_TIME, 0)));
        let mut bytes = Writer::default();
        history.write(&mut bytes);
        assert_eq!(History::read(&mut Reader(&bytes.0)).unwrap(), history);
    }
}
