//! The server's half: which items are kept, and their vectors.

use crate::ServerModel;
use crate::federated::{TensorSlice, item_rows};
use crate::spectral::{Eigen, Matrix, packed_cols, unpacked};
use sottovoce_core::{Rng, math};
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
    /// The exponent of counts by which popular items are held back.
    pub popularity_scaling: f64,
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
            solve(spec, items, gram, noise);
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

/// How many times as popular as the mean each kept item is, by its place.
pub(super) fn popularity(items: &Table, kept: usize) -> Vec<f64> {
    let mut counts = vec![0.0; kept];
    for item in 0..items.shape().rows as usize {
        let [count, place] = items.row(item) else { continue };
        if *place >= 1.0 && *place <= kept as f32 {
            counts[*place as usize - 1] = f64::from(count.max(0.0));
        }
    }
    let mean = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
    // An item that nobody has, which is kept where the catalog is small, is as popular as others.
    counts.iter().map(|&count| if count > 0.0 && mean > 0.0 { count / mean } else { 1.0 }).collect()
}

/// Replaces co-occurrences by vectors.
fn solve(spec: &TopItemsSpec, items: &Table, gram: &mut Table, noise: f64) {
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
    let shrunk = used.map(|v| 0.5 * (v + (v * v - edge * edge).sqrt()));
    let roots: Vec<f64> = shrunk.map(|t| (t * (1.0 - (0.5 * edge / t).powi(2))).max(0.0).sqrt()).collect();
    let popularity = popularity(items, n);
    let held_back: Vec<f64> = popularity.iter().map(|&c| math::pow(c, -0.5 * spec.popularity_scaling)).collect();
    // A A' is what is left of G, scaled: its eigenvalues are those of A' A.
    let mut factor = Matrix::zeros(n, roots.len());
    for (item, held_back) in held_back.iter().enumerate() {
        let vector = vectors.row(item).iter().zip(&roots);
        factor.row_mut(item).iter_mut().zip(vector).for_each(|(to, (value, root))| *to = held_back * value * root);
    }
    let small = Eigen::symmetric(factor.inner(&factor));
    let turned = factor.times(&small.vectors);
    let l = spec.regularisation * small.values.first().copied().unwrap_or(0.0);
    gram.values_mut().fill(0.0);
    for (item, held_back) in held_back.iter().enumerate() {
        let vector = turned.row(item).iter().zip(&small.values);
        for (to, (value, w)) in gram.row_mut(item).iter_mut().zip(vector) {
            let scale = w.max(0.0) + l;
            *to = if scale > 0.0 { (held_back * value / scale.sqrt()) as f32 } else { 0.0 };
        }
    }
}
