//! Which file of a folder holds the interactions.

use crate::detect;
use crate::error::{DataError, Result};
use crate::fields::Delimiter;
use crate::files::{Files, unpacked_name};
use crate::format::Format;
use crate::preview::Preview;

/// The files that make up the set.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) files: Vec<String>,
    /// Which files were joined, if any.
    pub(crate) remark: Option<String>,
}

/// Well-known names of files with interactions, in order of preference. Those of one line belong together.
const MAIN: [&[&str]; 7] = [
    &["u.data"],
    &["ratings.dat"],
    &["ratings.csv"],
    &["user_artists.dat"],
    &["usersha1-artmbid-artname-plays.tsv"],
    &["interactions.tsv", "interactions.csv", "interactions.txt", "interactions.parquet", "interactions.json"],
    &["anonymous-msweb.data", "anonymous-msweb.test"],
];

/// Chooses the files; an error lists the candidates if there are several.
pub(crate) fn choose(files: &Files<'_>, folder: &str) -> Result<Choice> {
    let names = files.names()?;
    for group in MAIN {
        let found: Vec<_> = names.iter().filter(|name| group.contains(&unpacked_name(name).as_str())).collect();
        if !found.is_empty() {
            return joined(found.into_iter().cloned().collect(), group[0] == "anonymous-msweb.data", folder);
        }
    }
    by_content(files, &names, folder)
}

fn joined(files: Vec<String>, together: bool, folder: &str) -> Result<Choice> {
    match files.len() {
        1 => Ok(Choice { files, remark: None }),
        _ if together => {
            let remark = format!("joined {} files: {}", files.len(), files.join(", "));
            Ok(Choice { files, remark: Some(remark) })
        }
        _ => Err(DataError::Ambiguous(folder.to_owned(), files)),
    }
}

struct Candidate {
    name: String,
    format: Format,
    /// The first line, if it names the columns.
    header: Option<Vec<u8>>,
}

/// Examines every file. Parts of a split count only if there is no whole file; the result must be one file, or files with
/// the same header, which are read as one set.
fn by_content(files: &Files<'_>, names: &[String], folder: &str) -> Result<Choice> {
    let mut found = Vec::new();
    for name in names.iter().filter(|name| !is_other(&unpacked_name(name))) {
        found.extend(candidate(files, name)?);
    }
    let (parts, whole): (Vec<_>, Vec<_>) = found.into_iter().partition(|candidate| is_part(&candidate.name));
    let chosen = if whole.is_empty() { parts } else { whole };
    let Some(first) = chosen.first() else {
        return Err(DataError::Unrecognised(
            folder.to_owned(),
            "no file in the folder holds interactions (columns for users and items)".to_owned(),
        ));
    };
    let headed = first.header.is_some() || first.format == Format::YahooMovies;
    let together = headed && chosen.iter().all(|other| (&other.header, other.format) == (&first.header, first.format));
    joined(chosen.into_iter().map(|candidate| candidate.name).collect(), together, folder)
}

fn candidate(files: &Files<'_>, name: &str) -> Result<Option<Candidate>> {
    let head = files.head(name)?;
    let preview = Preview::of(&head);
    let Ok(format) = detect::format_of(name, name, &head, &preview) else { return Ok(None) };
    if !detect::may_be_interactions(format, &preview) {
        return Ok(None);
    }
    let first = preview.first(preview.delimiter().unwrap_or(Delimiter::Blanks));
    let header = crate::columns::is_header(&first).then(|| preview.lines[0].clone());
    Ok(Some(Candidate { name: name.to_owned(), format, header }))
}

/// Documents, licences, archives and metadata files.
fn is_other(name: &str) -> bool {
    #[rustfmt::skip]
    const STARTS: [&str; 14] = [
        "readme", "license", "licence", "source.md", "changelog", "movies.", "users.", "items.", "item_",
        "artists.", "tags.", "links.", "user_friends", "dataset_tist2015_pois",
    ];
    const ENDS: [&str; 12] =
        [".md", ".html", ".pdf", ".zip", ".tar", ".tgz", ".py", ".item", ".user", ".kg", ".link", ".net"];
    STARTS.iter().any(|start| name.starts_with(start))
        || ENDS.iter().any(|end| name.ends_with(end))
        || name.ends_with("attributes.json")
}

/// Whether the name is that of a training, validation or test part.
fn is_part(name: &str) -> bool {
    let stem = unpacked_name(name);
    stem.split(|c: char| !c.is_alphanumeric())
        .any(|word| matches!(word, "train" | "training" | "test" | "testing" | "valid" | "validation" | "dev"))
}
