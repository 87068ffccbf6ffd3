//! The server's half: adds up co-occurrences and inverts.

use crate::ServerModel;
use crate::central::matrix_inverse::SymmetricMatrix;
use crate::federated::{TensorSlice, item_rows};
use crate::spectral::{packed_cell, packed_cols};
use rayon::prelude::*;
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters, Table};

/// Which table there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server;

impl Server {
    /// The table's name: half of a symmetric matrix, see [`packed_cell`].
    pub const TABLE: &'static str = "items";
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![item_rows(Self::TABLE, items, packed_cols(items))])
    }

    fn init(&self, items: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Ok(Parameters::zeros(&self.layout(items)?))
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::whole("inverse", 0)]
    }
}

/// How the server turns a sum into the inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GramSpec {
    /// l.
    pub regularisation: f64,
}

/// What the server knows beside the shared model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GramStep {
    /// The epoch of the latest round.
    pub epoch: u64,
    /// Half of G of that epoch so far, as the table has it.
    pub gram: Vec<f64>,
}

impl GramStep {
    /// Takes a round of an epoch: `sums` are rows of half of its G. Writes half of the inverse, or leaves the table as
    /// it was where noise has made a matrix that has none.
    pub fn take<'a>(
        &mut self,
        spec: &GramSpec,
        epoch: u64,
        shared: &mut Table,
        sums: impl Iterator<Item = (usize, &'a [f32])>,
    ) {
        let (items, cols) = (shared.shape().rows as usize, shared.shape().cols as usize);
        if epoch != self.epoch || self.gram.is_empty() {
            self.gram.clear();
            self.gram.resize(items * cols, 0.0);
            self.epoch = epoch;
        }
        for (row, sum) in sums {
            self.gram[row * cols..][..cols].iter_mut().zip(sum).for_each(|(to, sum)| *to += f64::from(*sum));
        }
        let gram = &self.gram;
        let matrix = SymmetricMatrix::from_rows(items, |i, row| {
            for (j, value) in row.iter_mut().enumerate().take(i + 1) {
                let (row, col) = packed_cell(i, j, items);
                *value = gram[row * cols + col];
            }
            row[i] += spec.regularisation;
        });
        let Ok(inverse) = matrix.invert() else { return };
        shared.values_mut().par_chunks_exact_mut(cols.max(1)).enumerate().for_each(|(i, row)| {
            for (step, value) in row.iter_mut().enumerate() {
                *value = inverse.at(i, (i + step) % items) as f32;
            }
        });
    }
}
