//! Click logs of people who do not exist, in two periods with different interests.
//!
//! People care for a few categories. The first is drawn by how popular categories are in the period; others go with one
//! that a person has already, for everybody or only for people of the same style, or are popular too. Each person has a
//! style (thrifty, glamorous and so on), which no category tells, but the words of the titles that they read do, and,
//! less often, the entities on those pages. So a model that reads titles can know more than one that sees categories.
//!
//! In period 1 nearly everybody comes for video games and technology, in period 2 interests are broad: the two data
//! sets of the thesis on look-alike modelling, in small.

use super::clicks::{Builder, ClickRules, Clicks, RawClick};
use super::taxonomy::Taxonomy;
use crate::builder::TimeUnit;
use crate::error::{DataError, Result};
use crate::town::taxonomy::{PAGE_TREE, SECTIONS, TOPICS, TOPICS_A_SECTION, topic_name};
use sottovoce_core::{Rng, math};
use std::fmt;
use std::str::FromStr;

/// What the name of such a log starts with.
pub(super) const PREFIX: &str = "synth:clicks";

/// Parts of a topic, the third tier of the taxonomy; each with words that titles use.
pub(super) const ASPECTS: [(&str, [&str; 3]); 4] = [
    ("Reviews", ["reviewed", "tested", "compared"]),
    ("Guides", ["guide", "tips", "explained"]),
    ("Events", ["weekend", "calendar", "opening"]),
    ("Trends", ["trend", "outlook", "rising"]),
];

/// What a style is called, the words that it shows by, and who is written about.
const STYLES: [(&str, [&str; 4], [&str; 2]); 8] = [
    ("thrifty", ["bargain", "cheap", "discount", "budget"], ["Penny Marsh", "Fairprice Union"]),
    ("glamorous", ["luxury", "exclusive", "gala", "couture"], ["Bianca Delorme", "Hotel Aurelia"]),
    ("curious", ["science", "research", "discovery", "experiment"], ["Institute of Wonder", "Dr Amara Oduya"]),
    ("handy", ["homemade", "workshop", "repair", "diy"], ["Toolbox Society", "Jonas Brandt"]),
    ("nostalgic", ["classic", "retro", "golden", "vintage"], ["Museum of Yesterday", "The Old Reel"]),
    ("outdoorsy", ["mountain", "trail", "wild", "lake"], ["Alpine Club", "Ranger Sato"]),
    ("competitive", ["record", "champion", "ranking", "final"], ["League of Nine", "Coach Petrova"]),
    ("sociable", ["friends", "party", "together", "local"], ["Corner Collective", "Mayor Lindqvist"]),
];

/// Sections that are sensitive: they come last.
const SENSITIVE_SECTIONS: usize = 2;
/// Categories that people can be interested in: topics, and the parts of topics.
const TOPICS_OPEN: usize = TOPICS - SENSITIVE_SECTIONS * TOPICS_A_SECTION;
const CATEGORIES: usize = TOPICS_OPEN * (1 + ASPECTS.len());
/// Pages of a category.
const PAGES: usize = 24;
/// Where period 1 is at home.
const TECHNOLOGY: usize = 8;
/// How often period 1's most popular categories are somebody's first interest or a later one.
const HEAD: [f64; 5] = [0.44, 0.2, 0.08, 0.06, 0.05];
/// How often a further interest goes with another for everybody, and how often for people of a style.
const FOR_ALL: f64 = 0.5;
const FOR_STYLE: f64 = 0.25;
/// Weights of what goes with a category.
const COMPANIONS: [f64; 5] = [0.5, 0.2, 0.14, 0.1, 0.06];
const DAY: i64 = 86_400;

/// A log as its name describes it: `synth:clicks:users=20000:period=1:seed=3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntheticClicks {
    /// Number of people.
    pub users: usize,
    /// 1 or 2.
    pub period: u32,
    /// Determines all randomness.
    pub seed: u64,
}

impl Default for SyntheticClicks {
    fn default() -> Self {
        Self { users: 10_000, period: 2, seed: 1 }
    }
}

impl fmt::Display for SyntheticClicks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}:users={}:period={}:seed={}", self.users, self.period, self.seed)
    }
}

impl FromStr for SyntheticClicks {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Self> {
        let wrong = |why: String| DataError::Synthetic(name.trim_start_matches("synth:").to_owned(), why);
        let rest = name.strip_prefix(PREFIX).ok_or_else(|| wrong(format!("expected {PREFIX}")))?;
        let mut made = Self::default();
        for part in rest.split(':').filter(|part| !part.is_empty()) {
            let (key, text) = part.split_once('=').unwrap_or((part, ""));
            let number = |low: u64, high: u64| match text.parse::<u64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(number),
                _ => Err(wrong(format!("{key} must be a whole number from {low} to {high}, not `{text}`"))),
            };
            match key {
                "users" => made.users = number(10, 10_000_000)? as usize,
                "period" => made.period = number(1, 2)? as u32,
                "seed" => made.seed = number(0, u64::MAX >> 11)?,
                _ => return Err(wrong(format!("there is no parameter `{key}`: users, period and seed are"))),
            }
        }
        Ok(made)
    }
}

/// The id of a category in the taxonomy: a topic, or a part of one.
fn id(category: usize) -> String {
    match category.checked_sub(TOPICS_OPEN) {
        None => category.to_string(),
        Some(part) => format!("{}.{}", part / ASPECTS.len(), part % ASPECTS.len()),
    }
}

fn topic_of(category: usize) -> usize {
    category.checked_sub(TOPICS_OPEN).map_or(category, |part| part / ASPECTS.len())
}

/// The taxonomy of these logs: the town's sections and topics, and four parts of each topic.
pub(super) fn taxonomy() -> Taxonomy {
    let mut rows = vec![["id".to_owned(), "parent".to_owned(), "name".to_owned()]];
    for section in 0..SECTIONS {
        rows.push([format!("s{section}"), String::new(), PAGE_TREE[section].0.to_owned()]);
        for topic in section * TOPICS_A_SECTION..(section + 1) * TOPICS_A_SECTION {
            rows.push([topic.to_string(), format!("s{section}"), topic_name(topic).to_owned()]);
            for (part, (aspect, _)) in ASPECTS.iter().enumerate() {
                rows.push([format!("{topic}.{part}"), topic.to_string(), format!("{}: {aspect}", topic_name(topic))]);
            }
        }
    }
    let text: String = rows.iter().map(|row| row.join("\t") + "\n").collect();
    Taxonomy::parse(PREFIX, text.as_bytes()).expect("the made-up tree is a tree")
}

/// Draws from cumulated weights.
struct Weighted(Vec<f64>);

impl Weighted {
    fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let add = |weight: f64| {
            sum += weight;
            sum
        };
        Self(weights.into_iter().map(add).collect())
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum <= at).min(self.0.len() - 1)
    }
}

/// What all people of a period have in common.
struct World {
    popular: Weighted,
    companions: Vec<[usize; COMPANIONS.len()]>,
    /// By topic and style.
    of_style: Vec<[[usize; 2]; STYLES.len()]>,
    by_rank: Weighted,
}

impl World {
    fn new(spec: &SyntheticClicks, root: &Rng) -> Self {
        let mut order: Vec<usize> = (0..CATEGORIES).collect();
        root.stream("popularity", 0).shuffle(&mut order);
        // Broad interests fall off slowly; those of period 1 are few, and around technology.
        let mut weights = vec![0.0; CATEGORIES];
        for (rank, &category) in order.iter().enumerate() {
            let near = topic_of(category) / TOPICS_A_SECTION == TECHNOLOGY;
            weights[category] = match spec.period {
                1 => (if near { 1.0 } else { 0.08 }) / (rank as f64 + 10.0),
                _ => (if near { 0.1 } else { 1.0 }) / (rank as f64 + 12.0),
            };
        }
        if spec.period == 1 {
            let rest: f64 = weights.iter().sum();
            let games = TECHNOLOGY * TOPICS_A_SECTION + 1;
            let head = [games, TOPICS_OPEN + games * 4, TOPICS_OPEN + games * 4 + 3, games + 1, games - 1];
            let share: f64 = HEAD.iter().sum();
            weights.iter_mut().for_each(|weight| *weight *= (1.0 - share) / rest);
            head.iter().zip(HEAD).for_each(|(&category, share)| weights[category] += share);
        }
        // What goes together is the same in both periods.
        let companions = (0..CATEGORIES).map(|category| companions(category, root)).collect();
        let popular = Weighted::new(weights);
        let of_style = (0..TOPICS_OPEN)
            .map(|topic| {
                let mut rng = root.stream("style", topic as u64);
                std::array::from_fn(|_| std::array::from_fn(|_| rng.index(CATEGORIES)))
            })
            .collect();
        Self { popular, companions, of_style, by_rank: Weighted::new(COMPANIONS) }
    }

    fn interests(&self, style: usize, mean: f64, rng: &mut Rng) -> Vec<usize> {
        let mut count = 2;
        while count < 7 && rng.chance(1.0 - 1.0 / (mean - 1.0)) {
            count += 1;
        }
        let mut interests = vec![self.popular.draw(rng)];
        for _ in 0..40 {
            if interests.len() == count {
                break;
            }
            let with = interests[rng.index(interests.len())];
            let chance = rng.unit();
            let next = if chance < FOR_ALL {
                self.companions[with][self.by_rank.draw(rng)]
            } else if chance < FOR_ALL + FOR_STYLE {
                self.of_style[topic_of(with)][style][usize::from(rng.chance(0.3))]
            } else {
                self.popular.draw(rng)
            };
            if !interests.contains(&next) {
                interests.push(next);
            }
        }
        interests
    }
}

/// What goes with a category: the topic it is part of or a part of it, another part, the neighbouring topic, and two
/// from anywhere.
fn companions(category: usize, root: &Rng) -> [usize; COMPANIONS.len()] {
    let mut rng = root.stream("companions", category as u64);
    let topic = topic_of(category);
    let section = topic / TOPICS_A_SECTION;
    let part = |rng: &mut Rng| TOPICS_OPEN + topic * ASPECTS.len() + rng.index(ASPECTS.len());
    let near = if category < TOPICS_OPEN { part(&mut rng) } else { topic };
    let neighbour = section * TOPICS_A_SECTION + rng.index(TOPICS_A_SECTION);
    let far = [rng.index(CATEGORIES), rng.index(CATEGORIES)];
    let mut all = [near, far[0], neighbour, part(&mut rng), far[1]];
    // Whether the nearest or the far one comes first differs.
    if rng.chance(0.4) {
        all.swap(0, 1);
    }
    all
}

/// A page of a category: its title, the entities on it, its style.
fn page(category: usize, number: usize, root: &Rng) -> (String, Vec<&'static str>) {
    let mut rng = root.stream("page", (category * PAGES + number) as u64);
    let (_, words, entities) = STYLES[number % STYLES.len()];
    let topic = topic_name(topic_of(category)).to_lowercase();
    let aspect = match category.checked_sub(TOPICS_OPEN) {
        Some(part) => ASPECTS[part % ASPECTS.len()].1[rng.index(3)],
        None => "news",
    };
    let word = if rng.chance(0.85) { words[rng.index(words.len())] } else { "new" };
    let second = if rng.chance(0.4) { words[rng.index(words.len())] } else { "best" };
    let title = match rng.below(4) {
        0 => format!("The {word} side of {topic}: {aspect}, part {}", 1 + rng.below(9)),
        1 => format!("{topic} {aspect}: {word} and {second}"),
        2 => format!("{word} {topic}, {aspect} for everyone"),
        _ => format!("Why {topic} is {word} again: {aspect} and {second}"),
    };
    let mut named = Vec::new();
    if rng.chance(0.45) {
        named.push(entities[rng.index(2)]);
    }
    if rng.chance(0.6) {
        named.push(topic_name(topic_of(category)));
    }
    (title, named)
}

/// The clicks of such a log.
///
/// # Errors
/// If the rules leave none of them.
pub(super) fn clicks(spec: &SyntheticClicks, rules: &ClickRules) -> Result<Clicks> {
    let root = Rng::new(spec.seed).stream("clicks", 0);
    let world = World::new(spec, &root);
    let pages: Vec<(String, Vec<&str>)> =
        (0..CATEGORIES * PAGES).map(|page_| page(page_ / PAGES, page_ % PAGES, &root)).collect();
    let people = root.stream("people", u64::from(spec.period));
    let end = crate::town::START + i64::from(spec.period) * 180 * DAY;
    let mean = if spec.period == 1 { 2.57 } else { 2.95 };
    let mut builder = Builder::new(PREFIX, rules);
    builder.unit = TimeUnit::PerSecond(1);
    for user in 0..spec.users {
        let mut rng = people.stream("person", user as u64);
        let person = format!("p{}-{user}", spec.period);
        let style = rng.index(STYLES.len());
        let interests = world.interests(style, mean, &mut rng);
        let mut push = |category: usize, number: usize, age: f64, seconds: f64| {
            let (title, entities) = &pages[category * PAGES + number];
            let (name, categories) = (format!("{}/{number}", id(category)), id(category));
            let row = builder.push(&RawClick {
                person: &person,
                page: &name,
                title,
                categories: vec![&categories],
                entities: entities.clone(),
                time: end - (age * DAY as f64) as i64 - 1,
                seconds: Some(seconds as f32),
            });
            builder.check(0, row)
        };
        for &category in &interests {
            // Somebody who is interested was there within the last days and comes back.
            let visits = 2 + (4.0 * -math::ln(1.0 - rng.unit())) as usize;
            let newest = 9.0 * rng.unit();
            for visit in 0..visits.min(25) {
                let own = rng.chance(0.8);
                let kind = if own { style } else { rng.index(STYLES.len()) };
                let number = kind + STYLES.len() * rng.index(PAGES / STYLES.len());
                let age = if visit == 0 { newest } else { newest + 35.0 * rng.unit() };
                push(category, number, age, 15.0 + 120.0 * rng.unit())?;
            }
        }
        // Clicks by accident, and interests of the past.
        for _ in 0..rng.below(3) {
            push(rng.index(CATEGORIES), rng.index(PAGES), 30.0 * rng.unit(), 1.0 + 8.0 * rng.unit())?;
        }
        if rng.chance(0.3) {
            push(rng.index(CATEGORIES), rng.index(PAGES), 45.0 + 30.0 * rng.unit(), 90.0)?;
        }
        if rng.chance(0.08) {
            let topic = (TOPICS_OPEN + rng.index(TOPICS - TOPICS_OPEN)).to_string();
            let row = builder.push(&RawClick {
                person: &person,
                page: &topic,
                title: "Not for advertisers",
                categories: vec![&topic],
                time: end - DAY,
                seconds: Some(60.0),
                ..RawClick::default()
            });
            builder.check(0, row)?;
        }
    }
    builder.finish()
}
