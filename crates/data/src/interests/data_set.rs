//! A data set of interactions as a click log: each interaction is a visit to a page.
//!
//! Pages are about the categories that the set gives its items (genres of films), or about themselves where it has
//! none (areas of a web site, articles). Sets are collected over years, so interests are as of each person's last
//! interaction: all times are moved so that this is the end of the set.
//!
//! With few categories and long histories everybody has seen everything. There, only *favourites* count: categories
//! whose share of a person's interactions is at least [`LIFT`] times their share of everybody's.

use super::clicks::{Builder, ClickRules, Clicks, RawClick};
use super::taxonomy::Taxonomy;
use crate::builder::TimeUnit;
use crate::error::Result;
use crate::interactions::{Dataset, Interactions};

/// What the name of such a source starts with.
pub(super) const PREFIX: &str = "clicks:";

/// How much more than others a person turns to a favourite category.
const LIFT: f64 = 1.5;
/// Interactions with a category that make a favourite.
const FAVOURITE: u32 = 3;
/// The rating from which an interaction counts, on a scale of five, where the set has ratings.
const LIKED: f32 = 4.0;

/// The categories of the items, or the items themselves.
pub(super) fn taxonomy(set: &Dataset) -> Result<Taxonomy> {
    let catalog = &set.interactions.catalog;
    match &catalog.categories {
        Some(categories) => Taxonomy::flat(&set.name, categories.names().iter().map(|name| (name, name))),
        None => {
            let named = |(item, id)| (id, catalog.title(item).unwrap_or(id));
            Taxonomy::flat(&set.name, catalog.ids.iter().enumerate().map(named))
        }
    }
}

/// The interactions as clicks.
///
/// # Errors
/// If the rules leave none of them.
pub(super) fn clicks(set: &Dataset, rules: &ClickRules) -> Result<Clicks> {
    let all = &set.interactions;
    let catalog = &all.catalog;
    let favourites = catalog.categories.as_ref().map(|_| Favourites::of(all));
    let mut last = vec![i64::MIN; all.users.len()];
    for (row, &user) in all.user.iter().enumerate() {
        last[user as usize] = last[user as usize].max(all.time_at(row));
    }
    let end = last.iter().copied().max().unwrap_or(0);
    let mut builder = Builder::new(&set.name, rules);
    builder.unit = TimeUnit::PerSecond(1);
    for (row, (&user, &item)) in all.user.iter().zip(&all.item).enumerate() {
        let (person, page) = (user as usize, item as usize);
        let categories = match (&catalog.categories, &favourites) {
            (Some(categories), Some(favourites)) => {
                let own = categories.of(page).iter().filter(|&&category| favourites.has(person, category));
                own.filter_map(|&category| categories.names().get(category as usize)).collect()
            }
            _ => vec![&catalog.ids[page]],
        };
        if !is_liked(all, row) {
            continue;
        }
        let click = builder.push(&RawClick {
            person: &all.users[person],
            page: &catalog.ids[page],
            title: catalog.title(page).unwrap_or_default(),
            categories,
            time: end - (last[person] - all.time_at(row)),
            ..RawClick::default()
        });
        builder.check(row as u64 + 1, click)?;
    }
    builder.finish()
}

fn is_liked(all: &Interactions, row: usize) -> bool {
    all.rating.is_empty() || all.rating_at(row) >= LIKED
}

/// Which categories each person turns to more than others do.
struct Favourites {
    categories: usize,
    /// By person and category.
    is_favourite: Vec<bool>,
}

impl Favourites {
    fn of(all: &Interactions) -> Self {
        let Some(categories) = &all.catalog.categories else { return Self { categories: 0, is_favourite: Vec::new() } };
        let width = categories.names().len();
        let mut counts = vec![0u32; all.users.len() * width];
        for (row, (&user, &item)) in all.user.iter().zip(&all.item).enumerate() {
            for &category in categories.of(item as usize).iter().filter(|_| is_liked(all, row)) {
                counts[user as usize * width + category as usize] += 1;
            }
        }
        let mut shares = vec![0.0; width];
        for of_person in counts.chunks_exact(width.max(1)) {
            shares.iter_mut().zip(of_person).for_each(|(share, &count)| *share += f64::from(count));
        }
        let sum: f64 = shares.iter().sum();
        let is_favourite = |of_person: &[u32]| -> Vec<bool> {
            let own = f64::from(of_person.iter().sum::<u32>());
            let more =
                |(&count, share): (&u32, &f64)| count >= FAVOURITE && f64::from(count) * sum >= LIFT * share * own;
            of_person.iter().zip(&shares).map(more).collect()
        };
        Self { categories: width, is_favourite: counts.chunks_exact(width.max(1)).flat_map(is_favourite).collect() }
    }

    fn has(&self, person: usize, category: u32) -> bool {
        self.is_favourite[person * self.categories + category as usize]
    }
}

#[cfg(test)]
mod tests {
    use crate::interests::{ClickRules, ClickSource, Interests};
    use std::fmt::Write;

    fn source(files: &[(&str, String)]) -> (tempfile::TempDir, ClickSource) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let named = if files.len() > 1 { folder.path().to_owned() } else { folder.path().join(files[0].0) };
        let source = ClickSource::find(&format!("clicks:{}", named.display()), None).unwrap();
        (folder, source)
    }

    #[test]
    fn items_without_categories_are_categories_themselves() {
        let log = "user\titem\ttitle\na\t1000\tFrontPage\na\t1001\tGames\nb\t1001\tGames\n".to_owned();
        let (_folder, source) = source(&[("visits.tsv", log)]);
        let rules = ClickRules::new(source.taxonomy().unwrap().unwrap());
        assert_eq!(rules.taxonomy().categories().len(), 2);
        let clicks = source.read(&rules).unwrap();
        let interests = Interests::score(&clicks);
        assert_eq!((interests.interested(0).count(), interests.interested(1).count()), (2, 1));
        let first = clicks.iter().next().unwrap();
        assert_eq!(first.categories.len(), 1);
    }

    #[test]
    fn of_films_the_genres_that_a_person_prefers_are_interests() {
        // Everybody sees drama; a sees more comedies than others, b more westerns, c less of anything it liked.
        let films = "1::A (1990)::Comedy\n2::B (1990)::Western\n3::C (1990)::Drama\n4::D (1990)::Comedy\n5::E \
                     (1990)::Comedy\n6::F (1990)::Western\n7::G (1990)::Western\n";
        let mut ratings = String::new();
        for (user, items) in [(1, [1, 4, 5, 3]), (2, [2, 6, 7, 3])] {
            for item in items {
                let _ = writeln!(ratings, "{user}::{item}::5::{}", 978_300_000 + user * 10_000_000);
            }
        }
        for item in [1, 4, 5] {
            let _ = writeln!(ratings, "3::{item}::2::978300000");
        }
        let (_folder, source) = source(&[("movies.dat", films.to_owned()), ("ratings.dat", ratings)]);
        let rules = ClickRules::new(source.taxonomy().unwrap().unwrap());
        let clicks = source.read(&rules).unwrap();
        let interests = Interests::score(&clicks);
        let names = |person: usize| -> Vec<&str> {
            interests.interested(person).map(|id| rules.taxonomy().categories()[id as usize].name.as_str()).collect()
        };
        assert_eq!(clicks.people().len(), 2, "whoever liked nothing is not there");
        assert_eq!((names(0), names(1)), (vec!["Comedy"], vec!["Western"]), "although the two are months apart");
    }
}
