//! Writing interactions: what is written here is read back the same.

#[cfg(feature = "parquet")]
mod parquet;

use crate::error::{DataError, Result, shorten};
use crate::interactions::Interactions;
use crate::split::DataSplit;
use sottovoce_core::{Catalog, Histories, Names};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The columns to write.
struct Rows<'a> {
    users: &'a Names,
    items: &'a Names,
    user: &'a [u32],
    item: &'a [u32],
    rating: &'a [f32],
    time: &'a [i64],
}

impl<'a> Rows<'a> {
    fn of(all: &'a Interactions) -> Self {
        Self {
            users: &all.users,
            items: &all.catalog.ids,
            user: &all.user,
            item: &all.item,
            rating: &all.rating,
            time: &all.time,
        }
    }
}

/// Writes tab-separated text with a header (`user item [rating] [timestamp]`); packed if the name ends in `.gz` or
/// `.zst`.
///
/// The file appears under its name only when it is whole.
///
/// # Errors
/// If an id has a tab or a line break, or the disk refuses.
pub fn write_tsv(interactions: &Interactions, path: &Path) -> Result<()> {
    write_rows(&Rows::of(interactions), path)
}

/// Writes Parquet with the columns `user`, `item` and, where there are any, `rating` and `timestamp` (seconds).
///
/// # Errors
/// If the disk refuses.
pub fn write_parquet(interactions: &Interactions, path: &Path) -> Result<()> {
    parquet::write(&Rows::of(interactions), path)
}

/// Writes each part to `folder` as `train`, `validation` and `test` with the given ending: `tsv`, `tsv.gz`, `tsv.zst`
/// or `parquet`. Within a part, users come in order and each user's interactions in time order.
///
/// # Errors
/// If the ending is another, an id cannot be written, or the disk refuses.
pub fn write_split(parts: &DataSplit, folder: &Path, ending: &str) -> Result<()> {
    if !["tsv", "tsv.gz", "tsv.zst", "parquet"].contains(&ending) {
        return Err(DataError::Specification(
            "ending",
            ending.to_owned(),
            "tsv, tsv.gz, tsv.zst or parquet".to_owned(),
        ));
    }
    std::fs::create_dir_all(folder).map_err(|error| DataError::io(folder.display(), error))?;
    let named = [("train", Some(&parts.train)), ("validation", parts.validation.as_ref()), ("test", Some(&parts.test))];
    for (name, part) in named {
        if let Some(part) = part {
            write_part(&parts.users, &parts.catalog, part, &folder.join(format!("{name}.{ending}")))?;
        }
    }
    Ok(())
}

fn write_part(users: &Names, catalog: &Catalog, part: &Histories, path: &Path) -> Result<()> {
    let user: Vec<u32> =
        (0..part.users()).flat_map(|user| std::iter::repeat_n(user as u32, part.of(user).len())).collect();
    let rows = Rows {
        users,
        items: &catalog.ids,
        user: &user,
        item: part.items(),
        rating: part.ratings(),
        time: part.times(),
    };
    if path.extension().is_some_and(|ending| ending == "parquet") {
        parquet::write(&rows, path)
    } else {
        write_rows(&rows, path)
    }
}

fn write_rows(rows: &Rows<'_>, path: &Path) -> Result<()> {
    check_ids(rows.users, "user", path)?;
    check_ids(rows.items, "item", path)?;
    atomically(path, |file| match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            write_text(rows, &mut packer)?;
            packer.finish()
        }
        Some("zst") => {
            let mut packer = zstd::Encoder::new(file, 0)?;
            write_text(rows, &mut packer)?;
            packer.finish()
        }
        _ => {
            let mut file = file;
            write_text(rows, &mut file)?;
            Ok(file)
        }
    })
}

fn check_ids(ids: &Names, kind: &'static str, path: &Path) -> Result<()> {
    let breaks = |id: &&str| id.contains(['\t', '\n', '\r']);
    match ids.iter().find(breaks) {
        Some(id) => {
            let id = shorten(id.as_bytes());
            Err(DataError::Unwritable(path.to_owned(), kind, id))
        }
        None => Ok(()),
    }
}

fn write_text(rows: &Rows<'_>, into: &mut impl Write) -> io::Result<()> {
    let mut into = BufWriter::with_capacity(64 << 10, into);
    let rating = if rows.rating.is_empty() { "" } else { "\trating" };
    let time = if rows.time.is_empty() { "" } else { "\ttimestamp" };
    writeln!(into, "user\titem{rating}{time}")?;
    for row in 0..rows.user.len() {
        write!(into, "{}\t{}", &rows.users[rows.user[row] as usize], &rows.items[rows.item[row] as usize])?;
        if let Some(rating) = rows.rating.get(row) {
            write!(into, "\t{rating}")?;
        }
        if let Some(time) = rows.time.get(row) {
            write!(into, "\t{time}")?;
        }
        into.write_all(b"\n")?;
    }
    into.flush()
}

/// Writes to a file beside `path` and gives it its name when it is whole and on disk.
fn atomically(path: &Path, write: impl FnOnce(File) -> io::Result<File>) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let partial = path.with_file_name(name);
    let written = File::create(&partial).and_then(write).and_then(|file| file.sync_all());
    let named = written.and_then(|()| std::fs::rename(&partial, path));
    named.map_err(|error| {
        // Nothing more can be done if the remains cannot be removed either.
        let _ = std::fs::remove_file(&partial);
        DataError::io(path.display(), error)
    })
}

#[cfg(not(feature = "parquet"))]
mod parquet {
    use super::{DataError, Path, Rows};

    pub(super) fn write(_: &Rows<'_>, path: &Path) -> Result<(), DataError> {
        Err(DataError::without_parquet(&path.display().to_string()))
    }
}
