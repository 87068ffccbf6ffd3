//! Tables of latent factors, in padded rows for training and in one column per factor for scoring; and the models that
//! consist of such tables.

use crate::explanation::by_vectors;
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, stored};
use sottovoce_core::{Histories, Rng};
use std::sync::OnceLock;

/// Largest number of factors.
pub(crate) const MAX_FACTORS: i64 = 512;

/// Row lengths that have a kernel; rows are padded with zeros to the next of them.
const STRIDES: [usize; 15] = [4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

/// Runs an expression with the constant `$n` equal to a table's stride, so that the compiler knows the length of inner
/// loops.
macro_rules! with_stride {
    ($stride:expr, $n:ident => $body:expr) => {
        with_stride!(@arms $stride, $n, $body, 4 8 12 16 20 24 32 48 64 96 128 192 256 384 512)
    };
    (@arms $stride:expr, $n:ident, $body:expr, $($width:literal)*) => {
        match $stride {
            $($width => { const $n: usize = $width; $body })*
            other => unreachable!("no kernel for rows of {other}"),
        }
    };
}
pub(crate) use with_stride;

/// One row of factors for each user or item, padded with zeros to a stride of [`STRIDES`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) rows: usize,
    width: usize,
    /// Length of a padded row.
    pub(crate) stride: usize,
    values: Vec<f32>,
}

impl Table {
    /// All zeros.
    pub(crate) fn zeros(rows: usize, width: usize) -> Self {
        let stride = STRIDES[STRIDES.partition_point(|&stride| stride < width)];
        Self { rows, width, stride, values: vec![0.0; rows * stride] }
    }

    /// Independent normal values.
    pub(crate) fn normal(rows: usize, width: usize, deviation: f32, rng: &mut Rng) -> Self {
        let mut table = Self::zeros(rows, width);
        for row in table.values.chunks_exact_mut(table.stride) {
            rng.fill_normal(deviation, &mut row[..width]);
        }
        table
    }

    /// From rows without padding.
    pub(crate) fn from_dense(rows: usize, width: usize, dense: &[f32]) -> Self {
        let mut table = Self::zeros(rows, width);
        for (row, values) in table.values.chunks_exact_mut(table.stride).zip(dense.chunks_exact(width)) {
            row[..width].copy_from_slice(values);
        }
        table
    }

    fn to_dense(&self) -> Vec<f32> {
        (0..self.rows).flat_map(|row| self.row(row)).copied().collect()
    }

    /// The factors of one row, without padding.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.stride..][..self.width]
    }

    /// The same, mutable.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.stride..][..self.width]
    }

    /// The padded rows.
    ///
    /// # Panics
    /// If `N` is not the stride.
    pub(crate) fn padded<const N: usize>(&self) -> &[[f32; N]] {
        assert_eq!(self.stride, N);
        self.values.as_chunks().0
    }

    /// The padded rows, mutable; padding must stay zero.
    ///
    /// # Panics
    /// If `N` is not the stride.
    pub(crate) fn padded_mut<const N: usize>(&mut self) -> &mut [[f32; N]] {
        assert_eq!(self.stride, N);
        self.values.as_chunks_mut().0
    }

    fn is_finite(&self) -> bool {
        self.values.iter().all(|value| value.is_finite())
    }
}

/// A factor model: score(u, i) = bias_i + <user_u, item_i>.
#[derive(Debug, Default)]
pub(crate) struct Factors {
    /// One row per user.
    pub(crate) users: Table,
    /// One row per item.
    pub(crate) items: Table,
    /// One value per item; empty if the model has none.
    pub(crate) bias: Vec<f32>,
    /// The items' table transposed, computed when first scored after a change.
    by_factor: OnceLock<Vec<f32>>,
}

impl Factors {
    /// From tables and biases.
    pub(crate) fn new(users: Table, items: Table, bias: Vec<f32>) -> Self {
        Self { users, items, bias, by_factor: OnceLock::new() }
    }

    /// Normal vectors of all users and items, each table from its own random stream, and no biases.
    pub(crate) fn normal(train: &Histories, width: usize, deviation: f32, rng: &Rng) -> Self {
        let table = |name, rows| Table::normal(rows, width, deviation, &mut rng.stream(name, 0));
        Self::new(table("users", train.users()), table("items", train.catalog_size()), Vec::new())
    }

    /// Must be called when the items' factors have changed.
    pub(crate) fn changed(&mut self) {
        self.by_factor.take();
    }

    /// Whether no parameter is infinite or not a number.
    pub(crate) fn is_finite(&self) -> bool {
        self.users.is_finite() && self.items.is_finite() && self.bias.iter().all(|bias| bias.is_finite())
    }

    /// Scores of all items, four factors per pass, so that `into` is read and written seldom.
    ///
    /// # Panics
    /// If `user` is unknown or `into` is not as long as the catalog.
    pub(crate) fn score(&self, user: usize, into: &mut [f32]) {
        let items = self.items.rows;
        assert_eq!(into.len(), items, "one score per item");
        if self.bias.is_empty() {
            into.fill(0.0);
        } else {
            into.copy_from_slice(&self.bias);
        }
        let by_factor = self.by_factor.get_or_init(|| transposed(&self.items));
        let row = &self.users.values[user * self.users.stride..][..self.users.stride];
        let (weights, _) = row.as_chunks::<4>();
        for (weights, columns) in weights.iter().zip(by_factor.chunks_exact(4 * items.max(1))) {
            add_four(weights, columns, into);
        }
    }

    /// Which of a user's items speak for the items `of`: see [`by_vectors`].
    fn reasons(&self, user: usize, own: &[u32], of: &[u32]) -> Vec<Vec<Reason>> {
        let bias = |item: usize| self.bias.get(item).copied().unwrap_or_default();
        let row = |item: usize| (self.items.row(item), bias(item));
        by_vectors(self.users.row(user), self.items.rows, row, own, of)
    }

    /// The tables as stored: without padding.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        let table = |name, table: &Table| stored::floats(name, [table.rows, table.width], table.to_dense());
        let mut tensors = vec![table("users", &self.users), table("items", &self.items)];
        if self.bias.len() == self.items.rows {
            tensors.push(stored::floats("bias", [self.bias.len()], self.bias.clone()));
        }
        tensors
    }

    /// Reads what [`tensors`](Self::tensors) wrote.
    pub(crate) fn restore(
        tensors: &[Tensor],
        train: &Histories,
        width: usize,
        with_bias: bool,
    ) -> Result<Self, ModelError> {
        let (users, items) = (train.users(), train.catalog_size());
        let user_values = stored::take_floats(tensors, "users", &[users, width])?;
        let item_values = stored::take_floats(tensors, "items", &[items, width])?;
        let bias = if with_bias { stored::take_floats(tensors, "bias", &[items])?.to_vec() } else { Vec::new() };
        Ok(Self::new(Table::from_dense(users, width, user_values), Table::from_dense(items, width, item_values), bias))
    }
}

/// A kind of matrix factorisation, by its settings; kinds differ in how they are trained.
pub(super) trait Factorisation: Config {
    /// Name of the model and of its random stream.
    const NAME: &'static str;
    /// Whether items have biases.
    const BIAS: bool;

    /// Length of vectors, and standard deviation of initial ones.
    fn init(&self) -> (usize, f64);

    /// Trains the initial factors of `model`.
    fn train(model: &mut FactorModel<Self>, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError>;

    /// What its reasons are.
    const REASONS: ReasonKind = ReasonKind::Vectors;

    /// What speaks for the items `of`.
    fn reasons(model: &FactorModel<Self>, user: usize, of: &[u32]) -> Vec<Vec<Reason>> {
        model.factors.reasons(user, model.train.of(user), of)
    }

    /// The model's random stream.
    fn rng(fit: &Fit<'_>) -> Rng {
        Rng::new(fit.seed).stream(Self::NAME, 0)
    }
}

/// A matrix factorisation with these settings.
pub(super) struct FactorModel<C> {
    pub(super) config: C,
    pub(super) factors: Factors,
    /// What it was fitted on: each user's items ascending, each once.
    pub(super) train: Histories,
}

impl<C> FactorModel<C> {
    /// Not trained yet.
    pub(super) fn new(config: C) -> Self {
        Self { config, factors: Factors::default(), train: Histories::default() }
    }
}

impl<C: Factorisation> Recommender for FactorModel<C> {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let (width, deviation) = self.config.init();
        self.train = train.deduplicated();
        self.factors = Factors::normal(train, width, deviation as f32, &C::rng(fit));
        if C::BIAS {
            self.factors.bias = vec![0.0; train.catalog_size()];
        }
        C::train(self, train, fit)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.factors.score(user, into);
    }

    fn reason_kind(&self) -> ReasonKind {
        C::REASONS
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        C::reasons(self, user, items)
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.factors.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.factors = Factors::restore(tensors, train, self.config.init().0, C::BIAS)?;
        self.train = train.deduplicated();
        Ok(())
    }
}

/// One row per factor, padding included: `stride` rows with a value per item.
fn transposed(table: &Table) -> Vec<f32> {
    let mut columns = vec![0.0; table.values.len()];
    for (row, values) in table.values.chunks_exact(table.stride).enumerate() {
        for (factor, &value) in values.iter().enumerate() {
            columns[factor * table.rows + row] = value;
        }
    }
    columns
}

/// `into += weights . columns`, with four consecutive columns in `columns`.
fn add_four(weights: &[f32; 4], columns: &[f32], into: &mut [f32]) {
    let n = into.len();
    let (a, rest) = columns.split_at(n);
    let (b, rest) = rest.split_at(n);
    let (c, d) = rest.split_at(n);
    for (((score, a), b), (c, d)) in into.iter_mut().zip(a).zip(b).zip(c.iter().zip(d)) {
        *score += (weights[0] * a + weights[1] * b) + (weights[2] * c + weights[3] * d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_bias_plus_inner_product_for_every_width() {
        for width in [1, 3, 4, 5, 20, 21, 33, 100] {
            let mut rng = Rng::new(width as u64);
            let mut bias = vec![0.0; 7];
            rng.fill_normal(1.0, &mut bias);
            let factors = Factors::new(
                Table::normal(3, width, 1.0, &mut rng),
                Table::normal(7, width, 1.0, &mut rng),
                bias.clone(),
            );
            let mut scores = vec![f32::NAN; 7];
            factors.score(2, &mut scores);
            for item in 0..7 {
                let pairs = factors.users.row(2).iter().zip(factors.items.row(item));
                let exact: f64 = pairs.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
                assert!((f64::from(scores[item] - bias[item]) - exact).abs() < 1e-4, "width {width}");
            }
        }
    }

    #[test]
    fn every_allowed_width_has_a_kernel() {
        for width in 1..=MAX_FACTORS as usize {
            let stride = Table::zeros(0, width).stride;
            let kernel = with_stride!(stride, N => N);
            assert!(kernel == stride && kernel >= width);
        }
    }
}
