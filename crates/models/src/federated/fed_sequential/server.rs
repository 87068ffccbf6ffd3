//! The server's half: items' vectors, and a network for each cluster.

use super::FedSequentialConfig;
use crate::federated::clustering::Clusters;
use crate::federated::{ServerModel, TensorSlice, item_rows};
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters, Table};

/// What runs on the server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The settings.
    pub config: FedSequentialConfig,
}

/// Standard deviation of items' first vectors.
const INIT_DEVIATION: f32 = 0.02;

impl Server {
    /// Name of the table of items' vectors.
    pub const ITEMS: &'static str = "items";

    /// The clusters' tables, behind that of the items.
    pub fn clusters(&self) -> Clusters {
        let parameters = self.config.build().map_or(0, |(_, layout)| layout.len());
        Clusters::new(&self.config.clusters, parameters, 1)
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        let items = item_rows(Self::ITEMS, items, self.config.hidden);
        Layout::new(std::iter::once(items).chain(self.clusters().shapes()).collect())
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut vectors = Table::zeros(item_rows(Self::ITEMS, items, self.config.hidden))?;
        rng.stream("items", 0).fill_normal(INIT_DEVIATION, vectors.values_mut());
        let layout = self.config.build().map(|(_, layout)| layout).unwrap_or_default();
        let clusters = self.clusters().init(rng, |network, rng| {
            // The row is as long as the layout says.
            let _ = layout.initialise(network, rng);
        })?;
        Parameters::new(std::iter::once(vectors).chain(clusters).collect())
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        let items = TensorSlice::matrix(Self::ITEMS, 0, 0..self.config.hidden);
        std::iter::once(items).chain(self.clusters().tensors()).collect()
    }
}
