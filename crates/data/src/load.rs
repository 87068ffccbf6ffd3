//! From a name, a path or bytes to a data set.

use crate::builder::DatasetBuilder;
use crate::columns::Columns;
use crate::detect;
use crate::error::{DataError, Result};
use crate::files::Files;
use crate::folder;
use crate::format::Format;
use crate::graph::GraphConfig;
use crate::interactions::{Dataset, Interactions};
use crate::item_metadata;
use crate::layout::Layout;
use crate::load_report::LoadReport;
use crate::preview::Preview;
use crate::public_datasets;
use crate::readers;
use crate::town::{Town, TownError, TownSpec};
use sottovoce_core::Catalog;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The environment variable that names the folder of data sets.
pub const DATA_DIR: &str = "SOTTOVOCE_DATA";

/// How to load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The format; `None`: detected from the content.
    pub format: Option<Format>,
    /// Which columns hold what; `None`: by the header, or by their order.
    pub columns: Option<Columns>,
    /// Skip and count bad lines instead of stopping at the first.
    pub skip_bad: bool,
    /// The folder in which bare names are looked up; `None`: the one that `SOTTOVOCE_DATA` names.
    pub data_dir: Option<PathBuf>,
    /// A knowledge graph about the items. It is read after cleaning, by [`read_graph`](crate::read_graph), because it
    /// depends on which items are left.
    pub graph: Option<GraphConfig>,
}

/// Loads a file or folder, a synthetic set (`synth:...`), or a set by its bare name under the data folder.
///
/// # Errors
/// If it does not exist, cannot be read, or has a bad line that is not to be skipped.
pub fn load(source: &str, options: &LoadOptions) -> Result<Dataset> {
    if let Some(spec) = source.strip_prefix("synth:") {
        if options.columns.is_some() || options.format.is_some() {
            return Err(DataError::Mismatch(
                source.to_owned(),
                "synthetic data have neither columns nor a format".into(),
            ));
        }
        return town_source(spec);
    }
    let path = find_source(source, options.data_dir.as_deref())?;
    let mut set = load_path(&path, options)?;
    if path != Path::new(source) {
        source.clone_into(&mut set.name);
    }
    Ok(set)
}

/// The file or folder of this path, or of this bare name under the data folder; `data_dir` comes before the folder that
/// `SOTTOVOCE_DATA` names.
///
/// # Errors
/// If there is none; the message says where it was looked for.
pub fn find_source(source: &str, data_dir: Option<&Path>) -> Result<PathBuf> {
    let path = PathBuf::from(source);
    if path.exists() {
        return Ok(path);
    }
    let folder = data_folder(data_dir);
    match &folder {
        Some(folder) if public_datasets::is_bare(source) && folder.join(source).exists() => Ok(folder.join(source)),
        _ => Err(public_datasets::not_found(source, folder.as_deref())),
    }
}

/// The folder of data sets: the one given, or the one that [`DATA_DIR`] names.
pub(crate) fn data_folder(given: Option<&Path>) -> Option<PathBuf> {
    given.map(Path::to_path_buf).or_else(|| std::env::var_os(DATA_DIR).map(PathBuf::from))
}

/// Loads from bytes in memory instead of files: one is a file, several are a folder.
///
/// # Errors
/// As [`load`].
pub fn load_bytes(name: &str, files: &[(&str, &[u8])], options: &LoadOptions) -> Result<Dataset> {
    let listed = Files::Memory(files);
    match files {
        [(only, _)] => load_file(&listed, only, name, options),
        _ => load_folder(&listed, name, options),
    }
}

/// The synthetic data set of that specification: check-ins of a town, without places that nobody visited.
fn town_source(name: &str) -> Result<Dataset> {
    let wrong = |reason: String| DataError::Synthetic(name.to_owned(), reason);
    if name.split(':').next() != Some("town") {
        return Err(wrong("there is no synthetic set of that name; there is synth:town".to_owned()));
    }
    let spec: TownSpec = format!("synth:{name}").parse().map_err(|error: TownError| wrong(error.to_string()))?;
    let town = Town::build(&spec).map_err(|error| wrong(error.to_string()))?;
    let columns = town.collect();
    let all = Interactions {
        users: town.user_names(),
        catalog: town.catalog(),
        user: columns.user,
        item: columns.place,
        rating: Vec::new(),
        time: columns.time,
    };
    let rows: Vec<u32> = (0..all.len() as u32).collect();
    let interactions = all.select(&rows);
    Ok(Dataset { name: spec.to_string(), format: Format::Synthetic, interactions, report: LoadReport::default() })
}

/// Reads a catalog file: its header names items and optionally titles and categories (separated by `|`). Items keep the
/// order of the file.
///
/// # Errors
/// If the file cannot be read, has no such header, or has a bad line.
pub fn read_catalog(path: &Path) -> Result<Catalog> {
    let (folder, file) = split_path(path)?;
    let mut builder = DatasetBuilder::of_items();
    item_metadata::read_items(&Files::Disk(folder), &file, &mut builder)?;
    Ok(builder.into_catalog())
}

/// Opens a file for reading, unpacked if it is gzip or zstd.
///
/// # Errors
/// If it cannot be opened.
pub fn open(path: &Path) -> Result<impl BufRead> {
    let (folder, file) = split_path(path)?;
    Ok(BufReader::with_capacity(64 << 10, Files::Disk(folder).open(&file)?))
}

/// A file's folder and name.
fn split_path(path: &Path) -> Result<(PathBuf, String)> {
    let Some(file) = path.file_name() else {
        return Err(DataError::io(path.display(), std::io::ErrorKind::IsADirectory.into()));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((folder.to_owned(), file.to_string_lossy().into()))
}

fn load_path(path: &Path, options: &LoadOptions) -> Result<Dataset> {
    let canonical = path.canonicalize().map_err(|error| DataError::io(path.display(), error))?;
    let name = canonical.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into());
    if path.is_dir() {
        return load_folder(&Files::Disk(path.to_owned()), &name, options);
    }
    let (folder, file) = split_path(path)?;
    load_file(&Files::Disk(folder), &file, &name, options)
}

fn load_folder(files: &Files<'_>, name: &str, options: &LoadOptions) -> Result<Dataset> {
    load_files(files, folder::choose(files, name)?, true, name, options)
}

fn load_file(files: &Files<'_>, file: &str, name: &str, options: &LoadOptions) -> Result<Dataset> {
    let choice = folder::Choice { files: vec![file.to_owned()], remark: None };
    load_files(files, choice, false, name, options)
}

fn load_files(
    files: &Files<'_>,
    choice: folder::Choice,
    whole_folder: bool,
    name: &str,
    options: &LoadOptions,
) -> Result<Dataset> {
    let mut builder = DatasetBuilder::new(options.skip_bad);
    builder.report.remarks.extend(choice.remark);
    let mut format = Format::Delimited;
    for file in &choice.files {
        format = read_main(files, file, options, &mut builder)?;
    }
    let repeated = builder.report.repeated_headers;
    if repeated > 0 {
        builder.report.remarks.push(format!("{repeated} lines that repeat the header skipped"));
    }
    item_metadata::read(files, &choice.files[0], format, whole_folder, &mut builder)?;
    let (interactions, report) = builder.finish();
    Ok(Dataset { name: name.to_owned(), format, interactions, report })
}

/// Reads one file of interactions and returns its format.
fn read_main(files: &Files<'_>, name: &str, options: &LoadOptions, builder: &mut DatasetBuilder) -> Result<Format> {
    let label = files.label(name);
    let head = files.head(name)?;
    let preview = Preview::of(&head);
    let detected = detect::format_of(name, &label, &head, &preview);
    let format = match options.format {
        Some(format) if !head.bytes.is_empty() => format,
        _ => match detected? {
            Format::Delimited if item_metadata::has_attributes(files, name) => Format::Sequences,
            format => format,
        },
    };
    let before = builder.len();
    let columns = options.columns.as_ref();
    if columns.is_some() && matches!(format, Format::Sequences | Format::LibraryThing | Format::MsWeb) {
        let what =
            format!("the format {format} has no columns to choose: leave out --columns, or name another --format");
        return Err(DataError::Mismatch(label, what));
    }
    builder.report.in_order |= columns.is_some_and(Columns::in_order);
    match format {
        Format::Sequences => readers::sequences::read(files.open(name)?, builder, &label)?,
        Format::JsonLines => readers::json::read(files.open(name)?, columns, builder, &label)?,
        Format::LibraryThing => readers::librarything::read(files.open(name)?, builder, &label)?,
        Format::MsWeb => readers::msweb::read(files.open(name)?, builder, &label)?,
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => return Err(DataError::without_parquet(&label)),
        #[cfg(feature = "parquet")]
        Format::Parquet => readers::parquet::read(files, name, columns, builder)?,
        _ => {
            let layout = Layout::of(format, &preview, columns, &label)?;
            readers::delimited::read(files.open(name)?, &layout, builder, &label)?;
        }
    }
    if builder.len() == before {
        let (lines, skipped) = (builder.report.lines, builder.report.bad.skipped);
        return Err(DataError::NoRows(label, lines, skipped));
    }
    Ok(format)
}
