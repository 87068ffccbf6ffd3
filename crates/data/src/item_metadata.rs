//! Item metadata: titles and categories from the files beside the interactions.

use crate::builder::{DatasetBuilder, RowError};
use crate::columns::{ColumnRole, find};
use crate::error::{DataError, Result};
use crate::fields::{Delimiter, Fields};
use crate::files::{Files, unpacked_name};
use crate::format::Format;
use crate::lines::read_lines;
use crate::preview::Preview;
use std::collections::{BTreeMap, HashMap};

/// Where an item's title and categories are in a row of a metadata file.
struct MetadataColumns {
    delimiter: Delimiter,
    header: bool,
    id: usize,
    title: Option<usize>,
    categories: Option<usize>,
    /// What separates categories.
    separator: u8,
    /// Minimum number of fields of a row.
    width: usize,
}

impl MetadataColumns {
    /// The id first, then the title, and categories separated by `|`.
    fn new(delimiter: Delimiter, categories: Option<usize>) -> Self {
        let width = categories.map_or(2, |index| index + 1);
        Self { delimiter, header: false, id: 0, title: Some(1), categories, separator: b'|', width }
    }

    /// The columns that a header names, if it names items.
    fn of_header(header: &[String], delimiter: Delimiter) -> Option<Self> {
        let id = find(header, ColumnRole::Item).or_else(|| header.iter().position(|name| name == "id"))?;
        let (title, categories) = (find(header, ColumnRole::Title), find(header, ColumnRole::Category));
        Some(Self { header: true, id, title, width: header.len(), ..Self::new(delimiter, categories) })
    }
}

/// Reads the metadata that belongs to the file `main`. In a whole folder, any file whose header names items and titles or
/// categories counts.
pub(crate) fn read(
    files: &Files<'_>,
    main: &str,
    format: Format,
    whole_folder: bool,
    builder: &mut DatasetBuilder,
) -> Result<()> {
    let names = files.names().unwrap_or_default();
    let find = |test: &dyn Fn(&str) -> bool| names.iter().find(|name| test(&unpacked_name(name)));
    let named = |wanted: &str| find(&|name| name == wanted);
    let starting = |start: &str| find(&|name| name.starts_with(start));
    let tab = Delimiter::Byte(b'\t');
    let (name, columns) = match format {
        Format::MovieLens100k => return genres_of_100k(files, named("u.item"), named("u.genre"), builder),
        Format::MovieLens20m => return by_header(files, named("movies.csv"), builder),
        Format::LastFm2k => return lastfm(files, &named, builder),
        Format::RecBole => {
            let stem = unpacked_name(main);
            let stem = stem.split('.').next().unwrap_or_default();
            return by_header(files, named(&format!("{stem}.item")), builder);
        }
        Format::Sequences => return attributes(files, named(&attributes_name(main)), builder),
        Format::MovieLens1m | Format::MovieTweetings => {
            (named("movies.dat"), MetadataColumns::new(Delimiter::Colons, Some(2)))
        }
        Format::FoursquareGlobal => {
            let columns = MetadataColumns { title: None, ..MetadataColumns::new(tab, Some(3)) };
            (starting("dataset_tist2015_pois"), columns)
        }
        Format::YahooMovies => (starting("ydata-ymovies-movie-content"), MetadataColumns::new(tab, None)),
        _ => return generic(files, &names, main, whole_folder, builder),
    };
    name.map_or(Ok(()), |name| read_table(files, name, &columns, builder))
}

/// S3-Rec's file of attributes that goes with a file of sequences.
fn attributes_name(main: &str) -> String {
    let name = unpacked_name(main);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    format!("{stem}_item2attributes.json")
}

/// Whether there is a file of attributes, which only sequences have. It decides where all sequences are short and of one
/// length, and so look like a table.
pub(crate) fn has_attributes(files: &Files<'_>, main: &str) -> bool {
    let wanted = attributes_name(main);
    files.names().is_ok_and(|names| names.iter().any(|name| unpacked_name(name) == wanted))
}

/// Files with a header that names an item and its title or categories.
fn generic(
    files: &Files<'_>,
    names: &[String],
    main: &str,
    whole_folder: bool,
    builder: &mut DatasetBuilder,
) -> Result<()> {
    #[rustfmt::skip]
    const STEMS: [&str; 11] = [
        "items", "venues", "articles", "vroots", "movies", "books", "artists", "products", "titles",
        "categories", "pois",
    ];
    for name in names.iter().filter(|name| *name != main) {
        let lower = unpacked_name(name);
        let stem = lower.split('.').next().unwrap_or_default();
        let text = [".tsv", ".csv", ".txt", ".dat"].iter().any(|ending| lower.ends_with(ending));
        if text && (whole_folder || STEMS.contains(&stem)) {
            by_header(files, Some(name), builder)?;
        }
    }
    Ok(())
}

/// Reads a file if its header names an item and its title or categories, and no user.
fn by_header(files: &Files<'_>, name: Option<&String>, builder: &mut DatasetBuilder) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    let preview = Preview::of(&files.head(name)?);
    let Some(delimiter) = preview.delimiter() else { return Ok(()) };
    let header = preview.first(delimiter);
    let Some(mut columns) = MetadataColumns::of_header(&header, delimiter) else { return Ok(()) };
    let describes = columns.title.is_some() || columns.categories.is_some();
    if !describes || find(&header, ColumnRole::User).is_some() {
        return Ok(());
    }
    // RecBole separates the tokens of a sequence with spaces.
    if columns.categories.is_some_and(|index| header[index].ends_with(":token_seq")) {
        columns.separator = b' ';
    }
    read_table(files, name, &columns, builder)
}

/// Reads a catalog of its own, whose header must name the items.
pub(crate) fn read_items(files: &Files<'_>, name: &str, builder: &mut DatasetBuilder) -> Result<()> {
    let preview = Preview::of(&files.head(name)?);
    let delimiter = preview.delimiter().unwrap_or(Delimiter::Byte(b'\t'));
    let header = preview.first(delimiter);
    match MetadataColumns::of_header(&header, delimiter) {
        Some(columns) => read_table(files, name, &columns, builder),
        None => {
            let (file, found) = (files.label(name), header.join(", "));
            Err(DataError::NoColumn(file, "item".to_owned(), found))
        }
    }
}

fn read_table(files: &Files<'_>, name: &str, columns: &MetadataColumns, builder: &mut DatasetBuilder) -> Result<()> {
    let mut fields = Fields::default();
    each_line(files, name, builder, |number, line, builder| {
        if number == 1 && columns.header || line.is_empty() {
            return Ok(());
        }
        let whole = fields.split(line, columns.delimiter).is_ok() && fields.len() >= columns.width;
        if !whole {
            return Err(RowError::bad("row", format!("{} fields", columns.width), line));
        }
        let Some(item) = item_index(fields.get(line, columns.id), builder)? else { return Ok(()) };
        if let Some(index) = columns.title {
            builder.set_title(item, fields.get(line, index));
        }
        let categories = columns.categories.map_or(&[][..], |index| fields.get(line, index));
        if matches!(categories, b"(no genres listed)" | b"\\N") {
            return Ok(());
        }
        let mut categories = categories.split(|&byte| byte == columns.separator);
        categories.try_for_each(|category| builder.add_category(item, category))
    })
}

fn each_line(
    files: &Files<'_>,
    name: &str,
    builder: &mut DatasetBuilder,
    read: impl FnMut(u64, &[u8], &mut DatasetBuilder) -> Result<(), RowError>,
) -> Result<()> {
    let label = files.label(name);
    builder.begin_metadata(&label);
    read_lines(files.open(name)?, &label, builder, read).map(|_| ())
}

/// The item's index; one without interactions is counted.
fn item_index(id: &[u8], builder: &mut DatasetBuilder) -> Result<Option<u32>, RowError> {
    if id.is_empty() {
        return Err(RowError::bad("item", "an id", id));
    }
    builder.described(id)
}

/// MovieLens 100K: `id|title|date|video date|url|` and 19 flags whose names are in `u.genre`.
fn genres_of_100k(
    files: &Files<'_>,
    items: Option<&String>,
    genres: Option<&String>,
    builder: &mut DatasetBuilder,
) -> Result<()> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    if let Some(genres) = genres {
        each_line(files, genres, builder, |_, line, _| {
            let name = line.split(|&byte| byte == b'|').next().unwrap_or_default();
            names.extend((!name.is_empty()).then(|| name.to_vec()));
            Ok(())
        })?;
    }
    let Some(items) = items else { return Ok(()) };
    let mut fields = Fields::default();
    each_line(files, items, builder, |_, line, builder| {
        if line.is_empty() {
            return Ok(());
        }
        // A pipe is not a quoting delimiter, so splitting cannot fail.
        let _ = fields.split(line, Delimiter::Byte(b'|'));
        if fields.len() != 24 {
            return Err(RowError::bad("row", format!("24 fields, not {}", fields.len()), line));
        }
        let Some(item) = item_index(fields.get(line, 0), builder)? else { return Ok(()) };
        builder.set_title(item, fields.get(line, 1));
        for (flag, name) in names.iter().take(19).enumerate() {
            if fields.get(line, 5 + flag) == b"1" {
                builder.add_category(item, name)?;
            }
        }
        Ok(())
    })
}

/// Last.fm 2K: artists' names, and as categories the tags that users gave them.
fn lastfm<'n>(
    files: &Files<'_>,
    named: &impl Fn(&str) -> Option<&'n String>,
    builder: &mut DatasetBuilder,
) -> Result<()> {
    let tab = Delimiter::Byte(b'\t');
    if let Some(artists) = named("artists.dat") {
        let columns = MetadataColumns { header: true, ..MetadataColumns::new(tab, None) };
        read_table(files, artists, &columns, builder)?;
    }
    let (Some(tags), Some(tagged)) = (named("tags.dat"), named("user_taggedartists.dat")) else {
        return Ok(());
    };
    let mut names = HashMap::new();
    let mut fields = Fields::default();
    each_line(files, tags, builder, |_, line, _| {
        let _ = fields.split(line, tab);
        names.insert(fields.get(line, 0).to_vec(), fields.get(line, 1).to_vec());
        Ok(())
    })?;
    each_line(files, tagged, builder, |number, line, builder| {
        let _ = fields.split(line, tab);
        if number == 1 || line.is_empty() {
            return Ok(());
        }
        if fields.len() < 3 {
            return Err(RowError::bad("row", "at least 3 fields", line));
        }
        let Some(item) = builder.item(fields.get(line, 1)) else { return Ok(()) };
        match names.get(fields.get(line, 2)) {
            Some(name) => builder.add_category(item, name),
            None => Err(RowError::bad("tagID", "a tag of tags.dat", fields.get(line, 2))),
        }
    })
}

/// S3-Rec: one JSON object, item to list of attributes.
fn attributes(files: &Files<'_>, name: Option<&String>, builder: &mut DatasetBuilder) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    builder.begin_metadata(&files.label(name));
    let source = std::io::BufReader::new(files.open(name)?);
    let lists: BTreeMap<String, Vec<serde_json::Value>> = match serde_json::from_reader(source) {
        Ok(lists) => lists,
        Err(error) => {
            let bad = RowError::bad("object", format!("items with lists of attributes ({error})"), b"");
            return builder.check(error.line() as u64, Err(bad));
        }
    };
    for (id, list) in &lists {
        let Some(item) = builder.item(id.as_bytes()) else {
            builder.report.only_described += 1;
            continue;
        };
        for attribute in list {
            let text = attribute.as_str().map_or_else(|| attribute.to_string(), str::to_owned);
            let row = builder.add_category(item, text.as_bytes());
            builder.check(1, row)?;
        }
    }
    Ok(())
}
