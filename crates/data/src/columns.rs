//! Which column holds what: as the user states, or by the names in a header.

use crate::error::{DataError, Result};
use crate::load_report::ColumnReport;
use crate::text::plain;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// One column, by index or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The column at this index, from 0.
    At(usize),
    /// The column of this name in the header.
    Named(String),
    /// No column: the lines are in the order of time. Only for times, and written [`LINE_ORDER`].
    LineOrder,
}

/// What stands for the column of times if the lines are in the order of time.
pub const LINE_ORDER: &str = "line-order";

/// The columns to be read. As text: `user=0,item=2,time=3`, `user=uid,item=song,rating=plays` or
/// `user=0,item=1,time=line-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns<C = Column> {
    /// Who.
    pub user: C,
    /// What.
    pub item: C,
    /// How much they liked it.
    pub rating: Option<C>,
    /// When.
    pub time: Option<C>,
}

impl<C> Columns<C> {
    /// What holds what: the role's name and the column.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (&'static str, &C)> {
        let all = [("user", Some(&self.user)), ("item", Some(&self.item))];
        let more = [("rating", self.rating.as_ref()), ("timestamp", self.time.as_ref())];
        all.into_iter().chain(more).filter_map(|(role, column)| Some((role, column?)))
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (role, column)) in self.roles().enumerate() {
            let (comma, role) = (if at == 0 { "" } else { "," }, if role == "timestamp" { "time" } else { role });
            match column {
                Column::At(index) => write!(f, "{comma}{role}={index}")?,
                Column::Named(name) => write!(f, "{comma}{role}={name}")?,
                Column::LineOrder => write!(f, "{comma}{role}={LINE_ORDER}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Columns {
    /// Whether the lines are said to be in the order of time.
    pub(crate) fn in_order(&self) -> bool {
        self.time == Some(Column::LineOrder)
    }

    /// Whether any column is given by name, so that there must be a header.
    pub(crate) fn by_name(&self) -> bool {
        self.roles().any(|(_, column)| matches!(column, Column::Named(_)))
    }
}

impl FromStr for Columns {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            DataError::Specification(
                "columns",
                text.to_owned(),
                "user=COLUMN,item=COLUMN[,rating=COLUMN][,time=COLUMN]; a column is a number from 0 or a name, and \
                 time=line-order says that the lines are in the order of time"
                    .to_owned(),
            )
        };
        let (mut user, mut item, mut rating, mut time) = (None, None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let slot = match key.trim() {
                "user" => &mut user,
                "item" => &mut item,
                "rating" => &mut rating,
                "time" | "timestamp" => &mut time,
                _ => return Err(wrong()),
            };
            let value = value.trim();
            let is_time = matches!(key.trim(), "time" | "timestamp");
            let column = match value.parse() {
                Ok(index) => Column::At(index),
                Err(_) if is_time && value == LINE_ORDER => Column::LineOrder,
                Err(_) => Column::Named(value.to_owned()),
            };
            if value.is_empty() || slot.replace(column).is_some() {
                return Err(wrong());
            }
        }
        Ok(Self { user: user.ok_or_else(wrong)?, item: item.ok_or_else(wrong)?, rating, time })
    }
}

/// What a column may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnRole {
    User,
    Item,
    Rating,
    Time,
    Title,
    Category,
}

/// Column names of public data sets, in [`plain`] form, the most specific first.
#[rustfmt::skip]
const NAMES: [(ColumnRole, &[&str]); 6] = [
    (ColumnRole::User, &[
        "user", "userid", "uid", "useridx", "usersha1", "username", "reviewerid", "customerid", "customer",
        "profileid", "memberid", "visitorid", "personid", "person", "accountid", "playerid", "clientid",
        "reader", "readerid", "sessionid", "session",
    ]),
    (ColumnRole::Item, &[
        "item", "itemid", "iid", "itemidx", "movie", "movieid", "artist", "artistid", "artmbid", "venue",
        "venueid", "article", "articleid", "vroot", "parentasin", "asin", "product", "productid", "book",
        "bookid", "isbn", "work", "workid", "business", "businessid", "song", "songid", "track", "trackid",
        "poi", "poiid", "location", "locationid", "news", "newsid", "anime", "animeid", "game", "gameid",
        "gmapid", "recipe", "recipeid", "podcastid", "page", "imdbid",
    ]),
    (ColumnRole::Rating, &[
        "rating", "ratings", "ratingvalue", "overall", "stars", "score", "weight", "plays", "playcount",
        "listens", "listeningcount", "count", "preference", "rate", "value", "bookrating",
    ]),
    (ColumnRole::Time, &[
        "timestamp", "time", "ts", "unixreviewtime", "unixtime", "utctime", "datetime", "date", "day",
        "createdat", "dateadded", "reviewtime", "eventtime", "timestamps",
    ]),
    (ColumnRole::Title, &[
        "title", "name", "artname", "movietitle", "artistname", "productname", "itemtitle",
    ]),
    (ColumnRole::Category, &[
        "categories", "category", "genres", "genre", "class", "tags", "venuecategory", "types", "type",
    ]),
];

/// The index of the column with that role: the first of its names that the header has.
pub(crate) fn find(header: &[String], role: ColumnRole) -> Option<usize> {
    let (_, names) = NAMES.iter().find(|(of, _)| *of == role)?;
    names.iter().find_map(|name| header.iter().position(|column| column_name(column) == **name))
}

/// A header's name for comparison; RecBole's `name:type` loses its type.
fn column_name(column: &str) -> String {
    plain(column.split_once(':').map_or(column, |(name, _)| name))
}

/// Whether a row names both users and items: then it is a header.
pub(crate) fn is_header(fields: &[String]) -> bool {
    ColumnIndices::of_header(fields).is_some()
}

/// Whether a first line names columns although it does not name both users and items: it has words above columns of
/// numbers, or a name that no id has.
pub(crate) fn looks_like_header(rows: &[Vec<String>]) -> bool {
    let Some((first, others)) = rows.split_first() else { return false };
    let word_above_numbers = |(column, name): (usize, &String)| {
        let mut below = others.iter().filter_map(|row| row.get(column)).peekable();
        below.peek().is_some() && is_word(name) && below.all(|value| value.trim().parse::<f64>().is_ok())
    };
    first.iter().enumerate().any(word_above_numbers) || first.iter().any(|name| is_column_name(name))
}

/// Whether a text begins with a letter: the name of a column, and no number.
fn is_word(text: &str) -> bool {
    text.trim().chars().next().is_some_and(char::is_alphabetic)
}

/// Whether a text can only be the name of a column: one of users, or one that says that it is an id.
fn is_column_name(text: &str) -> bool {
    let name = column_name(text);
    let of = |role| NAMES.iter().any(|(of, names)| *of == role && names.contains(&name.as_str()));
    of(ColumnRole::User) || of(ColumnRole::Item) && name.len() > 2 && name.ends_with("id")
}

/// The indices of the columns of interactions.
pub(crate) type ColumnIndices = Columns<usize>;

impl ColumnIndices {
    /// The columns that were asked for, in rows of `width` fields; the header may be empty.
    pub(crate) fn asked(columns: &Columns, header: &[String], width: usize, file: &str) -> Result<Self> {
        let at = |column: &Column| index_of(column, header, width, file);
        let found = Self {
            user: at(&columns.user)?,
            item: at(&columns.item)?,
            rating: columns.rating.as_ref().map(at).transpose()?,
            time: columns.time.as_ref().filter(|column| **column != Column::LineOrder).map(at).transpose()?,
        };
        found.check_apart(file)?;
        Ok(found)
    }

    /// Checks that no column has two roles.
    fn check_apart(&self, file: &str) -> Result<()> {
        for (place, (role, column)) in self.roles().enumerate() {
            if let Some((other, _)) = self.roles().take(place).find(|(_, other)| *other == column) {
                let what = format!("column {column} is asked for as {other} and as {role}");
                return Err(DataError::Columns(file.to_owned(), what));
            }
        }
        Ok(())
    }

    /// Checks that a header has the names that were found in it once.
    pub(crate) fn check_unique(&self, header: &[String], file: &str) -> Result<()> {
        for (role, &index) in self.roles() {
            let name = column_name(&header[index]);
            let same: Vec<String> =
                (0..header.len()).filter(|&at| column_name(&header[at]) == name).map(|at| at.to_string()).collect();
            if same.len() > 1 {
                let what = format!("columns {} are all called `{}` ({role})", same.join(" and "), header[index]);
                return Err(DataError::Columns(file.to_owned(), what));
            }
        }
        Ok(())
    }

    /// The columns for a report; the header may be empty.
    pub(crate) fn report(&self, header: &[String], width: usize) -> ColumnReport {
        let name = |&index: &usize| match header.get(index).map(|name| name.trim()) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("column {index}"),
        };
        let used = |index: &usize| self.roles().any(|(_, column)| column == index);
        ColumnReport {
            user: name(&self.user),
            item: name(&self.item),
            rating: self.rating.as_ref().map(name),
            timestamp: self.time.as_ref().map(name),
            ignored: (0..width).filter(|index| !used(index)).map(|index| name(&index)).collect(),
        }
    }

    /// The columns that a header names; `None` if it names no users or no items.
    pub(crate) fn of_header(header: &[String]) -> Option<Self> {
        let find = |role| find(header, role);
        Some(Self {
            user: find(ColumnRole::User)?,
            item: find(ColumnRole::Item)?,
            rating: find(ColumnRole::Rating),
            time: find(ColumnRole::Time),
        })
    }
}

fn index_of(column: &Column, header: &[String], width: usize, file: &str) -> Result<usize> {
    let (found, shown) = match column {
        Column::At(index) => ((*index < width).then_some(*index), index.to_string()),
        Column::Named(name) => {
            let exact = header.iter().position(|column| column == name);
            let found = exact.or_else(|| header.iter().position(|column| column_name(column) == plain(name)));
            (found, name.clone())
        }
        Column::LineOrder => (None, LINE_ORDER.to_owned()),
    };
    found.ok_or_else(|| {
        DataError::NoColumn(
            file.to_owned(),
            shown,
            if header.is_empty() { format!("{width} without names") } else { header.join(", ") },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn recognises_headers_of_public_datasets() {
        for text in ["userId movieId rating", "user_id:token item_id:token", "userID artistID weight", "user vroot"] {
            assert!(is_header(&header(text)), "{text}");
        }
        assert!(!is_header(&header("1 2 3")) && !is_header(&header("item title")));
        assert_eq!(find(&header("asin user_id parent_asin"), ColumnRole::Item), Some(2));
    }

    #[test]
    fn parses_column_specifications() {
        let columns: Columns = "user=1, item=song,time=0".parse().unwrap();
        assert_eq!((&columns.user, &columns.rating), (&Column::At(1), &None));
        assert_eq!(columns.item, Column::Named("song".into()));
        assert!(columns.by_name());
        for wrong in ["", "user=1", "user=1,item=", "user=1,item=2,colour=3", "user=1,item=2,user=3"] {
            assert!(wrong.parse::<Columns>().is_err(), "{wrong}");
        }
        let in_order: Columns = "user=0,item=name,rating=2,time=line-order".parse().unwrap();
        assert!(in_order.in_order() && !columns.in_order());
        assert_eq!(in_order.to_string(), "user=0,item=name,rating=2,time=line-order");
    }

    #[test]
    fn tells_unknown_headers_from_rows() {
        let rows = |lines: &[&str]| lines.iter().map(|line| header(line)).collect::<Vec<_>>();
        for header in [
            &["who what stars", "a b 3", "c d 4"][..],
            &["from to", "1 2", "3 4"],
            &["user_id song", "a b", "c d"],
            &["song_id listener", "a b", "c d"],
        ] {
            assert!(looks_like_header(&rows(header)), "{header:?}");
        }
        for bare in [&["anna book", "bruno page"][..], &["1 2 3", "4 5 6"], &["a x 3", "b y 4"], &["a b"], &["7 id"]] {
            assert!(!looks_like_header(&rows(bare)), "{bare:?}");
        }
    }
}
