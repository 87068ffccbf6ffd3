//! BPR-MF: matrix factorisation learnt so that items a user has are ranked above items they do not have.
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
//! with the w_u of before the step on the right. In each epoch every interaction comes once, with one j drawn uniformly
//! from what the user does not have. (The paper draws interactions with replacement; going through all of them learns
//! as well and reads memory in order.) Steps are made one after the other, so results do not depend on threads; only the g
//! of four triples are computed together, from the parameters before the first of the four.

use super::factors::{Factors, MOST_FACTORS, with_stride};
use super::negatives::Owned;
use super::order::{Order, Pair};
use crate::loss::Loss;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary, Tensor};
use sottovoce_core::{Histories, Rng, SimdKernel, math, simd_dispatch};
use wide::f32x4;

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "bpr-mf",
    title: "BPR-MF",
    what: "Matrix factorisation that ranks what a user has above what they do not have",
    paper: "Rendle, Freudenthaler, Gantner, Schmidt-Thieme: BPR: Bayesian Personalized Ranking from Implicit Feedback. UAI 2009",
    settings,
    build: |settings| Box::new(BprMf::new(settings)),
};

/// Defaults: a compromise between MovieLens 1M and 100K, from a few values tried on a validation part. The smaller set
/// would rather have half the rate and regularisation, and twice the epochs.
fn settings() -> Vec<Setting> {
    vec![
        Setting::integer("factors", 20, 1..=MOST_FACTORS, "Length of users' and items' vectors")
            .on_log_scale(),
        Setting::integer("epochs", 100, 1..=10_000, "Times every interaction is gone through").on_log_scale(),
        Setting::real("learning_rate", 0.02, 1e-6..=1.0, "Step of the stochastic gradient").on_log_scale(),
        Setting::real("user_regularisation", 0.02, 0.0..=1.0, "Pull of users' vectors to zero"),
        Setting::real(
            "positive_regularisation",
            0.02,
            0.0..=1.0,
            "Pull to zero of the vector of an item the user has",
        ),
        Setting::real(
            "negative_regularisation",
            0.02,
            0.0..=1.0,
            "Pull to zero of the vector of an item the user does not have",
        ),
        Setting::real("bias_regularisation", 0.02, 0.0..=1.0, "Pull of items' biases to zero"),
        Setting::real("init_deviation", 0.1, 0.0..=1.0, "Standard deviation of the first random vectors"),
    ]
}

struct BprMf {
    width: usize,
    epochs: usize,
    init_deviation: f32,
    step: Step,
    factors: Factors,
}

impl BprMf {
    fn new(settings: &Settings) -> Self {
        Self {
            width: settings.integer("factors"),
            epochs: settings.integer("epochs"),
            init_deviation: settings.real("init_deviation") as f32,
            step: Step::new(settings),
            factors: Factors::default(),
        }
    }

    fn diverged(&self, epoch: usize) -> ModelError {
        let advice = format!(
            "parameters are no longer finite; take a learning_rate below {} or more regularisation",
            self.step.rate
        );
        ModelError::Diverged { epoch, advice }
    }
}

impl Recommender for BprMf {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let rng = Rng::new(fit.seed).stream("bpr-mf", 0);
        self.factors = Factors::normal(train, self.width, self.init_deviation, &rng).with_bias();
        let owned = Owned::new(train);
        let mut order = Order::new(train, &owned, &mut rng.stream("order", 0));
        let mut summary = Summary::default();
        for epoch in 1..=self.epochs {
            let mut rng = rng.stream("epoch", epoch as u64);
            let sampler = Sampler { owned: &owned, step: &self.step };
            let factors = &mut self.factors;
            let loss = with_stride!(factors.items.stride(), N => {
                simd_dispatch(Pass::<N> { sampler: &sampler, factors, order: &mut order, rng: &mut rng })
            });
            self.factors.changed();
            if !(loss.is_finite() && self.factors.is_finite()) {
                return Err(self.diverged(epoch));
            }
            let progress = Progress { epoch, epochs: self.epochs, loss: Some(loss), model: &*self };
            if fit.after_epoch(&mut summary, order.len() as u64, &progress) == Flow::Stop {
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
        self.factors = Factors::restore(tensors, train, self.width, true)?;
        Ok(())
    }
}

/// What a pass over the interactions needs and does not change.
struct Sampler<'a> {
    owned: &'a Owned,
    step: &'a Step,
}

/// Triples that are drawn together, so that their look-ups do not wait for each other.
const BLOCK: usize = 64;

/// One epoch; comes to the mean loss, which is not finite if a parameter was not.
struct Pass<'a, const N: usize> {
    sampler: &'a Sampler<'a>,
    factors: &'a mut Factors,
    order: &'a mut Order,
    rng: &'a mut Rng,
}

impl<const N: usize> SimdKernel for Pass<'_, N> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let Pass { sampler, factors, order, rng } = self;
        let mut loss = Loss::new();
        let mut finite = true;
        let mut negatives = [0; BLOCK];
        order.epoch(rng, |chunk, rng| {
            for block in chunk.chunks(BLOCK) {
                let negatives = &mut negatives[..block.len()];
                sampler.owned.draw_negatives(&block.iter().map(|pair| pair.user), negatives, rng);
                finite = finite && sampler.learn::<N>(factors, block, negatives, &mut loss);
            }
        });
        if finite { loss.mean() } else { f64::NAN }
    }
}

impl Sampler<'_> {
    /// Steps on the triples of a block; false if one of its parameters is not finite.
    #[inline(always)]
    fn learn<const N: usize>(
        &self,
        factors: &mut Factors,
        block: &[Pair],
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
        for (pairs, negatives) in fours.iter().zip(four_negatives) {
            probe += self.step.take(&mut rows, pairs, negatives, loss);
        }
        for (pair, negative) in rest.iter().zip(rest_negatives) {
            probe += self.step.take(&mut rows, &[*pair], &[*negative], loss);
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
    fn compare(&self, pair: Pair, negative: u32) -> f32 {
        let [i, j] = [pair.item as usize, negative as usize];
        let user = self.users[pair.user as usize].as_chunks::<4>().0;
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
    rate: f32,
    /// 1 - rate * regularisation of each kind: what is kept of a parameter.
    keep_user: f32,
    keep_positive: f32,
    keep_negative: f32,
    keep_bias: f32,
}

impl Step {
    fn new(settings: &Settings) -> Self {
        let rate = settings.real("learning_rate");
        let keep = |key| (1.0 - rate * settings.real(key)) as f32;
        Self {
            rate: rate as f32,
            keep_user: keep("user_regularisation"),
            keep_positive: keep("positive_regularisation"),
            keep_negative: keep("negative_regularisation"),
            keep_bias: keep("bias_regularisation"),
        }
    }

    /// Steps on K triples after each other. The g of all are computed at once, from the parameters before the first:
    /// the steps then need not wait for each other. Returns the sum of x.
    #[inline(always)]
    fn take<const N: usize, const K: usize>(
        &self,
        rows: &mut Rows<'_, N>,
        pairs: &[Pair; K],
        negatives: &[u32; K],
        loss: &mut Loss,
    ) -> f32 {
        let (mut x, mut wrong, mut right) = ([0.0; K], [0.0; K], [0.0; K]);
        for k in 0..K {
            x[k] = rows.compare(pairs[k], negatives[k]);
        }
        for k in 0..K {
            wrong[k] = math::sigmoid(-x[k]);
            right[k] = 1.0 - wrong[k];
        }
        loss.add_all(&right);
        for k in 0..K {
            self.shift(rows, pairs[k], negatives[k], self.rate * wrong[k]);
        }
        x.iter().sum()
    }

    /// Moves the parameters of one triple, with pull = rate * g.
    #[inline(always)]
    fn shift<const N: usize>(&self, rows: &mut Rows<'_, N>, pair: Pair, negative: u32, pull: f32) {
        let [i, j] = [pair.item as usize, negative as usize];
        // A user does not have their negative item, so the two rows are never the same.
        let Ok([positive, negative]) = rows.items.get_disjoint_mut([i, j]) else { return };
        let (user, user_rest) = rows.users[pair.user as usize].as_chunks_mut::<8>();
        let (positive, positive_rest) = positive.as_chunks_mut::<8>();
        let (negative, negative_rest) = negative.as_chunks_mut::<8>();
        for f in 0..N / 8 {
            self.shift_lanes([&mut user[f], &mut positive[f], &mut negative[f]], pull);
        }
        // Rows are padded to a multiple of four.
        let rest = [user_rest, positive_rest, negative_rest].map(|rest| rest.first_chunk_mut::<4>());
        if let [Some(user), Some(positive), Some(negative)] = rest {
            self.shift_lanes([user, positive, negative], pull);
        }
        rows.bias[i] = self.keep_bias * rows.bias[i] + pull;
        rows.bias[j] = self.keep_bias * rows.bias[j] - pull;
    }

    /// Reads before it writes, so that compilers need not fear that rows overlap.
    #[inline(always)]
    fn shift_lanes<const L: usize>(&self, [user, positive, negative]: [&mut [f32; L]; 3], pull: f32) {
        let (mut w, mut p, mut n) = (*user, *positive, *negative);
        for lane in 0..L {
            let (shift, apart) = (w[lane] * pull, p[lane] - n[lane]);
            w[lane] = w[lane] * self.keep_user + apart * pull;
            p[lane] = p[lane] * self.keep_positive + shift;
            n[lane] = n[lane] * self.keep_negative - shift;
        }
        (*user, *positive, *negative) = (w, p, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::factors::Table;
    use proptest::prelude::{Strategy, prop, prop_assert, proptest};

    fn vector() -> impl Strategy<Value = [f32; 12]> {
        prop::array::uniform12(-1.0f32..1.0)
    }

    proptest! {
        /// Steps on four triples, of which the last two share all rows with the first, against the equations as the
        /// paper has them, in double precision, with every g from the parameters before.
        #[test]
        fn steps_are_the_papers(start in prop::collection::vec(vector(), 5), start_bias in prop::array::uniform3(-1.0f32..1.0)) {
            let given = [
                ("learning_rate", 0.07), ("user_regularisation", 0.1), ("positive_regularisation", 0.2),
                ("negative_regularisation", 0.3), ("bias_regularisation", 0.4),
            ];
            let given = given.map(|(key, value)| (key, crate::settings::Value::Real(value)));
            let step = Step::new(&MODEL.settings(given).unwrap());
            let triples = [(0, 2, 1), (1, 0, 1), (0, 2, 1), (0, 1, 2)];
            let (users, items) = start.split_at(2);
            let mut exact = Exact::new(users, items, start_bias);
            let g = triples.map(|triple| exact.g(triple));
            triples.iter().zip(g).for_each(|(&triple, g)| exact.step(triple, g));

            let (mut users, mut items, mut bias) = (users.to_vec(), items.to_vec(), start_bias);
            let mut rows = Rows { users: &mut users, items: &mut items, bias: &mut bias };
            let pairs = triples.map(|(user, item, _)| Pair { user, item });
            let mut loss = Loss::new();
            step.take(&mut rows, &pairs, &triples.map(|(.., negative)| negative), &mut loss);

            let found = users.iter().chain(&items).flatten().chain(&bias).map(|&value| f64::from(value));
            let expected = exact.users.iter().chain(&exact.items).flatten().chain(&exact.bias);
            for (found, expected) in found.zip(expected) {
                prop_assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
            let mean = -g.map(|g| (1.0 - g).ln()).iter().sum::<f64>() / 4.0;
            // 1 - g is a difference of floats: its logarithm is as far off as g's last bit is large beside it.
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
    fn a_parameter_that_is_not_finite_ends_the_training_with_advice() {
        let train = Histories::from_lists(&[vec![0, 2], vec![1]], 4).unwrap();
        let mut model = BprMf::new(&MODEL.settings([]).unwrap());
        model.factors = Factors::new(Table::zeros(2, 20), Table::zeros(4, 20), vec![0.0; 4]);
        model.factors.users.padded_mut::<20>()[1][0] = f32::INFINITY;
        let (owned, mut rng) = (Owned::new(&train), Rng::new(1));
        let mut order = Order::new(&train, &owned, &mut rng);
        let sampler = Sampler { owned: &owned, step: &model.step };
        let pass =
            Pass::<20> { sampler: &sampler, factors: &mut model.factors, order: &mut order, rng: &mut rng };
        assert!(!simd_dispatch(pass).is_finite());
        let error = model.diverged(3).to_string();
        assert!(error.contains("in epoch 3") && error.contains("learning_rate below 0.02"), "{error}");
    }

    #[test]
    fn the_loss_is_the_mean_of_logarithms() {
        let probabilities: Vec<f32> = (1..100).map(|n| n as f32 / 100.0).collect();
        let mut loss = Loss::new();
        probabilities.iter().for_each(|&p| loss.add(p));
        let exact = probabilities.iter().map(|&p| -f64::from(p).ln()).sum::<f64>() / 99.0;
        assert!((loss.mean() - exact).abs() < 1e-12);
    }
}
