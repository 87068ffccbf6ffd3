//! Web pages, and who reads them for how long.

use super::alias::Alias;
use super::names;
use super::places::Place;
use super::rhythm;
use super::spec::READING_DAYS;
use super::tastes::Group;
use super::taxonomy::{PAGE_TREE, TOPICS, TOPICS_A_SECTION, topic_name};
use super::{Resident, START, Town};
use sottovoce_core::{Rng, math};

/// A web page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its title, with words of its category.
    pub title: String,
    /// Its category, an index below [`TOPICS`].
    pub topic: u32,
    /// The place it is about, if any.
    pub about: Option<u32>,
    /// Its weight among the pages of its category.
    pub popularity: f64,
}

impl Page {
    /// Its main category.
    pub fn section(&self) -> usize {
        self.topic as usize / TOPICS_A_SECTION
    }
}

/// One look at a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageView {
    /// The page, an index into [`Town::pages`].
    pub page: u32,
    /// When it was opened, in seconds since 1970 (UTC).
    pub time: i64,
    /// How long it was read, in seconds.
    pub dwell: f32,
}

/// Share of page views that follow an interest rather than chance.
const INTERESTED: f64 = 0.85;
/// Most interests a resident has; they have at least 3.
const MOST_INTERESTS: usize = 7;
/// Spread of the number of page views and of the dwell times (standard deviation of the logarithm).
const SPREAD: f64 = 0.9;

pub(super) fn pages(count: usize, places: &[Place], root: &Rng) -> Vec<Page> {
    let mut by_top: Vec<Vec<u32>> = vec![Vec::new(); super::taxonomy::TOPS];
    for (index, place) in places.iter().enumerate() {
        by_top[place.top()].push(index as u32);
    }
    (0..count).map(|index| page(index, places, &by_top, &mut root.stream("page", index as u64))).collect()
}

fn page(index: usize, places: &[Place], by_top: &[Vec<u32>], rng: &mut Rng) -> Page {
    // Topics take turns, so that none is without pages.
    let topic = index % TOPICS;
    let near = &by_top[PAGE_TREE[topic / TOPICS_A_SECTION].1];
    let about = (!near.is_empty() && rng.chance(0.3)).then(|| near[rng.index(near.len())]);
    let title = names::page(topic_name(topic), about.map(|place| places[place as usize].title.as_str()), rng);
    let popularity = 1.0 / ((index / TOPICS) as f64 + 3.0);
    Page { title: capitalised(&title), topic: topic as u32, about, popularity }
}

fn capitalised(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The tables from which pages are drawn: a topic by group, a page by topic.
#[derive(Clone, Debug)]
pub(super) struct Shelves {
    by_group: Vec<Alias>,
    by_topic: Vec<Alias>,
}

impl Shelves {
    pub(super) fn new(groups: &[Group], pages: &[Page]) -> Self {
        let by_group = groups.iter().map(|group| Alias::new(&group.topics)).collect();
        let of_topic = |topic: usize| {
            let weights: Vec<f64> = pages.iter().skip(topic).step_by(TOPICS).map(|page| page.popularity).collect();
            Alias::new(&weights)
        };
        Self { by_group, by_topic: (0..TOPICS).map(of_topic).collect() }
    }

    /// Pages of a topic stand `TOPICS` apart.
    fn page(&self, topic: usize, rng: &mut Rng) -> u32 {
        (topic + TOPICS * self.by_topic[topic].draw(rng)) as u32
    }
}

impl Town {
    /// The page categories a resident cares for, most read first: ground truth of their reading.
    pub fn interests(&self, user: usize) -> Vec<u32> {
        self.interests_of(&self.resident(user), user)
    }

    fn interests_of(&self, resident: &Resident, user: usize) -> Vec<u32> {
        let mut rng = self.root.stream("interests", user as u64);
        let count = 3 + rng.index(MOST_INTERESTS - 2);
        let moved = resident.moved(1.0);
        let mut interests = Vec::with_capacity(count);
        while interests.len() < count {
            let group = if rng.chance(moved) { resident.next_group } else { resident.group };
            let topic = self.shelves.by_group[group as usize].draw(&mut rng) as u32;
            // Someone whose group reads little else may care for the same topic twice as much.
            if !interests.contains(&topic) || rng.chance(0.05) {
                interests.push(topic);
            }
        }
        interests
    }

    /// A resident's page views in time order, put into `into` (which is emptied first).
    pub fn reading(&self, user: usize, into: &mut Vec<PageView>) {
        let resident = self.resident(user);
        let interests = self.interests_of(&resident, user);
        let mut rng = self.root.stream("reading", user as u64);
        into.clear();
        let count = 1.0 + rhythm::long_tailed(self.spec.views - 1.0, SPREAD, &mut rng).min(50.0 * self.spec.views);
        let from = (self.end() - i64::from(READING_DAYS) * 86_400).max(START);
        for _ in 0..count as usize {
            into.push(self.page_view(&resident, &interests, from, &mut rng));
        }
        into.sort_by_key(|view| view.time);
    }

    fn page_view(&self, resident: &Resident, interests: &[u32], from: i64, rng: &mut Rng) -> PageView {
        let interested = rng.chance(INTERESTED);
        let topic = if interested {
            // The first interests are the strongest.
            interests[rng.index(interests.len()).min(rng.index(interests.len()))] as usize
        } else {
            self.shelves.by_group[resident.group as usize].draw(rng)
        };
        let typical = if interested { 70.0 } else { 15.0 };
        PageView {
            page: self.shelves.page(topic, rng),
            time: self.rhythm.moment(from, self.end(), rng),
            dwell: (typical * math::exp(SPREAD * rng.normal())).clamp(1.0, 3600.0) as f32,
        }
    }
}
