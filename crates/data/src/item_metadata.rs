//! Titles and categories of items, from the files that lie beside the interactions.

use crate::builder::{DatasetBuilder, RowError};
use crate::columns::{Meaning, find};
use crate::error::DataError;
use crate::fields::{Delimiter, Fields};
use crate::files::{Files, unpacked_name};
use crate::format::Format;
use crate::lines::Lines;
use crate::preview::Preview;

/// Where an item's title and categories are in a row of a side file.
struct Description {
    delimiter: Delimiter,
    header: bool,
    id: usize,
    title: Option<usize>,
    categories: Option<usize>,
    /// What stands between categories.
    between: u8,
    /// Fields a row has at least.
    least: usize,
}

impl Description {
    fn of_titles(delimiter: Delimiter, categories: Option<usize>) -> Self {
        let least = categories.map_or(2, |place| place + 1);
        Self { delimiter, header: false, id: 0, title: Some(1), categories, between: b'|', least }
    }
}

/// Reads what lies beside `main`. With a whole folder, any file whose header names items and titles or categories counts.
pub(crate) fn read(
    files: &Files<'_>,
    main: &str,
    format: Format,
    whole_folder: bool,
    builder: &mut DatasetBuilder,
) -> Result<(), DataError> {
    let names = files.names().unwrap_or_default();
    let named = |wanted: &str| names.iter().find(|name| unpacked_name(name) == wanted);
    let colons = Description::of_titles(Delimiter::Colons, Some(2));
    match format {
        Format::MovieLens100k => genres_of_100k(files, named("u.item"), named("u.genre"), builder),
        Format::MovieLens1m | Format::MovieTweetings => {
            describe(files, named("movies.dat"), &colons, builder)
        }
        Format::MovieLens20m => by_header(files, named("movies.csv"), builder),
        Format::LastFm2k => lastfm(files, &named, builder),
        Format::FoursquareGlobal => {
            let pois = names.iter().find(|name| unpacked_name(name).starts_with("dataset_tist2015_pois"));
            let columns =
                Description { title: None, ..Description::of_titles(Delimiter::Byte(b'\t'), Some(3)) };
            describe(files, pois, &columns, builder)
        }
        Format::YahooMovies => {
            let about =
                names.iter().find(|name| unpacked_name(name).starts_with("ydata-ymovies-movie-content"));
            describe(files, about, &Description::of_titles(Delimiter::Byte(b'\t'), None), builder)
        }
        Format::RecBole => {
            let stem = unpacked_name(main);
            let stem = stem.split('.').next().unwrap_or_default();
            by_header(files, named(&format!("{stem}.item")), builder)
        }
        Format::Sequences => attributes(files, named(&attributes_name(main)), builder),
        _ => generic(files, &names, main, whole_folder, builder),
    }
}

/// S3-Rec's file of attributes that goes with a file of sequences.
fn attributes_name(main: &str) -> String {
    let name = unpacked_name(main);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    format!("{stem}_item2attributes.json")
}

/// Whether a file of attributes lies beside, which only sequences have. It decides where all sequences are short and of
/// one length, and so look like a table.
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
) -> Result<(), DataError> {
    const STEMS: [&str; 11] = [
        "items",
        "venues",
        "articles",
        "vroots",
        "movies",
        "books",
        "artists",
        "products",
        "titles",
        "categories",
        "pois",
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
fn by_header(
    files: &Files<'_>,
    name: Option<&String>,
    builder: &mut DatasetBuilder,
) -> Result<(), DataError> {
    let Some(name) = name else { return Ok(()) };
    let preview = Preview::of(&files.head(name)?);
    let Some(delimiter) = preview.delimiter() else { return Ok(()) };
    let header = preview.first(delimiter);
    let (title, categories) = (find(&header, Meaning::Title), find(&header, Meaning::Category));
    let id = find(&header, Meaning::Item).or_else(|| header.iter().position(|name| name == "id"));
    let (Some(id), true) = (id, title.is_some() || categories.is_some()) else { return Ok(()) };
    if find(&header, Meaning::User).is_some() {
        return Ok(());
    }
    // RecBole writes sequences of tokens with spaces between.
    let spaced = categories.is_some_and(|place| header[place].ends_with(":token_seq"));
    let between = if spaced { b' ' } else { b'|' };
    let columns =
        Description { delimiter, header: true, id, title, categories, between, least: header.len() };
    describe(files, Some(name), &columns, builder)
}

/// Reads a catalog of its own, whose header must name the items.
pub(crate) fn read_items(
    files: &Files<'_>,
    name: &str,
    builder: &mut DatasetBuilder,
) -> Result<(), DataError> {
    let preview = Preview::of(&files.head(name)?);
    let delimiter = preview.delimiter().unwrap_or(Delimiter::Byte(b'\t'));
    let header = preview.first(delimiter);
    let id = find(&header, Meaning::Item).or_else(|| header.iter().position(|name| name == "id"));
    let Some(id) = id else {
        let (file, found) = (files.label(name), header.join(", "));
        return Err(DataError::NoColumn { file, column: "item".to_owned(), found });
    };
    let (title, categories) = (find(&header, Meaning::Title), find(&header, Meaning::Category));
    let columns =
        Description { delimiter, header: true, id, title, categories, between: b'|', least: header.len() };
    describe(files, Some(&name.to_owned()), &columns, builder)
}

fn describe(
    files: &Files<'_>,
    name: Option<&String>,
    columns: &Description,
    builder: &mut DatasetBuilder,
) -> Result<(), DataError> {
    let mut fields = Fields::default();
    each_line(files, name, builder, |number, line, builder| {
        if number == 1 && columns.header || line.is_empty() {
            return Ok(());
        }
        let whole = fields.cut(line, columns.delimiter).is_ok() && fields.len() >= columns.least;
        if !whole {
            return Err(RowError::row("row", format!("{} fields", columns.least), line));
        }
        let Some(item) = known(fields.get(line, columns.id), builder)? else { return Ok(()) };
        if let Some(place) = columns.title {
            builder.set_title(item, fields.get(line, place));
        }
        match columns.categories {
            Some(place) => add_category(item, fields.get(line, place), columns.between, builder),
            None => Ok(()),
        }
    })
}

/// Runs over the lines of a side file; bad ones are settled as those of the interactions are.
fn each_line(
    files: &Files<'_>,
    name: Option<&String>,
    builder: &mut DatasetBuilder,
    mut take: impl FnMut(u64, &[u8], &mut DatasetBuilder) -> Result<(), RowError>,
) -> Result<(), DataError> {
    let Some(name) = name else { return Ok(()) };
    let label = files.label(name);
    builder.begin_metadata(&label);
    let mut lines = Lines::new(files.open(name)?);
    let mut number = 0;
    while let Some(line) = lines.next().map_err(|error| DataError::io(&label, error))? {
        number += 1;
        let outcome = take(number, line, builder);
        builder.settle(number, outcome)?;
    }
    Ok(())
}

/// The item's number; one that nobody met is counted.
fn known(id: &[u8], builder: &mut DatasetBuilder) -> Result<Option<u32>, RowError> {
    if id.is_empty() {
        return Err(RowError::row("item", "an id", id));
    }
    builder.described(id)
}

fn add_category(item: u32, list: &[u8], between: u8, builder: &mut DatasetBuilder) -> Result<(), RowError> {
    if matches!(list, b"(no genres listed)" | b"\\N") {
        return Ok(());
    }
    list.split(|&byte| byte == between).try_for_each(|category| builder.add_category(item, category))
}

/// MovieLens 100K: `id|title|date|video date|url|` and 19 flags whose names are in `u.genre`.
fn genres_of_100k(
    files: &Files<'_>,
    items: Option<&String>,
    genres: Option<&String>,
    builder: &mut DatasetBuilder,
) -> Result<(), DataError> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    each_line(files, genres, builder, |_, line, _| {
        let name = line.split(|&byte| byte == b'|').next().unwrap_or_default();
        names.extend((!name.is_empty()).then(|| name.to_vec()));
        Ok(())
    })?;
    let mut fields = Fields::default();
    each_line(files, items, builder, |_, line, builder| {
        if line.is_empty() {
            return Ok(());
        }
        // A pipe is not a quoting delimiter, so cutting cannot fail.
        let _ = fields.cut(line, Delimiter::Byte(b'|'));
        if fields.len() != 24 {
            return Err(RowError::row("row", format!("24 fields, not {}", fields.len()), line));
        }
        let Some(item) = known(fields.get(line, 0), builder)? else { return Ok(()) };
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
) -> Result<(), DataError> {
    let tab = Delimiter::Byte(b'\t');
    let artists = Description { header: true, ..Description::of_titles(tab, None) };
    describe(files, named("artists.dat"), &artists, builder)?;
    let (Some(tags), Some(tagged)) = (named("tags.dat"), named("user_taggedartists.dat")) else {
        return Ok(());
    };
    let mut names = std::collections::HashMap::new();
    let mut fields = Fields::default();
    each_line(files, Some(tags), builder, |_, line, _| {
        let _ = fields.cut(line, tab);
        names.insert(fields.get(line, 0).to_vec(), fields.get(line, 1).to_vec());
        Ok(())
    })?;
    each_line(files, Some(tagged), builder, |number, line, builder| {
        let _ = fields.cut(line, tab);
        if number == 1 || line.is_empty() {
            return Ok(());
        }
        if fields.len() < 3 {
            return Err(RowError::row("row", "at least 3 fields", line));
        }
        let Some(item) = builder.item(fields.get(line, 1)) else { return Ok(()) };
        match names.get(fields.get(line, 2)) {
            Some(name) => builder.add_category(item, name),
            None => Err(RowError::row("tagID", "a tag of tags.dat", fields.get(line, 2))),
        }
    })
}

/// S3-Rec: one JSON object, item to list of attributes.
fn attributes(
    files: &Files<'_>,
    name: Option<&String>,
    builder: &mut DatasetBuilder,
) -> Result<(), DataError> {
    let Some(name) = name else { return Ok(()) };
    let label = files.label(name);
    builder.begin_metadata(&label);
    let source = std::io::BufReader::new(files.open(name)?);
    let parsed: Result<std::collections::BTreeMap<String, Vec<serde_json::Value>>, _> =
        serde_json::from_reader(source);
    let lists = match parsed {
        Ok(lists) => lists,
        Err(error) => {
            let trouble = RowError::row("object", format!("items with lists of attributes ({error})"), b"");
            return builder.settle(error.line() as u64, Err(trouble)).map(|_: Option<()>| ());
        }
    };
    for (id, list) in &lists {
        let Some(item) = builder.item(id.as_bytes()) else {
            builder.report.only_described += 1;
            continue;
        };
        for attribute in list {
            let text = attribute.as_str().map_or_else(|| attribute.to_string(), str::to_owned);
            let outcome = builder.add_category(item, text.as_bytes());
            builder.settle(1, outcome)?;
        }
    }
    Ok(())
}
