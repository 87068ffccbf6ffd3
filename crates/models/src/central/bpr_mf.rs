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
//! as well and reads memory in order.) Steps are made one after the other, so results do not depend on threads.

use super::factors::{Factors, MOST_FACTORS, Table, with_stride};
use super::logistic::Logistic;
use super::negatives::Owned;
use crate::loss::Loss;
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary, Tensor};
use sottovoce_core::{Histories, Rng};
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
        let table =
            |name, rows| Table::normal(rows, self.width, self.init_deviation, &mut rng.stream(name, 0));
        self.factors = Factors::new(
            table("users", train.users()),
            table("items", train.catalog_size()),
            vec![0.0; train.catalog_size()],
        );
        let owned = Owned::new(train);
        let mut order = Order::new(train, &owned, &mut rng.stream("order", 0));
        let logistic = Logistic::new();
        let mut summary = Summary::default();
        for epoch in 1..=self.epochs {
            let mut rng = rng.stream("epoch", epoch as u64);
            let sampler = Sampler { owned: &owned, logistic: &logistic, step: &self.step };
            let factors = &mut self.factors;
            let loss =
                with_stride!(factors.items.stride(), N => sampler.pass::<N>(factors, &mut order, &mut rng));
            self.factors.changed();
            if !(loss.is_finite() && self.factors.is_finite()) {
                return Err(self.diverged(epoch));
            }
            summary.epochs = epoch;
            summary.triples += order.pairs.len() as u64;
            let progress = Progress { epoch, epochs: self.epochs, loss: Some(loss), model: &*self };
            if fit.watch.after_epoch(&progress) == Flow::Stop {
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

/// A user and an item they have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pair {
    user: u32,
    item: u32,
}

/// Interactions put into one random order as they are learnt from: small enough to be shuffled in a near cache.
const CHUNK: usize = 2048;

/// All interactions that can be learnt from, in an order that is new in each epoch.
///
/// They are shuffled whole once. Each epoch then moves the borders of the chunks, takes the chunks in random order and
/// shuffles each: as random as learning needs, at a quarter of the cost of shuffling millions of pairs in far memory.
struct Order {
    pairs: Vec<Pair>,
    chunks: Vec<usize>,
}

impl Order {
    /// The interactions of all users for whom there is a negative item.
    fn new(train: &Histories, owned: &Owned, rng: &mut Rng) -> Self {
        let mut pairs: Vec<Pair> = (0..train.users() as u32)
            .filter(|&user| !owned.has_all(user))
            .flat_map(|user| train.of(user as usize).iter().map(move |&item| Pair { user, item }))
            .collect();
        rng.shuffle(&mut pairs);
        let chunks = (0..pairs.len().div_ceil(CHUNK)).collect();
        Self { pairs, chunks }
    }

    fn begin_epoch(&mut self, rng: &mut Rng) {
        if !self.pairs.is_empty() {
            let shift = rng.index(self.pairs.len().min(CHUNK));
            self.pairs.rotate_left(shift);
        }
        rng.shuffle(&mut self.chunks);
    }

    /// The chunk at this place of the epoch, freshly shuffled.
    fn chunk(&mut self, place: usize, rng: &mut Rng) -> &[Pair] {
        let start = self.chunks[place] * CHUNK;
        let end = (start + CHUNK).min(self.pairs.len());
        let chunk = &mut self.pairs[start..end];
        rng.shuffle(chunk);
        chunk
    }
}

/// Triples that are drawn together. Their look-ups do not wait for each other, nor the steps for memory.
const BLOCK: usize = 64;

/// What a pass over the interactions needs and does not change.
struct Sampler<'a> {
    owned: &'a Owned,
    logistic: &'a Logistic,
    step: &'a Step,
}

impl Sampler<'_> {
    /// One epoch; returns the mean loss, which is not finite if a parameter was not.
    #[inline(never)]
    fn pass<const N: usize>(&self, factors: &mut Factors, order: &mut Order, rng: &mut Rng) -> f64 {
        let mut loss = Loss::new();
        let mut negatives = [0; BLOCK];
        order.begin_epoch(rng);
        for place in 0..order.chunks.len() {
            for block in order.chunk(place, rng).chunks(BLOCK) {
                let negatives = &mut negatives[..block.len()];
                self.owned.draw_negatives(&block.iter().map(|pair| pair.user), negatives, rng);
                if !self.learn::<N>(factors, block, negatives, &mut loss) {
                    return f64::NAN;
                }
            }
        }
        loss.mean()
    }

    /// Steps on the triples of a block; false if one of its parameters is not finite.
    #[inline(always)]
    fn learn<const N: usize>(
        &self,
        factors: &mut Factors,
        block: &[Pair],
        negatives: &[u32],
        loss: &mut Loss,
    ) -> bool {
        let (users, items) = (factors.users.padded_mut::<N>(), factors.items.padded_mut::<N>());
        let bias = &mut factors.bias[..];
        // Finds divergence early, and brings the rows near before the steps, each of which waits for the last.
        let mut probe = 0.0;
        for (pair, &negative) in block.iter().zip(negatives) {
            let rows = [&users[pair.user as usize], &items[pair.item as usize], &items[negative as usize]];
            probe += rows.map(|row| row[0] + row[N - 1]).iter().sum::<f32>();
        }
        for (pair, &negative) in block.iter().zip(negatives) {
            let [i, j] = [pair.item as usize, negative as usize];
            // A user does not have their negative item, so the two rows are never the same.
            if let Ok([positive, negative]) = items.get_disjoint_mut([i, j]) {
                let rows = [&mut users[pair.user as usize], positive, negative];
                let (right, new) = self.step.take(self.logistic, rows, [bias[i], bias[j]]);
                [bias[i], bias[j]] = new;
                loss.add(right);
            }
        }
        probe.is_finite()
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

    /// One step on the rows and biases of a user, an item they have and one they do not have; returns the probability
    /// sigma(x) of the right order before it, and the new biases.
    #[inline(always)]
    fn take<const N: usize>(
        &self,
        logistic: &Logistic,
        [user, positive, negative]: [&mut [f32; N]; 3],
        bias: [f32; 2],
    ) -> (f32, [f32; 2]) {
        let [user, positive, negative] = [user, positive, negative].map(|row| row.as_chunks_mut::<4>().0);
        let mut lanes = f32x4::splat(0.0);
        for f in 0..N / 4 {
            lanes += f32x4::from(user[f]) * (f32x4::from(positive[f]) - f32x4::from(negative[f]));
        }
        let lanes = lanes.to_array();
        let x = (bias[0] - bias[1]) + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
        let wrong = logistic.at(-x);
        let pull = self.rate * wrong;
        for f in 0..N / 4 {
            let [w, p, n] = [user[f], positive[f], negative[f]].map(f32x4::from);
            let shift = w * pull;
            user[f] = (w * self.keep_user + (p - n) * pull).to_array();
            positive[f] = (p * self.keep_positive + shift).to_array();
            negative[f] = (n * self.keep_negative - shift).to_array();
        }
        (1.0 - wrong, [self.keep_bias * bias[0] + pull, self.keep_bias * bias[1] - pull])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop, prop_assert, proptest};

    fn vector() -> impl Strategy<Value = [f32; 8]> {
        prop::array::uniform8(-1.0f32..1.0)
    }

    proptest! {
        /// The step against the equations as the paper has them, in double precision.
        #[test]
        fn one_step_is_the_papers(w in vector(), p in vector(), n in vector(), b in prop::array::uniform2(-1.0f32..1.0)) {
            let given = [
                ("learning_rate", 0.07), ("user_regularisation", 0.1), ("positive_regularisation", 0.2),
                ("negative_regularisation", 0.3), ("bias_regularisation", 0.4),
            ];
            let given = given.map(|(key, value)| (key, crate::settings::Value::Real(value)));
            let step = Step::new(&MODEL.settings(given).unwrap());
            let (mut user, mut positive, mut negative) = (w, p, n);
            let rows = [&mut user, &mut positive, &mut negative];
            let (right, bias) = step.take(&Logistic::new(), rows, b);

            let wide = |v: f32| f64::from(v);
            let x: f64 = wide(b[0]) - wide(b[1]) + (0..8).map(|f| wide(w[f]) * (wide(p[f]) - wide(n[f]))).sum::<f64>();
            let g = 1.0 / (1.0 + x.exp());
            let near = |found: f32, exact: f64| (wide(found) - exact).abs() < 1e-5;
            for f in 0..8 {
                let (w, p, n) = (wide(w[f]), wide(p[f]), wide(n[f]));
                prop_assert!(near(user[f], w + 0.07 * (g * (p - n) - 0.1 * w)));
                prop_assert!(near(positive[f], p + 0.07 * (g * w - 0.2 * p)));
                prop_assert!(near(negative[f], n + 0.07 * (-g * w - 0.3 * n)));
            }
            prop_assert!(near(bias[0], wide(b[0]) + 0.07 * (g - 0.4 * wide(b[0]))));
            prop_assert!(near(bias[1], wide(b[1]) + 0.07 * (-g - 0.4 * wide(b[1]))));
            prop_assert!(near(right, 1.0 - g));
        }
    }

    #[test]
    fn every_epoch_goes_through_every_interaction_in_a_new_order() {
        let lists: Vec<Vec<u32>> = (0..50).map(|user| (0..100 + user).collect()).collect();
        let train = Histories::from_lists(&lists, 150).unwrap();
        let mut rng = Rng::new(1);
        let mut order = Order::new(&train, &Owned::new(&train), &mut rng);
        let mut epoch = || {
            order.begin_epoch(&mut rng);
            let mut pairs = Vec::new();
            (0..order.chunks.len()).for_each(|place| pairs.extend_from_slice(order.chunk(place, &mut rng)));
            pairs
        };
        let (first, mut second) = (epoch(), epoch());
        assert!(first.iter().zip(&second).filter(|(a, b)| a == b).count() < 20);
        second.sort_unstable_by_key(|pair| (pair.user, pair.item));
        let all = |user: u32| (0..100 + user).map(move |item| Pair { user, item });
        assert_eq!(second, (0..50).flat_map(all).collect::<Vec<_>>());
    }

    #[test]
    fn a_parameter_that_is_not_finite_ends_the_training_with_advice() {
        let train = Histories::from_lists(&[vec![0, 2], vec![1]], 4).unwrap();
        let mut model = BprMf::new(&MODEL.settings([]).unwrap());
        model.factors = Factors::new(Table::zeros(2, 20), Table::zeros(4, 20), vec![0.0; 4]);
        model.factors.users.padded_mut::<20>()[1][0] = f32::INFINITY;
        let (owned, mut rng) = (Owned::new(&train), Rng::new(1));
        let mut order = Order::new(&train, &owned, &mut rng);
        let sampler = Sampler { owned: &owned, logistic: &Logistic::new(), step: &model.step };
        assert!(!sampler.pass::<20>(&mut model.factors, &mut order, &mut rng).is_finite());
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
