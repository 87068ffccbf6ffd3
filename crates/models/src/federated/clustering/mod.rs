//! Clusters of devices: the shared model holds one copy of a network for each cluster, and each device finds out by
//! itself to which cluster it belongs.
//!
//! The copies are the rows of one table. A device starts its round from the row of its cluster and sends the change of
//! that row only, so that aggregation by cluster is aggregation by row. All devices download the same bytes and nobody
//! tells a device which cluster to take: a server cannot single a device out by its cluster, simulated equals deployed,
//! and rows can be sealed like any others.
//!
//! A device chooses ([`Assignment`]):
//! - by the nearest centroid in an embedding of its network's parameters. The embedding is a variational autoencoder
//!   that the server trains on uploads (**ReFRS**: Imran, Yin, Chen, Nguyen, Zhou, Zheng, 2021), or a random projection
//!   that needs no training, so that centroids follow from sums alone and uploads can be sealed;
//! - by the least loss of all clusters' networks on its own data (**IFCA**: Ghosh, Chung, Yin, Ramchandran, NeurIPS
//!   2020).
//!
//! A device that has not trained yet goes by the least loss whatever the setting.
//!
//! **What leaves the device**: which cluster it belongs to, unless updates are sealed, and the change of its network.

mod projection;
mod sampler;
#[cfg(test)]
mod tests;

pub use projection::Projection;
pub use sampler::{Sampler, SamplerTraining};

use super::{AggregationSpec, Mean, MeanOver, TensorSlice};
use crate::{choices, config};
use sottovoce_core::{Rng, math};
use sottovoce_protocol::{Keyed, ModelError, Parameters, RowOrigin, Shape, Table, Trained, UpdateError};

choices! {
    /// How a device finds its cluster.
    #[derive(Default)]
    pub enum Assignment {
        /// The nearest centroid in an embedding of parameters that the server learns from uploads.
        #[default]
        Sampler => "sampler",
        /// The nearest centroid in a random projection of parameters; needs nothing but sums.
        Projection => "projection",
        /// The least loss on the device's own data.
        Loss => "loss",
        /// There is one cluster.
        Single => "single",
        /// There is no server: each device trains alone.
        Alone => "none",
    }
}

choices! {
    /// What a server does whose clustering is not done when the next round is.
    #[derive(Default)]
    pub enum LateClustering {
        /// Goes on with the clusters that there are, and takes up the new ones in a later round.
        #[default]
        GoOn => "go-on",
        /// Opens the next round when the clustering is done.
        Wait => "wait",
    }
}

config! {
    /// Settings of clusters.
    #[derive(PartialEq)]
    pub struct ClusterConfig {
        /// How a device finds its cluster: nearest in an embedding that the server learns from uploads (sampler, as
        /// ReFRS) or in a random projection (works under seals), least loss (loss, as IFCA); single: one for all;
        /// none: devices train alone
        pub assignment: Assignment = Assignment::Sampler => [device];
        /// Number of clusters; with assignment = sampler the most there can be
        pub clusters: usize = 10, in 1..=100 => [device];
        /// Length of the embedding of a device's parameters
        pub cluster_dim: usize = 16, in 1..=64 => [device];
        /// With assignment = sampler: global epochs after which clusters are computed anew
        pub recluster: usize = 2, in 1..=1000;
        /// With assignment = sampler: rounds after which a device's last upload counts no longer; 0: never
        pub staleness: usize = 50, in 0..=1_000_000;
        /// With assignment = sampler: devices whose uploads the embedding is learnt from
        pub sampler_pool: usize = 1000, in 2..=100_000;
        /// With assignment = sampler: epochs of that learning
        pub sampler_epochs: usize = 20, in 1..=10_000;
        /// With assignment = sampler: what a server does whose clustering takes longer than a round: go on with the
        /// clusters that there are, or wait, so that its model is the simulator's bit for bit, however slow it is
        pub late_clustering: LateClustering = LateClustering::GoOn;
    }
}

/// What the server needs to cluster uploads; plain data that `sottovoce-federation` builds a strategy from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusteredSpec {
    /// The clusters.
    pub clusters: Clusters,
    /// Devices of the federation: as many uploads are a global epoch.
    pub devices: usize,
    /// Global epochs between two clusterings.
    pub recluster: usize,
    /// Rounds after which a device's last upload counts no longer.
    pub staleness: Option<u64>,
    /// Devices whose uploads the embedding is learnt from.
    pub pool: usize,
    /// Epochs of that learning.
    pub epochs: usize,
    /// What a server does that is not done with it in time.
    pub late: LateClustering,
}

/// The tables of the clusters in a shared model, and how devices choose among them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clusters {
    /// How devices choose.
    pub assignment: Assignment,
    /// Rows of networks.
    pub count: usize,
    /// Parameters of a network.
    pub parameters: usize,
    /// Length of an embedding.
    pub dim: usize,
    /// Index of the first of the tables in the shared model's layout.
    pub first_table: usize,
}

/// What a device computes once from a shared model.
#[derive(Clone, Debug, Default)]
pub struct PreparedClusters {
    /// Rows that are in use, ascending; the first if none is.
    active: Vec<usize>,
    /// The mean of their networks.
    mean: Vec<f32>,
}

impl Clusters {
    /// Name of the table of networks, one a row.
    pub const NETWORKS: &'static str = "cluster_networks";
    /// Name of the table of centroids; the last column is 1 where the cluster is in use.
    pub const CENTROIDS: &'static str = "cluster_centroids";
    /// Name of the embedding's parameters, a table of one row.
    pub const SAMPLER: &'static str = "cluster_sampler";

    /// The clusters of networks with so many parameters, whose tables begin at this index.
    pub fn new(config: &ClusterConfig, parameters: usize, first_table: usize) -> Self {
        let count = match config.assignment {
            Assignment::Single | Assignment::Alone => 1,
            _ => config.clusters,
        };
        Self { assignment: config.assignment, count, parameters, dim: config.cluster_dim, first_table }
    }

    /// How updates become the next shared model, in a population of this many devices.
    pub fn aggregation(&self, config: &ClusterConfig, devices: usize) -> AggregationSpec {
        match self.assignment {
            Assignment::Sampler => AggregationSpec::Clustered(ClusteredSpec {
                clusters: *self,
                devices,
                recluster: config.recluster,
                staleness: (config.staleness > 0).then_some(config.staleness as u64),
                pool: config.sampler_pool,
                epochs: config.sampler_epochs,
                late: config.late_clustering,
            }),
            _ => AggregationSpec::Mean(Mean { learning_rate: 1.0, over: MeanOver::Senders }),
        }
    }

    /// Indices of the tables.
    pub fn tables(&self) -> std::ops::Range<usize> {
        self.first_table..self.first_table + 2 + usize::from(self.assignment == Assignment::Sampler)
    }

    /// Index of the table of networks.
    pub fn networks(&self) -> usize {
        self.first_table
    }

    /// Index of the table of centroids.
    pub fn centroids(&self) -> usize {
        self.first_table + 1
    }

    /// Index of the embedding's table, where the server learns one.
    pub fn sampler_table(&self) -> Option<usize> {
        (self.assignment == Assignment::Sampler).then_some(self.first_table + 2)
    }

    /// The embedding that the server learns; `None` where there is none.
    pub fn sampler(&self) -> Option<Sampler> {
        let learnt = self.assignment == Assignment::Sampler;
        if learnt { Sampler::new(self.parameters, self.dim).ok() } else { None }
    }

    /// The tables' shapes.
    pub fn shapes(&self) -> Vec<Shape> {
        let (rows, dim) = (self.count as u32, self.dim as u32);
        let networks = Shape::new(Self::NETWORKS, rows, self.parameters as u32, Keyed::Others);
        let centroids = Shape::new(Self::CENTROIDS, rows, dim + 1, Keyed::Others);
        let learnt = self.sampler().map(|sampler| Shape::new(Self::SAMPLER, 1, sampler.values() as u32, Keyed::Dense));
        [networks, centroids].into_iter().chain(learnt).collect()
    }

    /// How the tables are stored in model files.
    pub fn tensors(&self) -> Vec<TensorSlice> {
        let networks = TensorSlice::matrix(Self::NETWORKS, self.networks(), 0..self.parameters);
        let centroids = TensorSlice::matrix(Self::CENTROIDS, self.centroids(), 0..self.dim + 1);
        let learnt = self.sampler_table().zip(self.sampler());
        let learnt = learnt.map(|(table, sampler)| TensorSlice::matrix(Self::SAMPLER, table, 0..sampler.values()));
        [networks, centroids].into_iter().chain(learnt).collect()
    }

    /// The tables before the first round; `network` fills a network's first values from a stream of its own. All
    /// clusters begin with the same network, except where devices choose by the loss, which needs different ones.
    ///
    /// # Errors
    /// If they are too large for the wire format.
    pub fn init(&self, rng: &Rng, mut network: impl FnMut(&mut [f32], &mut Rng)) -> Result<Vec<Table>, ModelError> {
        let mut tables = self.shapes().into_iter().map(Table::zeros).collect::<Result<Vec<_>, _>>()?;
        for row in 0..self.count {
            let stream = if self.assignment == Assignment::Loss { row as u64 } else { 0 };
            network(tables[0].row_mut(row), &mut rng.stream("cluster", stream));
            let in_use = row == 0 || self.assignment != Assignment::Sampler;
            tables[1].row_mut(row)[self.dim] = f32::from(u8::from(in_use));
        }
        if self.assignment == Assignment::Projection {
            for row in 0..self.count {
                let centroid = &mut tables[1].row_mut(row)[..self.dim];
                rng.stream("centroid", row as u64).fill_normal(1.0, centroid);
                normalise(centroid);
            }
        }
        Ok(tables)
    }

    /// The rows in use and their mean. A shared model without these tables has none.
    pub fn prepare(&self, shared: &Parameters) -> PreparedClusters {
        let [Some(networks), Some(centroids)] = [0, 1].map(|n| shared.tables().get(self.first_table + n)) else {
            return PreparedClusters::default();
        };
        let rows = (centroids.shape().rows.min(networks.shape().rows)) as usize;
        let mut active: Vec<usize> =
            (0..rows).filter(|&row| centroids.row(row).last().is_some_and(|&flag| flag > 0.5)).collect();
        if active.is_empty() {
            active.push(0);
        }
        let mut mean = vec![0.0; networks.shape().cols as usize];
        for &row in &active {
            math::add_scaled(&mut mean, 1.0 / active.len() as f32, networks.row(row));
        }
        PreparedClusters { active, mean }
    }

    /// The cluster of a device, whose network has these parameters, or none yet; `loss` tells what a network loses on
    /// the device's data.
    pub fn assign(
        &self,
        shared: &Parameters,
        prepared: &PreparedClusters,
        own: Option<&[f32]>,
        mut loss: impl FnMut(&[f32]) -> f64,
    ) -> usize {
        let tables = shared.tables();
        let [Some(networks), Some(centroids)] = [0, 1].map(|n| tables.get(self.first_table + n)) else { return 0 };
        let active = &prepared.active;
        let first = active.first().copied().unwrap_or(0);
        if active.len() < 2 {
            return first;
        }
        let embedding = own.and_then(|own| match self.assignment {
            Assignment::Sampler => self.sampler()?.embed(tables.get(self.sampler_table()?)?.row(0), own),
            Assignment::Projection => Some(self.projection().embed(own, &prepared.mean)),
            _ => None,
        });
        match embedding {
            Some(embedding) => self.nearest(centroids, active, &embedding).unwrap_or(first),
            None => least(active, |row| loss(networks.row(row))).unwrap_or(first),
        }
    }

    /// The random projection, the same for everybody.
    pub fn projection(&self) -> Projection {
        Projection::new(self.parameters, self.dim)
    }

    /// The row in use whose centroid is nearest to an embedding. For projections, of which only the direction counts,
    /// the centroid's direction counts too.
    pub fn nearest(&self, centroids: &Table, active: &[usize], embedding: &[f32]) -> Option<usize> {
        least(active, |row| {
            let centroid = &centroids.row(row)[..self.dim.min(embedding.len())];
            match self.assignment {
                Assignment::Projection => {
                    let norm = math::dot(centroid, centroid).sqrt();
                    if norm > 0.0 { f64::from(-math::dot(centroid, embedding) / norm) } else { 0.0 }
                }
                _ => centroid.iter().zip(embedding).map(|(c, e)| f64::from((c - e) * (c - e))).sum(),
            }
        })
    }

    /// Writes the change of the cluster's network to `own`, and sets `own` to what the server makes of it. Where
    /// centroids follow from sums, their change is written too.
    ///
    /// # Errors
    /// If the buffer does not have these tables.
    pub fn propose(
        &self,
        shared: &Parameters,
        prepared: &PreparedClusters,
        cluster: usize,
        own: &mut [f32],
        into: &mut Trained,
    ) -> Result<(), UpdateError> {
        let row = into.push_row(self.networks(), cluster as u32, RowOrigin::Other)?;
        let start = shared.tables()[self.networks()].row(cluster);
        for ((change, own), start) in row.iter_mut().zip(own.iter_mut()).zip(start) {
            *change = *own - start;
            *own = start + *change;
        }
        if self.assignment == Assignment::Projection {
            let embedding = self.projection().embed(own, &prepared.mean);
            let centroid = shared.tables()[self.centroids()].row(cluster);
            let row = into.push_row(self.centroids(), cluster as u32, RowOrigin::Other)?;
            row.iter_mut().zip(embedding).zip(centroid).for_each(|((row, e), c)| *row = e - c);
        }
        Ok(())
    }
}

/// The row with the least finite value; the first of several.
fn least(rows: &[usize], mut value: impl FnMut(usize) -> f64) -> Option<usize> {
    let values = rows.iter().map(|&row| (value(row), row)).filter(|(value, _)| value.is_finite());
    values
        .fold(None, |best: Option<(f64, usize)>, next| match best {
            Some(best) if best.0 <= next.0 => Some(best),
            _ => Some(next),
        })
        .map(|(_, row)| row)
}

/// Scales to length 1; zeros stay.
pub(crate) fn normalise(vector: &mut [f32]) {
    let norm = math::dot(vector, vector).sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|value| *value /= norm);
    }
}
