//! Aggregation by clusters that the server finds: ReFRS's semantic sampler, clustering unit and aggregator (Imran, Yin,
//! Chen, Nguyen, Zhou, Zheng, 2021).
//!
//! The server keeps each device's latest network. A cluster's network is the mean of its devices' latest networks, so
//! that devices may upload when they can; one that stays away longer than the bound on staleness counts no longer.
//!
//! After the first global epoch, and then every few, a variational autoencoder is trained on the networks of a pool of
//! devices, and k-means in its embedding gives the clusters. That is a [`Job`] on a thread of its own: it starts when a
//! round is applied and is taken up when a later one is, so that no device waits for it. In between, uploads go to the
//! nearest of the centroids there are. The simulator waits for the job in the next round, so that the same seed gives
//! the same bytes. A server waits only with `late_clustering = wait`; else it counts the rounds by which a clustering
//! was late.

mod job;
mod kmeans;
mod memory;
#[cfg(test)]
mod tests;

pub use job::Clusterer;

use super::Strategy;
use super::mean::step_along_mean;
use crate::Aggregate;
use crate::state::{put_u64s, take_numbers, unfit};
use job::{FoundClusters, Job};
use memory::LatestNetworks;
use sottovoce_models::ClusterFigures;
use sottovoce_models::federated::clustering::{ClusteredSpec, Clusters, LateClustering, Sampler};
use sottovoce_models::federated::{Mean, MeanOver};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Aggregation by clusters that the server finds.
pub struct Clustered {
    spec: ClusteredSpec,
    sampler: Option<Sampler>,
    clusterer: Arc<dyn Clusterer>,
    latest: LatestNetworks,
    job: Option<Job>,
    waits: bool,
    /// Rounds applied.
    round: u64,
    /// Uploads since the last clustering began.
    uploads: u64,
    figures: ClusterFigures,
}

impl Clustered {
    /// Before the first round.
    pub fn new(spec: ClusteredSpec) -> Self {
        let clusterer = Arc::new(job::SamplerAndKMeans { spec });
        Self {
            sampler: spec.clusters.sampler(),
            clusterer,
            latest: LatestNetworks::new(spec.clusters.parameters),
            job: None,
            waits: true,
            round: 0,
            uploads: 0,
            figures: ClusterFigures { sizes: vec![0; spec.clusters.count], ..ClusterFigures::default() },
            spec,
        }
    }

    /// The same with another way to find clusters.
    #[must_use]
    pub fn with_clusterer(mut self, clusterer: Arc<dyn Clusterer>) -> Self {
        self.clusterer = clusterer;
        self
    }

    /// Takes up a finished clustering: embedding, centroids and the cluster of each device.
    fn install(&mut self, found: &FoundClusters, shared: &mut Parameters) {
        let clusters = self.spec.clusters;
        let Some(table) = clusters.sampler_table() else { return };
        let (dim, count) = (clusters.dim, found.centroids.len().min(clusters.count));
        shared.tables_mut()[table].row_mut(0).copy_from_slice(&found.sampler);
        let centroids = &mut shared.tables_mut()[clusters.centroids()];
        for cluster in 0..clusters.count {
            let row = centroids.row_mut(cluster);
            row.fill(0.0);
            if let Some(centroid) = found.centroids.get(cluster) {
                row[..dim].copy_from_slice(centroid);
                row[dim] = 1.0;
            }
        }
        let assign = self.assignment(shared);
        self.latest.assign_all(&assign);
        self.figures.clusterings.push((self.round, count));
    }

    /// The cluster of a network, by what the shared model holds.
    fn assignment(&self, shared: &Parameters) -> impl Fn(&[f32]) -> usize + use<> {
        let clusters = self.spec.clusters;
        let centroids = shared.tables()[clusters.centroids()].clone();
        let active = active_rows(shared, &clusters);
        let row = clusters.sampler_table().map(|table| shared.tables()[table].row(0).to_vec()).unwrap_or_default();
        let sampler = self.sampler.clone();
        move |network| {
            if active.len() < 2 {
                return active.first().copied().unwrap_or(0);
            }
            let embedding = sampler.as_ref().and_then(|sampler| sampler.embed(&row, network));
            embedding.and_then(|embedding| clusters.nearest(&centroids, &active, &embedding)).unwrap_or(active[0])
        }
    }

    /// Stores what devices sent.
    fn store(&mut self, shared: &Parameters, round: &Aggregate) {
        let (table, assign) = (self.spec.clusters.networks(), self.assignment(shared));
        for (device, rows) in round.identified() {
            let Some((row, change)) = rows.rows_of(table).next() else { continue };
            let start = shared.tables()[table].row(row);
            let network: Vec<f32> = start.iter().zip(change).map(|(start, change)| start + change).collect();
            if network.iter().all(|value| value.is_finite()) {
                let cluster = assign(&network);
                self.latest.insert(device, self.round, cluster, network);
                self.uploads += 1;
            }
        }
        if let Some(bound) = self.spec.staleness {
            self.figures.stale += self.latest.drop_older_than(self.round.saturating_sub(bound));
        }
    }

    /// Moves rows that belong to no cluster to the mean of those who sent them.
    fn step_others(&self, shared: &mut Parameters, round: &Aggregate) {
        let (mean, own) = (Mean { learning_rate: 1.0, over: MeanOver::Senders }, self.spec.clusters.tables());
        step_along_mean(&mean, shared, round, |table| !own.contains(&table));
    }

    /// Takes up the clustering under way, if it is ready, or if this waits for it.
    fn take_up(&mut self, shared: &mut Parameters) {
        match self.job.take() {
            Some(job) if self.waits || job.is_finished() => {
                if let Some(found) = job.join() {
                    self.install(&found, shared);
                }
            }
            Some(job) => {
                self.figures.late += 1;
                self.job = Some(job);
            }
            None => {}
        }
    }

    /// Starts a clustering once enough was uploaded since the last.
    fn start_if_due(&mut self) {
        let epochs = if self.figures.clusterings.is_empty() { 1 } else { self.spec.recluster };
        let due = self.uploads >= (epochs * self.spec.devices) as u64 && self.latest.len() > 1;
        if due && self.job.is_none() && self.spec.clusters.count > 1 {
            self.uploads = 0;
            let pool = self.latest.pool(self.spec.pool, self.round);
            self.job = Some(Job::start(&self.clusterer, pool, self.round));
        }
    }
}

/// Clusters that are in use.
fn active_rows(shared: &Parameters, clusters: &Clusters) -> Vec<usize> {
    let centroids = &shared.tables()[clusters.centroids()];
    (0..clusters.count).filter(|&row| centroids.row(row)[clusters.dim] > 0.5).collect()
}

impl Strategy for Clustered {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        self.round += 1;
        self.store(shared, round);
        self.take_up(shared);
        self.start_if_due();
        self.step_others(shared, round);
        let networks = &mut shared.tables_mut()[self.spec.clusters.networks()];
        for (cluster, size) in self.figures.sizes.iter_mut().enumerate() {
            *size = self.latest.mean(cluster, networks.row_mut(cluster));
        }
    }

    fn identifies_devices(&self) -> bool {
        true
    }

    fn changes_unsent_rows(&self) -> bool {
        true
    }

    fn never_wait(&mut self) {
        self.waits = self.spec.late == LateClustering::Wait;
    }

    fn clusters(&self) -> Option<&ClusterFigures> {
        Some(&self.figures)
    }

    fn advice(&self) -> String {
        "take a smaller learning_rate on the devices".to_owned()
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let ClusterFigures { clusterings, sizes, stale, late } = &self.figures;
        put_u64s(out, &[self.round, self.uploads, *stale, *late, clusterings.len() as u64])?;
        for &(round, count) in clusterings {
            put_u64s(out, &[round, count as u64])?;
        }
        for &size in sizes {
            put_u64s(out, &[size as u64])?;
        }
        self.latest.save(out)?;
        match &self.job {
            Some(job) => job.save(out),
            None => put_u64s(out, &[0]),
        }
    }

    fn restore(&mut self, _: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [round, uploads, stale, late, clusterings] = take_numbers(from)?;
        if clusterings > round {
            return Err(unfit(format!("{clusterings} clusterings in {round} rounds")));
        }
        (self.round, self.uploads) = (round, uploads);
        self.figures = ClusterFigures { stale, late, ..ClusterFigures::default() };
        for _ in 0..clusterings {
            let [round, count] = take_numbers(from)?;
            self.figures.clusterings.push((round, count as usize));
        }
        for _ in 0..self.spec.clusters.count {
            let [size] = take_numbers(from)?;
            self.figures.sizes.push(size as usize);
        }
        self.latest.restore(self.spec.clusters.count, from)?;
        self.job = Job::restore(&self.clusterer, self.spec.clusters.parameters, from)?;
        Ok(())
    }
}
