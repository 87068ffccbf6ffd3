//! Which column holds what: as the user states, or by the names in a header.

use crate::error::{DataError, Result};
use crate::text::plain;
use std::str::FromStr;

/// One column, by index or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The column at this index, from 0.
    At(usize),
    /// The column of this name in the header.
    Named(String),
}

/// The columns to be read. As text: `user=0,item=2,time=3` or `user=uid,item=song,rating=plays`.
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

impl Columns {
    /// Whether any column is given by name, so that there must be a header.
    pub(crate) fn by_name(&self) -> bool {
        let all = [Some(&self.user), Some(&self.item), self.rating.as_ref(), self.time.as_ref()];
        all.into_iter().flatten().any(|column| matches!(column, Column::Named(_)))
    }
}

impl FromStr for Columns {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            DataError::Specification(
                "columns",
                text.to_owned(),
                "user=COLUMN,item=COLUMN[,rating=COLUMN][,time=COLUMN], a column being a place from 0 or a \
                       name"
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
            let column = value.parse().map_or_else(|_| Column::Named(value.to_owned()), Column::At);
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
        "listens", "listeningcount", "count", "preference", "rate", "value",
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

/// The indices of the columns of interactions.
pub(crate) type ColumnIndices = Columns<usize>;

impl ColumnIndices {
    /// The columns that were asked for, in rows of `width` fields; the header may be empty.
    pub(crate) fn asked(columns: &Columns, header: &[String], width: usize, file: &str) -> Result<Self> {
        let at = |column: &Column| index_of(column, header, width, file);
        Ok(Self {
            user: at(&columns.user)?,
            item: at(&columns.item)?,
            rating: columns.rating.as_ref().map(at).transpose()?,
            time: columns.time.as_ref().map(at).transpose()?,
        })
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
    }
}
