//! The audited users, with the truth that attacks are evaluated against.

use sottovoce_core::{Histories, Rng};

/// A sample of users to audit.
#[derive(Clone, Debug)]
pub struct Subjects {
    /// Their devices, ascending.
    devices: Vec<u32>,
    /// Their histories, ascending, each item once.
    histories: Vec<Vec<u32>>,
    /// Items that they have and that were not trained on, for membership attacks.
    held_out: Vec<Vec<u32>>,
    /// Number of users who have each item, which a server knows or can find out elsewhere.
    pub(crate) popularity: Vec<f32>,
    pub(crate) seed: u64,
}

impl Subjects {
    /// Draws at most `count` users with a history. `held_out` are items that the same users have and that are not
    /// trained on, for membership attacks.
    pub fn draw(train: &Histories, held_out: Option<&Histories>, count: usize, seed: u64) -> Self {
        let train = train.deduplicated();
        let mut devices: Vec<u32> = (0..train.users() as u32)
            .filter(|&user| (1..train.catalog_size()).contains(&train.of(user as usize).len()))
            .collect();
        if devices.len() > count {
            Rng::new(seed).stream("subjects", 0).shuffle(&mut devices);
            devices.truncate(count);
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
            popularity: train.popularity().into_iter().map(|users| users as f32).collect(),
            devices,
            seed,
        }
    }

    /// Their devices, ascending.
    pub fn devices(&self) -> &[u32] {
        &self.devices
    }

    /// The history of one, by index.
    pub(crate) fn history(&self, index: usize) -> &[u32] {
        &self.histories[index]
    }

    /// The history of one, then the held-out items.
    pub(crate) fn known_items(&self, index: usize) -> Vec<u32> {
        self.histories[index].iter().chain(&self.held_out[index]).copied().collect()
    }

    /// Size of the catalog.
    pub(crate) fn items(&self) -> usize {
        self.popularity.len()
    }

    /// Whether each item is in the history of one.
    pub(crate) fn is_in_history(&self, index: usize) -> Vec<bool> {
        let mut is_in = vec![false; self.items()];
        self.histories[index].iter().for_each(|&item| is_in[item as usize] = true);
        is_in
    }
}
