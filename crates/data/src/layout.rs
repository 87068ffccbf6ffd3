//! The layout of a row, for every format whose rows are delimited lines.

use crate::builder::TimeUnit;
use crate::columns::{self, ColumnIndices, Columns};
use crate::error::{DataError, Result};
use crate::fields::Delimiter;
use crate::format::Format;
use crate::number;
use crate::preview::Preview;

/// Where the fields of a row are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    pub(crate) delimiter: Delimiter,
    /// Whether the first line names the columns.
    pub(crate) header: bool,
    /// How many fields a row has.
    pub(crate) width: usize,
    pub(crate) columns: ColumnIndices,
    /// The columns' names; empty if the file has none.
    pub(crate) names: Vec<String>,
    /// Taken for the item's id where that is empty (Last.fm's artists without a MusicBrainz id).
    pub(crate) item_else: Option<usize>,
    pub(crate) title: Option<usize>,
    pub(crate) category: Option<usize>,
    pub(crate) unit: TimeUnit,
}

impl Layout {
    /// User and item in the first two of `width` fields, rating and time where stated, and nothing else yet.
    fn plain(delimiter: Delimiter, width: usize, rating: Option<usize>, time: Option<usize>) -> Self {
        Self {
            delimiter,
            header: false,
            width,
            columns: ColumnIndices { user: 0, item: 1, rating, time },
            names: Vec::new(),
            item_else: None,
            title: None,
            category: None,
            unit: TimeUnit::Unknown,
        }
    }

    /// The layout of a file in a format whose rows are delimited lines.
    pub(crate) fn of(format: Format, preview: &Preview, columns: Option<&Columns>, file: &str) -> Result<Layout> {
        let tab = Delimiter::Byte(b'\t');
        let plain = Layout::plain;
        if let Some(columns) = columns {
            return Layout::asked(columns, preview, file);
        }
        Ok(match format {
            Format::MovieLens100k => plain(tab, 4, Some(2), Some(3)),
            Format::MovieLens1m | Format::MovieTweetings => plain(Delimiter::Colons, 4, Some(2), Some(3)),
            Format::LastFm360k => Layout { item_else: Some(2), title: Some(2), ..plain(tab, 4, Some(3), None) },
            Format::Foursquare => Layout { category: Some(3), ..plain(tab, 8, None, Some(7)) },
            Format::FoursquareGlobal => plain(tab, 4, None, Some(2)),
            Format::YahooMovies => plain(tab, 4, Some(3), None),
            Format::AmazonRatings => amazon(preview, file)?,
            _ => Layout::by_content(preview, file)?,
        })
    }

    /// From the columns that the user named.
    fn asked(columns: &Columns, preview: &Preview, file: &str) -> Result<Layout> {
        let delimiter = delimiter(preview, file)?;
        let (rows, first) = (preview.rows(delimiter), preview.first(delimiter));
        let header = columns.by_name() || columns::is_header(&first) || columns::looks_like_header(&rows);
        let names = if header { &first[..] } else { &[] };
        let columns = ColumnIndices::asked(columns, names, first.len(), file)?;
        Ok(Layout { header, ..Layout::of_names(columns, names, delimiter, first.len()) })
    }

    fn by_content(preview: &Preview, file: &str) -> Result<Layout> {
        let delimiter = delimiter(preview, file)?;
        let first = preview.first(delimiter);
        match ColumnIndices::of_header(&first) {
            Some(columns) => {
                columns.check_unique(&first, file)?;
                check_columns(&columns, &preview.rows(delimiter)[1..], file)?;
                Ok(Layout::of_names(columns, &first, delimiter, first.len()))
            }
            None => Layout::by_position(preview, delimiter, file),
        }
    }

    fn of_names(columns: ColumnIndices, names: &[String], delimiter: Delimiter, width: usize) -> Layout {
        let unit = unit_of(columns.time.and_then(|index| names.get(index)));
        Layout { header: true, columns, unit, names: names.to_vec(), ..Layout::plain(delimiter, width, None, None) }
    }

    /// `user item`, `user item rating`, `user item time` or `user item rating time`.
    fn by_position(preview: &Preview, delimiter: Delimiter, file: &str) -> Result<Layout> {
        let rows = preview.rows(delimiter);
        let width = rows.first().map_or(0, Vec::len);
        if columns::looks_like_header(&rows) {
            let what = "the first line looks like a header, but does not name both the user and the item";
            return Err(DataError::Columns(file.to_owned(), format!("{what}: {}", rows[0].join(", "))));
        }
        // Seconds since 1970 later than 1973, or a date: not a rating.
        let is_moment = |text: &str| number::time(text.as_bytes()).is_some_and(|time| time >= 100_000_000);
        let (rating, time) = match width {
            2 => (None, None),
            3 if all(&rows, 2, is_moment) => (None, Some(2)),
            3 => (Some(2), None),
            4 => (Some(2), Some(3)),
            _ => {
                let what = format!("{width} columns and no header that names the user and the item");
                return Err(DataError::Columns(file.to_owned(), what));
            }
        };
        let layout = Layout::plain(delimiter, width, rating, time);
        check_columns(&layout.columns, &rows, file)?;
        Ok(layout)
    }
}

/// Refuses columns that cannot be users, items and times: coordinates, and one column twice.
fn check_columns(columns: &ColumnIndices, rows: &[Vec<String>], file: &str) -> Result<()> {
    let wrong = |what: String| Err(DataError::Columns(file.to_owned(), what));
    let example = |column: usize| rows.iter().find_map(|row| row.get(column)).map_or("", String::as_str);
    for (role, &column) in columns.roles().filter(|(role, _)| matches!(*role, "user" | "item")) {
        if all(rows, column, is_decimal)
            && rows.iter().any(|row| row.get(column).is_some_and(|text| has_fraction(text)))
        {
            return wrong(format!(
                "column {column} would be read as the {role}, but holds decimal numbers such as {}: coordinates are no ids",
                example(column)
            ));
        }
    }
    if let Some(time) = columns.time.filter(|&time| all(rows, time, is_coordinate)) {
        return wrong(format!(
            "column {time} would be read as the time, but holds numbers such as {}, which look like coordinates",
            example(time)
        ));
    }
    let same = |row: &Vec<String>| row.get(columns.user).is_some_and(|user| row.get(columns.item) == Some(user));
    if rows.len() > 2 && rows.iter().all(same) {
        let (user, item) = (columns.user, columns.item);
        return wrong(format!("columns {user} and {item} hold the same in every line: they cannot be user and item"));
    }
    Ok(())
}

/// Whether rows without a header hold coordinates where ids or times should be.
pub(crate) fn has_coordinates(rows: &[Vec<String>]) -> bool {
    let time = rows.first().filter(|first| first.len() == 4).map(|_| 3);
    check_columns(&ColumnIndices { user: 0, item: 1, rating: None, time }, rows, "").is_err()
}

/// A number with a decimal point, such as 45.4642.
fn is_decimal(text: &str) -> bool {
    text.contains('.') && text.trim().parse::<f64>().is_ok_and(f64::is_finite)
}

/// Not 7.0, which is a whole number as some programs write it.
fn has_fraction(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok_and(|value| value.fract() != 0.0)
}

/// A number with decimals of the size of degrees.
fn is_coordinate(text: &str) -> bool {
    is_decimal(text) && text.trim().parse::<f64>().is_ok_and(|value| value.abs() <= 180.0 && value.fract() != 0.0)
}

/// Whether a test holds for a column in all rows that have it, of which there is one at least.
pub(crate) fn all(rows: &[Vec<String>], column: usize, test: impl Fn(&str) -> bool) -> bool {
    let mut values = rows.iter().filter_map(|row| row.get(column)).peekable();
    values.peek().is_some() && values.all(|value| test(value))
}

fn unit_of(name: Option<&String>) -> TimeUnit {
    match name.map(|name| crate::text::plain(name)).as_deref() {
        Some("day" | "days") => TimeUnit::Days,
        _ => TimeUnit::Unknown,
    }
}

fn delimiter(preview: &Preview, file: &str) -> Result<Delimiter> {
    preview.delimiter().ok_or_else(|| {
        DataError::Unrecognised(
            file.to_owned(),
            "no delimiter (tab, ::, comma, semicolon, |, space) splits its lines into two or more columns".to_owned(),
        )
    })
}

/// The ratings of 2014 are `user,item,...`, those of 2018 `item,user,...`; distinguished by the form of the ids.
fn amazon(preview: &Preview, file: &str) -> Result<Layout> {
    let comma = Delimiter::Byte(b',');
    let first = preview.first(comma);
    if columns::is_header(&first) {
        return Layout::by_content(preview, file);
    }
    let mut layout = Layout::plain(comma, 4, Some(2), Some(3));
    if amazon_item_first(&preview.rows(comma)) {
        (layout.columns.user, layout.columns.item) = (1, 0);
    }
    Ok(layout)
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
