//! People and their interests, for look-alike modelling: from a click log to parts to train and evaluate on.

use crate::prepare::{Prepared, default_split};
use sottovoce_core::{Catalog, Histories, Names, PageTable, RecentPages, Rng, ShapeError};
use sottovoce_data::interests::{ClickReport, ClickRules, ClickSource, Clicks, Interests, Taxonomy};
use sottovoce_data::{
    CatalogRule, Cleaning, CleaningReport, ColdItems, DataError, DataSplit, Dataset, Format, Interactions, LoadReport,
    describe,
};
use sottovoce_models::federated::lookalike::Text;
use sottovoce_text::{Corpus, Encoder, HashedNgrams, NgramConfig, TextError, Word2Vec, Word2VecConfig};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// Shares of the people in training and validation; the others are the test part.
const TRAIN: f64 = 0.5;
const VALIDATION: f64 = 0.3;

/// Why there are no people to learn from.
#[derive(Debug, Error)]
pub enum PeopleError {
    /// Clicks or taxonomy cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A log without a taxonomy.
    #[error("{0}: a click log needs the taxonomy of its categories: name it by --taxonomy")]
    NoTaxonomy(String),
    /// Nobody is left. Fields: the log, people in it.
    #[error("{0}: nobody of {1} people has two interests or more, one of which could be hidden")]
    Nobody(String, usize),
    /// Nobody is left to be evaluated.
    #[error(
        "{0}: no test part is left of {1} people with two interests: too few, or all with interests that nobody else has"
    )]
    NoTest(String, usize),
    /// Titles or entities cannot be encoded.
    #[error("encoding {0}: {1}")]
    Text(&'static str, String),
    /// Pages and people do not fit together, which is a mistake of this program.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// People with two interests or more.
#[derive(Debug)]
pub struct People {
    /// The log's name.
    pub name: String,
    /// What was read and left out.
    pub report: ClickReport,
    /// The categories that people can be interested in; rows of histories.
    pub catalog: Catalog,
    taxonomy: Taxonomy,
    /// By row.
    categories: Vec<u32>,
    clicks: Clicks,
    /// Rows of interests, ascending, by person.
    interests: Vec<Vec<u32>>,
    /// Pages by person, oldest first.
    recent: Vec<Vec<u32>>,
    /// Rows of categories by page.
    page_rows: Vec<Vec<u32>>,
    /// People by part: train, validation, test.
    parts: [Vec<u32>; 3],
    /// People without two interests.
    pub without_interests: usize,
    /// People of validation and test part who have an interest that nobody in training has.
    pub unseen: usize,
}

/// People to evaluate on: what is shown of them, and the one interest that is hidden.
#[derive(Clone, Debug, Default)]
pub struct HiddenPart {
    /// Interests without the hidden one, with pages that are not about it.
    pub shown: Histories,
    /// The hidden one.
    pub hidden: Histories,
}

/// Which part of the people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// For training.
    Train,
    /// For the choice of settings.
    Validation,
    /// For evaluation.
    Test,
}

impl People {
    /// Reads clicks and scores interests; `seed` decides who is in which part.
    ///
    /// # Errors
    /// If the clicks cannot be read, or too few people are left.
    pub fn read(source: &ClickSource, name: &str, rules: Option<ClickRules>, seed: u64) -> Result<Self, PeopleError> {
        let rules = match rules {
            Some(rules) => rules,
            None => ClickRules::new(source.taxonomy()?.ok_or_else(|| PeopleError::NoTaxonomy(name.to_owned()))?),
        };
        let clicks = source.read(&rules)?;
        let taxonomy = rules.taxonomy().clone();
        let all = taxonomy.categories();
        let categories: Vec<u32> = (0..all.len() as u32).filter(|&category| !rules.is_sensitive(category)).collect();
        let mut row_of = vec![None; all.len()];
        (0..).zip(&categories).for_each(|(row, &category)| row_of[category as usize] = Some(row));
        let named = |of: &dyn Fn(u32) -> String| categories.iter().map(|&category| of(category)).collect::<Vec<_>>();
        let ids: Names = named(&|category| all[category as usize].id.clone()).iter().collect();
        let titles: Names = named(&|category| all[category as usize].name.clone()).iter().collect();
        let catalog = Catalog { titles: Some(titles), ..Catalog::of_ids(ids) };
        let scored = Interests::score(&clicks);
        let rows = |person: usize| -> Vec<u32> {
            let mut rows: Vec<u32> =
                scored.interested(person).filter_map(|category| row_of[category as usize]).collect();
            rows.sort_unstable();
            rows
        };
        let interests: Vec<Vec<u32>> = (0..scored.people()).map(rows).collect();
        let page_categories = clicks.page_categories();
        let recent = clicks.recent_pages(&page_categories);
        let rows =
            |categories: &Vec<u32>| categories.iter().filter_map(|&category| row_of[category as usize]).collect();
        let page_rows = page_categories.iter().map(rows).collect();
        let mut people = Self {
            name: name.to_owned(),
            report: clicks.report().clone(),
            catalog,
            taxonomy,
            categories,
            clicks,
            interests,
            recent,
            page_rows,
            parts: Default::default(),
            without_interests: 0,
            unseen: 0,
        };
        people.divide(seed)?;
        Ok(people)
    }

    /// Deals people into parts; those with an interest that nobody in training has are not evaluated.
    fn divide(&mut self, seed: u64) -> Result<(), PeopleError> {
        let mut order: Vec<u32> =
            (0..self.interests.len() as u32).filter(|&person| self.interests[person as usize].len() > 1).collect();
        self.without_interests = self.interests.len() - order.len();
        if order.len() < 2 {
            return Err(PeopleError::Nobody(self.name.clone(), self.interests.len()));
        }
        Rng::new(seed).stream("people", 0).shuffle(&mut order);
        let train = (order.len() as f64 * TRAIN).ceil() as usize;
        let validation = (order.len() as f64 * VALIDATION) as usize;
        let mut parts =
            [order[..train].to_vec(), order[train..train + validation].to_vec(), order[train + validation..].to_vec()];
        let mut known = vec![false; self.catalog.len()];
        parts[0]
            .iter()
            .flat_map(|&person| &self.interests[person as usize])
            .for_each(|&row| known[row as usize] = true);
        for part in &mut parts[1..] {
            let before = part.len();
            part.retain(|&person| self.interests[person as usize].iter().all(|&row| known[row as usize]));
            self.unseen += before - part.len();
        }
        if parts[2].is_empty() {
            return Err(PeopleError::NoTest(self.name.clone(), order.len()));
        }
        parts.iter_mut().for_each(|part| part.sort_unstable());
        self.parts = parts;
        Ok(())
    }

    /// Number of people in a part.
    pub fn count(&self, part: Part) -> usize {
        self.parts[part as usize].len()
    }

    /// Ids of the people of a part.
    pub fn ids(&self, part: Part) -> Names {
        let ids: Vec<&str> =
            self.parts[part as usize].iter().map(|&person| &self.clicks.people()[person as usize]).collect();
        ids.into_iter().collect()
    }

    /// Mean number of interests of the people who have two or more.
    pub fn mean_interests(&self) -> f64 {
        let all: Vec<usize> =
            self.parts.iter().flatten().map(|&person| self.interests[person as usize].len()).collect();
        all.iter().sum::<usize>() as f64 / all.len().max(1) as f64
    }

    /// Steps between two rows in the taxonomy.
    pub fn distance(&self, one: u32, other: u32) -> u32 {
        self.taxonomy.distance(self.categories[one as usize], self.categories[other as usize])
    }

    /// A row's tier in the taxonomy.
    pub fn tier(&self, row: u32) -> u32 {
        self.taxonomy.categories()[self.categories[row as usize] as usize].tier
    }

    /// The people of a part, by their number in the log.
    pub fn numbers(&self, part: Part) -> &[u32] {
        &self.parts[part as usize]
    }

    /// A person's interests, as rows of the catalog.
    pub fn interests(&self, person: u32) -> &[u32] {
        &self.interests[person as usize]
    }

    /// Titles of the pages that a person read last, oldest first, with the rows of their categories.
    pub fn recent(&self, person: u32) -> impl Iterator<Item = (&str, &[u32])> {
        let of = |&page: &u32| (self.clicks.title(page), &self.page_rows[page as usize][..]);
        self.recent[person as usize].iter().map(of)
    }

    /// The encoder of titles that fits the log's pages.
    ///
    /// # Errors
    /// If the length of vectors is out of range.
    pub fn title_encoder(&self, dim: usize) -> Result<HashedNgrams, PeopleError> {
        let titles = (0..self.clicks.pages().len() as u32).map(|page| self.clicks.title(page));
        HashedNgrams::fit(NgramConfig { dim, ..NgramConfig::default() }, titles).map_err(failed("titles"))
    }

    /// Vectors of all pages that people read, as the setting says.
    ///
    /// # Errors
    /// If titles or entities cannot be encoded.
    pub fn pages(&self, text: Text, dim: usize) -> Result<Arc<PageTable>, PeopleError> {
        let count = self.clicks.pages().len() as u32;
        let mut table = PageTable::new(if text == Text::Nothing { 0 } else { dim });
        let mut vector = vec![0.0; table.dim()];
        let (titles, entities) = match text {
            Text::Nothing => (None, None),
            Text::Titles => (Some(self.title_encoder(dim)?), None),
            Text::Entities => {
                let mut corpus = Corpus::new();
                (0..count).for_each(|page| corpus.push(self.clicks.entities(page)));
                // As in the thesis, but for small logs, where few pages name the same entity.
                let min_count = if count < 20_000 { 3 } else { 50 };
                let config = Word2VecConfig { dim, min_count, window: None, epochs: 10, ..Word2VecConfig::default() };
                let trained = Word2Vec::new(config).and_then(|trainer| trainer.train(&corpus));
                (None, Some(trained.map_err(failed("entities"))?.0))
            }
        };
        for page in 0..count {
            vector.fill(0.0);
            if let Some(encoder) = &titles {
                encoder.encode(self.clicks.title(page), &mut vector);
            }
            if let Some(vectors) = &entities {
                vectors.mean(self.clicks.entities(page), &mut vector);
                // Of length 1, as titles are.
                let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
                vector.iter_mut().for_each(|value| *value /= length.max(f32::MIN_POSITIVE));
            }
            table.push(&vector, &self.page_rows[page as usize]);
        }
        Ok(Arc::new(table))
    }

    /// The people in training as users of a data set whose items are categories, for an audit; there is no test part.
    ///
    /// # Errors
    /// If titles or entities cannot be encoded.
    pub fn prepared(&self, text: Text, dim: usize) -> Result<Prepared, PeopleError> {
        let started = Instant::now();
        let train = self.all_interests(Part::Train, &self.pages(text, dim)?)?;
        let (users, catalog) = (self.ids(Part::Train), self.catalog.clone());
        let user = train.iter().enumerate().flat_map(|(user, items)| items.iter().map(move |_| user as u32)).collect();
        let item = train.iter().flatten().copied().collect();
        let interactions =
            Interactions { users: users.clone(), catalog: catalog.clone(), user, item, ..Interactions::default() };
        let (name, format) = (self.name.clone(), Format::Delimited);
        let dataset = Dataset { name: name.clone(), format, interactions, report: LoadReport::default() };
        let test = Histories::from_lists(&vec![[]; train.users()], train.catalog_size())?;
        Ok(Prepared {
            name,
            description: describe(&dataset),
            parts: DataSplit {
                users,
                catalog,
                without_test: train.users(),
                train,
                validation: None,
                test,
                cold: ColdItems::default(),
            },
            cleaning: Cleaning::default(),
            split: default_split(false),
            catalog: CatalogRule::All,
            notes: dataset.report,
            cleaned: CleaningReport::default(),
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// People of a part with all their interests.
    ///
    /// # Errors
    /// If the table is not of this log's pages.
    pub fn all_interests(&self, part: Part, pages: &Arc<PageTable>) -> Result<Histories, PeopleError> {
        let people = &self.parts[part as usize];
        let of = |lists: &[Vec<u32>]| people.iter().map(|&person| lists[person as usize].clone()).collect::<Vec<_>>();
        self.histories(&of(&self.interests), &of(&self.recent), pages)
    }

    fn histories(
        &self,
        interests: &[Vec<u32>],
        recent: &[Vec<u32>],
        pages: &Arc<PageTable>,
    ) -> Result<Histories, PeopleError> {
        let histories = Histories::from_lists(interests, self.catalog.len())?;
        Ok(histories.with_pages(Arc::new(RecentPages::from_lists(Arc::clone(pages), recent)?))?)
    }

    /// People of a part with one interest hidden, the same for every model.
    ///
    /// # Errors
    /// If the table is not of this log's pages.
    pub fn one_hidden(&self, part: Part, pages: &Arc<PageTable>) -> Result<HiddenPart, PeopleError> {
        let (mut shown, mut hidden, mut recent) = (Vec::new(), Vec::new(), Vec::new());
        let rng = Rng::new(0).stream("hidden interest", 0);
        for &person in &self.parts[part as usize] {
            let interests = &self.interests[person as usize];
            let secret = interests[rng.stream("person", u64::from(person)).index(interests.len())];
            shown.push(interests.iter().copied().filter(|&row| row != secret).collect::<Vec<u32>>());
            hidden.push(vec![secret]);
            let about = |page: &u32| self.page_rows[*page as usize].contains(&secret);
            recent.push(self.recent[person as usize].iter().copied().filter(|page| !about(page)).collect::<Vec<u32>>());
        }
        let shown = self.histories(&shown, &recent, pages)?;
        Ok(HiddenPart { shown, hidden: Histories::from_lists(&hidden, self.catalog.len())? })
    }
}

impl HiddenPart {
    /// The first so many people, and all of another part after them.
    ///
    /// # Errors
    /// If the two parts have different catalogs.
    pub fn mixed(&self, most: usize, other: &Self) -> Result<Self, ShapeError> {
        Ok(Self { shown: joined(&self.shown, most, &other.shown)?, hidden: joined(&self.hidden, most, &other.hidden)? })
    }
}

/// The first so many histories of one, and all of another, with their pages.
///
/// # Errors
/// If the two have different catalogs.
pub fn joined(one: &Histories, most: usize, other: &Histories) -> Result<Histories, ShapeError> {
    let most = most.min(one.users());
    let lists: Vec<&[u32]> = (0..most).map(|user| one.of(user)).chain(other.iter()).collect();
    let all = Histories::from_lists(&lists, other.catalog_size())?;
    let dim = [one, other].iter().filter_map(|all| all.pages()).map(|pages| pages.table().dim()).max();
    let Some(dim) = dim else { return Ok(all) };
    let mut table = PageTable::new(dim);
    let mut recent: Vec<Vec<u32>> = Vec::new();
    for (all, users) in [(one, most), (other, other.users())] {
        for user in 0..users {
            let pages = all.history(user).pages;
            recent.push(pages.iter().map(|(vector, categories)| table.push(vector, categories)).collect());
        }
    }
    all.with_pages(Arc::new(RecentPages::from_lists(Arc::new(table), &recent)?))
}

fn failed(what: &'static str) -> impl Fn(TextError) -> PeopleError {
    move |error| PeopleError::Text(what, error.to_string())
}
