//! The server's half: one table with a row an item.

use crate::federated::{ServerModel, TensorSlice, item_rows};
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters, Shape, Table};

/// Item factors and biases in one table, the bias in the last column, so that an item's row goes or stays as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random factors; biases begin at 0.
    pub init_deviation: f32,
}

impl Server {
    /// The table's name.
    pub const TABLE: &'static str = "items";

    fn shape(&self, items: usize) -> Shape {
        item_rows(Self::TABLE, items, self.factors + 1)
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape(items)])
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape(items))?;
        for item in 0..items {
            rng.fill_normal(self.init_deviation, &mut table.row_mut(item)[..self.factors]);
        }
        Parameters::new(vec![table])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::matrix("items", 0, 0..self.factors), TensorSlice::vector("bias", 0, self.factors)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_begin_random_and_biases_at_zero() {
        let shared = Server { factors: 6, init_deviation: 0.1 };
        let start = shared.init(500, &mut Rng::new(1)).unwrap();
        assert!(start.check(&shared.layout(500).unwrap()).is_ok());
        let rows = || start.tables()[0].values().chunks_exact(7);
        assert!(rows().all(|row| row[6] == 0.0));
        let square: f32 = rows().flat_map(|row| &row[..6]).map(|value| value * value).sum();
        assert!((square / 3000.0 - 0.01).abs() < 0.001, "{square}");
        assert!(shared.init(0, &mut Rng::new(1)).is_err());
    }
}
