//! A clustering under way, on a thread of its own.

use super::kmeans;
use crate::state::{put_f32s, put_u64s, take_f32s, take_numbers};
use sottovoce_core::Rng;
use sottovoce_models::federated::clustering::ClusteredSpec;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Clusters of networks.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundClusters {
    /// The embedding's row of the shared model.
    pub sampler: Vec<f32>,
    /// Centroids in that embedding.
    pub centroids: Vec<Vec<f32>>,
}

/// Finds clusters of networks; the same networks and randomness give the same clusters.
pub trait Clusterer: Send + Sync {
    /// The clusters; `None` if there are none to be found.
    fn find(&self, networks: &[Vec<f32>], rng: &Rng) -> Option<FoundClusters>;
}

/// ReFRS's: a variational autoencoder, then k-means.
pub(super) struct SamplerAndKMeans {
    pub(super) spec: ClusteredSpec,
}

impl Clusterer for SamplerAndKMeans {
    fn find(&self, networks: &[Vec<f32>], rng: &Rng) -> Option<FoundClusters> {
        let sampler = self.spec.clusters.sampler()?;
        let views: Vec<&[f32]> = networks.iter().map(Vec::as_slice).collect();
        let trained = sampler.train(&views, self.spec.epochs, &rng.stream("sampler", 0)).ok()?;
        let embeddings =
            views.iter().map(|network| sampler.embed(&trained.row, network)).collect::<Option<Vec<_>>>()?;
        if !embeddings.iter().flatten().all(|value| value.is_finite()) {
            return None;
        }
        let centroids = kmeans::cluster(&embeddings, self.spec.clusters.count, &rng.stream("k-means", 0)).centres;
        Some(FoundClusters { sampler: trained.row, centroids })
    }
}

/// A clustering under way, and what it is of: a server that is killed starts it again.
pub(super) struct Job {
    pool: Arc<Vec<Vec<f32>>>,
    round: u64,
    thread: JoinHandle<Option<FoundClusters>>,
}

impl Job {
    /// Starts a clustering of these networks.
    pub(super) fn start(clusterer: &Arc<dyn Clusterer>, pool: Vec<Vec<f32>>, round: u64) -> Self {
        let (clusterer, pool) = (Arc::clone(clusterer), Arc::new(pool));
        let networks = Arc::clone(&pool);
        let thread = thread::spawn(move || clusterer.find(&networks, &Rng::new(round).stream("clustering", 0)));
        Self { pool, round, thread }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the clusters; `None` if none were found.
    pub(super) fn join(self) -> Option<FoundClusters> {
        self.thread.join().ok().flatten()
    }

    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.pool.len() as u64, self.round])?;
        self.pool.iter().try_for_each(|network| put_f32s(out, network))
    }

    /// Starts a clustering anew that was under way when the state was written.
    pub(super) fn restore(
        clusterer: &Arc<dyn Clusterer>,
        parameters: usize,
        from: &mut dyn Read,
    ) -> io::Result<Option<Self>> {
        let [count] = take_numbers(from)?;
        if count == 0 {
            return Ok(None);
        }
        let [round] = take_numbers(from)?;
        let mut pool = Vec::new();
        for _ in 0..count {
            let mut network = vec![0.0; parameters];
            take_f32s(from, &mut network)?;
            pool.push(network);
        }
        Ok(Some(Self::start(clusterer, pool, round)))
    }
}
