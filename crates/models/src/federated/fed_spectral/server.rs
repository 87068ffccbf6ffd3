//! The server's half: from a sum to the next vectors.

use super::UNIT;
use crate::ServerModel;
use crate::federated::{TensorSlice, item_rows};
use crate::spectral::{Matrix, Readout, Spectrum};
use sottovoce_core::Rng;
use sottovoce_protocol::{Layout, ModelError, Parameters, Table};

/// Which table there is, and how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Vectors that are used.
    pub factors: usize,
    /// Vectors beyond them.
    pub oversampling: usize,
}

impl Server {
    /// The table's name: a row for each item, first the columns that are used.
    pub const TABLE: &'static str = "items";

    fn cols(&self) -> usize {
        self.factors + self.oversampling
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![item_rows(Self::TABLE, items, self.cols())])
    }

    /// Random columns of length about 1.
    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(item_rows(Self::TABLE, items, self.cols()))?;
        rng.fill_normal(deviation(items), table.values_mut());
        Parameters::new(vec![table])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::matrix("items", 0, 0..self.cols())]
    }
}

fn deviation(items: usize) -> f32 {
    (1.0 / (items.max(1) as f64).sqrt()) as f32
}

/// How the server turns sums into vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectralSpec {
    /// Vectors that are used.
    pub factors: usize,
    /// How scores are read from them.
    pub readout: Readout,
    /// Of low-rank EASE, in multiples of the smallest eigenvalue that is used.
    pub regularisation: f64,
    /// Rounds that turn random vectors into useful ones.
    pub basis_rounds: u64,
}

/// What the server knows beside the shared model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpectralStep {
    /// Rounds so far.
    pub rounds: u64,
    /// The epoch of the latest round.
    pub epoch: u64,
    /// The eigenvalue of each column of the shared table; 0 for random ones.
    pub eigenvalues: Vec<f64>,
}

impl SpectralStep {
    /// Takes a round of an epoch: `sums` are the rows of Z that were sent. Writes the next vectors.
    pub fn take<'a>(
        &mut self,
        spec: &SpectralSpec,
        epoch: u64,
        shared: &mut Table,
        sums: impl Iterator<Item = (usize, &'a [f32])>,
    ) {
        let (items, cols) = (shared.shape().rows as usize, shared.shape().cols as usize);
        let basis = Matrix::new(cols, shared.values().iter().map(|&value| f64::from(value)).collect());
        // What earlier groups of the epoch said: their G is U L U', and a column of Q is a multiple of one of U.
        let goes_on = epoch == self.epoch && self.rounds >= spec.basis_rounds.max(1);
        let mut z = if goes_on { basis.clone() } else { Matrix::zeros(items, cols) };
        if goes_on {
            z.scale_columns(&self.eigenvalues);
        }
        for (row, sum) in sums {
            z.row_mut(row).iter_mut().zip(sum).for_each(|(z, sum)| *z += f64::from(sum / UNIT));
        }
        let spectrum = Spectrum::nystroem(&basis, &z);
        let mut scales = spectrum.weights(spec.factors, spec.readout, spec.regularisation);
        // Beyond those that are used: of length 1, for the next round only.
        scales.resize(spectrum.values.len().min(cols), 1.0);
        let random = Rng::new(self.rounds).stream("fed-spectral", epoch);
        for item in 0..items {
            let row = shared.row_mut(item);
            row.fill(0.0);
            // Fewer people than vectors: random ones keep the rest of the space open to those who come.
            let unused = &mut row[scales.len().max(spec.factors).min(cols)..];
            random.stream("item", item as u64).fill_normal(deviation(items), unused);
            let vector = spectrum.vectors.row(item).iter().zip(&scales);
            row.iter_mut().zip(vector).for_each(|(to, (value, scale))| *to = (value * scale) as f32);
        }
        self.eigenvalues = spectrum.values;
        self.eigenvalues.resize(cols, 0.0);
        self.rounds += 1;
        self.epoch = epoch;
    }
}
