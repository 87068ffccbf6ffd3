//! The device's half: stochastic gradient descent on the owner's samples.

use super::FedGmfConfig;
use crate::explanation::by_vectors;
use crate::federated::dp_sgd::{Gradient, Sums};
use crate::loss::Loss;
use crate::{ClientModel, DpSgd, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_protocol::{Parameters, RowOrigin, Trained};

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    /// The settings.
    pub config: FedGmfConfig,
}

impl Client {
    /// Learning rate and regularisation, in the precision of the vectors.
    pub(super) fn rates(&self) -> (f32, f32) {
        (self.config.learning_rate as f32, self.config.regularisation as f32)
    }

    /// One sample's step on p, a row of Q and h; returns the probability given to what is true.
    fn step(&self, p: &mut [f32], q: &mut [f32], h: &mut [f32], positive: bool) -> f32 {
        let score: f32 = p.iter().zip(&*q).zip(&*h).map(|((p, q), h)| p * q * h).sum();
        let likely = math::sigmoid(if positive { score } else { -score });
        // -dJ/ds, times the step.
        let (rate, regularisation) = self.rates();
        let up = rate * (1.0 - likely) * if positive { 1.0 } else { -1.0 };
        let back = rate * regularisation;
        for ((p, q), h) in p.iter_mut().zip(q).zip(h) {
            let (dp, dq, dh) = (up * *h * *q - back * *p, up * *h * *p - back * *q, up * *p * *q);
            (*p, *q, *h) = (*p + dp, *q + dq, *h + dh);
        }
        likely
    }
}

/// Working memory.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Items and whether the owner has them.
    samples: Vec<(u32, bool)>,
    /// Items met, ascending, with their marks.
    items: Vec<u32>,
    marks: Vec<RowOrigin>,
    /// By item: its index among the touched ones.
    row_of: Vec<u32>,
    /// Rows of those met, as they are changed.
    rows: Vec<f32>,
    output: Vec<f32>,
    /// By item: whether the owner has it.
    own: Vec<bool>,
    /// Of steps on more than one sample.
    gradients: Gradients,
}

/// Of the rows met, of the output and of p.
#[derive(Debug, Default)]
struct Gradients {
    rows: Vec<f32>,
    output: Vec<f32>,
    user: Vec<f32>,
}

impl Scratch {
    /// Draws negatives for all of the user's items; some of the catalog is neither the user's nor hidden.
    fn draw(&mut self, history: &[u32], hidden: &[u32], negatives: usize, rng: &mut Rng) {
        let Self { samples, items, marks, row_of, own, .. } = self;
        let catalog = own.len() as u32;
        samples.clear();
        history.iter().chain(hidden).for_each(|&item| own[item as usize] = true);
        for &item in history {
            samples.push((item, true));
            for _ in 0..negatives {
                let drawn = std::iter::repeat_with(|| rng.below(catalog)).find(|&item| !own[item as usize]);
                samples.extend(drawn.map(|item| (item, false)));
            }
        }
        items.clear();
        items.extend(samples.iter().map(|sample| sample.0));
        items.sort_unstable();
        items.dedup();
        let mark = |&item: &u32| if own[item as usize] { RowOrigin::Consumed } else { RowOrigin::Other };
        marks.clear();
        marks.extend(items.iter().map(mark));
        (0..).zip(&*items).for_each(|(index, &item)| row_of[item as usize] = index);
        history.iter().chain(hidden).for_each(|&item| own[item as usize] = false);
    }

    /// Copies the rows of touched items.
    fn gather(&mut self, vectors: &[f32], output: &[f32]) {
        let width = output.len();
        self.rows.clear();
        for &item in &self.items {
            self.rows.extend_from_slice(&vectors[item as usize * width..][..width]);
        }
        self.output.clear();
        self.output.extend_from_slice(output);
    }
}

impl Client {
    /// Goes through the samples step by step, or makes one step of rate 1 (of p: its own) where gradients are wanted.
    fn descend(&self, p: &mut [f32], scratch: &mut Scratch, rng: &mut Rng) -> f64 {
        let (mut loss, samples) = (0.0, scratch.samples.len());
        let batch = self.config.local_batch;
        let batch = if batch == 0 || self.config.gradients { samples } else { batch };
        for _ in 0..self.epochs() {
            rng.shuffle(&mut scratch.samples);
            let mut epoch = Loss::new();
            if batch == 1 {
                for &(item, positive) in &scratch.samples {
                    let index = scratch.row_of[item as usize] as usize;
                    let row = &mut scratch.rows[index * p.len()..][..p.len()];
                    epoch.add(self.step(p, row, &mut scratch.output, positive));
                }
            } else {
                for first in (0..samples).step_by(batch) {
                    self.step_together(first..samples.min(first + batch), p, scratch, &mut epoch);
                }
            }
            loss += epoch.sum();
        }
        loss
    }

    fn epochs(&self) -> usize {
        if self.config.gradients { 1 } else { self.config.local_epochs }
    }

    /// One step down the mean gradient of some samples; adds their losses.
    fn step_together(&self, of: std::ops::Range<usize>, p: &mut [f32], scratch: &mut Scratch, loss: &mut Loss) {
        let Scratch { samples, row_of, rows, output, gradients, .. } = scratch;
        let (width, share) = (p.len(), 1.0 / of.len() as f32);
        let (rate, regularisation) = self.rates();
        let gradients = &mut gradients.resized(rows.len(), width);
        for &(item, positive) in &samples[of] {
            let index = row_of[item as usize] as usize * width;
            let q = &rows[index..][..width];
            let score: f32 = p.iter().zip(q).zip(&*output).map(|((p, q), h)| p * q * h).sum();
            let likely = math::sigmoid(if positive { score } else { -score });
            let up = share * (1.0 - likely) * if positive { 1.0 } else { -1.0 };
            let (back, dq) = (share * regularisation, &mut gradients.rows[index..][..width]);
            for f in 0..width {
                dq[f] += up * output[f] * p[f] - back * q[f];
                gradients.output[f] += up * p[f] * q[f];
                gradients.user[f] += up * output[f] * q[f] - back * p[f];
            }
            loss.add(likely);
        }
        let shared = if self.config.gradients { 1.0 } else { rate };
        math::add_scaled(rows, shared, &gradients.rows);
        math::add_scaled(output, shared, &gradients.output);
        math::add_scaled(p, rate, &gradients.user);
    }
}

impl Gradients {
    /// All 0, of these lengths.
    fn resized(&mut self, rows: usize, width: usize) -> &mut Self {
        for (values, length) in [(&mut self.rows, rows), (&mut self.output, width), (&mut self.user, width)] {
            values.clear();
            values.resize(length, 0.0);
        }
        self
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, items: usize) -> Scratch {
        Scratch { row_of: vec![0; items], own: vec![false; items], ..Scratch::default() }
    }

    fn private_values(&self) -> usize {
        self.config.factors
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        rng.fill_normal(self.config.init_deviation as f32, private);
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, rng: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = &*input.visible();
        let TrainInput { shared, private: p, hidden, .. } = input;
        let [vectors, output] = shared.tables() else { return Ok(TrainStats::default()) };
        // Somebody with nothing, or with everything, has nothing to compare.
        if history.is_empty() || history.len() + hidden.len() >= vectors.shape().rows as usize {
            return Ok(TrainStats::default());
        }
        scratch.draw(history, hidden, self.config.negatives, rng);
        scratch.gather(vectors.values(), output.values());
        let loss = self.descend(p, scratch, rng);
        let changes = into.push_rows(0, &scratch.items, &scratch.marks)?;
        let rows = changes.chunks_exact_mut(p.len()).zip(scratch.rows.chunks_exact(p.len()));
        for ((change, row), &item) in rows.zip(&scratch.items) {
            let given = vectors.row(item as usize);
            change.iter_mut().zip(row).zip(given).for_each(|((change, row), given)| *change = row - given);
        }
        let change = into.whole(1)?.iter_mut().zip(&scratch.output).zip(output.values());
        change.for_each(|((change, row), given)| *change = row - given);
        into.set_samples(history.len() as u64);
        // A sample is a positive, with the negatives drawn for it.
        Ok(TrainStats { samples: (history.len() * self.epochs()) as u64, loss })
    }

    fn supports_dp_sgd(&self) -> bool {
        true
    }

    /// Learns from each interaction by its chance, with one step a round. Samples are all interactions that there are,
    /// taken or not. What is proposed is a sum and not a mean: how many there are is not told.
    fn train_dp_sgd(
        &self,
        input: TrainInput<'_>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let history = input.visible();
        let TrainInput { shared, private: p, hidden, .. } = input;
        let [vectors, output] = shared.tables() else { return Ok(TrainStats::default()) };
        if history.is_empty() {
            return Ok(TrainStats::default());
        }
        let samples = self.draw_each(&history, vectors.shape().rows, dp_sgd.probability, rng);
        let mut sums = Sums::new(samples.clone(), self.config.factors, (self.config.factors, self.config.factors));
        let (mut gradient, mut loss) = (Gradient::default(), Loss::new());
        for sample in samples.chunks_exact(1 + self.config.negatives) {
            self.gradient((vectors, output.values()), p, sample, &mut gradient, &mut loss);
            sums.add(&gradient, dp_sgd);
        }
        let rate = if self.config.gradients { self.rates().0 } else { 1.0 };
        sums.finish(dp_sgd, (p, rate), (&history, hidden), loss, into)
    }

    fn score(&self, shared: &Parameters, private: &[f32], _: History<'_>, into: &mut [f32]) {
        let vectors = shared.tables().first();
        assert_eq!(into.len(), vectors.map_or(0, |table| table.shape().rows as usize), "one score an item");
        let [vectors, output] = shared.tables() else { return };
        let weighted: Vec<f32> = private.iter().zip(output.values()).map(|(p, h)| p * h).collect();
        for (into, row) in into.iter_mut().zip(vectors.values().chunks_exact(weighted.len())) {
            *into = math::dot(&weighted, row);
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Vectors
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let [vectors, output] = shared.tables() else { return vec![Vec::new(); items.len()] };
        let rows = vectors.values().chunks_exact(private.len());
        let weighted: Vec<f32> = rows.flat_map(|q| q.iter().zip(output.values()).map(|(q, h)| q * h)).collect();
        let row = |item: usize| (&weighted[item * private.len()..][..private.len()], 0.0);
        by_vectors(private, vectors.shape().rows as usize, row, &history, items)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ServerModel;
    use crate::federated::fed_gmf::Server;

    pub(crate) fn device(gradients: bool) -> Client {
        let learning_rate = 0.3;
        let config =
            FedGmfConfig { factors: 3, negatives: 2, local_epochs: 2, learning_rate, ..FedGmfConfig::default() };
        Client { config: FedGmfConfig { init_deviation: 0.5, gradients, ..config } }
    }

    pub(crate) fn shared() -> Parameters {
        let mut start = Server { factors: 3, init_deviation: 0.5 }.init(9, &mut Rng::new(4)).unwrap();
        start.tables_mut()[1].values_mut().copy_from_slice(&[1.2, 0.7, -0.4]);
        start
    }

    /// The loss of all samples by p, Q, h, as it is written; with the regularisation's potential for the rows that each
    /// sample meets.
    fn loss(p: &[f64], q: &[f64], h: &[f64], samples: &[(u32, bool)], regularisation: f64) -> f64 {
        let one = |&(item, positive): &(u32, bool)| {
            let q = &q[item as usize * 3..][..3];
            let s: f64 = (0..3).map(|f| h[f] * p[f] * q[f]).sum();
            let y = 1.0 / (1.0 + (-s).exp());
            let square = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
            -(if positive { y } else { 1.0 - y }).ln() + regularisation / 2.0 * (square(p) + square(q))
        };
        samples.iter().map(one).sum::<f64>() / samples.len() as f64
    }

    fn trained(device: &Client, private: &mut [f32]) -> (Trained, Scratch, TrainStats) {
        let shared = shared();
        let (mut scratch, mut into) = (device.scratch(9), Trained::new(&shared.layout()));
        let input = TrainInput { shared: &shared, prepared: &(), private, history: (&[1, 4, 6]).into(), hidden: &[] };
        let stats = device.train(input, &mut scratch, &mut Rng::new(7), &mut into).unwrap();
        (into, scratch, stats)
    }

    #[test]
    fn what_is_proposed_at_once_is_the_gradient() {
        let device = device(true);
        let mut p = [0.3f32, -0.8, 0.5];
        let before = p.map(f64::from);
        let (into, scratch, stats) = trained(&device, &mut p);
        let shared = shared();
        let wide = |table: usize| -> Vec<f64> {
            shared.tables()[table].values().iter().map(|&value| f64::from(value)).collect()
        };
        let (q, h, samples) = (wide(0), wide(1), &scratch.samples[..]);
        assert_eq!((stats.samples, samples.len()), (3, 9));
        let numeric = |change: &dyn Fn(f64) -> f64| -(change(1e-5) - change(-1e-5)) / 2e-5;
        for (row, values) in into.update().tables()[0].iter() {
            for (column, value) in values.iter().enumerate() {
                let at = |by: f64| {
                    let mut q = q.clone();
                    q[row * 3 + column] += by;
                    loss(&before, &q, &h, samples, 0.01)
                };
                assert!((f64::from(*value) - numeric(&at)).abs() < 1e-5, "row {row}");
            }
        }
        for column in 0..3 {
            let at_h = |by: f64| {
                let mut h = h.clone();
                h[column] += by;
                loss(&before, &q, &h, samples, 0.01)
            };
            let found = f64::from(into.update().tables()[1].values()[column]);
            assert!((found - numeric(&at_h)).abs() < 1e-5);
            let at_p = |by: f64| {
                let mut p = before;
                p[column] += by;
                loss(&p, &q, &h, samples, 0.01)
            };
            let found = f64::from(p[column]) - before[column];
            assert!((found - 0.3 * numeric(&at_p)).abs() < 1e-5);
        }
    }

    #[test]
    fn one_step_of_rate_1_on_all_samples_is_the_gradient() {
        let config = FedGmfConfig { learning_rate: 1.0, ..device(true).config };
        let at_once = Client { config: config.clone() };
        let step = FedGmfConfig { local_batch: 0, local_epochs: 1, gradients: false, ..config };
        let as_a_step = Client { config: step };
        let (mut one, mut other) = ([0.3f32, -0.8, 0.5], [0.3f32, -0.8, 0.5]);
        let (gradient, ..) = trained(&at_once, &mut one);
        let (step, ..) = trained(&as_a_step, &mut other);
        assert_eq!((gradient.update(), one), (step.update(), other));
    }

    #[test]
    fn hidden_items_are_not_learnt_from() {
        let (device, shared) = (device(false), shared());
        let train = |history: &[u32], hidden: &[u32]| {
            let (mut scratch, mut into) = (device.scratch(9), Trained::new(&shared.layout()));
            let mut p = [0.3f32, -0.8, 0.5];
            let input = TrainInput { shared: &shared, prepared: &(), private: &mut p, history: history.into(), hidden };
            device.train(input, &mut scratch, &mut Rng::new(7), &mut into).unwrap();
            into.update().clone()
        };
        // Hidden items are never drawn as negatives, which would reveal that the user does not have them.
        let hiding = train(&[1, 4, 6], &[2, 4]);
        assert_eq!(hiding, train(&[1, 6], &[2, 4]));
        assert!(hiding.tables()[0].iter().all(|(row, _)| row != 2 && row != 4));
    }

    #[test]
    fn steps_are_the_equations_one_after_the_other() {
        let device = device(false);
        let mut p = [0.3f32, -0.8, 0.5];
        let before = p;
        let (into, scratch, stats) = trained(&device, &mut p);
        assert_eq!(stats.samples, 6);
        // The same samples in the same order, by a literal transcription.
        let mut rng = Rng::new(7);
        let mut again = device.scratch(9);
        again.draw(&[1, 4, 6], &[], 2, &mut rng);
        let (shared, mut mine) = (shared(), before.map(f64::from));
        let mut q: Vec<f64> = shared.tables()[0].values().iter().map(|&v| f64::from(v)).collect();
        let mut h: Vec<f64> = shared.tables()[1].values().iter().map(|&v| f64::from(v)).collect();
        let mut total = 0.0;
        for _ in 0..2 {
            rng.shuffle(&mut again.samples);
            for &(item, positive) in &again.samples {
                let row = &mut q[item as usize * 3..][..3];
                let s: f64 = (0..3).map(|f| h[f] * mine[f] * row[f]).sum();
                let y = 1.0 / (1.0 + (-s).exp());
                let g = y - f64::from(u8::from(positive));
                total -= (if positive { y } else { 1.0 - y }).ln();
                for f in 0..3 {
                    let (dp, dq) = (g * h[f] * row[f] + 0.01 * mine[f], g * h[f] * mine[f] + 0.01 * row[f]);
                    let dh = g * mine[f] * row[f];
                    (mine[f], row[f], h[f]) = (mine[f] - 0.3 * dp, row[f] - 0.3 * dq, h[f] - 0.3 * dh);
                }
            }
        }
        assert!((stats.loss - total).abs() < 1e-4, "{} {total}", stats.loss);
        for (row, values) in into.update().tables()[0].iter() {
            for (column, value) in values.iter().enumerate() {
                let change = q[row * 3 + column] - f64::from(shared.tables()[0].row(row)[column]);
                assert!((f64::from(*value) - change).abs() < 1e-5);
            }
        }
        assert!(p.iter().zip(mine).all(|(found, mine)| (f64::from(*found) - mine).abs() < 1e-5));
        assert!(scratch.own.iter().all(|own| !own));
        let marks = into.origins(0).iter().filter(|&&mark| mark == RowOrigin::Consumed).count();
        assert_eq!(marks, 3);
    }
}
