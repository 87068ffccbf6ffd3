//! The server's half: one table with a row an item.

use crate::federated::{ServerModel, TensorSlice, item_rows};
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters, Shape, Table};

/// Item factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random factors.
    pub init_deviation: f32,
}

impl Server {
    /// The table's name.
    pub const TABLE: &'static str = "items";

    fn shape(&self, items: usize) -> Shape {
        item_rows(Self::TABLE, items, self.factors)
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape(items)])
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape(items))?;
        rng.fill_normal(self.init_deviation, table.values_mut());
        Parameters::new(vec![table])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::matrix("items", 0, 0..self.factors)]
    }
}
