//! The latest network of each device.

use crate::state::{put_f32s, put_u64s, take_f32s, take_numbers, unfit};
use sottovoce_core::Rng;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// What the server keeps of each device.
pub(super) struct LatestNetworks {
    parameters: usize,
    by_device: BTreeMap<u32, Latest>,
}

struct Latest {
    round: u64,
    cluster: usize,
    network: Vec<f32>,
}

impl LatestNetworks {
    /// Of networks with so many parameters.
    pub(super) fn new(parameters: usize) -> Self {
        Self { parameters, by_device: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.by_device.len()
    }

    pub(super) fn insert(&mut self, device: u32, round: u64, cluster: usize, network: Vec<f32>) {
        self.by_device.insert(device, Latest { round, cluster, network });
    }

    /// Drops what came before a round; returns how many.
    pub(super) fn drop_older_than(&mut self, round: u64) -> u64 {
        let before = self.len();
        self.by_device.retain(|_, latest| latest.round >= round);
        (before - self.len()) as u64
    }

    pub(super) fn assign_all(&mut self, assign: &impl Fn(&[f32]) -> usize) {
        self.by_device.values_mut().for_each(|latest| latest.cluster = assign(&latest.network));
    }

    /// Up to so many networks, drawn anew in each round.
    pub(super) fn pool(&self, most: usize, round: u64) -> Vec<Vec<f32>> {
        let mut chosen: Vec<&Latest> = self.by_device.values().collect();
        if chosen.len() > most {
            Rng::new(round).stream("pool", 0).shuffle(&mut chosen);
            chosen.truncate(most);
        }
        chosen.into_iter().map(|latest| latest.network.clone()).collect()
    }

    /// Writes the mean of a cluster's networks; a cluster without devices keeps what it has. Returns how many devices
    /// it has.
    pub(super) fn mean(&self, cluster: usize, into: &mut [f32]) -> usize {
        let mut sums = vec![0.0f64; into.len()];
        let mut count = 0;
        for latest in self.by_device.values().filter(|latest| latest.cluster == cluster) {
            sums.iter_mut().zip(&latest.network).for_each(|(sum, &value)| *sum += f64::from(value));
            count += 1;
        }
        if count > 0 {
            into.iter_mut().zip(&sums).for_each(|(value, sum)| *value = (sum / count as f64) as f32);
        }
        count
    }

    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.len() as u64])?;
        for (&device, latest) in &self.by_device {
            put_u64s(out, &[device.into(), latest.round, latest.cluster as u64])?;
            put_f32s(out, &latest.network)?;
        }
        Ok(())
    }

    pub(super) fn restore(&mut self, clusters: usize, from: &mut dyn Read) -> io::Result<()> {
        self.by_device.clear();
        let [count] = take_numbers(from)?;
        for _ in 0..count {
            let [device, round, cluster] = take_numbers(from)?;
            let (Ok(device), true) = (u32::try_from(device), cluster < clusters as u64) else {
                return Err(unfit(format!("device {device} in cluster {cluster} of {clusters}")));
            };
            let mut network = vec![0.0; self.parameters];
            take_f32s(from, &mut network)?;
            self.insert(device, round, cluster as usize, network);
        }
        Ok(())
    }
}
