//! Click logs: who looked at which page, when, for how long, and what it is about.

use super::taxonomy::{CategoryMapping, SENSITIVE, Taxonomy};
use crate::builder::{RowError, TimeUnit};
use crate::error::{BadLine, DataError, Result, shorten};
use crate::intern::Interner;
use crate::text::plain;
use crate::time_unit;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use sottovoce_core::Names;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds on one page beyond which a device was left alone: a day.
pub const MOST_SECONDS: f32 = 86_400.0;

/// Unknown categories that a report names.
const UNKNOWN_NAMED: usize = 10;

/// What is taken from a click log, and how it is understood.
#[derive(Clone, Debug)]
pub struct ClickRules {
    taxonomy: Taxonomy,
    /// By category: whether its pages are dropped.
    sensitive: Vec<bool>,
    /// Plain names that are sensitive even if the taxonomy does not have them.
    sensitive_names: FxHashSet<String>,
    mapping: CategoryMapping,
    tier: Option<u32>,
    now: Option<i64>,
    skip_bad: bool,
    one_person: bool,
    known_only: bool,
}

impl ClickRules {
    /// The categories of a taxonomy, without its sensitive branches.
    pub fn new(taxonomy: Taxonomy) -> Self {
        let sensitive = taxonomy.sensitive();
        Self {
            sensitive,
            sensitive_names: SENSITIVE.iter().map(|name| plain(name)).collect(),
            taxonomy,
            mapping: CategoryMapping::default(),
            tier: None,
            now: None,
            skip_bad: false,
            one_person: false,
            known_only: false,
        }
    }

    /// The taxonomy.
    pub fn taxonomy(&self) -> &Taxonomy {
        &self.taxonomy
    }

    /// Whether a category is sensitive.
    pub fn is_sensitive(&self, category: u32) -> bool {
        self.sensitive[category as usize]
    }

    /// More branches that are sensitive, by id or name.
    ///
    /// # Errors
    /// If the taxonomy does not have one of them.
    pub fn also_sensitive<'a>(mut self, branches: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self> {
        let marked = self.taxonomy.branches(branches.clone())?;
        self.sensitive.iter_mut().zip(marked).for_each(|(sensitive, marked)| *sensitive |= marked);
        self.sensitive_names.extend(branches.into_iter().map(plain));
        Ok(self)
    }

    /// Branches that are not sensitive after all.
    ///
    /// # Errors
    /// If the taxonomy does not have one of them.
    pub fn not_sensitive<'a>(mut self, branches: impl IntoIterator<Item = &'a str> + Clone) -> Result<Self> {
        let marked = self.taxonomy.branches(branches.clone())?;
        self.sensitive.iter_mut().zip(marked).for_each(|(sensitive, marked)| *sensitive &= !marked);
        for name in branches {
            self.sensitive_names.remove(&plain(name));
        }
        Ok(self)
    }

    /// Translates ids that the taxonomy does not have.
    #[must_use]
    pub fn mapped(self, mapping: CategoryMapping) -> Self {
        Self { mapping, ..self }
    }

    /// Replaces categories below this tier by those above them in it.
    #[must_use]
    pub fn in_tier(self, tier: Option<u32>) -> Self {
        Self { tier, ..self }
    }

    /// The moment of the scores in seconds since 1970; `None`: that of the last click.
    #[must_use]
    pub fn at(self, now: Option<i64>) -> Self {
        Self { now, ..self }
    }

    /// The categories that a text of a log stands for: none if it is unknown, `None` if it is sensitive.
    pub fn resolve(&self, text: &str) -> Option<Vec<u32>> {
        let found = match self.taxonomy.find(text) {
            Some(category) => vec![category],
            None => self.mapping.of(text).to_vec(),
        };
        let secret = match found.is_empty() {
            true => self.sensitive_names.contains(&plain(text)),
            false => found.iter().any(|&category| self.sensitive[category as usize]),
        };
        let lifted = |category| self.tier.map_or(category, |tier| self.taxonomy.in_tier(category, tier));
        (!secret).then(|| found.into_iter().map(lifted).collect())
    }

    /// The log is one person's own and needs no column of people; one that names two people is refused.
    #[must_use]
    pub fn of_one_person(self) -> Self {
        Self { one_person: true, ..self }
    }

    /// Drops pages that also have a category which the taxonomy does not know: where it has no sensitive branches, an
    /// unknown category cannot be told from a sensitive one.
    #[must_use]
    pub fn known_categories_only(self) -> Self {
        Self { known_only: true, ..self }
    }

    /// Whether the log is one person's own.
    pub(super) fn is_of_one_person(&self) -> bool {
        self.one_person
    }

    /// Whether lines that cannot be read are skipped and counted.
    #[must_use]
    pub fn skipping_bad_lines(self, skip_bad: bool) -> Self {
        Self { skip_bad, ..self }
    }
}

/// What was read and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClickReport {
    /// Clicks in the log.
    pub read: u64,
    /// Clicks used.
    pub used: u64,
    /// Dropped: on a page in a sensitive branch.
    pub sensitive: u64,
    /// Dropped: no category.
    pub without_category: u64,
    /// Dropped: no category that is known.
    pub unknown_category: u64,
    /// Dropped: in the future.
    pub future: u64,
    /// Dropped: a negative time on page, one that is no number, or more than a day.
    pub absurd_seconds: u64,
    /// Dropped: the same person, page and time as another click.
    pub repeated: u64,
    /// Lines that cannot be read, skipped on request.
    pub bad_lines: u64,
    /// The first unknown categories.
    pub unknown: Vec<String>,
}

/// Which columns of a log were read as what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClickColumns {
    /// What a column holds, and its name in the log.
    pub read: Vec<(&'static str, String)>,
    /// Columns that are not read.
    pub ignored: Vec<String>,
}

impl ClickColumns {
    /// Takes note of a column and what it holds, if it is read; of several for the same the first is.
    pub(super) fn add(&mut self, name: &str, role: Option<&'static str>) {
        let is_known = self.ignored.iter().chain(self.read.iter().map(|(_, name)| name)).any(|known| known == name);
        match role.filter(|role| !self.read.iter().any(|(other, _)| other == role)) {
            _ if is_known => {}
            Some(role) => self.read.push((role, name.to_owned())),
            None => self.ignored.push(name.to_owned()),
        }
    }
}

impl fmt::Display for ClickColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read: Vec<String> = self.read.iter().map(|(role, name)| format!("{role} = {name}")).collect();
        f.write_str(&read.join(", "))?;
        match self.ignored.is_empty() {
            true => Ok(()),
            false => write!(f, "; ignored: {}", self.ignored.join(", ")),
        }
    }
}

/// One click.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Click<'a> {
    /// The person's number.
    pub person: u32,
    /// The page's number.
    pub page: u32,
    /// Seconds since 1970.
    pub time: i64,
    /// Seconds on the page, if known.
    pub seconds: Option<f32>,
    /// What it is about.
    pub categories: &'a [u32],
}

/// A click log after all that must not be used is gone, in the order of the log.
#[derive(Clone, Debug)]
pub struct Clicks {
    people: Names,
    pages: Names,
    titles: Vec<String>,
    entities: Vec<Vec<String>>,
    rows: Vec<Row>,
    categories: Vec<u32>,
    now: i64,
    timed: bool,
    columns: ClickColumns,
    report: ClickReport,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    person: u32,
    page: u32,
    time: i64,
    seconds: Option<f32>,
    /// Of `categories`.
    first: u32,
    count: u32,
}

impl Clicks {
    /// Ids of the people.
    pub fn people(&self) -> &Names {
        &self.people
    }

    /// Ids of the pages.
    pub fn pages(&self) -> &Names {
        &self.pages
    }

    /// A page's title; empty if the log has none.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn title(&self, page: u32) -> &str {
        &self.titles[page as usize]
    }

    /// The entities named on a page.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn entities(&self, page: u32) -> &[String] {
        &self.entities[page as usize]
    }

    /// All clicks.
    pub fn iter(&self) -> impl Iterator<Item = Click<'_>> {
        self.rows.iter().map(|row| Click {
            person: row.person,
            page: row.page,
            time: row.time,
            seconds: row.seconds,
            categories: &self.categories[row.first as usize..][..row.count as usize],
        })
    }

    /// The moment as of which interests are scored.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Whether the log says how long people stayed.
    pub fn are_timed(&self) -> bool {
        self.timed
    }

    /// Which columns were read as what; none where the format has no names for them.
    pub fn columns(&self) -> &ClickColumns {
        &self.columns
    }

    /// What was read and left out.
    pub fn report(&self) -> &ClickReport {
        &self.report
    }
}

/// A click as a log has it.
#[derive(Default)]
pub(super) struct RawClick<'a> {
    pub(super) person: &'a str,
    pub(super) page: &'a str,
    pub(super) title: &'a str,
    pub(super) categories: Vec<&'a str>,
    pub(super) entities: Vec<&'a str>,
    pub(super) time: i64,
    /// `None` if the log does not tell; not a number if what it tells cannot be used.
    pub(super) seconds: Option<f32>,
}

/// Clicks under construction.
pub(super) struct Builder<'a> {
    pub(super) rules: &'a ClickRules,
    pub(super) label: String,
    people: Interner,
    pages: Interner,
    titles: Vec<String>,
    entities: Vec<Vec<String>>,
    rows: Vec<Row>,
    categories: Vec<u32>,
    pub(super) unit: TimeUnit,
    pub(super) columns: ClickColumns,
    report: ClickReport,
    /// By text: the categories it stands for, `None` for a sensitive one.
    known: FxHashMap<String, Option<Vec<u32>>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(label: &str, rules: &'a ClickRules) -> Self {
        Self {
            rules,
            label: label.to_owned(),
            people: Interner::default(),
            pages: Interner::default(),
            titles: Vec::new(),
            entities: Vec::new(),
            rows: Vec::new(),
            categories: Vec::new(),
            unit: TimeUnit::Unknown,
            columns: ClickColumns::default(),
            report: ClickReport::default(),
            known: FxHashMap::default(),
        }
    }

    /// Whether the taxonomy has this id or name.
    pub(super) fn knows(&self, text: &str) -> bool {
        self.rules.taxonomy.find(text).is_some()
    }

    /// What a category's text stands for; `None` if that is sensitive.
    fn category(&mut self, text: &str) -> Option<&[u32]> {
        if !self.known.contains_key(text) {
            let found = self.rules.resolve(text);
            if found.as_ref().is_some_and(Vec::is_empty) && self.report.unknown.len() < UNKNOWN_NAMED {
                self.report.unknown.push(shorten(text.as_bytes()));
            }
            self.known.insert(text.to_owned(), found);
        }
        self.known[text].as_deref()
    }

    pub(super) fn push(&mut self, click: &RawClick<'_>) -> Result<(), RowError> {
        for (field, id) in [("user", click.person), ("page", click.page)] {
            if id.is_empty() && !(field == "user" && self.rules.one_person) {
                return Err(RowError::bad(field, "an id", b""));
            }
        }
        self.report.read += 1;
        let first = self.categories.len();
        for text in click.categories.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            let Some(found) = self.category(text).map(<[u32]>::to_vec) else {
                self.report.sensitive += 1;
                self.categories.truncate(first);
                return Ok(());
            };
            if found.is_empty() && self.rules.known_only {
                self.report.unknown_category += 1;
                self.categories.truncate(first);
                return Ok(());
            }
            for category in found {
                if !self.categories[first..].contains(&category) {
                    self.categories.push(category);
                }
            }
        }
        if self.categories.len() == first {
            let named = click.categories.iter().any(|text| !text.trim().is_empty());
            *if named { &mut self.report.unknown_category } else { &mut self.report.without_category } += 1;
            return Ok(());
        }
        if click.seconds.is_some_and(|seconds| !(0.0..=MOST_SECONDS).contains(&seconds)) {
            self.report.absurd_seconds += 1;
            self.categories.truncate(first);
            return Ok(());
        }
        let full = |what: &'static str| move |_| RowError::Full(what);
        let person = self.people.number(click.person.as_bytes()).map_err(full("people"))?;
        let page = self.pages.number(click.page.as_bytes()).map_err(full("pages"))?;
        if self.rules.one_person && person > 0 {
            return Err(RowError::bad("user", "one person's own log, and no second person", click.person.as_bytes()));
        }
        if page as usize == self.titles.len() {
            self.titles.push(String::new());
            self.entities.push(Vec::new());
        }
        if self.titles[page as usize].is_empty() {
            click.title.trim().clone_into(&mut self.titles[page as usize]);
        }
        if self.entities[page as usize].is_empty() {
            let named = click.entities.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
            self.entities[page as usize] = named.map(str::to_owned).collect();
        }
        let (first, count) =
            (u32::try_from(first).map_err(|_| RowError::Full("categories of clicks"))?, self.categories.len() - first);
        self.rows.push(Row { person, page, time: click.time, seconds: click.seconds, first, count: count as u32 });
        Ok(())
    }

    /// Takes note of a line that could not be used, or fails.
    pub(super) fn check(&mut self, line: u64, row: Result<(), RowError>) -> Result<()> {
        let (field, expected, found) = match row {
            Ok(()) => return Ok(()),
            Err(RowError::Bad { field, expected, found }) => (field, expected, found),
            Err(RowError::Full(what)) => return Err(DataError::TooLarge(self.label.clone(), what)),
            Err(RowError::File(error)) => return Err(*error),
        };
        if self.rules.skip_bad {
            self.report.bad_lines += 1;
            return Ok(());
        }
        let bad = BadLine { file: self.label.clone(), line, field, expected, text: shorten(&found) };
        Err(DataError::BadLine(Box::new(bad)))
    }

    /// Converts times, and drops what is in the future or comes twice.
    pub(super) fn finish(mut self) -> Result<Clicks> {
        let mut times: Vec<i64> = self.rows.iter().map(|row| row.time).collect();
        time_unit::to_seconds(&mut times, self.unit);
        self.rows.iter_mut().zip(times).for_each(|(row, time)| row.time = time);
        let latest = self.rules.now.unwrap_or_else(|| {
            // The clock of this machine only tells what cannot have happened yet.
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(i64::MAX, |now| now.as_secs() as i64)
        });
        let mut seen = FxHashSet::default();
        let report = &mut self.report;
        self.rows.retain(|row| {
            let future = row.time > latest;
            report.future += u64::from(future);
            let new = future || seen.insert((row.person, row.page, row.time));
            report.repeated += u64::from(!new);
            !future && new
        });
        self.report.used = self.rows.len() as u64;
        let now = self.rules.now.or_else(|| self.rows.iter().map(|row| row.time).max()).unwrap_or_default();
        if self.rows.is_empty() {
            return Err(DataError::Mismatch(self.label, nothing_left(&self.report)));
        }
        Ok(Clicks {
            people: self.people.into_names(),
            pages: self.pages.into_names(),
            titles: self.titles,
            entities: self.entities,
            columns: self.columns,
            timed: self.rows.iter().any(|row| row.seconds.is_some()),
            rows: self.rows,
            categories: self.categories,
            now,
            report: self.report,
        })
    }
}

fn nothing_left(report: &ClickReport) -> String {
    let ClickReport { read, sensitive, without_category, unknown_category, future, absurd_seconds, .. } = report;
    let examples = match report.unknown.is_empty() {
        true => String::new(),
        false => format!(" (such as {})", report.unknown.join(", ")),
    };
    format!(
        "none of {read} clicks can be used: {sensitive} are sensitive, {without_category} without category, \
         {unknown_category} of unknown categories{examples}, {future} in the future, {absurd_seconds} with an impossible \
         time on page"
    )
}
