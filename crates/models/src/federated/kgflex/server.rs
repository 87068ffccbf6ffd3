//! The server's half: one table with a row a feature.

use super::Client;
use crate::federated::{ServerModel, TensorSlice};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Vectors and biases of features in one table, the bias in the last column, so that a feature's row goes or stays as
/// one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// Features of the catalog's facts.
    pub features: usize,
    /// Length of a feature's vector.
    pub factors: usize,
    /// Standard deviation of the first random vectors; biases begin at 0.
    pub init_deviation: f32,
}

impl Server {
    /// The table's name.
    pub const TABLE: &'static str = "features";

    /// The one that a device learns with.
    pub fn of(device: &Client) -> Self {
        let Client { facts, factors, init_deviation, .. } = device;
        Self { features: facts.features(), factors: *factors, init_deviation: *init_deviation }
    }

    fn shape(&self) -> Shape {
        // More than the wire format's limit are refused as such, also where it is past 32 bits.
        let rows = u32::try_from(self.features).unwrap_or(u32::MAX);
        Shape::new(Self::TABLE, rows, self.factors as u32 + 1, Keyed::Others)
    }
}

impl ServerModel for Server {
    fn layout(&self, _items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape()])
    }

    fn init(&self, _items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape())?;
        for feature in 0..self.features {
            rng.fill_normal(self.init_deviation, &mut table.row_mut(feature)[..self.factors]);
        }
        Parameters::new(vec![table])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::matrix("features", 0, 0..self.factors), TensorSlice::vector("bias", 0, self.factors)]
    }
}
