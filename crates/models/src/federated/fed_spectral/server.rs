//! The server's half: from a sum to the next vectors.

use super::UNIT;
use crate::ServerModel;
use crate::federated::{TensorSlice, item_rows};
use crate::spectral::{Matrix, Readout, Spectrum};
use sottovoce_core::{Rng, math};
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Which tables there are, and how they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Vectors that are used.
    pub factors: usize,
    /// Vectors beyond them.
    pub oversampling: usize,
    /// How scores are read from them.
    pub readout: Readout,
}

impl Server {
    /// A row for each item: first the columns that are used, then the others; for GF-CF the root of its number of
    /// people last.
    pub const TABLE: &'static str = "items";
    /// Two rows, with a value for each column: by what devices multiply it before they send it, and its eigenvalue.
    pub const COLUMNS: &'static str = "columns";

    fn cols(&self) -> usize {
        self.factors + self.oversampling
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        let roots = usize::from(self.readout == Readout::GfCf);
        let columns = Shape::new(Self::COLUMNS, 2, self.cols() as u32, Keyed::Dense);
        Layout::new(vec![item_rows(Self::TABLE, items, self.cols() + roots), columns])
    }

    /// Random columns of length about 1.
    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut shared = Parameters::zeros(&self.layout(items)?);
        if let [table, columns] = shared.tables_mut() {
            for item in 0..items {
                let row = table.row_mut(item);
                rng.fill_normal(deviation(items), &mut row[..self.cols()]);
                row[self.cols()..].fill(1.0);
            }
            columns.row_mut(0).fill(first_scale(items));
        }
        Ok(shared)
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::whole("items", 0), TensorSlice::whole("columns", 1)]
    }
}

fn deviation(items: usize) -> f32 {
    (1.0 / (items.max(1) as f64).sqrt()) as f32
}

/// For random columns: what makes the values of a history of a hundred items UNIT.
fn first_scale(items: usize) -> f32 {
    power_of_two(UNIT * (items.max(1) as f64 / 100.0).sqrt())
}

/// The nearest power of two that every encoding of values has.
fn power_of_two(value: f64) -> f32 {
    let exponent = (math::ln(value.max(f64::MIN_POSITIVE)) / std::f64::consts::LN_2).round().clamp(-14.0, 13.0);
    2f32.powi(exponent as i32)
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
    /// People in the sums that the eigenvalues are of.
    pub people: u64,
    /// The eigenvalue of each column of the shared table; 0 for random ones. Empty before the first round.
    pub eigenvalues: Vec<f64>,
    /// For GF-CF, the number of people of each item in those sums.
    pub counts: Vec<f64>,
}

/// What a round brings.
pub struct SpectralRound<Rows> {
    /// Its epoch.
    pub epoch: u64,
    /// People who took part.
    pub people: u64,
    /// Standard deviation of the noise on each value.
    pub noise: f64,
    /// The rows of the sum that were sent.
    pub sums: Rows,
}

impl SpectralStep {
    /// Takes a round. Writes the next vectors.
    pub fn take<'a>(
        &mut self,
        spec: &SpectralSpec,
        shared: &mut Parameters,
        round: SpectralRound<impl Iterator<Item = (usize, &'a [f32])>>,
    ) {
        let [table, columns] = shared.tables_mut() else { return };
        let (items, cols) = (table.shape().rows as usize, columns.shape().cols as usize);
        if self.rounds == 0 && columns.row(1)[0] > 0.0 {
            // Going on from an earlier training: its vectors are useful already.
            self.rounds = spec.basis_rounds;
        }
        // What earlier groups of the epoch said: their G is U L U', and a column of the basis a multiple of one of U.
        let goes_on =
            round.epoch == self.epoch && self.rounds >= spec.basis_rounds.max(1) && !self.eigenvalues.is_empty();
        if !goes_on {
            (self.people, self.counts) = (0, vec![0.0; items]);
        }
        self.people += round.people;
        let mut basis = Matrix::zeros(items, cols);
        for item in 0..items {
            let from = table.row(item).iter().map(|&value| f64::from(value));
            basis.row_mut(item).iter_mut().zip(from).for_each(|(to, value)| *to = value);
        }
        let mut z = if goes_on { self.earlier(&basis, table) } else { Matrix::zeros(items, cols) };
        for (row, sum) in round.sums {
            let scaled = sum.iter().zip(columns.row(0)).map(|(sum, scale)| f64::from(*sum) / f64::from(*scale));
            z.row_mut(row).iter_mut().zip(scaled).for_each(|(z, sum)| *z += sum);
            self.counts[row] += sum.get(cols).map_or(0.0, |count| f64::from(*count) / UNIT);
        }
        let roots = self.roots(spec.readout, round.noise / UNIT);
        if spec.readout == Readout::GfCf {
            basis.scale_rows(&roots.of_items);
            z.scale_rows(&roots.of_items.iter().map(|root| 1.0 / root).collect::<Vec<_>>());
        }
        let spectrum = Spectrum::nystroem(&basis, &z);
        self.eigenvalues.clear();
        self.eigenvalues.extend(&spectrum.values);
        self.eigenvalues.resize(cols, 0.0);
        self.write(spec, (&spectrum, &roots), round.epoch, (table, columns));
        self.rounds += 1;
        self.epoch = round.epoch;
    }

    /// G of the people asked so far times the basis.
    fn earlier(&self, basis: &Matrix, table: &Table) -> Matrix {
        let mut z = basis.clone();
        z.scale_columns(&self.eigenvalues);
        // For GF-CF the eigenvalues are of R^-1 G R^-1, and the table has vectors that are divided by R.
        if table.shape().cols as usize > basis.cols() {
            let last = |item: usize| f64::from(table.row(item)[basis.cols()]);
            z.scale_rows(&(0..basis.rows()).map(|item| last(item) * last(item)).collect::<Vec<_>>());
        }
        z
    }

    /// R, by what GF-CF divides.
    fn roots(&self, readout: Readout, noise: f64) -> Roots {
        if readout != Readout::GfCf {
            return Roots { of_items: vec![1.0; self.counts.len()], mean: 1.0 };
        }
        let counts = || self.counts.iter().map(|count| count.max(noise).max(1.0));
        let mean = counts().sum::<f64>() / self.counts.len().max(1) as f64;
        // As a device gets them.
        Roots { of_items: counts().map(|count| f64::from((count / mean).sqrt() as f32)).collect(), mean }
    }

    fn write(
        &self,
        spec: &SpectralSpec,
        (spectrum, roots): (&Spectrum, &Roots),
        epoch: u64,
        (table, columns): (&mut Table, &mut Table),
    ) {
        let (items, cols) = (table.shape().rows as usize, columns.shape().cols as usize);
        let mut weights = spectrum.weights(spec.factors, spec.readout, spec.regularisation);
        if spec.readout == Readout::GfCf {
            weights.iter_mut().for_each(|weight| *weight /= roots.mean.sqrt());
        }
        let used = weights.len();
        // Beyond those that are used: of length 1, for the next round only.
        weights.resize(spectrum.values.len().min(cols), 1.0);
        let random = Rng::new(self.rounds).stream("fed-spectral", epoch);
        for (item, root) in roots.of_items.iter().enumerate() {
            let row = table.row_mut(item);
            row.fill(0.0);
            // Fewer people than vectors: random ones keep the rest of the space open to those who come.
            let unused = &mut row[weights.len().max(spec.factors).min(cols)..cols];
            random.stream("item", item as u64).fill_normal(deviation(items), unused);
            let vector = spectrum.vectors.row(item).iter().zip(&weights);
            row.iter_mut().zip(vector).for_each(|(to, (value, weight))| *to = (value * weight / root) as f32);
            row[cols..].fill(*root as f32);
        }
        // The mean square of a column's values is its eigenvalue over the number of people.
        columns.row_mut(0).fill(first_scale(items));
        for (scale, (value, weight)) in columns.row_mut(0).iter_mut().zip(spectrum.values.iter().zip(&weights)) {
            let size = weight * (value / self.people.max(1) as f64).sqrt();
            *scale = power_of_two(UNIT / size.max(f64::MIN_POSITIVE));
        }
        let largest =
            if spec.readout == Readout::GfCf { roots.mean } else { spectrum.values.first().map_or(1.0, |v| *v) };
        columns.row_mut(1).fill(0.0);
        for (to, value) in columns.row_mut(1).iter_mut().zip(&spectrum.values[..used.min(spectrum.values.len())]) {
            *to = (value / largest) as f32;
        }
    }
}

/// Roots of items' numbers of people, over that of their mean.
struct Roots {
    of_items: Vec<f64>,
    mean: f64,
}
