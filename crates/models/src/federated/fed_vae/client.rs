//! The device's half: steps on one person's history.

use super::layers::Middle;
use super::output::{self, Scoring, Stepping};
use super::{FedVaeConfig, Server};
use crate::explanation::by_leaving_out;
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_neural::{Arena, NeuralError};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained, UpdateError};

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    /// The network.
    pub network: Server,
    /// The settings.
    pub config: FedVaeConfig,
}

/// Working memory.
#[derive(Debug)]
pub struct Scratch {
    network: Option<(Middle, Arena<f32>)>,
    /// Items that a step sees.
    kept: Vec<u32>,
    /// By item: its score, then its gradient.
    scores: Vec<f32>,
    /// The middle with this device's changes, and their gradients.
    middle: Vec<f32>,
    gradients: Vec<f32>,
    /// All items, with their marks.
    items: Vec<u32>,
    marks: Vec<RowOrigin>,
    /// Of the owner's items: changes of their rows in the encoder, and marks.
    encoder_changes: Vec<f32>,
    own: Vec<RowOrigin>,
}

/// What a round's steps go on from and what they change.
struct Steps<'a> {
    encoder: &'a Table,
    output: &'a Table,
    history: &'a [u32],
    /// By place in the history.
    encoder_changes: &'a mut [f32],
    output_changes: &'a mut [f32],
    beta: f64,
}

impl Client {
    /// One step; returns its loss.
    fn step(
        &self,
        steps: &mut Steps<'_>,
        first: bool,
        scratch: &mut Scratch,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let Scratch { network, kept, scores, middle, gradients, .. } = scratch;
        let Some((layers, arena)) = network else { return Ok(0.0) };
        let (mut space, width) = (arena.space(), self.network.hidden);
        let [rate, dropout] = [self.config.learning_rate, self.config.dropout_share].map(|setting| setting as f32);
        let history = steps.history;
        kept.clear();
        kept.extend((0..history.len() as u32).filter(|_| !rng.chance(f64::from(dropout))));
        let value = length(history.len()) / (1.0 - dropout);
        let sum = layers.begin(middle, &mut space)?;
        for &place in &*kept {
            let place = place as usize;
            math::add_scaled(sum, value, steps.encoder.row(history[place] as usize));
            math::add_scaled(sum, value, &steps.encoder_changes[place * width..][..width]);
        }
        let pass = layers.forward(middle, sum, Some(rng), &mut space)?;
        let (rows, code) = (steps.output.values(), pass.out());
        let changes = if first { &[][..] } else { &*steps.output_changes };
        output::score(Scoring { rows, changes, code, into: &mut scores[..] });
        let likelihood = output::multinomial(scores, history);
        let back = space.zeros(width)?;
        let changes = &mut *steps.output_changes;
        output::step(Stepping { rows, changes, changed: !first, code, gradients: scores, rate, back });
        gradients.fill(0.0);
        let (divergence, dh) = layers.backward(middle, &pass, back, steps.beta, gradients, &mut space)?;
        for &place in &*kept {
            math::add_scaled(&mut steps.encoder_changes[place as usize * width..][..width], -rate * value, dh);
        }
        math::add_scaled(middle, -rate, gradients);
        Ok(likelihood + divergence)
    }

    fn learn(
        &self,
        shared: &Parameters,
        history: &[u32],
        beta: f64,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<f64, UpdateError> {
        let [encoder, output, middle] = shared.tables() else { return Ok(0.0) };
        let wrong = |_: NeuralError| UpdateError::Values(2, middle.values().len(), self.network.between());
        scratch.middle.clear();
        scratch.middle.extend_from_slice(middle.values());
        scratch.gradients.resize(middle.values().len(), 0.0);
        history.iter().for_each(|&item| scratch.marks[item as usize] = RowOrigin::Consumed);
        // The two tables' buffers are lent one after the other: the encoder's changes are few.
        let mut encoder_changes = std::mem::take(&mut scratch.encoder_changes);
        encoder_changes.clear();
        encoder_changes.resize(history.len() * self.network.hidden, 0.0);
        let output_changes = into.push_rows(1, &scratch.items, &scratch.marks)?;
        history.iter().for_each(|&item| scratch.marks[item as usize] = RowOrigin::Other);
        let mut steps = Steps { encoder, output, history, encoder_changes: &mut encoder_changes, output_changes, beta };
        let mut loss = 0.0;
        for step in 0..self.config.local_steps {
            loss += self.step(&mut steps, step == 0, scratch, rng).map_err(wrong)?;
        }
        scratch.own.resize(history.len(), RowOrigin::Consumed);
        into.push_rows(0, history, &scratch.own)?.copy_from_slice(&encoder_changes);
        scratch.encoder_changes = encoder_changes;
        let change = into.whole(2)?.iter_mut().zip(&scratch.middle).zip(middle.values());
        change.for_each(|((change, now), given)| *change = now - given);
        Ok(loss)
    }

    fn encode(&self, shared: &Parameters, history: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let ([encoder, output, middle], Some(layers)) = (shared.tables(), self.network.middle()) else {
            return Ok(());
        };
        let mut arena = layers.arena()?;
        let mut space = arena.space();
        let sum = layers.begin(middle.values(), &mut space)?;
        let value = length(history.len());
        for &item in history {
            math::add_scaled(sum, value, encoder.row(item as usize));
        }
        let pass = layers.forward(middle.values(), sum, None, &mut space)?;
        output::score(Scoring { rows: output.values(), changes: &[], code: pass.out(), into });
        Ok(())
    }
}

/// What each of so many ones is scaled with to make a row of length 1.
fn length(items: usize) -> f32 {
    1.0 / (items.max(1) as f32).sqrt()
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, items: usize) -> Scratch {
        let network = self.network.middle().and_then(|middle| Some((middle.arena().ok()?, middle)));
        Scratch {
            network: network.map(|(arena, middle)| (middle, arena)),
            kept: Vec::new(),
            scores: vec![0.0; items],
            middle: Vec::new(),
            gradients: Vec::new(),
            items: (0..items as u32).collect(),
            marks: vec![RowOrigin::Other; items],
            encoder_changes: Vec::new(),
            own: Vec::new(),
        }
    }

    /// The number of rounds it has trained in.
    fn private_values(&self) -> usize {
        1
    }

    fn init_private(&self, private: &mut [f32], _: &mut Rng) {
        private.fill(0.0);
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, rng: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = &*input.visible();
        let TrainInput { shared, private, .. } = input;
        if history.is_empty() {
            return Ok(TrainStats::default());
        }
        let annealed = (f64::from(private[0]) / self.config.annealing as f64).min(1.0);
        let loss = self.learn(shared, history, f64::from(self.config.beta as f32) * annealed, scratch, rng, into)?;
        // Beyond this a float would stand still, and so would the annealing.
        private[0] = (private[0] + 1.0).min(1e7);
        into.set_samples(history.len() as u64);
        Ok(TrainStats { samples: (history.len() * self.config.local_steps) as u64, loss })
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        let encoder = shared.tables().first();
        assert_eq!(into.len(), encoder.map_or(0, |table| table.shape().rows as usize), "one score an item");
        assert_eq!(self.encode(shared, &history, into), Ok(()), "a shared model of this network");
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::LeftOut
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let catalog = shared.tables().first().map_or(0, |table| table.shape().rows as usize);
        by_leaving_out(&history, items, catalog, |history, into| self.score(shared, private, history.into(), into))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::ServerModel;

    const ITEMS: usize = 7;

    fn device(kind: Kind, local_steps: usize) -> Client {
        let network = Server { kind, hidden: 4, latent: 3 };
        let config = FedVaeConfig { local_steps, learning_rate: 0.05, dropout_share: 0.0, ..FedVaeConfig::default() };
        Client { network, config: FedVaeConfig { beta: 0.3, annealing: 1, ..config } }
    }

    fn shared(device: &Client) -> Parameters {
        let mut start = device.network.init(ITEMS, &mut Rng::new(5)).unwrap();
        let mut rng = Rng::new(8);
        start.tables_mut().iter_mut().for_each(|table| {
            table.values_mut().iter_mut().for_each(|value| *value += (0.1 * rng.normal()) as f32);
        });
        start
    }

    fn train(device: &Client, shared: &Parameters) -> (Trained, TrainStats) {
        let (mut scratch, mut into) = (device.scratch(ITEMS), Trained::new(&shared.layout()));
        let mut private = [1.0];
        let input =
            TrainInput { shared, prepared: &(), private: &mut private, history: (&[1, 2, 5]).into(), hidden: &[] };
        let stats = device.train(input, &mut scratch, &mut Rng::new(3), &mut into).unwrap();
        assert_eq!(private, [2.0]);
        (into, stats)
    }

    #[test]
    fn an_item_weighs_what_its_absence_costs() {
        let device = device(Kind::Variational, 1);
        let shared = shared(&device);
        let relative = |history: &[u32]| {
            let mut scores = vec![0.0; ITEMS];
            device.score(&shared, &[0.0], history.into(), &mut scores);
            scores[3] - scores.iter().sum::<f32>() / ITEMS as f32
        };
        let reasons = device.explain(&shared, &[0.0], (&[1, 2, 5]).into(), &[3]).remove(0);
        for (reason, (had, others)) in reasons.iter().zip([(1, [2, 5]), (2, [1, 5]), (5, [1, 2])]) {
            assert_eq!(reason.because, crate::Because::Had(had));
            assert!((reason.weight - (relative(&[1, 2, 5]) - relative(&others))).abs() < 1e-5, "{reason:?}");
        }
        assert_eq!(reasons.len(), 3);
    }

    fn wide(shared: &Parameters) -> Vec<Vec<f64>> {
        let wide = |table: &Table| table.values().iter().map(|&value| f64::from(value)).collect();
        shared.tables().iter().map(wide).collect()
    }

    /// The loss as it is written, with the noise that a step draws.
    fn loss(kind: Kind, [encoder, output, middle]: [&[f64]; 3]) -> f64 {
        let (history, width) = ([1, 2, 5], 4);
        let value = 1.0 / 3f64.sqrt();
        let h: Vec<f64> = (0..width)
            .map(|k| (middle[k] + history.iter().map(|i| value * encoder[i * width + k]).sum::<f64>()).tanh())
            .collect();
        let (mut code, mut divergence) = (h.clone(), 0.0);
        if kind == Kind::Variational {
            // Weights are (in, out), each followed by its bias.
            let linear = |at: usize, x: &[f64], outputs: usize| -> Vec<f64> {
                let bias = at + x.len() * outputs;
                (0..outputs)
                    .map(|o| {
                        let products = x.iter().enumerate().map(|(i, x)| x * middle[at + i * outputs + o]);
                        middle[bias + o] + products.sum::<f64>()
                    })
                    .collect()
            };
            let (m, l) = (linear(4, &h, 3), linear(19, &h, 3));
            let mut rng = Rng::new(3);
            // Before the noise, one draw per item decides whether it is dropped.
            history.iter().for_each(|_| assert!(!rng.chance(0.0)));
            let z: Vec<f64> = m.iter().zip(&l).map(|(m, l)| m + rng.normal() * (l / 2.0).exp()).collect();
            code = linear(34, &z, 4).iter().map(|value| value.tanh()).collect();
            divergence = m.iter().zip(&l).map(|(m, l)| (m * m + l.exp() - 1.0 - l) / 2.0).sum();
        }
        let scores: Vec<f64> = output
            .chunks_exact(width + 1)
            .map(|row| row[width] + (0..width).map(|k| row[k] * code[k]).sum::<f64>())
            .collect();
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        history.iter().map(|&item| sum.ln() - scores[item]).sum::<f64>() + 0.3 * divergence
    }

    #[test]
    fn a_step_follows_the_gradient() {
        for kind in [Kind::Variational, Kind::Denoising] {
            let device = device(kind, 1);
            let shared = shared(&device);
            let (trained, stats) = train(&device, &shared);
            let tables = wide(&shared);
            let at = |tables: &[Vec<f64>]| loss(kind, [&tables[0], &tables[1], &tables[2]]);
            assert!((stats.loss - at(&tables)).abs() < 1e-4, "{} {}", stats.loss, at(&tables));
            assert_eq!(stats.samples, 3);
            for (table, rows) in trained.update().tables().iter().enumerate() {
                for (row, values) in rows.iter() {
                    for (column, value) in values.iter().enumerate() {
                        let moved = |by: f64| {
                            let mut tables = tables.clone();
                            tables[table][row * values.len() + column] += by;
                            at(&tables)
                        };
                        let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                        let found = f64::from(*value);
                        assert!((found + 0.05 * slope).abs() < 2e-6, "{kind:?} {table} {row}: {found} {slope}");
                    }
                }
            }
            let names: Vec<usize> = trained.update().tables().iter().map(sottovoce_protocol::Rows::len).collect();
            assert_eq!(names, [3, ITEMS, 1]);
            assert_eq!(trained.origins(1)[2..4], [RowOrigin::Consumed, RowOrigin::Other]);
        }
    }

    #[test]
    fn hidden_items_are_not_trained_on() {
        let device = device(Kind::Denoising, 2);
        let shared = shared(&device);
        let train = |history: &[u32], hidden: &[u32]| {
            let (mut scratch, mut into) = (device.scratch(ITEMS), Trained::new(&shared.layout()));
            let input =
                TrainInput { shared: &shared, prepared: &(), private: &mut [0.0], history: history.into(), hidden };
            device.train(input, &mut scratch, &mut Rng::new(3), &mut into).unwrap();
            into.update().clone()
        };
        assert_eq!(train(&[1, 2, 5], &[2, 6]), train(&[1, 5], &[2, 6]));
        assert_ne!(train(&[1, 2, 5], &[]), train(&[1, 5], &[]));
    }

    #[test]
    fn two_local_steps_equal_two_rounds() {
        let once = device(Kind::Denoising, 1);
        let mut shared = shared(&once);
        let (both, stats) = train(&device(Kind::Denoising, 2), &shared);
        let (first, first_stats) = train(&once, &shared);
        let before = wide(&shared);
        let apply = |trained: &Trained, shared: &mut Parameters| {
            for (table, rows) in shared.tables_mut().iter_mut().zip(trained.update().tables()) {
                rows.iter().for_each(|(row, values)| math::add(table.row_mut(row), values));
            }
        };
        apply(&first, &mut shared);
        let (second, second_stats) = train(&once, &shared);
        apply(&second, &mut shared);
        let total = first_stats.loss + second_stats.loss;
        assert!((stats.loss - total).abs() < 1e-4, "{} {total}", stats.loss);
        for (table, rows) in both.update().tables().iter().enumerate() {
            for (row, values) in rows.iter() {
                for (column, value) in values.iter().enumerate() {
                    let expected =
                        f64::from(shared.tables()[table].row(row)[column]) - before[table][row * values.len() + column];
                    assert!((f64::from(*value) - expected).abs() < 1e-6);
                }
            }
        }
    }
}
