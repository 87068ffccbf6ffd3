//! Districts, places and what is known of them.

use super::names;
use super::taxonomy::{LEAVES, LEAVES_A_TOP, leaf_name};
use super::{START, alias::Alias};
use rustc_hash::FxHashSet;
use sottovoce_core::{Rng, math};

/// Cuisines, which eating places have, and the part of the world each comes from.
pub const CUISINES: [(&str, &str); 12] = [
    ("Ligurian", "Mediterranean"),
    ("Greek", "Mediterranean"),
    ("Andalusian", "Mediterranean"),
    ("Lebanese", "Levant"),
    ("Turkish", "Levant"),
    ("Japanese", "East Asia"),
    ("Sichuan", "East Asia"),
    ("Korean", "East Asia"),
    ("Mexican", "Americas"),
    ("Peruvian", "Americas"),
    ("Nordic", "North Sea"),
    ("Flemish", "North Sea"),
];

/// Architectural styles and their periods.
pub const STYLES: [(&str, &str); 8] = [
    ("Romanesque", "Middle Ages"),
    ("Gothic", "Middle Ages"),
    ("Renaissance", "Early Modern"),
    ("Baroque", "Early Modern"),
    ("Neoclassical", "Nineteenth Century"),
    ("Art Nouveau", "Nineteenth Century"),
    ("Bauhaus", "Modern"),
    ("Brutalist", "Modern"),
];

/// A point of the town, in kilometres east and north of its centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Kilometres east of the centre.
    pub x: f32,
    /// Kilometres north of the centre.
    pub y: f32,
}

impl Position {
    /// Latitude and longitude in degrees; the town lies on an island that does not exist, west of Corsica.
    pub fn lat_lon(self) -> (f64, f64) {
        let kilometres_a_degree = 111.195;
        let (lat, lon) = (42.9, 7.9);
        (
            lat + f64::from(self.y) / kilometres_a_degree,
            lon + f64::from(self.x) / (kilometres_a_degree * math::cos(lat.to_radians())),
        )
    }

    /// Distance in kilometres.
    pub fn distance(self, other: Position) -> f32 {
        ((self.x - other.x).powi(2) + (self.y - other.y).powi(2)).sqrt()
    }
}

/// A part of the town.
#[derive(Clone, Debug)]
pub struct District {
    /// Its name.
    pub name: String,
    /// Its middle.
    pub centre: Position,
    /// Its share of the places and homes, before normalisation: the centre of the town is dense.
    pub(super) weight: f64,
}

/// A place that residents visit.
#[derive(Clone, Debug)]
pub struct Place {
    /// What it is called; no two places are called alike.
    pub title: String,
    /// Where it is.
    pub position: Position,
    /// Its district.
    pub district: u32,
    /// Its category, an index below [`LEAVES`].
    pub category: u32,
    /// Its cuisine, if people eat there.
    pub cuisine: Option<u32>,
    /// The style of its building.
    pub style: u32,
    /// Price level, 1 to 4.
    pub price: u32,
    /// The chain it belongs to, if any.
    pub chain: Option<u32>,
    /// Its owner, a person.
    pub owner: u32,
    /// The architect of its building, a person.
    pub architect: u32,
    /// Its weight in the town's popularity curve, before taste, distance and rhythm.
    pub popularity: f64,
    /// When it opened, in seconds since 1970; nobody checks in before.
    pub opened: i64,
}

impl Place {
    /// Its main category.
    pub fn top(&self) -> usize {
        self.category as usize / LEAVES_A_TOP
    }
}

/// A chain of places of one category.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// What its places are.
    pub category: u32,
    /// The district of its head office.
    pub home: u32,
}

/// Owners and architects.
#[derive(Clone, Debug)]
pub struct Person {
    /// Their name.
    pub name: String,
    /// The district they were born in.
    pub born: u32,
    /// For an architect the style they build in.
    pub style: Option<u32>,
}

/// All that stands in the town.
#[derive(Clone, Debug)]
pub(super) struct Grounds {
    pub(super) districts: Vec<District>,
    pub(super) chains: Vec<Chain>,
    /// Architects first, then owners.
    pub(super) people: Vec<Person>,
    pub(super) places: Vec<Place>,
}

/// Districts on a sunflower spiral, so that they are about equally far from their neighbours.
pub(super) fn districts(count: usize) -> Vec<District> {
    let golden_angle = 2.399_963_229_728_653;
    let at = |index: usize| {
        let (radius, angle) = (1.6 * (index as f64).sqrt(), index as f64 * golden_angle);
        Position { x: (radius * math::cos(angle)) as f32, y: (radius * math::sin(angle)) as f32 }
    };
    (0..count)
        .map(|index| District {
            name: names::district(index),
            centre: at(index),
            weight: 1.0 / (1.0 + 0.25 * index as f64),
        })
        .collect()
}

/// A point near the middle of a district.
pub(super) fn point_in(district: &District, rng: &mut Rng) -> Position {
    let mut around = |middle: f32| middle + (0.55 * rng.normal()) as f32;
    Position { x: around(district.centre.x), y: around(district.centre.y) }
}

pub(super) fn grounds(count: usize, district_count: usize, days: u32, root: &Rng) -> Grounds {
    let districts = districts(district_count);
    let mut rng = root.stream("people", 0);
    let chains: Vec<Chain> =
        (0..(count / 40).clamp(4, 400)).map(|_| chain(district_count, &mut rng)).collect();
    let architects = (count / 30).clamp(5, 500);
    let owners = (count / 4).max(10);
    let people: Vec<Person> =
        (0..architects + owners).map(|index| person(index < architects, district_count, &mut rng)).collect();
    let ranks = popularity_ranks(count, &mut root.stream("ranks", 0));
    let mut builder = Builder::new(districts, chains, people, architects, days, root);
    let places =
        ranks.into_iter().enumerate().map(|(index, rank)| builder.place(index, rank, count)).collect();
    Grounds { districts: builder.districts, chains: builder.chains, people: builder.people, places }
}

fn chain(districts: usize, rng: &mut Rng) -> Chain {
    Chain { name: names::emblem(rng), category: rng.below(LEAVES as u32), home: rng.below(districts as u32) }
}

fn person(architect: bool, districts: usize, rng: &mut Rng) -> Person {
    let style = architect.then(|| rng.below(STYLES.len() as u32));
    Person { name: names::person(rng), born: rng.below(districts as u32), style }
}

/// A random rank for every place; 0 is the most popular.
fn popularity_ranks(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut ranks);
    ranks
}

/// Zipf-Mandelbrot: the head is flatter than a pure power law, as in real data.
pub(super) const ZIPF_EXPONENT: f64 = 1.0;
const ZIPF_SHIFT: f64 = 12.0;

struct Builder {
    districts: Vec<District>,
    chains: Vec<Chain>,
    people: Vec<Person>,
    architects: usize,
    days: u32,
    root: Rng,
    by_district: Alias,
    by_category: Vec<Alias>,
    titles: FxHashSet<String>,
}

impl Builder {
    fn new(
        districts: Vec<District>,
        chains: Vec<Chain>,
        people: Vec<Person>,
        architects: usize,
        days: u32,
        root: &Rng,
    ) -> Self {
        let weights: Vec<f64> = districts.iter().map(|district| district.weight).collect();
        let mut rng = root.stream("supply", 0);
        let supply: [f64; LEAVES] = std::array::from_fn(|_| math::exp(0.5 * rng.normal()));
        let mut of_district = || Alias::new(&supply.map(|usual| usual * math::exp(0.6 * rng.normal())));
        let by_category = districts.iter().map(|_| of_district()).collect();
        let by_district = Alias::new(&weights);
        let titles = FxHashSet::default();
        let root = root.clone();
        Self { districts, chains, people, architects, days, root, by_district, by_category, titles }
    }

    fn place(&mut self, index: usize, rank: usize, count: usize) -> Place {
        let mut rng = self.root.stream("place", index as u64);
        // The first places see to it that no district is empty.
        let district = if index < self.districts.len() { index } else { self.by_district.draw(&mut rng) };
        let mut category = self.by_category[district].draw(&mut rng) as u32;
        let chain = rng.chance(0.15).then(|| rng.below(self.chains.len() as u32));
        if let Some(chain) = chain {
            category = self.chains[chain as usize].category;
        }
        let architect = rng.below(self.architects as u32);
        let own_style = rng.below(STYLES.len() as u32);
        let eats = (category as usize) < LEAVES_A_TOP;
        Place {
            title: self.title(category, district, chain, &mut rng),
            position: point_in(&self.districts[district], &mut rng),
            district: district as u32,
            category,
            cuisine: eats.then(|| rng.below(CUISINES.len() as u32)),
            style: self.people[architect as usize].style.unwrap_or(own_style),
            price: 1 + rng.below(4),
            chain,
            owner: (self.architects + rng.index(self.people.len() - self.architects)) as u32,
            architect,
            popularity: math::pow(rank as f64 + 1.0 + ZIPF_SHIFT, -ZIPF_EXPONENT),
            opened: self.opening(rank, count, &mut rng),
        }
    }

    /// One place in six opens while the town is watched; the most popular were always there.
    fn opening(&self, rank: usize, count: usize, rng: &mut Rng) -> i64 {
        let new = rng.chance(1.0 / 6.0) && rank * 20 >= count;
        if new { START + 86_400 * i64::from(rng.below(self.days)) } else { START }
    }

    fn title(&mut self, category: u32, district: usize, chain: Option<u32>, rng: &mut Rng) -> String {
        let (kind, district) = (leaf_name(category as usize), &self.districts[district].name);
        let plain = match chain {
            Some(chain) => format!("{} {kind}, {district}", self.chains[chain as usize].name),
            None => names::place(kind, district, rng),
        };
        let mut title = plain.clone();
        if self.titles.contains(&title) && chain.is_none() {
            title = format!("{plain}, {district}");
        }
        let mut copies = 1;
        while self.titles.contains(&title) {
            copies += 1;
            title = format!("{plain} No. {copies}");
        }
        self.titles.insert(title.clone());
        title
    }
}
