//! The server's half: which items are kept, and their vectors.

use crate::ServerModel;
use crate::federated::{TensorSlice, item_rows};
use crate::spectral::{Eigen, packed_cols, unpacked};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Which tables there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Items that are kept.
    pub top_items: usize,
}

impl Server {
    /// A row for each item: its count, and its place among those that are kept, from 1 on, or 0.
    pub const ITEMS: &'static str = "items";
    /// A row for each item that is kept: first co-occurrences, then vectors.
    pub const GRAM: &'static str = "co-occurrences";
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        let kept = self.top_items;
        let gram = Shape::new(Self::GRAM, kept as u32, packed_cols(kept) as u32, Keyed::Others);
        Layout::new(vec![item_rows(Self::ITEMS, items, 2), gram])
    }

    fn init(&self, items: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Ok(Parameters::zeros(&self.layout(items)?))
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        let vectors = TensorSlice::matrix("vectors", 1, 0..packed_cols(self.top_items));
        vec![TensorSlice::vector("counts", 0, 0), TensorSlice::vector("places", 0, 1), vectors]
    }
}

/// How the server turns sums into vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopItemsSpec {
    /// Items that are kept.
    pub top_items: usize,
    /// In multiples of the largest eigenvalue.
    pub regularisation: f64,
}

/// What the server knows beside the shared model: how many rounds there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopItemsStep {
    /// Rounds so far.
    pub rounds: u64,
}

impl TopItemsStep {
    /// Takes a round with noise of this standard deviation. `sums` writes the sums of a table's rows; the first round's
    /// are counts, all others' co-occurrences.
    pub fn take(&mut self, spec: &TopItemsSpec, shared: &mut Parameters, noise: f64, sums: impl Fn(usize, &mut Table)) {
        let [items, gram] = shared.tables_mut() else { return };
        if self.rounds == 0 {
            items.values_mut().fill(0.0);
            sums(0, items);
            keep(items, spec.top_items, noise as f32);
        } else {
            gram.values_mut().fill(0.0);
            sums(1, gram);
            solve(spec, gram, noise);
        }
        self.rounds += 1;
    }
}

/// Floors noisy counts at the noise, and gives the largest their places.
fn keep(items: &mut Table, top_items: usize, noise: f32) {
    let mut order: Vec<u32> = (0..items.shape().rows).collect();
    let count = |items: &Table, item: u32| items.row(item as usize)[0];
    order.sort_by(|&a, &b| count(items, b).total_cmp(&count(items, a)).then(a.cmp(&b)));
    for (place, &item) in order.iter().enumerate() {
        let row = items.row_mut(item as usize);
        row[0] = row[0].max(noise);
        row[1] = if place < top_items { (place + 1) as f32 } else { 0.0 };
    }
}

/// Replaces co-occurrences by vectors.
fn solve(spec: &TopItemsSpec, gram: &mut Table, noise: f64) {
    let (n, cols) = (spec.top_items, packed_cols(spec.top_items));
    let mut matrix = unpacked(n, gram.values());
    for i in 0..n {
        // Values beside the diagonal stand for two: they were sent times sqrt 2.
        let row = matrix.row_mut(i);
        (0..n).filter(|&j| j != i).for_each(|j| row[j] *= std::f64::consts::FRAC_1_SQRT_2);
    }
    let Eigen { values, vectors } = Eigen::symmetric(matrix);
    let edge = 2.0 * noise * (n as f64 / 2.0).sqrt();
    let largest = values.first().copied().unwrap_or(0.0);
    let used = values.iter().take_while(|&&v| v > edge && v > 1e-9 * largest && v > 0.0).take(cols);
    let shrunk: Vec<f64> = used.map(|v| 0.5 * (v + (v * v - edge * edge).sqrt())).collect();
    let l = spec.regularisation * shrunk.first().copied().unwrap_or(0.0);
    let weight = |t: &f64| ((1.0 - (0.5 * edge / t).powi(2)) * t / (t + l)).max(0.0).sqrt();
    let weights: Vec<f64> = shrunk.iter().map(weight).collect();
    gram.values_mut().fill(0.0);
    for item in 0..n {
        let vector = vectors.row(item).iter().zip(&weights);
        gram.row_mut(item).iter_mut().zip(vector).for_each(|(to, (value, weight))| *to = (value * weight) as f32);
    }
}
