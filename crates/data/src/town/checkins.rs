//! Where residents go, and when.

use super::alias::Alias;
use super::places::{District, Place};
use super::residents::Resident;
use super::tastes::{Group, SPREAD};
use super::taxonomy::TOPS;
use super::{START, Town, rhythm};
use sottovoce_core::{Rng, math};

/// One visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckIn {
    /// The place, an index into [`Town::places`].
    pub place: u32,
    /// When, in seconds since 1970 (UTC).
    pub time: i64,
}

/// No resident has fewer check-ins than this.
pub const FEWEST: usize = 8;
/// Spread of the history lengths: standard deviation of the logarithm of what exceeds [`FEWEST`].
const LENGTH_SPREAD: f64 = 1.0;
/// No history is longer than this many times the mean.
const LONGEST: f64 = 40.0;
/// Kilometres over which the pull of a district falls to a third (1/e).
const REACH: f64 = 1.3;
/// Pull of the whole town, however far: people cross it for something they like.
const FAR_PULL: f64 = 0.03;
/// Ideas a resident has before settling for the last one.
const IDEAS: usize = 40;
/// Places a resident gets to know before returning to any.
const HAUNTS: usize = 5;
/// Share of check-ins that follow another on the same outing.
const FOLLOWING: f64 = 0.3;

/// The tables from which places are drawn: first a district, then a place in it, both in the taste of a group.
///
/// In all, groups x (places + districts^2) entries of 8 bytes.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    districts: usize,
    /// By group and district one is in: the district to go to.
    towards: Vec<Alias>,
    /// By group and district: the place, as a position in `members`.
    within: Vec<Alias>,
    /// By district: its places.
    members: Vec<Vec<u32>>,
}

impl Tables {
    pub(super) fn new(groups: &[Group], districts: &[District], places: &[Place], strength: f64, root: &Rng) -> Self {
        let mut members = vec![Vec::new(); districts.len()];
        for (index, place) in places.iter().enumerate() {
            members[place.district as usize].push(index as u32);
        }
        let (mut towards, mut within) = (Vec::new(), Vec::new());
        for (index, group) in groups.iter().enumerate() {
            let mut rng = root.stream("whims", index as u64);
            let whims: Vec<f64> = places.iter().map(|_| strength * SPREAD.unexplained * rng.normal()).collect();
            let weight = |&place: &u32| appeal(group, &places[place as usize], whims[place as usize]);
            let weights: Vec<Vec<f64>> = members.iter().map(|own| own.iter().map(weight).collect()).collect();
            let mass: Vec<f64> = weights.iter().map(|own| own.iter().sum()).collect();
            within.extend(weights.iter().map(|own| Alias::new(own)));
            towards.extend(districts.iter().map(|from| Alias::new(&pull(from, districts, &mass))));
        }
        Self { districts: districts.len(), towards, within, members }
    }

    /// A place for someone in this district, in the taste of this group.
    #[inline]
    fn draw(&self, group: usize, district: usize, rng: &mut Rng) -> u32 {
        let to = self.towards[group * self.districts + district].draw(rng);
        self.members[to][self.within[group * self.districts + to].draw(rng)]
    }
}

/// How often a group's members think of a place: its popularity times their liking of what it is.
fn appeal(group: &Group, place: &Place, whim: f64) -> f64 {
    let cuisine = place.cuisine.map_or(0.0, |cuisine| group.cuisines[cuisine as usize]);
    let liking = group.categories[place.category as usize]
        + cuisine
        + group.styles[place.style as usize]
        + group.price * (f64::from(place.price) - 2.5)
        + whim;
    place.popularity * math::exp(liking)
}

fn pull(from: &District, districts: &[District], mass: &[f64]) -> Vec<f64> {
    let near = |to: &District| math::exp(-f64::from(from.centre.distance(to.centre)) / REACH) + FAR_PULL;
    districts.iter().zip(mass).map(|(to, mass)| mass * near(to)).collect()
}

impl Town {
    /// A resident's check-ins in time order, put into `into` (which is emptied first).
    pub fn checkins(&self, user: usize, into: &mut Vec<CheckIn>) {
        let resident = self.resident(user);
        let mut rng = self.root.stream("checkins", user as u64);
        into.clear();
        self.outings(&resident, &mut rng, into);
        let mut day = Day { district: resident.district as usize, last_top: None, last_time: 0 };
        for index in 0..into.len() {
            let (past, now) = into.split_at_mut(index);
            day.go_on(&resident, now[0].time, &mut rng);
            let returns = past.len() >= HAUNTS && rng.chance(self.spec.repeat);
            now[0].place = if returns {
                past[rng.index(past.len())].place
            } else {
                self.discover(&resident, &day, now[0].time, past, &mut rng)
            };
            day.been(&self.ideas[now[0].place as usize], now[0].time);
        }
    }

    /// When the resident goes out: as many times as they have check-ins, ascending, the places not chosen yet.
    fn outings(&self, resident: &Resident, rng: &mut Rng, into: &mut Vec<CheckIn>) {
        let more = rhythm::long_tailed(self.spec.checkins - FEWEST as f64, LENGTH_SPREAD, rng);
        let count = FEWEST + more.min(LONGEST * self.spec.checkins).round() as usize;
        let mut time = 0;
        for index in 0..count {
            let follows = index > 0 && rng.chance(FOLLOWING);
            time = if follows {
                (time + 1800 + i64::from(rng.below(7200))).min(self.end() - 1)
            } else {
                self.rhythm.moment(resident.joined, self.end(), rng)
            };
            into.push(CheckIn { place: 0, time });
        }
        into.sort_unstable_by_key(|visit| visit.time);
    }

    /// A place the resident has not been to, which is open and suits them and the hour.
    fn discover(&self, resident: &Resident, day: &Day, time: i64, past: &[CheckIn], rng: &mut Rng) -> u32 {
        let moment = (time - START) as f64 / (self.end() - START) as f64;
        let moved = resident.moved(moment);
        let suits_hour = day.suits(time);
        let mut settled = self.landmark;
        for _ in 0..IDEAS {
            let group = if rng.chance(moved) { resident.next_group } else { resident.group };
            let idea = self.tables.draw(group as usize, day.district, rng);
            let place = &self.ideas[idea as usize];
            if place.opened > time || past.iter().any(|visit| visit.place == idea) {
                continue;
            }
            settled = idea;
            let suits = resident.bent[place.category as usize] * suits_hour[place.top as usize];
            if rng.chance(f64::from(suits)) {
                break;
            }
        }
        settled
    }
}

/// What choosing a place needs to know of it, small enough to stay in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idea {
    opened: i64,
    category: u16,
    top: u16,
    district: u16,
}

impl Idea {
    pub(super) fn of(place: &Place) -> Self {
        Self {
            opened: place.opened,
            category: place.category as u16,
            top: place.top() as u16,
            district: place.district as u16,
        }
    }
}

/// Where in the town the resident is, and what they did last.
struct Day {
    district: usize,
    last_top: Option<usize>,
    last_time: i64,
}

impl Day {
    /// A new outing starts from home or from work; one that goes on starts where the last place was.
    fn go_on(&mut self, resident: &Resident, time: i64, rng: &mut Rng) {
        if time - self.last_time < rhythm::OUTING_GAP {
            return;
        }
        self.last_top = None;
        let from = if rng.chance(0.65) { resident.district } else { resident.work };
        self.district = from as usize;
    }

    fn been(&mut self, place: &Idea, time: i64) {
        self.district = place.district as usize;
        self.last_top = Some(place.top as usize);
        self.last_time = time;
    }

    /// How well each main category suits the hour and what came before.
    fn suits(&self, time: i64) -> [f32; TOPS] {
        match self.last_top {
            Some(last) => std::array::from_fn(|top| rhythm::after(last, top)),
            None => *rhythm::at_hour(time),
        }
    }
}
