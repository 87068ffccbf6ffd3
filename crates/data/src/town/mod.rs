//! The synthetic town: people, places and web pages that do not exist but behave like real data.
//!
//! Residents live in districts, belong to taste groups and slowly change; they visit places, near ones and popular ones
//! rather than others, and read web pages about what they care for. The town's name holds all its parameters
//! (`synth:town:users=100000:seed=3`), and everything is made on the spot: resident 17 from a stream of randomness of
//! their own, so that a town of 10 million needs no more memory than its catalog.
//!
//! A resident depends on the catalog (places, groups, districts, days and so on) but not on how many residents there
//! are: the first 1,000 of a town of 5,000 are those of the same town with 1,000.
//!
//! ```
//! use sottovoce_data::town::{Town, TownSpec};
//! let town = Town::build(&"synth:town:users=100:seed=3".parse()?)?;
//! let mut visits = Vec::new();
//! town.checkins(17, &mut visits);
//! let first = &town.places()[visits[0].place as usize];
//! assert!(!first.title.is_empty());
//! assert!(visits.is_sorted_by_key(|visit| visit.time));
//! # Ok::<(), sottovoce_data::town::TownError>(())
//! ```

mod alias;
mod checkins;
mod collect;
mod graph;
mod names;
mod pages;
mod places;
mod residents;
mod rhythm;
mod spec;
mod tastes;
pub mod taxonomy;
mod write;

pub use checkins::{CheckIn, FEWEST};
pub use collect::Columns;
pub use pages::{Page, PageView};
pub use places::{Architect, CUISINES, Chain, District, Owner, Place, Position, STYLES};
pub use residents::Resident;
pub use spec::{PARAMETERS, PREFIX, Parameter, READING_DAYS, TownSpec};
pub use tastes::Group;
pub use write::Written;

use alias::Alias;
use checkins::{Idea, Tables};
use pages::Shelves;
use places::Grounds;
use rhythm::Rhythm;
use sottovoce_core::Rng;
use std::path::PathBuf;
use taxonomy::LEAVES;
use thiserror::Error;

/// The first second of every town: Monday, 1 January 2024, 00:00 UTC.
pub const START: i64 = 1_704_067_200;

/// Why a town could not be built or written.
#[derive(Debug, Error)]
pub enum TownError {
    /// A name with a part that is no valid parameter.
    #[error("synth:town{0}")]
    Name(String),
    /// The folder to write to is there already. Fields: the folder.
    #[error("{0}: exists already; name a new folder")]
    Exists(PathBuf),
    /// Writing failed. Fields: what was being written; why it failed.
    #[error("{0}: {1}")]
    Write(PathBuf, #[source] std::io::Error),
}

/// A town: its catalog, and the tables from which its residents' lives are drawn.
#[derive(Clone, Debug)]
pub struct Town {
    spec: TownSpec,
    root: Rng,
    groups: Vec<Group>,
    tastes: Vec<[f32; LEAVES]>,
    grounds: Grounds,
    pages: Vec<Page>,
    ideas: Vec<Idea>,
    /// The most popular place, where people end up who can think of nothing else; open from the first day.
    landmark: u32,
    tables: Tables,
    shelves: Shelves,
    rhythm: Rhythm,
    by_share: Alias,
    by_homes: Alias,
}

impl Town {
    /// Builds the catalog and the tables; residents are made when asked for.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn build(spec: &TownSpec) -> Result<Town, TownError> {
        spec.check()?;
        let root = Rng::new(spec.seed).stream("town", 0);
        let groups = tastes::groups(spec.groups, spec.taste, &root);
        let grounds = places::grounds(spec.places(), spec.districts, spec.days, &root);
        let pages = pages::pages(spec.pages(), &grounds.places, &root);
        let shares: Vec<f64> = groups.iter().map(|group| group.share).collect();
        let homes: Vec<f64> = grounds.districts.iter().map(|district| district.weight).collect();
        let by_popularity =
            |&a: &usize, &b: &usize| grounds.places[a].popularity.total_cmp(&grounds.places[b].popularity);
        Ok(Town {
            spec: spec.clone(),
            tastes: groups.iter().map(Group::taste).collect(),
            ideas: grounds.places.iter().map(Idea::of).collect(),
            landmark: (0..grounds.places.len()).max_by(by_popularity).unwrap_or(0) as u32,
            tables: Tables::new(&groups, &grounds.districts, &grounds.places, spec.taste, &root),
            shelves: Shelves::new(&groups, &pages),
            rhythm: Rhythm::new(),
            by_share: Alias::new(&shares),
            by_homes: Alias::new(&homes),
            root,
            groups,
            grounds,
            pages,
        })
    }

    /// The parameters it was built from.
    pub fn spec(&self) -> &TownSpec {
        &self.spec
    }

    /// Number of residents.
    pub fn users(&self) -> usize {
        self.spec.users
    }

    /// The places; their index is their item id.
    pub fn places(&self) -> &[Place] {
        &self.grounds.places
    }

    /// The web pages; their index is their id.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The taste groups: ground truth.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The districts.
    pub fn districts(&self) -> &[District] {
        &self.grounds.districts
    }

    /// The first second after the period.
    pub fn end(&self) -> i64 {
        START + i64::from(self.spec.days) * 86_400
    }
}
