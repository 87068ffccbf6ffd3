//! Where the fields of a row are, for every format whose rows are delimited lines.

use crate::builder::Unit;
use crate::columns::{self, Columns, Meaning, find, place};
use crate::error::DataError;
use crate::fields::Delimiter;
use crate::format::Format;
use crate::number;
use crate::preview::Preview;

/// The places of the fields in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    pub(crate) delimiter: Delimiter,
    /// Whether the first line names the columns.
    pub(crate) header: bool,
    /// How many fields a row has.
    pub(crate) width: usize,
    pub(crate) user: usize,
    pub(crate) item: usize,
    /// Taken for the item's id where that is empty (Last.fm's artists without a MusicBrainz id).
    pub(crate) item_else: Option<usize>,
    pub(crate) rating: Option<usize>,
    pub(crate) time: Option<usize>,
    pub(crate) title: Option<usize>,
    pub(crate) category: Option<usize>,
    pub(crate) unit: Unit,
}

impl Layout {
    /// User and item in the first two of `width` fields, and nothing else yet.
    fn plain(delimiter: Delimiter, width: usize) -> Self {
        Self {
            delimiter,
            header: false,
            width,
            user: 0,
            item: 1,
            item_else: None,
            rating: None,
            time: None,
            title: None,
            category: None,
            unit: Unit::Unknown,
        }
    }

    /// The layout of a file in a format whose rows are delimited lines.
    pub(crate) fn of(
        format: Format,
        preview: &Preview,
        columns: Option<&Columns>,
        file: &str,
    ) -> Result<Layout, DataError> {
        let tab = Delimiter::Byte(b'\t');
        let plain = Layout::plain;
        if let Some(columns) = columns {
            return Layout::asked(columns, preview, file);
        }
        Ok(match format {
            Format::MovieLens100k => Layout { rating: Some(2), time: Some(3), ..plain(tab, 4) },
            Format::MovieLens1m | Format::MovieTweetings => {
                Layout { rating: Some(2), time: Some(3), ..plain(Delimiter::Colons, 4) }
            }
            Format::LastFm360k => {
                Layout { item_else: Some(2), title: Some(2), rating: Some(3), ..plain(tab, 4) }
            }
            Format::Foursquare => Layout { category: Some(3), time: Some(7), ..plain(tab, 8) },
            Format::FoursquareGlobal => Layout { time: Some(2), ..plain(tab, 4) },
            Format::YahooMovies => Layout { rating: Some(3), ..plain(tab, 4) },
            Format::AmazonRatings => amazon(preview, file)?,
            _ => Layout::told_by_content(preview, file)?,
        })
    }

    /// From the columns that the user named.
    fn asked(columns: &Columns, preview: &Preview, file: &str) -> Result<Layout, DataError> {
        let delimiter = delimiter(preview, file)?;
        let first = preview.first(delimiter);
        let header = columns.by_name() || columns::is_header(&first);
        let names = if header { first.clone() } else { Vec::new() };
        let at = |column| place(column, &names, first.len(), file);
        let time = columns.time.as_ref().map(at).transpose()?;
        Ok(Layout {
            header,
            user: at(&columns.user)?,
            item: at(&columns.item)?,
            rating: columns.rating.as_ref().map(at).transpose()?,
            time,
            unit: unit_of(time.and_then(|place| names.get(place))),
            ..Layout::plain(delimiter, first.len())
        })
    }

    fn told_by_content(preview: &Preview, file: &str) -> Result<Layout, DataError> {
        let delimiter = delimiter(preview, file)?;
        let first = preview.first(delimiter);
        if columns::is_header(&first) {
            return Ok(Layout::of_header(&first, delimiter));
        }
        Layout::by_position(preview, delimiter, file)
    }

    fn of_header(header: &[String], delimiter: Delimiter) -> Layout {
        let time = find(header, Meaning::Time);
        Layout {
            header: true,
            user: find(header, Meaning::User).unwrap_or(0),
            item: find(header, Meaning::Item).unwrap_or(1),
            rating: find(header, Meaning::Rating),
            time,
            unit: unit_of(time.and_then(|place| header.get(place))),
            ..Layout::plain(delimiter, header.len())
        }
    }

    /// `user item`, `user item rating`, `user item time` or `user item rating time`.
    fn by_position(preview: &Preview, delimiter: Delimiter, file: &str) -> Result<Layout, DataError> {
        let rows = preview.rows(delimiter, 0);
        let width = rows.first().map_or(0, Vec::len);
        let plain = Layout::plain(delimiter, width);
        match width {
            2 => Ok(plain),
            3 if all(&rows, 2, is_moment) => Ok(Layout { time: Some(2), ..plain }),
            3 => Ok(Layout { rating: Some(2), ..plain }),
            4 => Ok(Layout { rating: Some(2), time: Some(3), ..plain }),
            _ => Err(DataError::Unrecognised {
                file: file.to_owned(),
                reason: format!(
                    "{width} columns and no header that names the user and the item; say which columns they are, or name \
                     the format"
                ),
            }),
        }
    }
}

/// A count of seconds since 1970 later than 1973, or a date: what no rating looks like.
fn is_moment(text: &str) -> bool {
    number::time(text.as_bytes()).is_some_and(|time| time >= 100_000_000)
}

/// Whether a test holds for a column in all rows that have it, of which there is one at least.
pub(crate) fn all(rows: &[Vec<String>], column: usize, test: impl Fn(&str) -> bool) -> bool {
    let mut values = rows.iter().filter_map(|row| row.get(column)).peekable();
    values.peek().is_some() && values.all(|value| test(value))
}

fn unit_of(name: Option<&String>) -> Unit {
    match name.map(|name| crate::text::plain(name)).as_deref() {
        Some("day" | "days") => Unit::Days,
        _ => Unit::Unknown,
    }
}

fn delimiter(preview: &Preview, file: &str) -> Result<Delimiter, DataError> {
    preview.delimiter().ok_or_else(|| DataError::Unrecognised {
        file: file.to_owned(),
        reason: "no delimiter (tab, ::, comma, semicolon, |, space) cuts its lines into two or more columns"
            .to_owned(),
    })
}

/// The ratings of 2014 are `user,item,...`, those of 2018 `item,user,...`; the ids tell which is which.
fn amazon(preview: &Preview, file: &str) -> Result<Layout, DataError> {
    let comma = Delimiter::Byte(b',');
    let first = preview.first(comma);
    if columns::is_header(&first) {
        return Layout::told_by_content(preview, file);
    }
    let plain = Layout { rating: Some(2), time: Some(3), ..Layout::plain(comma, 4) };
    Ok(if amazon_item_first(&preview.rows(comma, 0)) { Layout { user: 1, item: 0, ..plain } } else { plain })
}

/// Whether rows look like `item,user,...` of Amazon.
pub(crate) fn amazon_item_first(rows: &[Vec<String>]) -> bool {
    all(rows, 0, is_asin) && all(rows, 1, is_amazon_user)
}

/// Whether rows look like `user,item,...` of Amazon.
pub(crate) fn amazon_user_first(rows: &[Vec<String>]) -> bool {
    all(rows, 0, is_amazon_user) && all(rows, 1, is_asin)
}

fn is_asin(text: &str) -> bool {
    text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn is_amazon_user(text: &str) -> bool {
    text.starts_with('A')
        && (11..=28).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}
