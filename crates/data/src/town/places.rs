//! Districts, places and what is known of them.

use super::names;
use super::taxonomy::{LEAVES, LEAVES_A_TOP, leaf_name};
use super::{START, alias::Alias};
use rustc_hash::FxHashSet;
use sottovoce_core::{Rng, math};

/// Cuisines, which eating places have, and the part of the world each comes from.
#[rustfmt::skip]
pub const CUISINES: [(&str, &str); 12] = [
    ("Ligurian", "Mediterranean"), ("Greek", "Mediterranean"), ("Andalusian", "Mediterranean"),
    ("Lebanese", "Levant"), ("Turkish", "Levant"), ("Japanese", "East Asia"), ("Sichuan", "East Asia"),
    ("Korean", "East Asia"), ("Mexican", "Americas"), ("Peruvian", "Americas"), ("Nordic", "North Sea"),
    ("Flemish", "North Sea"),
];

/// Architectural styles and their periods.
#[rustfmt::skip]
pub const STYLES: [(&str, &str); 8] = [
    ("Romanesque", "Middle Ages"), ("Gothic", "Middle Ages"), ("Renaissance", "Early Modern"),
    ("Baroque", "Early Modern"), ("Neoclassical", "Nineteenth Century"),
    ("Art Nouveau", "Nineteenth Century"), ("Bauhaus", "Modern"), ("Brutalist", "Modern"),
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
        let (east, north) = (self.x - other.x, self.y - other.y);
        (east * east + north * north).sqrt()
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
    /// Its name, which is unique.
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
    /// Its owner.
    pub owner: u32,
    /// The architect of its building.
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

/// Someone who owns places.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Their name.
    pub name: String,
    /// The district they were born in.
    pub born: u32,
}

/// Someone who builds places.
#[derive(Clone, Debug)]
pub struct Architect {
    /// Their name.
    pub name: String,
    /// The district they were born in.
    pub born: u32,
    /// The style they build in.
    pub style: u32,
}

/// Everything in the town.
#[derive(Clone, Debug)]
pub(super) struct Grounds {
    pub(super) districts: Vec<District>,
    pub(super) chains: Vec<Chain>,
    pub(super) owners: Vec<Owner>,
    pub(super) architects: Vec<Architect>,
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
    let mut rng = root.stream("people", 0);
    let born = |rng: &mut Rng| rng.below(district_count as u32);
    let chain = |rng: &mut Rng| Chain { name: names::emblem(rng), category: rng.below(LEAVES as u32), home: born(rng) };
    let owner = |rng: &mut Rng| Owner { name: names::person(rng), born: born(rng) };
    let architect =
        |rng: &mut Rng| Architect { name: names::person(rng), born: born(rng), style: rng.below(STYLES.len() as u32) };
    let grounds = Grounds {
        districts: districts(district_count),
        chains: (0..(count / 40).clamp(4, 400)).map(|_| chain(&mut rng)).collect(),
        owners: (0..count / 4).map(|_| owner(&mut rng)).collect(),
        architects: (0..(count / 30).clamp(5, 500)).map(|_| architect(&mut rng)).collect(),
        places: Vec::with_capacity(count),
    };
    let mut builder = Builder::new(grounds, days, root);
    for rank in popularity_ranks(count, &mut root.stream("ranks", 0)) {
        builder.add(rank, count);
    }
    builder.grounds
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
    grounds: Grounds,
    days: u32,
    root: Rng,
    by_district: Alias,
    by_category: Vec<Alias>,
    titles: FxHashSet<String>,
}

impl Builder {
    fn new(grounds: Grounds, days: u32, root: &Rng) -> Self {
        let weights: Vec<f64> = grounds.districts.iter().map(|district| district.weight).collect();
        let mut rng = root.stream("supply", 0);
        let supply: [f64; LEAVES] = std::array::from_fn(|_| math::exp(0.5 * rng.normal()));
        let mut of_district = || Alias::new(&supply.map(|usual| usual * math::exp(0.6 * rng.normal())));
        let by_category = weights.iter().map(|_| of_district()).collect();
        let (by_district, titles) = (Alias::new(&weights), FxHashSet::default());
        Self { grounds, days, root: root.clone(), by_district, by_category, titles }
    }

    /// Builds the next place.
    fn add(&mut self, rank: usize, count: usize) {
        let index = self.grounds.places.len();
        let mut rng = self.root.stream("place", index as u64);
        // The first places see to it that no district is empty.
        let district = if index < self.grounds.districts.len() { index } else { self.by_district.draw(&mut rng) };
        let mut category = self.by_category[district].draw(&mut rng) as u32;
        let chain = rng.chance(0.15).then(|| rng.below(self.grounds.chains.len() as u32));
        if let Some(chain) = chain {
            category = self.grounds.chains[chain as usize].category;
        }
        let architect = rng.below(self.grounds.architects.len() as u32);
        let eats = (category as usize) < LEAVES_A_TOP;
        let place = Place {
            title: self.title(category, district, chain, &mut rng),
            position: point_in(&self.grounds.districts[district], &mut rng),
            district: district as u32,
            category,
            cuisine: eats.then(|| rng.below(CUISINES.len() as u32)),
            style: self.grounds.architects[architect as usize].style,
            price: 1 + rng.below(4),
            chain,
            owner: rng.below(self.grounds.owners.len() as u32),
            architect,
            popularity: math::pow(rank as f64 + 1.0 + ZIPF_SHIFT, -ZIPF_EXPONENT),
            opened: self.opening(rank, count, &mut rng),
        };
        self.grounds.places.push(place);
    }

    /// One place in six opens while the town is watched; the most popular were always there.
    fn opening(&self, rank: usize, count: usize, rng: &mut Rng) -> i64 {
        let new = rng.chance(1.0 / 6.0) && rank * 20 >= count;
        if new { START + 86_400 * i64::from(rng.below(self.days)) } else { START }
    }

    fn title(&mut self, category: u32, district: usize, chain: Option<u32>, rng: &mut Rng) -> String {
        let (kind, district) = (leaf_name(category as usize), &self.grounds.districts[district].name);
        let plain = match chain {
            Some(chain) => format!("{} {kind}, {district}", self.grounds.chains[chain as usize].name),
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
