//! Whole towns in memory, in the types that models and evaluation speak.

use super::taxonomy::{LEAVES, LEAVES_A_TOP, TOPS, leaf_name, top_name};
use super::{CheckIn, Town};
use rayon::prelude::*;
use sottovoce_core::{Catalog, Categories, Names};

/// All check-ins as columns, resident after resident, each in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// The resident of each check-in.
    pub user: Vec<u32>,
    /// The place.
    pub place: Vec<u32>,
    /// When, in seconds since 1970.
    pub time: Vec<i64>,
    /// Where each resident's check-ins begin, and their number at the end.
    pub offsets: Vec<usize>,
}

/// Residents that one thread makes at a stretch; large enough to be worth it, small enough to spread.
pub(super) const BATCH: usize = 256;
/// Batches in the air at once: what streaming holds in memory, whatever the size of the town.
const BATCHES: usize = 64;

impl Town {
    /// Calls `work` for batches of residents in parallel, and `take` with what came out, in order.
    ///
    /// Only some thousand residents' results are held at a time.
    ///
    /// # Errors
    /// The first error of `take`, after which it is not called again.
    pub fn stream<T: Send, E>(
        &self,
        work: impl Fn(std::ops::Range<usize>) -> T + Sync,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let batches: Vec<usize> = (0..self.users()).step_by(BATCH).collect();
        for wave in batches.chunks(BATCHES) {
            let done: Vec<T> = wave.par_iter().map(|&first| work(first..(first + BATCH).min(self.users()))).collect();
            done.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    }

    /// All check-ins. About 16 bytes each: for towns that fit.
    pub fn collect(&self) -> Columns {
        let mut all = Columns { offsets: vec![0], ..Columns::default() };
        let done: Result<(), std::convert::Infallible> = self.stream(
            |residents| self.checkins_of(residents),
            |(visits, lengths)| {
                for length in lengths {
                    let user = all.offsets.len() as u32 - 1;
                    all.user.extend(std::iter::repeat_n(user, length));
                    all.offsets.push(all.user.len());
                }
                all.place.extend(visits.iter().map(|visit| visit.place));
                all.time.extend(visits.iter().map(|visit| visit.time));
                Ok(())
            },
        );
        match done {
            Ok(()) => all,
        }
    }

    fn checkins_of(&self, residents: std::ops::Range<usize>) -> (Vec<CheckIn>, Vec<usize>) {
        let (mut all, mut lengths, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for user in residents {
            self.checkins(user, &mut own);
            lengths.push(own.len());
            all.extend_from_slice(&own);
        }
        (all, lengths)
    }

    /// The places as items: ids are their indices; titles; category and main category.
    pub fn catalog(&self) -> Catalog {
        let leaves = (0..LEAVES).map(leaf_name);
        let mut categories = Categories::new(leaves.chain((0..TOPS).map(top_name)).collect());
        for place in self.places() {
            categories.push([place.category, (LEAVES + place.category as usize / LEAVES_A_TOP) as u32]);
        }
        Catalog {
            ids: (0..self.places().len()).map(|index| index.to_string()).collect(),
            titles: Some(self.places().iter().map(|place| place.title.as_str()).collect()),
            categories: Some(categories),
            facts: None,
        }
    }

    /// The residents' ids: their indices.
    pub fn user_names(&self) -> Names {
        (0..self.users()).map(|index| index.to_string()).collect()
    }
}
