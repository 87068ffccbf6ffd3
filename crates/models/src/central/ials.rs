//! iALS: matrix factorisation by alternating least squares over all cells, those with an interaction weighing more.
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

use super::factors::{Factors, MOST_FACTORS, Table, with_stride};
use super::least_squares::{self, Normal, Solver};
use super::neighbours::distinct;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary, Tensor};
use rayon::prelude::*;
use sottovoce_core::{Histories, Rng, math};

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "ials",
    title: "iALS",
    what: "Matrix factorisation of the whole matrix by weighted least squares",
    paper: "Hu, Koren, Volinsky: Collaborative Filtering for Implicit Feedback Datasets. ICDM 2008",
    settings,
    build: |settings| Box::new(Ials::new(settings)),
};

/// Defaults: a compromise between MovieLens 1M and 100K, from eight pairs of alpha and regularisation tried on a
/// validation part. The larger set would rather have two to four times the regularisation.
fn settings() -> Vec<Setting> {
    vec![
        Setting::integer("factors", 20, 1..=MOST_FACTORS, "Length of users' and items' vectors")
            .on_log_scale(),
        Setting::integer("iterations", 15, 1..=1000, "Times all users and all items are solved for")
            .on_log_scale(),
        Setting::real("alpha", 0.3, 0.0..=1000.0, "Weight that an interaction adds to the 1 of every cell"),
        Setting::real("regularisation", 10.0, 1e-6..=1e5, "Pull of all vectors to zero").on_log_scale(),
        Setting::real("frequency_exponent", 0.0, 0.0..=1.0, "How far long histories are regularised more"),
        Setting::choice("solver", &["cholesky", "cg"], "Exact, or a few steps of conjugate gradients"),
        Setting::integer("cg_steps", 3, 1..=100, "Steps of conjugate gradients, from the last solution"),
        Setting::real("init_deviation", 0.1, 1e-6..=1.0, "Standard deviation of the first random vectors")
            .on_log_scale(),
    ]
}

struct Ials {
    width: usize,
    iterations: usize,
    alpha: f32,
    regularisation: f64,
    frequency_exponent: f64,
    solver: Solver,
    init_deviation: f32,
    factors: Factors,
}

impl Ials {
    fn new(settings: &Settings) -> Self {
        Self {
            width: settings.integer("factors"),
            iterations: settings.integer("iterations"),
            alpha: settings.real("alpha") as f32,
            regularisation: settings.real("regularisation"),
            frequency_exponent: settings.real("frequency_exponent"),
            solver: match settings.word("solver") {
                "cg" => Solver::ConjugateGradient { steps: settings.integer("cg_steps") },
                _ => Solver::Cholesky,
            },
            init_deviation: settings.real("init_deviation") as f32,
            factors: Factors::default(),
        }
    }

    /// l of each row.
    fn penalties(&self, rows: &Histories) -> Vec<f32> {
        let columns = rows.catalog_size() as f64;
        let weights: Vec<f64> =
            rows.iter().map(|row| f64::from(self.alpha) * row.len() as f64 + columns).collect();
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        let scale = |weight: &f64| math::pow(weight / mean, self.frequency_exponent);
        weights.iter().map(|weight| (self.regularisation * scale(weight)) as f32).collect()
    }

    /// Solves for every row of `of`, given `other`.
    fn half(&self, rows: &Histories, penalties: &[f32], of: &mut Table, other: &Table) {
        with_stride!(of.stride(), N => self.solve_rows::<N>(rows, penalties, of, other));
    }

    fn solve_rows<const N: usize>(&self, rows: &Histories, penalties: &[f32], of: &mut Table, other: &Table) {
        let other = other.padded::<N>();
        let gram = least_squares::gram(other);
        let normal = Normal::new(&gram, other, self.alpha, self.width);
        let solve = |matrix: &mut Vec<[f32; N]>, (row, solution): (usize, &mut [f32; N])| {
            normal.solve(self.solver, rows.of(row), penalties[row], matrix, solution);
        };
        of.padded_mut::<N>()
            .par_iter_mut()
            .enumerate()
            .with_min_len(16)
            .for_each_init(|| vec![[0.0; N]; N], solve);
    }

    fn diverged(&self, epoch: usize) -> ModelError {
        let advice = format!(
            "vectors are no longer finite; take a regularisation above {} or a smaller alpha",
            self.regularisation
        );
        ModelError::Diverged { epoch, advice }
    }
}

impl Recommender for Ials {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let by_user = distinct(train);
        let by_item = by_user.transposed();
        let (user_penalties, item_penalties) = (self.penalties(&by_user), self.penalties(&by_item));
        let rng = Rng::new(fit.seed).stream("ials", 0);
        self.factors = Factors::normal(train, self.width, self.init_deviation, &rng);
        let mut summary = Summary::default();
        for epoch in 1..=self.iterations {
            let mut factors = std::mem::take(&mut self.factors);
            self.half(&by_user, &user_penalties, &mut factors.users, &factors.items);
            self.half(&by_item, &item_penalties, &mut factors.items, &factors.users);
            factors.changed();
            self.factors = factors;
            if !self.factors.is_finite() {
                return Err(self.diverged(epoch));
            }
            let progress = Progress { epoch, epochs: self.iterations, loss: None, model: &*self };
            if fit.after_epoch(&mut summary, by_user.interactions() as u64, &progress) == Flow::Stop {
                break;
            }
        }
        Ok(summary)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.factors.score(user, into);
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.factors.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.factors = Factors::restore(tensors, train, self.width, false)?;
        Ok(())
    }
}
