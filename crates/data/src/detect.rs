//! Detection of a file's format, by its name and its content.

use crate::columns;
use crate::error::{DataError, Result};
use crate::fields::Delimiter;
use crate::files::{Head, unpacked_name};
use crate::format::Format;
use crate::layout::{all, amazon_item_first, amazon_user_first, has_coordinates};
use crate::number;
use crate::preview::Preview;
use crate::text::plain;

/// The format of a file.
pub(crate) fn format_of(name: &str, label: &str, head: &Head, preview: &Preview) -> Result<Format> {
    if head.bytes.is_empty() {
        return Err(DataError::Empty(label.to_owned()));
    }
    if head.bytes.starts_with(b"PAR1") {
        return Ok(Format::Parquet);
    }
    if let Some(format) = by_name(&unpacked_name(name)) {
        return Ok(format);
    }
    let first = preview.lines.first().map_or(&[][..], Vec::as_slice).trim_ascii_start();
    match first.first() {
        None => Err(DataError::NoRows(label.to_owned(), 0, 0)),
        Some(b'{') => Ok(Format::JsonLines),
        Some(b'[') if !preview.lines.iter().any(|line| line.contains(&b'\t')) => Err(DataError::Unrecognised(
            label.to_owned(),
            "one JSON array; JSON is read as lines, one object each".to_owned(),
        )),
        _ if first.starts_with(b"reviews[") => Ok(Format::LibraryThing),
        _ if first.starts_with(b"I,4,\"www.microsoft.com\"") => Ok(Format::MsWeb),
        _ => Ok(delimited(preview)),
    }
}

fn by_name(name: &str) -> Option<Format> {
    const STARTS: [(&str, Format); 4] = [
        ("usersha1-artmbid-artname-plays", Format::LastFm360k),
        ("dataset_tsmc2014", Format::Foursquare),
        ("dataset_tist2015_checkins", Format::FoursquareGlobal),
        ("ydata-ymovies-user-movie-ratings", Format::YahooMovies),
    ];
    if name == "u.data" {
        return Some(Format::MovieLens100k);
    }
    if name.ends_with(".inter") {
        return Some(Format::RecBole);
    }
    STARTS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, format)| *format)
}

fn delimited(preview: &Preview) -> Format {
    if is_sequences(preview) {
        return Format::Sequences;
    }
    let Some(delimiter) = preview.delimiter() else { return Format::Delimited };
    let first = preview.first(delimiter);
    if columns::is_header(&first) {
        return of_header(&first);
    }
    let rows = preview.rows(delimiter);
    match (delimiter, first.len()) {
        (Delimiter::Colons, 4) if is_movietweetings(&rows) => Format::MovieTweetings,
        (Delimiter::Colons, 4) => Format::MovieLens1m,
        (Delimiter::Byte(b'\t'), 8) if all(&rows, 7, is_date) => Format::Foursquare,
        (Delimiter::Byte(b'\t'), 4) => of_four_columns(&rows),
        (Delimiter::Byte(b','), 4) if amazon_user_first(&rows) || amazon_item_first(&rows) => Format::AmazonRatings,
        _ => Format::Delimited,
    }
}

fn of_header(header: &[String]) -> Format {
    let names: Vec<String> = header.iter().map(|name| plain(name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names[..] {
        _ if header.iter().any(|name| name.contains(":token")) => Format::RecBole,
        ["userid", "movieid", "rating", "timestamp"] => Format::MovieLens20m,
        ["userid", "artistid", "weight"] => Format::LastFm2k,
        _ => Format::Delimited,
    }
}

fn of_four_columns(rows: &[Vec<String>]) -> Format {
    let whole_to = |most: u32| move |text: &str| text.parse().is_ok_and(|value: u32| (1..=most).contains(&value));
    if all(rows, 2, is_date) {
        Format::FoursquareGlobal
    } else if all(rows, 2, whole_to(13)) && all(rows, 3, whole_to(5)) {
        Format::YahooMovies
    } else if all(rows, 0, |text| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        Format::LastFm360k
    } else {
        Format::Delimited
    }
}

/// A date, but not a bare number.
fn is_date(text: &str) -> bool {
    text.parse::<f64>().is_err() && number::time(text.as_bytes()).is_some()
}

/// The layout is that of MovieLens 1M; ratings go to 10 and IMDb numbers have leading zeros.
fn is_movietweetings(rows: &[Vec<String>]) -> bool {
    rows.iter().any(|row| {
        let over_five = row.get(2).and_then(|text| text.parse::<f32>().ok()).is_some_and(|rating| rating > 5.0);
        over_five || row.get(1).is_some_and(|item| item.len() > 1 && item.starts_with('0'))
    })
}

/// Lines of whole numbers with nothing but spaces between, of more fields than a table has, and of many lengths: a
/// table with a bad line or two is still a table.
fn is_sequences(preview: &Preview) -> bool {
    let digits = |line: &Vec<u8>| line.iter().all(|byte| byte.is_ascii_digit() || *byte == b' ');
    if !preview.lines.iter().all(digits) {
        return false;
    }
    let widths: Vec<usize> = preview.rows(Delimiter::Blanks).iter().map(Vec::len).collect();
    let alike = |width| widths.iter().filter(|&&other| other == width).count();
    let most_alike = widths.iter().map(|&width| alike(width)).max().unwrap_or(0);
    widths.iter().any(|&width| width > 4) && most_alike * 5 <= widths.len() * 4
}

/// Whether a file found in a folder may hold interactions.
pub(crate) fn may_be_interactions(format: Format, preview: &Preview) -> bool {
    match format {
        Format::Delimited => {
            let Some(delimiter) = preview.delimiter() else { return false };
            let first = preview.first(delimiter);
            columns::is_header(&first) || is_bare_table(&preview.rows(delimiter))
        }
        Format::JsonLines => preview.lines.first().is_some_and(|line| crate::readers::json::is_interaction(line)),
        _ => true,
    }
}

/// Two to four columns, the same in every line, and numbers from the third on.
fn is_bare_table(rows: &[Vec<String>]) -> bool {
    let width = rows.first().map_or(0, Vec::len);
    let numeric = |column| all(rows, column, |text| number::time(text.as_bytes()).is_some());
    (3..=4).contains(&width)
        && rows.iter().all(|row| row.len() == width)
        && (2..width).all(numeric)
        && !has_coordinates(rows)
}
