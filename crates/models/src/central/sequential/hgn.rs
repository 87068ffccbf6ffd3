//! HGN: gates choose which features of the latest items matter to a user, and which of the items.
//!
//! C. Ma, P. Kang, X. Liu: Hierarchical Gating Networks for Sequential Recommendation, KDD 2019.
//!
//! With the vector u of a user and the vectors x_1, ..., x_L of their latest items, the last at L:
//! ```text
//! f_t = x_t * sigma(x_t W1 + u W2 + b)       feature gating
//! s_t = f_t sigma(f_t . w3 + u . w4_t)       instance gating; w4_t by the place from the end
//! score of an item j = (u + mean of s_t + sum of x_t) . q_j
//! ```
//! trained by BPR. Items have a vector x as input and another one q as output. The paper's bias of each item's score is
//! left out. A newcomer has the zero vector as u.

use super::next_item::look_up;
use super::objective::{Into, Loss, Objective, Positions};
use super::training::{MicroBatch, Worker};
use super::windows::Windows;
use super::{Layouts, Made, SequenceConfig, SequenceModel, SequenceTraining, Size, Table, Weights, add_scores, latest};
use crate::config;
use crate::registry::ModelInfo;
use crate::sequential::transformer::INIT;
use sottovoce_core::{Rng, math};
use sottovoce_neural::{Activation, Arena, Init, Linear, NeuralError, Role, Slot, Space};

config! {
    /// Settings of HGN.
    pub(super) struct HgnConfig {
        /// Length of users' and items' vectors
        hidden: usize = 64, in 1..=1024 => [log];
        include
        /// What is looked at.
        windows: Windows = Windows::default();
        include
        /// What is minimised.
        objective: Objective = Objective { loss: Loss::Bpr, ..Objective::default() };
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining::default();
    }
}

impl SequenceConfig for HgnConfig {
    const INFO: ModelInfo = ModelInfo::new("hgn", "HGN")
        .summary("Gates over the latest items: which features matter to a user, and which items")
        .paper("Ma, Kang, Liu: Hierarchical Gating Networks for Sequential Recommendation. KDD 2019");

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        Ok(Box::new(Hgn::new(self, size, layouts)?))
    }
}

struct Hgn {
    items: usize,
    config: HgnConfig,
    items_gate: Linear,
    user_gate: Linear,
    instance: Slot,
    user_instance: Slot,
}

/// What backward needs of forward: gates of features and instances, gated items, and what is scored with.
struct Tape<'a> {
    gates: &'a mut [f32],
    gated: &'a mut [f32],
    instances: &'a mut [f32],
    output: &'a mut [f32],
}

/// Windows and what is looked up for them.
#[derive(Clone, Copy)]
struct Inputs<'x> {
    starts: &'x [usize],
    x: &'x [f32],
    users: &'x [f32],
}

impl Hgn {
    fn new(config: &HgnConfig, size: &Size, layouts: &mut Layouts) -> Result<Self, NeuralError> {
        let width = config.hidden;
        for (name, rows) in [("items", size.items), ("outputs", size.items), ("users", size.users.max(1))] {
            layouts.tables.push(Table { name, rows, width, init: INIT });
        }
        let layout = &mut layouts.network;
        Ok(Self {
            items: size.items,
            config: config.clone(),
            items_gate: Linear::new(layout, "items_gate", width, width)?,
            user_gate: Linear::without_bias(layout, "user_gate", width, width, Init::fan_in(width))?,
            instance: layout.add("instance".to_owned(), &[width], Role::Weight, Init::fan_in(width))?,
            user_instance: layout.add(
                "user_instance".to_owned(),
                &[config.windows.window, width],
                Role::Weight,
                Init::fan_in(width),
            )?,
        })
    }

    /// The row of w4 for a step of a window.
    fn w4<'p>(&self, table: &'p [f32], step: usize, steps: usize) -> &'p [f32] {
        let width = self.config.hidden;
        &table[(self.config.windows.window - steps + step) * width..][..width]
    }

    fn forward<'a>(&self, p: &[f32], inputs: Inputs<'_>, space: &mut Space<'a, f32>) -> Result<Tape<'a>, NeuralError> {
        let width = self.config.hidden;
        let gates = self.items_gate.forward(p, inputs.x, space)?;
        let of_users = self.user_gate.forward(p, inputs.users, space)?;
        let (gated, instances) = (space.zeros(gates.len())?, space.zeros(gates.len() / width)?);
        let output = space.copy(inputs.users)?;
        let (w3, w4) = (self.instance.of(p)?, self.user_instance.of(p)?);
        for (window, rows) in inputs.starts.windows(2).enumerate() {
            let (user, steps) = (window * width..(window + 1) * width, rows[1] - rows[0]);
            for row in rows[0]..rows[1] {
                let place = row * width..(row + 1) * width;
                let gate = &mut gates[place.clone()];
                math::add(gate, &of_users[user.clone()]);
                Activation::Sigmoid.apply(gate);
                let (x, f) = (&inputs.x[place.clone()], &mut gated[place]);
                f.iter_mut().zip(x).zip(&*gate).for_each(|((f, x), gate)| *f = x * gate);
                let u = &inputs.users[user.clone()];
                instances[row] = math::sigmoid(math::dot(f, w3) + math::dot(u, self.w4(w4, row - rows[0], steps)));
                let output = &mut output[user.clone()];
                math::add_scaled(output, instances[row] / steps as f32, f);
                math::add(output, x);
            }
        }
        Ok(Tape { gates, gated, instances, output })
    }

    /// Adds all gradients, given those of the output.
    fn backward(
        &self,
        p: &[f32],
        inputs: Inputs<'_>,
        tape: &Tape<'_>,
        dy: &[f32],
        (gradients, dx, dusers): (&mut [f32], &mut [f32], &mut [f32]),
        space: &mut Space<'_, f32>,
    ) -> Result<(), NeuralError> {
        let width = self.config.hidden;
        let (w3, w4) = (self.instance.of(p)?, self.user_instance.of(p)?);
        let (dgates, dof_users) = (space.zeros(tape.gates.len())?, space.zeros(dusers.len())?);
        let df = space.zeros(width)?;
        math::add(dusers, dy);
        for (window, rows) in inputs.starts.windows(2).enumerate() {
            let (user, steps) = (window * width..(window + 1) * width, rows[1] - rows[0]);
            let (u, dy) = (&inputs.users[user.clone()], &dy[user.clone()]);
            for row in rows[0]..rows[1] {
                let place = row * width..(row + 1) * width;
                let (f, gate, x) = (&tape.gated[place.clone()], &tape.gates[place.clone()], &inputs.x[place.clone()]);
                let (g, share) = (tape.instances[row], 1.0 / steps as f32);
                let dinstance = share * math::dot(dy, f) * g * (1.0 - g);
                df.fill(0.0);
                math::add_scaled(df, g * share, dy);
                math::add_scaled(df, dinstance, w3);
                math::add_scaled(self.instance.of_mut(gradients)?, dinstance, f);
                let step = row - rows[0];
                math::add_scaled(&mut dusers[user.clone()], dinstance, self.w4(w4, step, steps));
                let dw4 = self.user_instance.of_mut(gradients)?;
                let at = (self.config.windows.window - steps + step) * width;
                math::add_scaled(&mut dw4[at..at + width], dinstance, u);
                let (dx, dgate) = (&mut dx[place.clone()], &mut dgates[place]);
                for k in 0..width {
                    dx[k] += dy[k] + df[k] * gate[k];
                    dgate[k] = df[k] * x[k] * gate[k] * (1.0 - gate[k]);
                }
                math::add(&mut dof_users[user.clone()], dgate);
            }
        }
        self.items_gate.backward(p, inputs.x, dgates, gradients, Some(dx))?;
        self.user_gate.backward(p, inputs.users, dof_users, gradients, Some(dusers))
    }
}

impl SequenceModel for Hgn {
    fn samples(&self, history: &[u32]) -> usize {
        self.config.windows.samples(history, self.config.training.max_length)
    }

    fn space(&self, users: usize) -> usize {
        let HgnConfig { hidden, windows: Windows { window, horizon }, .. } = self.config;
        let windows = users.saturating_mul(self.config.training.max_length);
        // Of items: x, gates, gated items, two gradients; of windows: u, its gate, output and their gradients.
        let values = windows.saturating_mul(hidden).saturating_mul(5 * window + 7 + 2 * horizon) + windows * window;
        values.saturating_add(self.config.objective.space(windows * horizon, self.items, hidden) + hidden)
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let HgnConfig { hidden: width, windows, objective, training } = &self.config;
        let count = windows.fill(batch, training, objective, worker, rng);
        let Worker { gradients, tables, arena, scratch } = worker;
        let (users, of_targets) = scratch.rows.split_at(count);
        let (mut space, p) = (arena.space(), &weights.network);
        let x = space.zeros(scratch.items.len() * width)?;
        look_up(&weights.tables[0], &scratch.items, x);
        let u = space.zeros(users.len() * width)?;
        look_up(&weights.tables[2], users, u);
        let inputs = Inputs { starts: &scratch.starts, x, users: u };
        let tape = self.forward(p, inputs, &mut space)?;
        let h = space.zeros(of_targets.len() * width)?;
        look_up(tape.output, of_targets, h);
        let dh = space.zeros(h.len())?;
        let positions = Positions { h, targets: &scratch.targets, negatives: &scratch.negatives };
        let into = Into { dh: &mut *dh, items: &mut tables[1] };
        let loss = objective.loss(&positions, &weights.tables[1], batch.scale, into, &mut space)?;
        let (dy, dx, du) = (space.zeros(u.len())?, space.zeros(x.len())?, space.zeros(u.len())?);
        for (dh, &window) in dh.chunks_exact(*width).zip(of_targets) {
            math::add(&mut dy[window as usize * width..][..*width], dh);
        }
        self.backward(p, inputs, &tape, dy, (gradients, &mut *dx, &mut *du), &mut space)?;
        for (dx, &item) in dx.chunks_exact(*width).zip(&scratch.items) {
            tables[0].add(item as usize, 1.0, dx)?;
        }
        for (du, &user) in du.chunks_exact(*width).zip(users) {
            tables[2].add(user as usize, 1.0, du)?;
        }
        Ok(loss)
    }

    fn score(
        &self,
        weights: &Weights,
        user: Option<usize>,
        history: &[u32],
        into: &mut [f32],
    ) -> Result<(), NeuralError> {
        let items = latest(history, self.config.windows.window);
        let width = self.config.hidden;
        let mut arena = Arena::new((5 * items.len() + 4) * width + items.len(), 0)?;
        let mut space = arena.space();
        let (x, u) = (space.zeros(items.len() * width)?, space.zeros(width)?);
        look_up(&weights.tables[0], items, x);
        if let Some(user) = user {
            u.copy_from_slice(&weights.tables[2][user * width..][..width]);
        }
        let tape = self.forward(&weights.network, Inputs { starts: &[0, items.len()], x, users: u }, &mut space)?;
        add_scores(tape.output, &weights.tables[1], into)
    }
}
