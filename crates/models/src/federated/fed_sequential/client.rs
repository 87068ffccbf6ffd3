//! The device's half: predicts each next item of its owner's sequence.

use super::Server;
use crate::federated::clustering::{Assignment, Clusters, PreparedClusters};
use crate::sequential::SequenceNetwork;
use crate::{ClientModel, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_neural::{Arena, Layout, NeuralError, Packed};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained, UpdateError};

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    server: Server,
    clusters: Clusters,
    network: Option<(SequenceNetwork, Layout)>,
}

/// Working memory.
pub struct Scratch {
    arena: Option<Arena<f32>>,
    /// The network, as training changes it, and its gradients.
    local: Vec<f32>,
    gradients: Vec<f32>,
    /// Items met, ascending, with their marks; by item: its index among them.
    items: Vec<u32>,
    marks: Vec<RowOrigin>,
    row_of: Vec<u32>,
    /// Rows of those met, as they are changed, and their gradients.
    rows: Vec<f32>,
    row_gradients: Vec<f32>,
    /// By position: the next item, then its negatives.
    candidates: Vec<u32>,
    /// By item: whether the owner has it.
    own: Vec<bool>,
    inputs: Vec<f32>,
    dh: Vec<f32>,
    dx: Vec<f32>,
    starts: [usize; 2],
}

impl Client {
    /// Of a server with these settings.
    pub fn new(server: Server) -> Self {
        Self { clusters: server.clusters(), network: server.config.build().ok(), server }
    }

    /// Whether a device chooses its cluster by a network of its own.
    fn has_own_network(&self) -> bool {
        matches!(self.clusters.assignment, Assignment::Sampler | Assignment::Projection | Assignment::Alone)
    }

    /// The latest items of a sequence: one more than the network reads.
    fn latest<'s>(&self, sequence: &'s [u32]) -> &'s [u32] {
        &sequence[sequence.len().saturating_sub(self.server.config.max_length + 1)..]
    }

    /// The network of the device that its private model holds, once it has trained.
    fn own<'p>(&self, private: &'p [f32]) -> Option<&'p [f32]> {
        let (trained, own) = private.split_first()?;
        (*trained > 0.5).then_some(own)
    }
}

impl Scratch {
    /// Draws negatives for each position and collects the rows that training meets.
    fn draw(&mut self, sequence: &[u32], hidden: &[u32], negatives: usize, rng: &mut Rng) {
        let Self { items, marks, row_of, candidates, own, .. } = self;
        let catalog = own.len() as u32;
        sequence.iter().chain(hidden).for_each(|&item| own[item as usize] = true);
        candidates.clear();
        for &next in &sequence[1..] {
            candidates.push(next);
            for _ in 0..negatives {
                let drawn = std::iter::repeat_with(|| rng.below(catalog)).find(|&item| !own[item as usize]);
                candidates.extend(drawn);
            }
        }
        items.clear();
        items.extend(sequence.iter().chain(candidates.iter()).copied());
        items.sort_unstable();
        items.dedup();
        let mark = |&item: &u32| if own[item as usize] { RowOrigin::Consumed } else { RowOrigin::Other };
        marks.clear();
        marks.extend(items.iter().map(mark));
        (0..).zip(&*items).for_each(|(index, &item)| row_of[item as usize] = index);
        sequence.iter().chain(hidden).for_each(|&item| own[item as usize] = false);
    }

    /// Copies the rows of the items met.
    fn gather(&mut self, vectors: &Table) {
        self.rows.clear();
        self.items.iter().for_each(|&item| self.rows.extend_from_slice(vectors.row(item as usize)));
        self.row_gradients.clear();
        self.row_gradients.resize(self.rows.len(), 0.0);
    }

    /// Where the row of an item met begins.
    fn row(&self, item: u32, width: usize) -> std::ops::Range<usize> {
        let start = self.row_of[item as usize] as usize * width;
        start..start + width
    }

    /// Writes the vectors of a sequence but for its last item.
    fn write_inputs(&mut self, sequence: &[u32], width: usize) {
        self.inputs.clear();
        for &item in &sequence[..sequence.len() - 1] {
            let row = self.row(item, width);
            self.inputs.extend_from_slice(&self.rows[row]);
        }
    }
}

impl Client {
    /// Adds the gradients of the network in `local` and of the rows met; returns the loss, summed over positions.
    fn add_gradients(
        &self,
        sequence: &[u32],
        network: &[f32],
        dropout: Option<&mut Rng>,
        scratch: &mut Scratch,
    ) -> Result<f64, NeuralError> {
        let (Some((layers, _)), width) = (&self.network, self.server.config.hidden) else { return Ok(0.0) };
        let positions = sequence.len() - 1;
        scratch.write_inputs(sequence, width);
        let mut arena = scratch.arena.take().map_or_else(|| self.arena(), Ok)?;
        let mut space = arena.space();
        scratch.starts = [0, positions];
        let starts = scratch.starts;
        let tape = layers.forward(network, &scratch.inputs, Packed::new(&starts)?, dropout, &mut space)?;
        scratch.dh.clear();
        scratch.dh.resize(positions * width, 0.0);
        let (share, each) = (1.0 / positions as f32, 1 + self.server.config.negatives);
        let mut loss = 0.0;
        for (t, (h, candidates)) in tape.output().chunks_exact(width).zip(scratch.candidates.chunks(each)).enumerate() {
            for (n, &item) in candidates.iter().enumerate() {
                let start = scratch.row_of[item as usize] as usize * width;
                let row = &scratch.rows[start..][..width];
                let score = math::dot(h, row);
                let likely = math::sigmoid(if n == 0 { score } else { -score });
                loss -= f64::from(math::ln(f64::from(likely.max(f32::MIN_POSITIVE))) as f32);
                // Of the loss by the score.
                let d = share * (1.0 - likely) * if n == 0 { -1.0 } else { 1.0 };
                math::add_scaled(&mut scratch.dh[t * width..][..width], d, row);
                math::add_scaled(&mut scratch.row_gradients[start..][..width], d, h);
            }
        }
        scratch.dx.clear();
        scratch.dx.resize(positions * width, 0.0);
        let (gradients, dx) = (&mut scratch.gradients, &mut scratch.dx);
        layers.backward(network, &tape, &scratch.dh, gradients, Some(dx), &mut space)?;
        for (&item, dx) in sequence.iter().zip(scratch.dx.chunks_exact(width)) {
            let start = scratch.row_of[item as usize] as usize * width;
            math::add(&mut scratch.row_gradients[start..][..width], dx);
        }
        scratch.arena = Some(arena);
        Ok(loss)
    }

    fn arena(&self) -> Result<Arena<f32>, NeuralError> {
        let longest = self.server.config.max_length;
        let space = self.network.as_ref().map_or(0, |(network, _)| network.space(1, longest, longest));
        Arena::new(space, 0)
    }

    /// The loss of a network on a sequence whose negatives are drawn.
    fn loss(&self, sequence: &[u32], network: &[f32], scratch: &mut Scratch) -> f64 {
        let loss = self.add_gradients(sequence, network, None, scratch).unwrap_or(f64::INFINITY);
        scratch.gradients.fill(0.0);
        scratch.row_gradients.fill(0.0);
        loss
    }

    /// Trains the network in `scratch.local` and the rows met; returns the first epoch's loss.
    fn descend(&self, sequence: &[u32], scratch: &mut Scratch, rng: &mut Rng) -> Result<f64, NeuralError> {
        let (mut first, rate) = (0.0, -self.server.config.learning_rate as f32);
        let mut local = std::mem::take(&mut scratch.local);
        for epoch in 0..self.server.config.local_epochs {
            let dropout = (self.server.config.dropout_share > 0.0).then_some(&mut *rng);
            let loss = self.add_gradients(sequence, &local, dropout, scratch)?;
            first += if epoch == 0 { loss } else { 0.0 };
            math::add_scaled(&mut local, rate, &scratch.gradients);
            math::add_scaled(&mut scratch.rows, rate, &scratch.row_gradients);
            scratch.gradients.fill(0.0);
            scratch.row_gradients.fill(0.0);
        }
        scratch.local = local;
        Ok(first)
    }

    /// The cluster of a device.
    fn assign(
        &self,
        (shared, prepared): (&Parameters, &PreparedClusters),
        own: Option<&[f32]>,
        sequence: &[u32],
        scratch: &mut Scratch,
    ) -> usize {
        self.clusters.assign(shared, prepared, own, |network| self.loss(sequence, network, scratch))
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = PreparedClusters;

    fn prepare(&self, shared: &Parameters) -> PreparedClusters {
        self.clusters.prepare(shared)
    }

    fn scratch(&self, items: usize) -> Scratch {
        Scratch {
            arena: self.arena().ok(),
            local: Vec::new(),
            gradients: vec![0.0; self.clusters.parameters],
            items: Vec::new(),
            marks: Vec::new(),
            row_of: vec![0; items],
            rows: Vec::new(),
            row_gradients: Vec::new(),
            candidates: Vec::new(),
            own: vec![false; items],
            inputs: Vec::new(),
            dh: Vec::new(),
            dx: Vec::new(),
            starts: [0; 2],
        }
    }

    /// Whether the device has trained, and its network, where clusters go by that.
    fn private_values(&self) -> usize {
        if self.has_own_network() { 1 + self.clusters.parameters } else { 0 }
    }

    fn train(
        &self,
        input: TrainInput<'_, PreparedClusters>,
        scratch: &mut Scratch,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let sequence = input.visible_sequence();
        let sequence = self.latest(&sequence);
        let TrainInput { shared, prepared, private, hidden, history, .. } = input;
        let Some(vectors) = shared.tables().first() else { return Ok(TrainStats::default()) };
        // A single item has no next one; somebody with everything has no negatives.
        if sequence.len() < 2 || history.len() + hidden.len() >= vectors.shape().rows as usize {
            return Ok(TrainStats::default());
        }
        scratch.draw(sequence, hidden, self.server.config.negatives, rng);
        scratch.gather(vectors);
        let cluster = self.assign((shared, prepared), self.own(private), sequence, scratch);
        let start = match self.own(private) {
            Some(own) if self.clusters.assignment == Assignment::Alone => own,
            _ => shared.tables()[self.clusters.networks()].row(cluster),
        };
        scratch.local.clear();
        scratch.local.extend_from_slice(start);
        let loss = self.descend(sequence, scratch, rng).map_err(|_| UpdateError::Values(1, 0, start.len()))?;
        if self.clusters.assignment != Assignment::Alone {
            let width = self.server.config.hidden;
            let changes = into.push_rows(0, &scratch.items, &scratch.marks)?;
            let rows = changes.chunks_exact_mut(width).zip(scratch.rows.chunks_exact(width));
            for ((change, row), &item) in rows.zip(&scratch.items) {
                let given = vectors.row(item as usize);
                change.iter_mut().zip(row).zip(given).for_each(|((change, row), given)| *change = row - given);
            }
            self.clusters.propose(shared, prepared, cluster, &mut scratch.local, into)?;
        }
        if let Some((trained, own)) = private.split_first_mut() {
            *trained = 1.0;
            own.copy_from_slice(&scratch.local);
        }
        let samples = (sequence.len() - 1) as u64;
        into.set_samples(samples);
        Ok(TrainStats { samples, loss })
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Order
    }

    fn score(&self, shared: &Parameters, private: &[f32], history: History<'_>, into: &mut [f32]) {
        let vectors = shared.tables().first();
        assert_eq!(into.len(), vectors.map_or(0, |table| table.shape().rows as usize), "one score an item");
        into.fill(0.0);
        let (Some(vectors), Some((layers, _))) = (vectors, &self.network) else { return };
        let sequence = history.sequence;
        let read = &sequence[sequence.len().saturating_sub(self.server.config.max_length)..];
        if read.is_empty() {
            return;
        }
        let (own, prepared) = (self.own(private), self.clusters.prepare(shared));
        let cluster = match self.clusters.assignment {
            Assignment::Loss if sequence.len() > 1 => {
                let mut scratch = self.scratch(into.len());
                let latest = self.latest(sequence);
                scratch.draw(latest, &[], self.server.config.negatives, &mut Rng::new(0));
                scratch.gather(vectors);
                self.assign((shared, &prepared), None, latest, &mut scratch)
            }
            _ => self.clusters.assign(shared, &prepared, own, |_| 0.0),
        };
        let network = match own {
            Some(own) if self.clusters.assignment == Assignment::Alone => own,
            _ => shared.tables()[self.clusters.networks()].row(cluster),
        };
        let inputs: Vec<f32> = read.iter().flat_map(|&item| vectors.row(item as usize)).copied().collect();
        let mut scored = || -> Result<(), NeuralError> {
            let mut arena = self.arena()?;
            let starts = [0, read.len()];
            let tape = layers.forward(network, &inputs, Packed::new(&starts)?, None, &mut arena.space())?;
            let Some(h) = tape.output().chunks_exact(self.server.config.hidden).next_back() else { return Ok(()) };
            for (score, row) in into.iter_mut().zip(vectors.values().chunks_exact(h.len())) {
                *score = math::dot(h, row);
            }
            Ok(())
        };
        // Settings are bounded, so that a network of this shared model's layout can be run.
        let _ = scored();
    }
}
