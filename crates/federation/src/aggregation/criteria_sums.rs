//! Weighted sums whose weights are known only when all updates are there.

use super::Weighting;
use sottovoce_core::math;
use sottovoce_protocol::{Layout, Update};

/// One sum for each product of criteria that a [`Weighting`] goes by, and a plain one.
#[derive(Clone, Debug)]
pub(crate) struct CriteriaSums {
    weighting: Weighting,
    /// The last is plain.
    layers: Vec<Layer>,
    /// Updates that reported all that was asked for.
    reported: u64,
    /// Of what they reported.
    sums: Vec<f64>,
    /// Of its products.
    products: Vec<f64>,
    /// Of the update that is being added.
    values: Vec<f64>,
    own_products: Vec<f64>,
}

/// A weighted sum, by table and row.
#[derive(Clone, Debug)]
struct Layer {
    tables: Vec<Vec<f32>>,
    /// Sums of the weights of updates that had each row.
    rows: Vec<Vec<f32>>,
}

/// What a round's layers are multiplied with, the last for the plain one.
pub(crate) struct Mixture(Vec<f32>);

impl CriteriaSums {
    pub(crate) fn new(layout: &Layout, weighting: &Weighting) -> Self {
        let values = weighting.values();
        let layer = || Layer {
            tables: layout.shapes().iter().map(|shape| vec![0.0; shape.values()]).collect(),
            rows: layout.shapes().iter().map(|shape| vec![0.0; shape.rows as usize]).collect(),
        };
        Self {
            weighting: weighting.clone(),
            layers: (0..=values).map(|_| layer()).collect(),
            reported: 0,
            sums: vec![0.0; values],
            products: vec![0.0; values],
            values: Vec::with_capacity(values),
            own_products: vec![0.0; values],
        }
    }

    /// Begins with an update; whether it says all that is asked for, and its rows are to be added here.
    pub(crate) fn begin(&mut self, update: &Update) -> bool {
        let Self { weighting, values, own_products, .. } = self;
        if !weighting.reported(update, values) {
            return false;
        }
        weighting.products(values, own_products);
        self.reported += 1;
        add(&mut self.sums, &self.values);
        add(&mut self.products, &self.own_products);
        true
    }

    /// Adds a row of the update that was begun with, times `scale`.
    pub(crate) fn add(&mut self, table: usize, row: usize, scale: f32, values: &[f32]) {
        let products = self.own_products.iter().map(|&product| product as f32).chain([1.0]);
        for (layer, product) in self.layers.iter_mut().zip(products) {
            let sums = &mut layer.tables[table][row * values.len()..][..values.len()];
            math::add_scaled(sums, product * scale, values);
            layer.rows[table][row] += product;
        }
    }

    /// What makes weights of the layers, whose mean is 1; `None` if no device reported.
    pub(crate) fn mixture(&self) -> Option<Mixture> {
        if self.reported == 0 {
            return None;
        }
        let multipliers = self.weighting.multipliers(&self.sums);
        let total: f64 = multipliers.iter().zip(&self.products).map(|(one, other)| one * other).sum();
        let alike = !(total > 0.0 && total.is_finite());
        let share = |multiplier: &f64| if alike { 0.0 } else { self.reported as f64 * multiplier / total };
        let plain = if alike { 1.0 } else { 0.0 };
        Some(Mixture(multipliers.iter().map(|one| share(one) as f32).chain([plain]).collect()))
    }

    /// Adds the mixture of a row's sums; returns what its updates weigh together, and how many they are.
    pub(crate) fn finish(
        &self,
        Mixture(mixture): &Mixture,
        table: usize,
        row: usize,
        into: &mut [f32],
    ) -> (f32, f32) {
        let (mut weight, mut plain) = (0.0, 0.0);
        for (layer, &factor) in self.layers.iter().zip(mixture) {
            let cols = into.len();
            if factor != 0.0 {
                math::add_scaled(into, factor, &layer.tables[table][row * cols..][..cols]);
            }
            plain = layer.rows[table][row];
            weight += factor * plain;
        }
        (weight, plain)
    }

    /// Takes over a row of another's and empties it there.
    pub(crate) fn drain_row(&mut self, other: &mut CriteriaSums, table: usize, row: usize, cols: usize) {
        for (layer, other) in self.layers.iter_mut().zip(&mut other.layers) {
            let theirs = &mut other.tables[table][row * cols..][..cols];
            math::add(&mut layer.tables[table][row * cols..][..cols], theirs);
            theirs.fill(0.0);
            layer.rows[table][row] += std::mem::take(&mut other.rows[table][row]);
        }
    }

    /// Takes over the other's totals; rows are taken over by [`drain_row`](Self::drain_row).
    pub(crate) fn drain_totals(&mut self, other: &mut CriteriaSums) {
        self.reported += other.reported;
        add(&mut self.sums, &other.sums);
        add(&mut self.products, &other.products);
        other.clear_totals();
    }

    pub(crate) fn clear_row(&mut self, table: usize, row: usize, cols: usize) {
        for layer in &mut self.layers {
            layer.tables[table][row * cols..][..cols].fill(0.0);
            layer.rows[table][row] = 0.0;
        }
    }

    pub(crate) fn clear_totals(&mut self) {
        self.reported = 0;
        self.sums.fill(0.0);
        self.products.fill(0.0);
    }
}

fn add(sums: &mut [f64], values: &[f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}
