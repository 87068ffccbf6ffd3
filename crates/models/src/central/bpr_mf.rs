//! BPR-MF: matrix factorisation trained to rank the items that a user has above those that they do not have.
//!
//! S. Rendle, C. Freudenthaler, Z. Gantner, L. Schmidt-Thieme: BPR: Bayesian Personalized Ranking from Implicit
//! Feedback, UAI 2009.
//!
//! score(u, i) = b_i + <w_u, h_i>. For a triple of a user u, an item i they have and an item j they do not have, with
//! x = score(u, i) - score(u, j) and g = 1 / (1 + e^x), one step of stochastic gradient ascent on ln sigma(x) is
//! ```text
//! w_u += rate (g (h_i - h_j) - reg_user     w_u)
//! h_i += rate (g  w_u        - reg_positive h_i)
//! h_j += rate (-g w_u        - reg_negative h_j)
//! b_i += rate (g  - reg_bias b_i)          b_j += rate (-g - reg_bias b_j)
//! ```
//! where w_u on the right is its value before the step. Each epoch passes once over all interactions, with one j each
//! drawn uniformly from the items that the user does not have. (The paper draws interactions with replacement; passing
//! over all of them converges as well and reads memory in order.) Steps are sequential, so results do not depend on
//! threads; only the g of four triples are computed together, from the parameters before the first of the four.

use super::epoch_order::{EpochOrder, Interaction};
use super::epochs::{EpochStats, run_epochs};
use super::factors::{FactorModel, Factorisation, Factors, MAX_FACTORS, with_stride};
use super::negative_sampler::NegativeSampler;
use crate::loss::Loss;
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Summary, config};
use sottovoce_core::{Histories, Rng, SimdKernel, math, simd_dispatch};
use wide::f32x4;

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new(BprMfConfig::NAME, "BPR-MF")
        .summary("Matrix factorisation that ranks what a user has above what they do not have")
        .paper("Rendle, Freudenthaler, Gantner, Schmidt-Thieme: BPR: Bayesian Personalized Ranking from Implicit Feedback. UAI 2009"),
    schema: || BprMfConfig::default().schema(),
    build: |settings| Box::new(FactorModel::new(BprMfConfig::read(settings))),
};

config! {
    /// Settings of BPR-MF. Defaults are a compromise between MovieLens 1M and 100K, from a few values tried on a
    /// validation set. 100K does better with half the learning rate and regularisation, and twice the epochs.
    struct BprMfConfig {
        /// Length of users' and items' vectors
        factors: usize = 20, in 1..=MAX_FACTORS => [log];
        /// Passes over all interactions
        epochs: usize = 100, in 1..=10_000 => [log];
        /// Learning rate of stochastic gradient descent
        learning_rate: f64 = 0.02, in 1e-6..=1.0 => [log];
        /// L2 regularisation of users' vectors
        user_regularisation: f64 = 0.02, in 0.0..=1.0;
        /// L2 regularisation of the vectors of items that the user has
        positive_regularisation: f64 = 0.02, in 0.0..=1.0;
        /// L2 regularisation of the vectors of items that the user does not have
        negative_regularisation: f64 = 0.02, in 0.0..=1.0;
        /// L2 regularisation of items' biases
        bias_regularisation: f64 = 0.02, in 0.0..=1.0;
        /// Standard deviation of initial vectors
        init_deviation: f64 = 0.1, in 0.0..=1.0;
    }
}

impl BprMfConfig {
    /// What to change when training diverges.
    fn advice(&self) -> String {
        let rate = self.learning_rate;
        format!("parameters are no longer finite; take a learning_rate below {rate} or more regularisation")
    }
}

impl Factorisation for BprMfConfig {
    const NAME: &'static str = "bpr-mf";
    const BIAS: bool = true;

    fn init(&self) -> (usize, f64) {
        (self.factors, self.init_deviation)
    }

    fn train(model: &mut FactorModel<Self>, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let rng = Self::rng(fit);
        let sampler = NegativeSampler::new(train);
        let mut order = EpochOrder::new(train, &sampler, &mut rng.stream("order", 0));
        let trainer = Trainer { sampler: &sampler, step: Step::new(&model.config) };
        let (epochs, advice) = (model.config.epochs, model.config.advice());
        run_epochs(model, epochs, fit, &advice, |model, epoch| {
            Ok(trainer.epoch(&mut model.factors, &mut order, &mut rng.stream("epoch", epoch)))
        })
    }
}

/// What an epoch needs and does not change.
struct Trainer<'a> {
    sampler: &'a NegativeSampler,
    step: Step,
}

/// Triples whose negatives are drawn together, so that their look-ups do not wait for each other.
const BLOCK: usize = 64;

/// Training on a chunk of interactions; false if a parameter is not finite. No closure stands between a kernel and its
/// loop: compiled on its own, a closure would not get the kernel's instructions.
struct Pass<'a, const N: usize> {
    trainer: &'a Trainer<'a>,
    factors: &'a mut Factors,
    chunk: &'a [Interaction],
    rng: &'a mut Rng,
    loss: &'a mut Loss,
}

impl<const N: usize> SimdKernel for Pass<'_, N> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Pass { trainer, factors, chunk, rng, loss } = self;
        let mut negatives = [0; BLOCK];
        for block in chunk.chunks(BLOCK) {
            let negatives = &mut negatives[..block.len()];
            trainer.sampler.sample(&block.iter().map(|positive| positive.user), negatives, rng);
            if !trainer.train::<N>(factors, block, negatives, loss) {
                return false;
            }
        }
        true
    }
}

impl Trainer<'_> {
    fn epoch(&self, factors: &mut Factors, order: &mut EpochOrder, rng: &mut Rng) -> EpochStats {
        let (triples, mut loss, mut finite) = (order.len(), Loss::new(), true);
        order.epoch(rng, |chunk, rng| {
            finite = finite
                && with_stride!(factors.items.stride, N => {
                    simd_dispatch(Pass::<N> { trainer: self, factors, chunk, rng, loss: &mut loss })
                });
        });
        factors.changed();
        let loss = if finite { loss.mean() } else { f64::NAN };
        EpochStats { triples, loss: Some(loss), finite: factors.is_finite() }
    }

    /// Trains on the triples of a block; false if one of its parameters is not finite.
    #[inline(always)]
    fn train<const N: usize>(
        &self,
        factors: &mut Factors,
        block: &[Interaction],
        negatives: &[u32],
        loss: &mut Loss,
    ) -> bool {
        let mut rows = Rows {
            users: factors.users.padded_mut::<N>(),
            items: factors.items.padded_mut::<N>(),
            bias: &mut factors.bias,
        };
        // A parameter that is not finite makes its triple's x not finite, and the sum with it.
        let mut probe = 0.0;
        let (fours, rest) = block.as_chunks::<4>();
        let (four_negatives, rest_negatives) = negatives.as_chunks::<4>();
        for (positives, negatives) in fours.iter().zip(four_negatives) {
            probe += self.step.take(&mut rows, positives, negatives, loss);
        }
        for (positive, negative) in rest.iter().zip(rest_negatives) {
            probe += self.step.take(&mut rows, &[*positive], &[*negative], loss);
        }
        probe.is_finite()
    }
}

/// All parameters, in padded rows.
struct Rows<'a, const N: usize> {
    users: &'a mut [[f32; N]],
    items: &'a mut [[f32; N]],
    bias: &'a mut [f32],
}

impl<const N: usize> Rows<'_, N> {
    /// x = score(u, i) - score(u, j).
    #[inline(always)]
    fn compare(&self, positive: Interaction, negative: u32) -> f32 {
        let [i, j] = [positive.item as usize, negative as usize];
        let user = self.users[positive.user as usize].as_chunks::<4>().0;
        let (positive, negative) = (self.items[i].as_chunks::<4>().0, self.items[j].as_chunks::<4>().0);
        let mut lanes = f32x4::splat(0.0);
        for f in 0..N / 4 {
            lanes += f32x4::from(user[f]) * (f32x4::from(positive[f]) - f32x4::from(negative[f]));
        }
        let lanes = lanes.to_array();
        (self.bias[i] - self.bias[j]) + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]))
    }
}

/// The constants of one step.
struct Step {
    learning_rate: f32,
    /// 1 - learning rate * regularisation, by which a step multiplies each kind of parameter.
    user_decay: f32,
    positive_decay: f32,
    negative_decay: f32,
    bias_decay: f32,
}

impl Step {
    fn new(config: &BprMfConfig) -> Self {
        let decay = |regularisation| (1.0 - config.learning_rate * regularisation) as f32;
        Self {
            learning_rate: config.learning_rate as f32,
            user_decay: decay(config.user_regularisation),
            positive_decay: decay(config.positive_regularisation),
            negative_decay: decay(config.negative_regularisation),
            bias_decay: decay(config.bias_regularisation),
        }
    }

    /// Steps on K triples, one after the other. The g of all are computed first, from the parameters before the first
    /// step, so that the steps do not wait for each other. Returns the sum of x.
    #[inline(always)]
    fn take<const N: usize, const K: usize>(
        &self,
        rows: &mut Rows<'_, N>,
        positives: &[Interaction; K],
        negatives: &[u32; K],
        loss: &mut Loss,
    ) -> f32 {
        let (mut x, mut wrong, mut right) = ([0.0; K], [0.0; K], [0.0; K]);
        for k in 0..K {
            x[k] = rows.compare(positives[k], negatives[k]);
        }
        for k in 0..K {
            wrong[k] = math::sigmoid(-x[k]);
            right[k] = 1.0 - wrong[k];
        }
        loss.add_all(&right);
        for k in 0..K {
            self.shift(rows, positives[k], negatives[k], self.learning_rate * wrong[k]);
        }
        x.iter().sum()
    }

    /// Moves the parameters of one triple, with step = learning rate * g.
    #[inline(always)]
    fn shift<const N: usize>(&self, rows: &mut Rows<'_, N>, positive: Interaction, negative: u32, step: f32) {
        let [i, j] = [positive.item as usize, negative as usize];
        let user = positive.user as usize;
        // A user does not have their negative item, so the two rows are never the same.
        let Ok([positive, negative]) = rows.items.get_disjoint_mut([i, j]) else { return };
        let (user, user_rest) = rows.users[user].as_chunks_mut::<8>();
        let (positive, positive_rest) = positive.as_chunks_mut::<8>();
        let (negative, negative_rest) = negative.as_chunks_mut::<8>();
        for f in 0..N / 8 {
            self.shift_lanes([&mut user[f], &mut positive[f], &mut negative[f]], step);
        }
        // Rows are padded to a multiple of four.
        let rest = [user_rest, positive_rest, negative_rest].map(|rest| rest.first_chunk_mut::<4>());
        if let [Some(user), Some(positive), Some(negative)] = rest {
            self.shift_lanes([user, positive, negative], step);
        }
        rows.bias[i] = self.bias_decay * rows.bias[i] + step;
        rows.bias[j] = self.bias_decay * rows.bias[j] - step;
    }

    /// Reads everything before writing, so that the compiler need not assume that rows overlap.
    #[inline(always)]
    fn shift_lanes<const L: usize>(&self, [user, positive, negative]: [&mut [f32; L]; 3], step: f32) {
        let (mut w, mut p, mut n) = (*user, *positive, *negative);
        for lane in 0..L {
            let (shift, difference) = (w[lane] * step, p[lane] - n[lane]);
            w[lane] = w[lane] * self.user_decay + difference * step;
            p[lane] = p[lane] * self.positive_decay + shift;
            n[lane] = n[lane] * self.negative_decay - shift;
        }
        (*user, *positive, *negative) = (w, p, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;
    use crate::central::factors::Table;
    use proptest::prelude::{Strategy, prop, prop_assert, proptest};

    fn vector() -> impl Strategy<Value = [f32; 12]> {
        prop::array::uniform12(-1.0f32..1.0)
    }

    proptest! {
        /// Steps on four triples, of which the last two share all rows with the first, against the equations as the
        /// paper has them, in double precision, with every g from the parameters before.
        #[test]
        fn steps_follow_the_papers_equations(start in prop::collection::vec(vector(), 5), start_bias in prop::array::uniform3(-1.0f32..1.0)) {
            let step = Step::new(&BprMfConfig {
                learning_rate: 0.07, user_regularisation: 0.1, positive_regularisation: 0.2,
                negative_regularisation: 0.3, bias_regularisation: 0.4, ..BprMfConfig::default()
            });
            let triples = [(0, 2, 1), (1, 0, 1), (0, 2, 1), (0, 1, 2)];
            let (users, items) = start.split_at(2);
            let mut exact = Exact::new(users, items, start_bias);
            let g = triples.map(|triple| exact.g(triple));
            triples.iter().zip(g).for_each(|(&triple, g)| exact.step(triple, g));

            let (mut users, mut items, mut bias) = (users.to_vec(), items.to_vec(), start_bias);
            let mut rows = Rows { users: &mut users, items: &mut items, bias: &mut bias };
            let positives = triples.map(|(user, item, _)| Interaction { user, item });
            let mut loss = Loss::new();
            step.take(&mut rows, &positives, &triples.map(|(.., negative)| negative), &mut loss);

            let found = users.iter().chain(&items).flatten().chain(&bias).map(|&value| f64::from(value));
            let expected = exact.users.iter().chain(&exact.items).flatten().chain(&exact.bias);
            for (found, expected) in found.zip(expected) {
                prop_assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
            let mean = -g.map(|g| (1.0 - g).ln()).iter().sum::<f64>() / 4.0;
            // 1 - g is a difference of floats: the error of its logarithm is g's last bit over 1 - g.
            let slack: f64 = g.iter().map(|g| 2e-7 / (1.0 - g)).sum();
            prop_assert!((loss.mean() - mean).abs() < 1e-5 + slack);
        }
    }

    /// The equations at the top of this file, literally.
    struct Exact {
        users: Vec<[f64; 12]>,
        items: Vec<[f64; 12]>,
        bias: [f64; 3],
    }

    impl Exact {
        fn new(users: &[[f32; 12]], items: &[[f32; 12]], bias: [f32; 3]) -> Self {
            let wide = |rows: &[[f32; 12]]| rows.iter().map(|row| row.map(f64::from)).collect();
            Self { users: wide(users), items: wide(items), bias: bias.map(f64::from) }
        }

        fn score(&self, u: u32, i: u32) -> f64 {
            let (w, h) = (&self.users[u as usize], &self.items[i as usize]);
            self.bias[i as usize] + (0..12).map(|f| w[f] * h[f]).sum::<f64>()
        }

        fn g(&self, (u, i, j): (u32, u32, u32)) -> f64 {
            1.0 / (1.0 + (self.score(u, i) - self.score(u, j)).exp())
        }

        fn step(&mut self, (u, i, j): (u32, u32, u32), g: f64) {
            let [u, i, j] = [u, i, j].map(|index| index as usize);
            for f in 0..12 {
                let (w, p, n) = (self.users[u][f], self.items[i][f], self.items[j][f]);
                self.users[u][f] += 0.07 * (g * (p - n) - 0.1 * w);
                self.items[i][f] += 0.07 * (g * w - 0.2 * p);
                self.items[j][f] += 0.07 * (-g * w - 0.3 * n);
            }
            self.bias[i] += 0.07 * (g - 0.4 * self.bias[i]);
            self.bias[j] += 0.07 * (-g - 0.4 * self.bias[j]);
        }
    }

    #[test]
    fn non_finite_parameter_ends_training_with_advice() {
        let train = Histories::from_lists(&[vec![0, 2], vec![1]], 4).unwrap();
        let mut model = FactorModel::new(BprMfConfig::default());
        model.factors = Factors::new(Table::zeros(2, 20), Table::zeros(4, 20), vec![0.0; 4]);
        model.factors.users.padded_mut::<20>()[1][0] = f32::INFINITY;
        let (sampler, mut rng) = (NegativeSampler::new(&train), Rng::new(1));
        let mut order = EpochOrder::new(&train, &sampler, &mut rng);
        let trainer = Trainer { sampler: &sampler, step: Step::new(&model.config) };
        let advice = model.config.advice();
        let stopped = run_epochs(&mut model, 3, &mut Fit::new(1, &mut Quiet), &advice, |model, _| {
            let stats = trainer.epoch(&mut model.factors, &mut order, &mut rng);
            // The loss alone shows it.
            assert!(stats.loss.is_some_and(f64::is_nan));
            Ok(EpochStats { finite: true, ..stats })
        });
        let error = stopped.unwrap_err().to_string();
        assert!(error.contains("in epoch 1") && error.contains("learning_rate below 0.02"), "{error}");
    }

    #[test]
    fn loss_is_the_mean_of_logarithms() {
        let probabilities: Vec<f32> = (1..100).map(|n| n as f32 / 100.0).collect();
        let mut loss = Loss::new();
        probabilities.iter().for_each(|&p| loss.add(p));
        let exact = probabilities.iter().map(|&p| -f64::from(p).ln()).sum::<f64>() / 99.0;
        assert!((loss.mean() - exact).abs() < 1e-12);
    }
}
