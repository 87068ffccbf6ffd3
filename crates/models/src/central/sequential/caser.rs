//! Caser: the latest items as an image, on which convolutions look for patterns.
//!
//! J. Tang, K. Wang: Personalized Top-N Sequential Recommendation via Convolutional Sequence Embedding, WSDM 2018.
//!
//! The vectors of the L latest items are the rows of an image X (zeros in front where there are fewer):
//! ```text
//! o  = for each height 1, ..., L and each of its filters: the largest of relu(filter over so many rows of X)
//! o' = for each vertical filter: the sum of X's rows, weighted by it
//! z  = relu(dropout([o, o']) W + b)          score of an item j = [z, u] . q_j
//! ```
//! with the vector u of a user; a newcomer has the zero vector. Items have a vector as input and another one, twice as
//! long, as output. The paper's bias of each item's score is left out.

use super::objective::{Into, Objective, Positions};
use super::training::{MicroBatch, Worker};
use super::windows::Windows;
use super::{Layouts, Made, SequenceConfig, SequenceModel, SequenceTraining, Size, Table, Weights, add_scores, latest};
use crate::config;
use crate::registry::ModelInfo;
use crate::sequential::transformer::INIT;
use sottovoce_core::{Rng, math};
use sottovoce_neural::{
    Activation, Arena, Conv2d, Conv2dShape, Dropout, Layout, Linear, NeuralError, Pool, PoolShape, Pooling, Space,
};

config! {
    /// Settings of Caser.
    pub(super) struct CaserConfig {
        /// Length of users' and items' vectors
        hidden: usize = 64, in 1..=1024 => [log];
        /// Horizontal filters of each height
        horizontal: usize = 16, in 1..=256 => [log];
        /// Vertical filters
        vertical: usize = 4, in 1..=256 => [log];
        /// Fraction of the filters' results that training drops
        dropout: f64 = 0.5, in 0.0..=0.95;
        include
        /// What is looked at.
        windows: Windows = Windows::default();
        include
        /// What is minimised.
        objective: Objective = Objective { negatives: 3, ..Objective::default() };
        include
        /// How it is trained.
        training: SequenceTraining = SequenceTraining::default();
    }
}

impl SequenceConfig for CaserConfig {
    const INFO: ModelInfo = ModelInfo::new("caser", "Caser")
        .summary("Convolutions over the latest items as rows of an image, beside a vector of the user")
        .paper(
            "Tang, Wang: Personalized Top-N Sequential Recommendation via Convolutional Sequence Embedding. WSDM 2018",
        );

    fn training(&self) -> &SequenceTraining {
        &self.training
    }

    fn network(&self, size: &Size, layouts: &mut Layouts) -> Made {
        Ok(Box::new(Caser::new(self, size, layouts)?))
    }
}

struct Caser {
    items: usize,
    config: CaserConfig,
    horizontal: Vec<(Conv2d, Pool)>,
    vertical: Conv2d,
    output: Linear,
    dropout: Dropout,
}

/// What backward needs of forward.
struct Tape<'a> {
    /// Of each height, relu of its filters.
    horizontal: Vec<&'a mut [f32]>,
    /// [o, o'], and what dropout multiplied it with.
    found: &'a mut [f32],
    mask: Option<&'a mut [f32]>,
    /// z.
    z: &'a mut [f32],
}

impl Caser {
    fn new(config: &CaserConfig, size: &Size, layouts: &mut Layouts) -> Result<Self, NeuralError> {
        let (width, window) = (config.hidden, config.windows.window);
        let tables =
            [("items", size.items, width), ("outputs", size.items, 2 * width), ("users", size.users.max(1), width)];
        for (name, rows, width) in tables {
            layouts.tables.push(Table { name, rows, width, init: INIT });
        }
        let layout = &mut layouts.network;
        let convolution = |layout: &mut Layout, name: &str, filters: usize, kernel: [usize; 2]| {
            let image = [window, width];
            Conv2d::new(
                layout,
                name,
                Conv2dShape { channels: 1, image, filters, kernel, stride: [1, 1], padding: [0, 0] },
            )
        };
        let horizontal = |layout: &mut Layout, height: usize| {
            let filters = convolution(layout, &format!("horizontal{height}"), config.horizontal, [height, width])?;
            let steps = window - height + 1;
            let shape =
                PoolShape { channels: config.horizontal, image: [steps, 1], window: [steps, 1], stride: [1, 1] };
            Ok((filters, Pool::new(Pooling::Max, shape)?))
        };
        let found = config.horizontal * window + config.vertical * width;
        Ok(Self {
            items: size.items,
            horizontal: (1..=window).map(|height| horizontal(layout, height)).collect::<Result<_, NeuralError>>()?,
            vertical: convolution(layout, "vertical", config.vertical, [window, 1])?,
            output: Linear::new(layout, "output", found, width)?,
            dropout: Dropout::new(config.dropout)?,
            config: config.clone(),
        })
    }

    /// Values of an image, and of what filters find in it.
    fn sizes(&self) -> (usize, usize) {
        (self.config.windows.window * self.config.hidden, self.output.inputs())
    }

    /// Copies the windows' items into images.
    fn images(&self, table: &[f32], items: &[u32], starts: &[usize], images: &mut [f32]) {
        let (image, width) = (self.sizes().0, self.config.hidden);
        for (rows, x) in starts.windows(2).zip(images.chunks_exact_mut(image)) {
            let x = &mut x[image - (rows[1] - rows[0]) * width..];
            super::next_item::look_up(table, &items[rows[0]..rows[1]], x);
        }
    }

    fn forward<'a>(
        &self,
        p: &[f32],
        x: &[f32],
        dropout: Option<&mut Rng>,
        space: &mut Space<'a, f32>,
    ) -> Result<Tape<'a>, NeuralError> {
        let (image, width) = self.sizes();
        let batch = x.len() / image;
        let found = space.zeros(batch * width)?;
        let (mut horizontal, mut column) = (Vec::with_capacity(self.horizontal.len()), 0);
        for (filters, pool) in &self.horizontal {
            let y = filters.forward(p, x, space)?;
            Activation::Relu.apply(y);
            copy_columns(pool.forward(y, space)?, pool.outputs(), found, width, column);
            column += pool.outputs();
            horizontal.push(y);
        }
        copy_columns(self.vertical.forward(p, x, space)?, self.vertical.outputs(), found, width, column);
        let mask = dropout.map(|rng| self.dropout.forward(found, rng, space)).transpose()?;
        let z = self.output.forward(p, found, space)?;
        Activation::Relu.apply(z);
        Ok(Tape { horizontal, found, mask, z })
    }

    /// Adds all gradients, given those of z, which are replaced.
    fn backward(
        &self,
        p: &[f32],
        x: &[f32],
        tape: &Tape<'_>,
        dz: &mut [f32],
        (gradients, dx): (&mut [f32], &mut [f32]),
        space: &mut Space<'_, f32>,
    ) -> Result<(), NeuralError> {
        let (_, width) = self.sizes();
        Activation::Relu.backward(tape.z, dz)?;
        let dfound = space.zeros(tape.found.len())?;
        self.output.backward(p, tape.found, dz, gradients, Some(&mut *dfound))?;
        if let Some(mask) = &tape.mask {
            self.dropout.backward(mask, dfound)?;
        }
        let mut column = 0;
        for ((filters, pool), y) in self.horizontal.iter().zip(&tape.horizontal) {
            let mut space = space.scratch();
            let (dpooled, dy) = (space.zeros(dfound.len() / width * pool.outputs())?, space.zeros(y.len())?);
            take_columns(dfound, width, column, dpooled, pool.outputs());
            pool.backward(y, dpooled, dy)?;
            Activation::Relu.backward(y, dy)?;
            filters.backward(p, x, dy, gradients, Some(&mut *dx), &mut space)?;
            column += pool.outputs();
        }
        let outputs = self.vertical.outputs();
        let mut space = space.scratch();
        let dvertical = space.zeros(dfound.len() / width * outputs)?;
        take_columns(dfound, width, column, dvertical, outputs);
        self.vertical.backward(p, x, dvertical, gradients, Some(dx), &mut space)
    }
}

/// Copies rows of `from` into columns of wider rows.
fn copy_columns(from: &[f32], columns: usize, into: &mut [f32], width: usize, first: usize) {
    for (from, into) in from.chunks_exact(columns).zip(into.chunks_exact_mut(width)) {
        into[first..first + columns].copy_from_slice(from);
    }
}

/// Copies them back.
fn take_columns(from: &[f32], width: usize, first: usize, into: &mut [f32], columns: usize) {
    for (from, into) in from.chunks_exact(width).zip(into.chunks_exact_mut(columns)) {
        into.copy_from_slice(&from[first..first + columns]);
    }
}

impl SequenceModel for Caser {
    fn samples(&self, history: &[u32]) -> usize {
        self.config.windows.samples(history, self.config.training.max_length)
    }

    fn space(&self, users: usize) -> usize {
        let CaserConfig { hidden, windows: Windows { horizon, .. }, .. } = self.config;
        let (image, found) = self.sizes();
        let windows = users.saturating_mul(self.config.training.max_length);
        let convolutions = self.horizontal.iter().map(|(filters, pool)| filters.space(windows) + pool.space(windows));
        let convolutions = convolutions.sum::<usize>() + self.vertical.space(windows);
        let each = 2 * image + 3 * found + 2 * hidden + 4 * hidden * horizon;
        let loss = self.config.objective.space(windows * horizon, self.items, 2 * hidden);
        2 * convolutions + windows.saturating_mul(each).saturating_add(loss)
    }

    fn backpropagate(
        &self,
        weights: &Weights,
        batch: &MicroBatch<'_>,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> Result<f64, NeuralError> {
        let CaserConfig { hidden: width, windows, objective, training, .. } = &self.config;
        let count = windows.fill(batch, training, objective, worker, rng);
        let Worker { gradients, tables, arena, scratch } = worker;
        let (users, of_targets) = scratch.rows.split_at(count);
        let (mut space, p, image) = (arena.space(), &weights.network, self.sizes().0);
        let x = space.zeros(count * image)?;
        self.images(&weights.tables[0], &scratch.items, &scratch.starts, x);
        let tape = self.forward(p, x, Some(rng), &mut space)?;
        let h = space.zeros(of_targets.len() * 2 * width)?;
        for (h, &window) in h.chunks_exact_mut(2 * width).zip(of_targets) {
            h[..*width].copy_from_slice(&tape.z[window as usize * width..][..*width]);
            h[*width..].copy_from_slice(&weights.tables[2][users[window as usize] as usize * width..][..*width]);
        }
        let dh = space.zeros(h.len())?;
        let positions = Positions { h, targets: &scratch.targets, negatives: &scratch.negatives };
        let into = Into { dh: &mut *dh, items: &mut tables[1] };
        let loss = objective.loss(&positions, &weights.tables[1], batch.scale, into, &mut space)?;
        let (dz, dx) = (space.zeros(count * width)?, space.zeros(x.len())?);
        for (dh, &window) in dh.chunks_exact(2 * width).zip(of_targets) {
            math::add(&mut dz[window as usize * width..][..*width], &dh[..*width]);
            tables[2].add(users[window as usize] as usize, 1.0, &dh[*width..])?;
        }
        self.backward(p, x, &tape, dz, (gradients, &mut *dx), &mut space)?;
        for (rows, dx) in scratch.starts.windows(2).zip(dx.chunks_exact(image)) {
            let items = &scratch.items[rows[0]..rows[1]];
            for (dx, &item) in dx[image - items.len() * width..].chunks_exact(*width).zip(items) {
                tables[0].add(item as usize, 1.0, dx)?;
            }
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
        let (image, found) = self.sizes();
        let convolutions = self.horizontal.iter().map(|(filters, pool)| filters.space(1) + pool.space(1));
        let convolutions = convolutions.sum::<usize>() + self.vertical.space(1);
        let mut arena = Arena::new(convolutions + image + found + self.config.hidden, 0)?;
        let mut space = arena.space();
        let x = space.zeros(image)?;
        self.images(&weights.tables[0], items, &[0, items.len()], x);
        let tape = self.forward(&weights.network, x, None, &mut space)?;
        let mut h = tape.z.to_vec();
        match user {
            Some(user) => h.extend_from_slice(&weights.tables[2][user * tape.z.len()..][..tape.z.len()]),
            None => h.resize(2 * tape.z.len(), 0.0),
        }
        add_scores(&h, &weights.tables[1], into)
    }
}
