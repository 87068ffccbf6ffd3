//! The data set under construction: growing columns, item metadata, and the handling of bad lines.

use crate::error::{BadLine, DataError, Result, shorten};
use crate::interactions::{Interactions, canonical_order};
use crate::intern::{Full, Interner};
use crate::load_report::LoadReport;
use crate::text;
use sottovoce_core::{Catalog, Categories, Names};

/// Why a row was rejected.
#[derive(Debug)]
pub(crate) enum RowError {
    /// The row itself is bad.
    Bad { field: &'static str, expected: String, found: Vec<u8> },
    /// 32-bit indices are exhausted.
    Full(&'static str),
    /// The whole file cannot be used.
    File(Box<DataError>),
}

impl From<DataError> for RowError {
    fn from(error: DataError) -> Self {
        RowError::File(Box::new(error))
    }
}

impl RowError {
    #[cold]
    pub(crate) fn bad(field: &'static str, expected: impl Into<String>, found: &[u8]) -> Self {
        RowError::Bad { field, expected: expected.into(), found: found[..found.len().min(300)].to_vec() }
    }
}

/// The unit of times in a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Not stated: inferred from the size of the values.
    #[default]
    Unknown,
    /// Days since 1970.
    Days,
    /// This many a second.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet states it"))]
    PerSecond(i64),
}

/// A data set under construction: readers fill it row by row.
#[derive(Default)]
pub(crate) struct DatasetBuilder {
    pub(crate) report: LoadReport,
    pub(crate) unit: TimeUnit,
    users: Interner,
    items: Interner,
    user: Vec<u32>,
    item: Vec<u32>,
    rating: Vec<f32>,
    time: Vec<i64>,
    /// Whether there are ratings and times; set by the first file.
    shape: Option<(bool, bool)>,
    titles: Vec<Box<str>>,
    categories: Interner,
    /// (item, category) pairs.
    members: Vec<(u32, u32)>,
    /// The item that was categorised last; items are numbered in order of appearance.
    newest: Option<u32>,
    skip_bad: bool,
    /// Whether items without interactions are added: a catalog read on its own.
    items_alone: bool,
    file: String,
}

impl DatasetBuilder {
    pub(crate) fn new(skip_bad: bool) -> Self {
        Self { skip_bad, ..Self::default() }
    }

    /// For a catalog read on its own.
    pub(crate) fn of_items() -> Self {
        Self { items_alone: true, ..Self::default() }
    }

    /// Begins a file of interactions.
    pub(crate) fn begin(&mut self, file: &str, ratings: bool, times: bool) -> Result<()> {
        self.begin_metadata(file);
        self.expect(ratings, times)
    }

    /// States whether the rows of this file have ratings and times; all files of a set must agree.
    pub(crate) fn expect(&mut self, ratings: bool, times: bool) -> Result<()> {
        match self.shape.replace((ratings, times)) {
            Some(before) if before != (ratings, times) => {
                Err(DataError::Mismatch(self.file.clone(), "it has other columns than the files before it".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Begins a file of item metadata; errors name it.
    pub(crate) fn begin_metadata(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.report.files.push(file.to_owned());
    }

    /// Takes an interaction; a rating or time that the set does not have is ignored. Returns the item's index.
    #[inline]
    pub(crate) fn push(&mut self, user: &[u8], item: &[u8], rating: f32, time: i64) -> Result<u32, RowError> {
        if user.is_empty() {
            return Err(RowError::bad("user", "an id", user));
        }
        if item.is_empty() {
            return Err(RowError::bad("item", "an id", item));
        }
        let user = self.users.number(user).map_err(|Full| RowError::Full("users"))?;
        let item = self.items.number(item).map_err(|Full| RowError::Full("items"))?;
        if self.user.len() == u32::MAX as usize {
            return Err(RowError::Full("interactions"));
        }
        self.user.push(user);
        self.item.push(item);
        let (ratings, times) = self.shape.unwrap_or_default();
        if ratings {
            self.rating.push(rating);
        }
        if times {
            self.time.push(time);
        }
        Ok(item)
    }

    /// Makes a bad row an error, or skips and counts it.
    #[inline]
    pub(crate) fn check(&mut self, line: u64, row: Result<(), RowError>) -> Result<()> {
        row.or_else(|error| self.reject(line, error))
    }

    #[cold]
    fn reject(&mut self, line: u64, error: RowError) -> Result<()> {
        let (field, expected, found) = match error {
            RowError::Bad { field, expected, found } => (field, expected, found),
            RowError::File(error) => return Err(*error),
            RowError::Full(what) => return Err(DataError::TooLarge(self.file.clone(), what)),
        };
        let bad = BadLine { file: self.file.clone(), line, field, expected, text: shorten(&found) };
        if !self.skip_bad {
            return Err(DataError::BadLine(Box::new(bad)));
        }
        self.report.bad.add(&bad);
        Ok(())
    }

    /// The index of an item that has interactions.
    pub(crate) fn item(&self, id: &[u8]) -> Option<u32> {
        self.items.get(id)
    }

    /// The index of an item with metadata: one with interactions, or any in a catalog read on its own.
    pub(crate) fn described(&mut self, id: &[u8]) -> Result<Option<u32>, RowError> {
        if self.items_alone {
            return self.items.number(id).map(Some).map_err(|Full| RowError::Full("items"));
        }
        let item = self.item(id);
        self.report.only_described += u64::from(item.is_none());
        Ok(item)
    }

    /// Sets an item's title, unless it has one.
    pub(crate) fn set_title(&mut self, item: u32, title: &[u8]) {
        if self.titles.len() <= item as usize {
            self.titles.resize(self.items.len().max(item as usize + 1), Box::default());
        }
        let slot = &mut self.titles[item as usize];
        if slot.is_empty() {
            let (title, latin1) = text::decode(text::trim(title));
            self.report.latin1 += u64::from(latin1);
            *slot = title.into();
        }
    }

    /// Adds a category to an item.
    pub(crate) fn add_category(&mut self, item: u32, category: &[u8]) -> Result<(), RowError> {
        let category = text::trim(category);
        if !category.is_empty() {
            let category = self.categories.number(category).map_err(|Full| RowError::Full("categories"))?;
            self.members.push((item, category));
        }
        Ok(())
    }

    /// Adds a category when an item appears for the first time: rows repeat their item's category.
    pub(crate) fn add_category_once(&mut self, item: u32, category: &[u8]) -> Result<(), RowError> {
        if self.newest.is_some_and(|newest| item <= newest) {
            return Ok(());
        }
        self.newest = Some(item);
        self.add_category(item, category)
    }

    /// Number of interactions so far.
    pub(crate) fn len(&self) -> usize {
        self.user.len()
    }

    /// The catalog alone, in the order of its file.
    pub(crate) fn into_catalog(self) -> Catalog {
        let ids = self.items.into_names();
        let order: Vec<u32> = (0..ids.len() as u32).collect();
        let categories = categories_in(&self.categories.into_names(), &self.members, &order);
        Catalog { titles: titles_in(&self.titles, &order), ids, categories, facts: None }
    }

    /// The interactions in canonical order, and the report.
    pub(crate) fn finish(mut self) -> (Interactions, LoadReport) {
        self.report.latin1 += self.users.latin1 + self.items.latin1 + self.categories.latin1;
        let remark = crate::time_unit::to_seconds(&mut self.time, self.unit);
        self.report.remarks.extend(remark);
        let users = renumber(&self.users.into_names(), &mut self.user).0;
        let (ids, order) = renumber(&self.items.into_names(), &mut self.item);
        let titles = titles_in(&self.titles, &order);
        let categories = categories_in(&self.categories.into_names(), &self.members, &order);
        self.user.shrink_to_fit();
        self.item.shrink_to_fit();
        self.rating.shrink_to_fit();
        self.time.shrink_to_fit();
        let interactions = Interactions {
            users,
            catalog: Catalog { ids, titles, categories, facts: None },
            user: self.user,
            item: self.item,
            rating: self.rating,
            time: self.time,
        };
        (interactions, self.report)
    }
}

/// Names in canonical order, with the column renumbered; also the old number of each new one.
fn renumber(names: &Names, column: &mut [u32]) -> (Names, Vec<u32>) {
    let order = canonical_order(names);
    let mut rank = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        rank[old as usize] = new as u32;
    }
    for number in column {
        *number = rank[*number as usize];
    }
    (names.select(&order), order)
}

fn titles_in(titles: &[Box<str>], order: &[u32]) -> Option<Names> {
    let known = titles.iter().any(|title| !title.is_empty());
    known.then(|| order.iter().map(|&old| titles.get(old as usize).map_or("", |title| title)).collect())
}

fn categories_in(names: &Names, members: &[(u32, u32)], order: &[u32]) -> Option<Categories> {
    if members.is_empty() {
        return None;
    }
    let mut rank: Vec<u32> = members.iter().map(|member| member.1).collect();
    let names = renumber(names, &mut rank).0;
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); order.len()];
    for (member, &category) in members.iter().zip(&rank) {
        of[member.0 as usize].push(category);
    }
    let mut categories = Categories::new(names);
    for &old in order {
        // Sorted first: `push` looks for repeats by scanning, and an artist may have thousands of tags.
        let list = &mut of[old as usize];
        list.sort_unstable();
        list.dedup();
        categories.push(list.iter().copied());
    }
    Some(categories)
}
