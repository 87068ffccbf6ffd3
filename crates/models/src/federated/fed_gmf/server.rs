//! The server's half: items' vectors, and the output's weights.

use crate::federated::{ServerModel, TensorSlice, item_rows};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Items' vectors in one table, the output's weights in another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random vectors; the output's weights begin at 1.
    pub init_deviation: f32,
}

impl Server {
    /// Name of the table of items' vectors.
    pub const ITEMS: &'static str = "items";
    /// Name of the output's weights, a table of one row.
    pub const OUTPUT: &'static str = "output";

    fn shapes(&self, items: usize) -> [Shape; 2] {
        let output = Shape::new(Self::OUTPUT, 1, self.factors as u32, Keyed::Dense);
        [item_rows(Self::ITEMS, items, self.factors), output]
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(self.shapes(items).into())
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let [items, output] = self.shapes(items);
        let mut vectors = Table::zeros(items)?;
        rng.fill_normal(self.init_deviation, vectors.values_mut());
        Parameters::new(vec![vectors, Table::new(output, vec![1.0; self.factors])?])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        let columns = 0..self.factors;
        vec![TensorSlice::matrix("items", 0, columns.clone()), TensorSlice::matrix("output", 1, columns)]
    }
}
