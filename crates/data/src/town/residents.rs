//! Who lives in the town: the ground truth behind check-ins and reading.

use super::places::{Position, point_in};
use super::taxonomy::LEAVES;
use super::{START, Town};
use sottovoce_core::{Rng, math};

/// How much residents differ from their group in liking single categories (standard deviation of log odds).
const PERSONAL_SPREAD: f64 = 0.8;

/// A resident: where they live and work, what they like. All of it is ground truth, not part of the data.
#[derive(Clone, Debug)]
pub struct Resident {
    /// Where they live.
    pub home: Position,
    /// The district of their home.
    pub district: u32,
    /// The district they work in.
    pub work: u32,
    /// Their taste group on the first day.
    pub group: u32,
    /// The group their taste moves towards; the same as `group` in a town with one group.
    pub next_group: u32,
    /// Share of their visits made in the taste of `next_group` on the last day.
    pub drifted: f64,
    /// When their data begins, in seconds since 1970.
    pub joined: i64,
    /// Their own bent beside the group's: the chance, by category, that an idea the group would have suits them.
    pub bent: [f32; LEAVES],
}

impl Resident {
    /// Share of visits in the taste of the next group at a moment between 0 (first day) and 1 (last day).
    #[inline]
    pub fn moved(&self, moment: f64) -> f64 {
        self.drifted * moment
    }
}

impl Town {
    /// The resident of this index, made on the spot from their own stream of randomness.
    pub fn resident(&self, user: usize) -> Resident {
        let mut rng = self.root.stream("resident", user as u64);
        let group = self.by_share.draw(&mut rng);
        let next_group = self.other_group(group, &mut rng);
        let district = self.by_homes.draw(&mut rng);
        let work = self.by_homes.draw(&mut rng) as u32;
        // Half of them are there from the beginning, the others join during the first half.
        let late = (2.0 * rng.unit() - 1.0).max(0.0);
        Resident {
            home: point_in(&self.grounds.districts[district], &mut rng),
            district: district as u32,
            work,
            group: group as u32,
            next_group: next_group as u32,
            drifted: (self.spec.drift * (0.5 + rng.unit())).min(1.0),
            joined: START + (0.5 * late * (self.end() - START) as f64) as i64,
            bent: std::array::from_fn(|_| self.bent(&mut rng)),
        }
    }

    fn bent(&self, rng: &mut Rng) -> f32 {
        let odds = math::exp(self.spec.taste * PERSONAL_SPREAD * rng.normal());
        (odds / (1.0 + odds)) as f32
    }

    fn other_group(&self, group: usize, rng: &mut Rng) -> usize {
        let count = self.groups.len();
        if count == 1 { group } else { (group + 1 + rng.index(count - 1)) % count }
    }

    /// A resident's taste over the place categories at a moment between 0 (first day) and 1 (last day), as shares
    /// that add up to 1: the two groups' tastes mixed, bent by the resident's own.
    pub fn taste(&self, resident: &Resident, moment: f64) -> [f32; LEAVES] {
        let moved = resident.moved(moment) as f32;
        let (from, to) = (&self.tastes[resident.group as usize], &self.tastes[resident.next_group as usize]);
        let mixed: [f32; LEAVES] =
            std::array::from_fn(|leaf| resident.bent[leaf] * ((1.0 - moved) * from[leaf] + moved * to[leaf]));
        let total: f32 = mixed.iter().sum();
        mixed.map(|weight| weight / total)
    }
}
