//! EASE: a linear regression of every item on all others, in closed form.
//!
//! H. Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019.
//!
//! Minimises |X - X B|^2 + l |B|^2 under diag(B) = 0, with X the binary matrix of users and items:
//! ```text
//! P = (X'X + l I)^-1        B_ij = -P_ij / P_jj for i != j, B_jj = 0        score(u, j) = sum_{i of u} B_ij
//! ```
//! The inverse is dense: items x items doubles, and the weights as many floats.

use super::item_weights::ItemWeights;
use super::matrix_inverse::SymmetricMatrix;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config};
use rayon::prelude::*;
use sottovoce_core::{Histories, History};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("ease", "EASE")
        .summary("Every item as a weighted sum of all others, in closed form")
        .paper("Steck: Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019"),
    schema: || EaseConfig::default().schema(),
    build: |settings| Box::new(Ease { config: EaseConfig::read(settings), ..Ease::default() }),
};

config! {
    /// Settings of EASE.
    struct EaseConfig {
        /// L2 regularisation of all weights: larger for fewer data
        regularisation: f64 = 500.0, in 1e-3..=1e6 => [log];
    }
}

#[derive(Default)]
struct Ease {
    config: EaseConfig,
    model: ItemWeights,
}

impl Recommender for Ease {
    fn fit(&mut self, train: &Histories, _: &mut Fit<'_>) -> Result<Summary, ModelError> {
        ItemWeights::check_size("EASE", train.catalog_size())?;
        let users = train.deduplicated();
        let Ok(inverse) = co_occurrences(&users, self.config.regularisation).invert() else {
            return Err(ModelError::Data(format!(
                "EASE: the matrix of co-occurrences cannot be inverted; take a regularisation above {}",
                self.config.regularisation
            )));
        };
        self.model = ItemWeights { users, weights: weights(&inverse) };
        Ok(Summary { triples: self.model.users.interactions() as u64, ..Summary::default() })
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.model.score(self.model.users.of(user), into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        self.model.score(&history, into);
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, user: usize, of: &[u32]) -> Vec<Vec<Reason>> {
        self.model.reasons(user, of)
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.model.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.model.restore(tensors, train)
    }
}

/// X'X + l I.
fn co_occurrences(users: &Histories, regularisation: f64) -> SymmetricMatrix {
    let by_item = users.transposed();
    SymmetricMatrix::from_rows(users.catalog_size(), |item, row| {
        for &user in by_item.of(item) {
            for &other in users.of(user as usize) {
                row[other as usize] += 1.0;
            }
        }
        row[item] += regularisation;
    })
}

/// B by rows, from P.
fn weights(inverse: &SymmetricMatrix) -> Vec<f32> {
    let items = inverse.len();
    let scale: Vec<f64> = (0..items).map(|j| -1.0 / inverse.at(j, j)).collect();
    let mut weights = vec![0.0; items * items];
    weights.par_chunks_exact_mut(items.max(1)).enumerate().for_each(|(i, row)| {
        for j in (0..items).filter(|&j| j != i) {
            row[j] = (inverse.at(i, j) * scale[j]) as f32;
        }
    });
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;
    use proptest::prelude::*;

    /// B column by column: each item regressed on all others (the equations before Steck's closed form), by
    /// coordinate descent.
    fn regressions(lists: &[Vec<u32>], items: usize, regularisation: f64) -> Vec<Vec<f64>> {
        let has = |user: usize, item: usize| f64::from(u8::from(lists[user].contains(&(item as u32))));
        let product = |a: usize, b: usize| (0..lists.len()).map(|u| has(u, a) * has(u, b)).sum::<f64>();
        let mut b = vec![vec![0.0; items]; items];
        for target in 0..items {
            for _ in 0..400 {
                for i in (0..items).filter(|&i| i != target) {
                    let others = (0..items).filter(|&j| j != i && j != target);
                    let explained: f64 = others.map(|j| product(i, j) * b[j][target]).sum();
                    b[i][target] = (product(i, target) - explained) / (product(i, i) + regularisation);
                }
            }
        }
        b
    }

    fn fitted(lists: &[Vec<u32>], items: usize, regularisation: f64) -> Result<Ease, ModelError> {
        let mut model = Ease { config: EaseConfig { regularisation }, ..Ease::default() };
        let train = Histories::from_lists(lists, items).unwrap();
        model.fit(&train, &mut Fit::new(1, &mut Quiet))?;
        Ok(model)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn weights_equal_one_regression_per_item(
            lists in prop::collection::vec(prop::collection::vec(0u32..6, 0..6), 1..12),
            regularisation in 0.5f64..20.0,
        ) {
            let model = fitted(&lists, 6, regularisation).unwrap();
            let expected = regressions(&lists, 6, regularisation);
            for i in 0..6 {
                prop_assert_eq!(model.model.weights[i * 6 + i], 0.0);
                for j in 0..6 {
                    prop_assert!((f64::from(model.model.weights[i * 6 + j]) - expected[i][j]).abs() < 1e-4);
                }
            }
        }
    }

    #[test]
    fn rejects_too_large_catalog_with_its_size() {
        let error = fitted(&[vec![0]], 40_000, 1.0).err().unwrap().to_string();
        assert!(error.contains("40000 x 40000") && error.contains("18 GiB"), "{error}");
    }
}
