//! The server's half: an encoder for each cluster of devices.

use super::network::Network;
use crate::federated::clustering::Clusters;
use crate::federated::{ServerModel, TensorSlice};
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters};

/// What runs on the server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(super) network: Option<Network>,
    pub(super) clusters: Clusters,
}

impl ServerModel for Server {
    /// It does not depend on the catalog: no table has a row for an item.
    fn layout(&self, _: usize) -> Result<Layout, ModelError> {
        Layout::new(self.clusters.shapes())
    }

    fn init(&self, _: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut flat = Vec::new();
        let tables = self.clusters.init(rng, |encoder, rng| {
            let Some(network) = &self.network else { return };
            flat.resize(network.layout().len(), 0.0f32);
            // The buffer is as long as the layout says.
            let _ = network.layout().initialise(&mut flat, rng);
            encoder.copy_from_slice(&flat[network.encoder()]);
        });
        Parameters::new(tables?)
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        let names = ["encoders", "centroids", "sampler"];
        let columns = self.clusters.shapes().into_iter().map(|shape| 0..shape.cols as usize);
        let slices = names.into_iter().zip(columns).enumerate();
        slices.map(|(table, (name, columns))| TensorSlice::matrix(name, table, columns)).collect()
    }
}
