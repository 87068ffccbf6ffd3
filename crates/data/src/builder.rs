//! Where readers put rows: the growing columns, the side information, and the treatment of bad lines.

use crate::error::{BadLine, DataError, shorten};
use crate::interactions::{Interactions, sort_canonically};
use crate::intern::{Full, Interner};
use crate::load_report::LoadReport;
use crate::text;
use sottovoce_core::{Catalog, Categories, Names};

/// Why a row was not taken.
#[derive(Debug)]
pub(crate) enum RowError {
    /// The row is bad; others may be good.
    Row { field: &'static str, expected: String, found: Vec<u8> },
    /// The indices are used up.
    Full(&'static str),
}

impl RowError {
    #[cold]
    pub(crate) fn row(field: &'static str, expected: impl Into<String>, found: &[u8]) -> Self {
        RowError::Row { field, expected: expected.into(), found: found[..found.len().min(300)].to_vec() }
    }
}

/// The unit in which a source says it counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Not said: found out by size.
    Unknown,
    /// Days since 1970.
    Days,
    /// This many a second.
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet tells"))]
    PerSecond(i64),
}

/// Interactions under construction.
pub(crate) struct DatasetBuilder {
    pub(crate) report: LoadReport,
    pub(crate) unit: Unit,
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
    /// The item that was categorised last; items are numbered as they appear.
    newest: Option<u32>,
    skip_bad: bool,
    /// Whether items may come in that nobody met: a catalog read for itself.
    items_alone: bool,
    file: String,
}

impl DatasetBuilder {
    pub(crate) fn new(skip_bad: bool) -> Self {
        Self {
            report: LoadReport::default(),
            unit: Unit::Unknown,
            users: Interner::default(),
            items: Interner::default(),
            user: Vec::new(),
            item: Vec::new(),
            rating: Vec::new(),
            time: Vec::new(),
            shape: None,
            titles: Vec::new(),
            categories: Interner::default(),
            members: Vec::new(),
            newest: None,
            skip_bad,
            items_alone: false,
            file: String::new(),
        }
    }

    /// For a catalog read for itself.
    pub(crate) fn of_items() -> Self {
        Self { items_alone: true, ..Self::new(false) }
    }

    /// Begins a file of interactions.
    pub(crate) fn begin(&mut self, file: &str, ratings: bool, times: bool) -> Result<(), DataError> {
        self.begin_metadata(file);
        self.expect(ratings, times)
    }

    /// Says whether the rows of this file have ratings and times; all files of a set are alike in that.
    pub(crate) fn expect(&mut self, ratings: bool, times: bool) -> Result<(), DataError> {
        match self.shape.replace((ratings, times)) {
            Some(before) if before != (ratings, times) => Err(DataError::Mismatch {
                file: self.file.clone(),
                problem: "it has other columns than the files before it".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Begins a side file: bad lines are named after it.
    pub(crate) fn begin_metadata(&mut self, file: &str) {
        file.clone_into(&mut self.file);
        self.report.files.push(file.to_owned());
    }

    /// Takes an interaction; a rating or time that the set does not have is ignored. Returns the item's number.
    #[inline]
    pub(crate) fn push(&mut self, user: &[u8], item: &[u8], rating: f32, time: i64) -> Result<u32, RowError> {
        if user.is_empty() {
            return Err(RowError::row("user", "an id", user));
        }
        if item.is_empty() {
            return Err(RowError::row("item", "an id", item));
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

    /// Says what became of a row: bad ones are an error, or are skipped and counted.
    #[inline]
    pub(crate) fn settle<T>(
        &mut self,
        line: u64,
        outcome: Result<T, RowError>,
    ) -> Result<Option<T>, DataError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(trouble) => self.refuse(line, trouble).map(|()| None),
        }
    }

    #[cold]
    fn refuse(&mut self, line: u64, trouble: RowError) -> Result<(), DataError> {
        let (field, expected, found) = match trouble {
            RowError::Row { field, expected, found } => (field, expected, found),
            RowError::Full(what) => return Err(DataError::TooLarge { file: self.file.clone(), what }),
        };
        let bad = BadLine { file: self.file.clone(), line, field, expected, text: shorten(&found) };
        if !self.skip_bad {
            return Err(DataError::BadLine(Box::new(bad)));
        }
        self.report.skip(&bad);
        Ok(())
    }

    /// The number of an item that somebody met.
    pub(crate) fn item(&self, id: &[u8]) -> Option<u32> {
        self.items.known(id)
    }

    /// The number of an item that is described: one that somebody met, or any in a catalog read for itself.
    pub(crate) fn described(&mut self, id: &[u8]) -> Result<Option<u32>, RowError> {
        if self.items_alone {
            return self.items.number(id).map(Some).map_err(|Full| RowError::Full("items"));
        }
        let item = self.item(id);
        self.report.only_described += u64::from(item.is_none());
        Ok(item)
    }

    /// Gives an item a title, unless it has one.
    pub(crate) fn set_title(&mut self, item: u32, title: &[u8]) {
        if self.titles.len() <= item as usize {
            self.titles.resize(self.items.len().max(item as usize + 1), Box::default());
        }
        let place = &mut self.titles[item as usize];
        if place.is_empty() {
            let (title, latin1) = text::decode(text::trim(title));
            self.report.latin1 += u64::from(latin1);
            *place = title.into();
        }
    }

    /// Puts an item into a category.
    pub(crate) fn add_category(&mut self, item: u32, category: &[u8]) -> Result<(), RowError> {
        let category = text::trim(category);
        if !category.is_empty() {
            let category = self.categories.number(category).map_err(|Full| RowError::Full("categories"))?;
            self.members.push((item, category));
        }
        Ok(())
    }

    /// Puts an item into a category when it is met for the first time: rows repeat their item's category.
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

    /// The interactions in canonical order, and what was noted.
    pub(crate) fn finish(mut self) -> (Interactions, LoadReport) {
        self.report.latin1 += self.users.latin1() + self.items.latin1() + self.categories.latin1();
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

/// Names in canonical order, with the column renumbered; also the old number at each new place.
fn renumber(names: &Names, column: &mut [u32]) -> (Names, Vec<u32>) {
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    sort_canonically(names, &mut order);
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
