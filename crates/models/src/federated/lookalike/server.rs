//! The server's half: rows of the first and the last layer by category, and the layers between them.

use super::network::{Network, Shape};
use crate::federated::{ServerModel, TensorSlice, item_rows};
use sottovoce_core::Rng;
use sottovoce_neural::{Arithmetic, Role};
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape as TableShape, Table};

/// What runs on the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// What the network is like.
    pub shape: Shape,
}

/// The least variance that a network is run with, whatever the server sends.
const LEAST_VARIANCE: f32 = 1e-3;

impl Server {
    /// Name of the first layer's rows.
    pub const INPUT: &'static str = "input";
    /// Name of the last layer's rows; the last column is the categories' bias.
    pub const OUTPUT: &'static str = "output";
    /// Name of all between, a table of one row.
    pub const MIDDLE: &'static str = "middle";

    /// The network for so many categories. Settings are bounded, so that there is one unless the catalog is empty.
    pub fn network(&self, categories: usize) -> Option<Network> {
        Network::new(self.shape, categories, Arithmetic::Portable).ok()
    }

    fn shapes(&self, categories: usize) -> [TableShape; 3] {
        let middle = self.network(categories.max(1)).map_or(0, |network| network.middle().len());
        [
            item_rows(Self::INPUT, categories, self.shape.hidden()),
            item_rows(Self::OUTPUT, categories, self.shape.hidden() + 1),
            TableShape::new(Self::MIDDLE, 1, middle as u32, Keyed::Dense),
        ]
    }
}

/// The shared model as the network's flat buffer; empty if it is not this network's.
pub(super) fn flattened(network: &Network, shared: &Parameters) -> Vec<f32> {
    let (categories, width) = (network.categories(), network.shape().hidden());
    let [input, output, middle] = shared.tables() else { return Vec::new() };
    let fits = [(input, categories * width), (output, categories * (width + 1)), (middle, network.middle().len())];
    if fits.iter().any(|(table, values)| table.values().len() != *values) {
        return Vec::new();
    }
    let mut flat = vec![0.0; network.layout().len()];
    flat[..input.values().len()].copy_from_slice(input.values());
    flat[network.middle()].copy_from_slice(middle.values());
    let (weights, biases) = flat[network.middle().end..].split_at_mut(width * categories);
    for (category, row) in output.values().chunks_exact(width + 1).enumerate() {
        for k in 0..width {
            weights[k * categories + category] = row[k];
        }
        biases[category] = row[width];
    }
    let statistics = network.layout().tensors().iter().filter(|tensor| tensor.role == Role::Statistic);
    for tensor in statistics.filter(|tensor| tensor.name.ends_with("variance")) {
        flat[tensor.slot.range()].iter_mut().for_each(|value| *value = value.max(LEAST_VARIANCE));
    }
    flat
}

/// Rows of the last layer, category after category, from the network's flat buffer.
pub(super) fn output_rows(network: &Network, flat: &[f32], scale: f32, into: &mut [f32]) {
    let (categories, width) = (network.categories(), network.shape().hidden());
    let (weights, biases) = flat[network.middle().end..].split_at(width * categories);
    for (category, row) in into.chunks_exact_mut(width + 1).enumerate() {
        for k in 0..width {
            row[k] = scale * weights[k * categories + category];
        }
        row[width] = scale * biases[category];
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(self.shapes(items).into())
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let [input, output, middle] = self.shapes(items).map(Table::zeros);
        let (mut input, mut output, mut middle) = (input?, output?, middle?);
        if let Some(network) = self.network(items) {
            let mut flat = network.layout().zeros::<f32>();
            // The buffer is as long as the layout says.
            let _ = network.layout().initialise(&mut flat, &rng.stream("network", 0));
            let weights = input.values().len();
            input.values_mut().copy_from_slice(&flat[..weights]);
            middle.values_mut().copy_from_slice(&flat[network.middle()]);
            output_rows(&network, &flat, 1.0, output.values_mut());
        }
        Parameters::new(vec![input, output, middle])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        let width = self.shape.hidden();
        let middle = self.network(1).map_or(0, |network| network.middle().len());
        vec![
            TensorSlice::matrix(Self::INPUT, 0, 0..width),
            TensorSlice::matrix(Self::OUTPUT, 1, 0..width),
            TensorSlice::vector("output_bias", 1, width),
            TensorSlice::matrix(Self::MIDDLE, 2, 0..middle),
        ]
    }
}
