//! The server's half: one dense table a tensor of the network.

use super::Network;
use crate::federated::{ServerModel, TensorSlice};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// The shared model of an image classifier.
#[derive(Clone, Debug)]
pub struct ClassifierServer {
    network: Network,
}

impl ClassifierServer {
    /// Of this network.
    pub fn new(network: Network) -> Self {
        Self { network }
    }
}

/// A tensor's first side is the table's rows; a tensor of one side is one row.
fn shapes(network: &Network) -> impl Iterator<Item = Shape> {
    network.layout().tensors().iter().map(|tensor| {
        let (rows, cols) = match tensor.shape.as_slice() {
            [only] => (1, *only),
            [first, rest @ ..] => (*first, rest.iter().product()),
            [] => (1, 1),
        };
        Shape::new(tensor.name.as_str(), rows as u32, cols as u32, Keyed::Dense)
    })
}

impl ServerModel for ClassifierServer {
    fn layout(&self, _: usize) -> Result<Layout, ModelError> {
        Layout::new(shapes(&self.network).collect())
    }

    fn init(&self, _: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut flat = self.network.layout().zeros::<f32>();
        // The buffer is made for the network just above.
        let _ = self.network.initialise(&mut flat, rng);
        let tensors = self.network.layout().tensors().iter();
        let table = |(shape, slot): (Shape, std::ops::Range<usize>)| Table::new(shape, flat[slot].to_vec());
        let tables = shapes(&self.network).zip(tensors.map(|tensor| tensor.slot.range())).map(table);
        Parameters::new(tables.collect::<Result<_, _>>()?)
    }

    /// Classifiers are not stored in model files.
    fn tensors(&self) -> Vec<TensorSlice> {
        Vec::new()
    }
}

/// A shared model's tables as one flat buffer, in the network's order.
pub(super) fn flattened(shared: &Parameters) -> Vec<f32> {
    let mut flat = Vec::with_capacity(shared.len());
    shared.tables().iter().for_each(|table| flat.extend_from_slice(table.values()));
    flat
}
