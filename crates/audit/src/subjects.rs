//! The people whose histories are to be rebuilt, and what is true of them.

use sottovoce_core::{Histories, Rng};

/// Audited people.
#[derive(Clone, Debug)]
pub struct Subjects {
    /// Their devices, ascending.
    devices: Vec<u32>,
    /// Their histories, ascending, each item once.
    histories: Vec<Vec<u32>>,
    /// Items that they have and that were not trained on.
    held_out: Vec<Vec<u32>>,
    /// How many people have each item: what a server knows, or can find out elsewhere.
    popularity: Vec<f32>,
    seed: u64,
}

impl Subjects {
    /// At most so many people with something in their history, drawn by the seed. `held_out` are items that the same people
    /// have and that are not trained on, for membership.
    pub fn draw(train: &Histories, held_out: Option<&Histories>, most: usize, seed: u64) -> Self {
        let train = train.deduplicated();
        let mut devices: Vec<u32> = (0..train.users() as u32)
            .filter(|&user| (1..train.catalog_size()).contains(&train.of(user as usize).len()))
            .collect();
        if devices.len() > most {
            Rng::new(seed).stream("subjects", 0).shuffle(&mut devices);
            devices.truncate(most);
            devices.sort_unstable();
        }
        let others = |user: u32| {
            let mut items = held_out.map_or_else(Vec::new, |held_out| held_out.of(user as usize).to_vec());
            items.retain(|item| train.of(user as usize).binary_search(item).is_err());
            items.sort_unstable();
            items.dedup();
            items
        };
        Self {
            histories: devices.iter().map(|&user| train.of(user as usize).to_vec()).collect(),
            held_out: devices.iter().map(|&user| others(user)).collect(),
            popularity: train.popularity().into_iter().map(|people| people as f32).collect(),
            devices,
            seed,
        }
    }

    /// Their devices, ascending.
    pub fn devices(&self) -> &[u32] {
        &self.devices
    }

    /// The history of one, by place.
    pub fn history(&self, place: usize) -> &[u32] {
        &self.histories[place]
    }

    pub(crate) fn held_out(&self, place: usize) -> &[u32] {
        &self.held_out[place]
    }

    /// How many people have each item.
    pub fn popularity(&self) -> &[f32] {
        &self.popularity
    }

    /// Items of the catalog.
    pub fn items(&self) -> usize {
        self.popularity.len()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether each item is in the history of one.
    pub(crate) fn had(&self, place: usize) -> Vec<bool> {
        let mut had = vec![false; self.items()];
        self.histories[place].iter().for_each(|&item| had[item as usize] = true);
        had
    }
}
