//! EASE: a linear model of every item by all others, in closed form.
//!
//! H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.
//!
//! Minimises |X - X B|^2 + l |B|^2 under diag(B) = 0, with X the matrix of who has what:
//! ```text
//! P = (X'X + l I)^-1        B_ij = -P_ij / P_jj for i != j, B_jj = 0        score(u, j) = sum_{i of u} B_ij
//! ```
//! The inverse is dense: items x items doubles. It is computed on one thread, so its bits do not depend on the number
//! of threads; they may depend in the last places on the processor's vector instructions.

use super::neighbours::{distinct, nobody};
use super::stored;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::{Fit, ModelError, Recommender, Summary, Tensor};
use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};
use rayon::prelude::*;
use sottovoce_core::Histories;

/// Largest catalog: the inverse and its factorisation then take 14 GiB.
const MOST_ITEMS: usize = 30_000;

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "ease",
    title: "EASE",
    what: "Every item as a weighted sum of all others, in closed form",
    paper: "Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019",
    settings,
    build: |settings| Box::new(Ease::new(settings)),
};

fn settings() -> Vec<Setting> {
    vec![
        Setting::real(
            "regularisation",
            500.0,
            1e-3..=1e6,
            "Pull of all weights to zero: larger for fewer data",
        )
        .on_log_scale(),
    ]
}

struct Ease {
    regularisation: f64,
    users: Histories,
    /// B by rows: weights of item i for all items j.
    weights: Vec<f32>,
}

impl Ease {
    fn new(settings: &Settings) -> Self {
        Self { regularisation: settings.real("regularisation"), users: nobody(), weights: Vec::new() }
    }
}

impl Recommender for Ease {
    fn fit(&mut self, train: &Histories, _: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let items = train.catalog_size();
        if items > MOST_ITEMS {
            let gib = 2.0 * (items * items * size_of::<f64>()) as f64 / (1u64 << 30) as f64;
            return Err(ModelError::Data(format!(
                "EASE inverts a dense matrix of {items} x {items} items, about {gib:.0} GiB; it takes at most \
                 {MOST_ITEMS} items: raise --k-core or choose item-knn or ials"
            )));
        }
        self.users = distinct(train);
        let gram = co_occurrences(&self.users, self.regularisation);
        let inverse = match gram.llt(Side::Lower) {
            Ok(factorised) => factorised.inverse(),
            Err(_) => {
                return Err(ModelError::Data(format!(
                    "EASE: the matrix of co-occurrences cannot be inverted; take a regularisation above {}",
                    self.regularisation
                )));
            }
        };
        self.weights = weights(&inverse);
        Ok(Summary { epochs: 0, triples: self.users.interactions() as u64 })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        let items = self.users.catalog_size();
        assert_eq!(into.len(), items, "one score an item");
        into.fill(0.0);
        for &item in self.users.of(user) {
            for (score, weight) in into.iter_mut().zip(&self.weights[item as usize * items..][..items]) {
                *score += weight;
            }
        }
    }

    fn tensors(&self) -> Vec<Tensor> {
        let items = self.users.catalog_size();
        vec![stored::floats("weights", [items, items], self.weights.clone())]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let items = train.catalog_size();
        self.weights = stored::take_floats(tensors, "weights", &[items, items])?.to_vec();
        self.users = distinct(train);
        Ok(())
    }
}

/// X'X + l I.
fn co_occurrences(users: &Histories, regularisation: f64) -> Mat<f64> {
    let by_item = users.transposed();
    let items = users.catalog_size();
    let columns: Vec<Vec<u32>> = (0..items)
        .into_par_iter()
        .map(|item| {
            let mut common = vec![0; items];
            for &user in by_item.of(item) {
                for &other in users.of(user as usize) {
                    common[other as usize] += 1;
                }
            }
            common
        })
        .collect();
    Mat::from_fn(items, items, |i, j| f64::from(columns[j][i]) + if i == j { regularisation } else { 0.0 })
}

/// B by rows, from P.
fn weights(inverse: &Mat<f64>) -> Vec<f32> {
    let items = inverse.ncols();
    let scale: Vec<f64> = (0..items).map(|j| -1.0 / inverse[(j, j)]).collect();
    // P is symmetric: its column i serves as its row i, and lies in one piece.
    let row = |i: usize| -> Vec<f32> {
        (0..items).map(|j| if i == j { 0.0 } else { (inverse[(j, i)] * scale[j]) as f32 }).collect()
    };
    (0..items).into_par_iter().flat_map_iter(row).collect()
}
