//! iALS: matrix factorisation by alternating least squares over all cells, with larger weights for interactions.
//!
//! Y. Hu, Y. Koren, C. Volinsky: Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008; the scaling of
//! the regularisation by frequency is that of S. Rendle, W. Krichene, L. Zhang, Y. Koren: Revisiting the Performance of
//! iALS on Item Recommendation Benchmarks, RecSys 2022.
//!
//! Minimises, with p_ui = 1 and c_ui = 1 + alpha where u has i, else p_ui = 0 and c_ui = 1,
//! ```text
//! sum_ui c_ui (p_ui - <x_u, y_i>)^2 + sum_u l_u |x_u|^2 + sum_i l_i |y_i|^2
//! ```
//! by solving in turn for all users and all items, each a system of the size of the factors:
//! ```text
//! (Y'Y + alpha sum_{i of u} y_i y_i' + l_u I) x_u = (1 + alpha) sum_{i of u} y_i
//! ```
//! With frequency exponent nu, l_u = regularisation * (w_u / mean of w)^nu, where w_u = alpha |items of u| + |items| is
//! the weight of all cells of the row; nu = 0 is the paper of 2008. (Rendle does not divide by the mean; dividing keeps
//! the size of `regularisation` the same for every nu.)

use super::epochs::{EpochStats, run_epochs};
use super::factors::{FactorModel, Factorisation, Factors, MAX_FACTORS, Table, with_stride};
use super::least_squares::{self, Normal};
use crate::explanation::{LinearSystem, by_linear_system};
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Summary, choices, config};
use rayon::prelude::*;
use sottovoce_core::{Histories, math};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new(IalsConfig::NAME, "iALS")
        .summary("Matrix factorisation of the whole matrix by weighted least squares")
        .paper("Hu, Koren, Volinsky: Collaborative Filtering for Implicit Feedback Datasets. ICDM 2008"),
    schema: || IalsConfig::default().schema(),
    build: |settings| Box::new(FactorModel::new(IalsConfig::read(settings))),
};

choices! {
    /// How least-squares problems are solved.
    enum Solver {
        /// Exactly.
        Cholesky => "cholesky",
        /// By conjugate gradients.
        ConjugateGradient => "cg",
    }
}

config! {
    /// Settings of iALS. Defaults are a compromise between MovieLens 1M and 100K, from eight pairs of alpha and
    /// regularisation tried on a validation set. 1M does better with two to four times the regularisation.
    struct IalsConfig {
        /// Length of users' and items' vectors
        factors: usize = 20, in 1..=MAX_FACTORS => [log];
        /// Times that all users and all items are solved for
        iterations: usize = 15, in 1..=1000 => [log];
        /// Weight that an interaction adds to the 1 of every cell
        alpha: f64 = 0.3, in 0.0..=1000.0;
        /// L2 regularisation of all vectors
        regularisation: f64 = 10.0, in 1e-6..=1e5 => [log];
        /// How much more long histories are regularised
        frequency_exponent: f64 = 0.0, in 0.0..=1.0;
        /// Exact, or a few steps of conjugate gradients
        solver: Solver = Solver::Cholesky;
        /// Steps of conjugate gradients, from the last solution
        cg_steps: usize = 3, in 1..=100;
        /// Standard deviation of initial vectors
        init_deviation: f64 = 0.1, in 1e-6..=1.0 => [log];
    }
}

impl IalsConfig {
    /// l of each row.
    fn penalties(&self, rows: &Histories) -> Vec<f32> {
        let (alpha, columns) = (f64::from(self.alpha as f32), rows.catalog_size() as f64);
        let weights: Vec<f64> = rows.iter().map(|row| alpha * row.len() as f64 + columns).collect();
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        let scale = |weight: &f64| math::pow(weight / mean, self.frequency_exponent);
        weights.iter().map(|weight| (self.regularisation * scale(weight)) as f32).collect()
    }

    /// Solves for every row of `of`, given `other`.
    fn solve(&self, rows: &Histories, penalties: &[f32], of: &mut Table, other: &Table) {
        with_stride!(of.stride, N => self.solve_rows::<N>(rows, penalties, of, other));
    }

    fn solve_rows<const N: usize>(&self, rows: &Histories, penalties: &[f32], of: &mut Table, other: &Table) {
        let other = other.padded::<N>();
        let gram = least_squares::gram(other);
        let normal = Normal::new(&gram, other, self.alpha as f32, self.factors);
        let cg_steps = Some(self.cg_steps).filter(|_| self.solver == Solver::ConjugateGradient);
        let solve = |matrix: &mut Vec<[f32; N]>, (row, solution): (usize, &mut [f32; N])| {
            normal.solve(cg_steps, rows.of(row), penalties[row], matrix, solution);
        };
        of.padded_mut::<N>().par_iter_mut().enumerate().with_min_len(16).for_each_init(|| vec![[0.0; N]; N], solve);
    }
}

impl Factorisation for IalsConfig {
    const NAME: &'static str = "ials";
    const BIAS: bool = false;

    fn init(&self) -> (usize, f64) {
        (self.factors, self.init_deviation)
    }

    const REASONS: ReasonKind = ReasonKind::Shares;

    fn reasons(model: &FactorModel<Self>, user: usize, of: &[u32]) -> Vec<Vec<Reason>> {
        let FactorModel { config, factors, train } = model;
        let (alpha, penalty) = (config.alpha as f32, config.penalties(train)[user]);
        let system = LinearSystem { items: &factors.items, alpha, penalty };
        by_linear_system(system, factors.users.row(user), train.of(user), of)
    }

    fn train(model: &mut FactorModel<Self>, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let by_user = train.deduplicated();
        let by_item = by_user.transposed();
        let IalsConfig { iterations, regularisation, .. } = model.config;
        let [user_penalties, item_penalties] = [&by_user, &by_item].map(|rows| model.config.penalties(rows));
        let advice =
            format!("vectors are no longer finite; take a regularisation above {regularisation} or a smaller alpha");
        run_epochs(model, iterations, fit, &advice, |FactorModel { config, factors, .. }, _| {
            let Factors { users, items, .. } = factors;
            config.solve(&by_user, &user_penalties, users, items);
            config.solve(&by_item, &item_penalties, items, users);
            factors.changed();
            Ok(EpochStats { triples: by_user.interactions(), loss: None, finite: factors.is_finite() })
        })
    }
}
