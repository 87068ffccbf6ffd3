//! Many devices that each train a small network: time, what a second thread adds, and memory by the cohort's size.

use super::work::Workbench;
use super::{Figure, federated, median};
use crate::measure::{cpu_seconds, peak_rss_bytes};
use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use sottovoce_core::{Histories, History, Rng};
use sottovoce_federation::{Aggregation, Cohort, Federation, RobustAggregator, Schedule, Weighting};
use sottovoce_models::federated::{Mean, MeanOver};
use sottovoce_models::{ClientModel, TrainInput, TrainStats};
use sottovoce_neural::losses::bce_with_logits_sparse;
use sottovoce_neural::{Activation, Arena, Arithmetic, Layout, Linear, NeuralError, Sgd, SparseRows};
use sottovoce_protocol::{Keyed, Parameters, Shape, Table, Trained, UpdateError};
use std::time::Instant;

const DEVICES: usize = 100_000;
/// A tenth of them, to see what memory does.
const FEW: usize = DEVICES / 10;
const STEPS: usize = 5;
const ITEMS: usize = 224;
const HIDDEN: usize = 110;
const HISTORY: usize = 10;

/// An autoencoder of histories, 49,614 parameters, trained by plain steps.
struct Network {
    layout: Layout,
    encoder: Linear,
    output: Linear,
}

/// A device's working memory.
struct Memory {
    arena: Arena<f32>,
    parameters: Vec<f32>,
    gradients: Vec<f32>,
    sgd: Sgd<f32>,
}

impl Network {
    fn new() -> Result<Self, NeuralError> {
        let mut layout = Layout::new(Arithmetic::Portable);
        let encoder = Linear::new(&mut layout, "encoder", ITEMS, HIDDEN)?;
        let output = Linear::new(&mut layout, "output", HIDDEN, ITEMS)?;
        Ok(Self { layout, encoder, output })
    }

    fn step(&self, history: &[u32], memory: &mut Memory) -> Result<f64, NeuralError> {
        let Memory { arena, parameters, gradients, sgd } = memory;
        let (mut space, x) = (arena.space(), SparseRows::one(history, None, ITEMS)?);
        let h = self.encoder.forward_sparse(parameters, &x, &mut space)?;
        Activation::Relu.apply(h);
        let y = self.output.forward(parameters, h, &mut space)?;
        let (dy, dh) = (space.zeros(ITEMS)?, space.zeros(HIDDEN)?);
        let loss = bce_with_logits_sparse(y, &x, 1.0 / ITEMS as f64, Some(&mut *dy))?;
        self.output.backward(parameters, h, dy, gradients, Some(&mut *dh))?;
        Activation::Relu.backward(h, dh)?;
        self.encoder.backward_sparse(&x, dh, gradients)?;
        sgd.step(parameters, gradients)?;
        Ok(loss)
    }
}

impl ClientModel for Network {
    type Scratch = Option<Memory>;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) -> Option<Memory> {
        let arena = Arena::new(2 * (ITEMS + HIDDEN), 0).ok()?;
        let gradients = self.layout.zeros();
        Some(Memory { arena, parameters: Vec::new(), gradients, sgd: Sgd::new(0.1) })
    }

    fn train(
        &self,
        input: TrainInput<'_>,
        memory: &mut Option<Memory>,
        _: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError> {
        let (Some(memory), [given]) = (memory, input.shared.tables()) else { return Ok(TrainStats::default()) };
        let (expected, found) = (self.layout.len(), given.values().len());
        let wrong = |_: NeuralError| UpdateError::Values(0, found, expected);
        memory.parameters.clear();
        memory.parameters.extend_from_slice(given.values());
        let mut loss = 0.0;
        for _ in 0..STEPS {
            loss += self.step(&input.history, memory).map_err(wrong)?;
        }
        for (now, given) in memory.parameters.iter_mut().zip(given.values()) {
            *now -= given;
        }
        into.copy_whole(0, &memory.parameters)?;
        into.set_samples(input.history.len() as u64);
        Ok(TrainStats { samples: STEPS as u64, loss })
    }

    fn score(&self, _: &Parameters, _: &[f32], _: History<'_>, into: &mut [f32]) {
        into.fill(0.0);
    }
}

fn federation(seed: u64, cohort: usize) -> Result<Federation> {
    let (rng, network) = (Rng::new(seed), Network::new()?);
    let mut draw = rng.stream("histories", 0);
    let mut history = || {
        let mut all: Vec<u32> = (0..HISTORY).map(|_| draw.below(ITEMS as u32)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let histories = Histories::from_lists(&(0..DEVICES).map(|_| history()).collect::<Vec<_>>(), ITEMS)?;
    let mut values = network.layout.zeros();
    network.layout.initialise(&mut values, &rng)?;
    let shape = Shape::new("network", 1, values.len() as u32, Keyed::Dense);
    let schedule = Schedule { cohort: Cohort::Count(cohort), triples: 1, rounds: 1, mean_history: 20, devices: 100 };
    let strategy = Box::new(Mean { learning_rate: 1.0, over: MeanOver::All });
    let aggregation = Aggregation::new(RobustAggregator::None, Weighting::Samples)?;
    federated::federation(network, histories, Table::new(shape, values)?, (schedule, strategy, Some(aggregation)), rng)
}

/// A round of so many devices on so many threads: seconds by the clock, seconds of all cores.
fn round(seed: u64, cohort: usize, threads: usize) -> Result<(f64, f64)> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().context("starting threads")?;
    let mut federation = federation(seed, cohort)?;
    let (clock, cpu) = (Instant::now(), cpu_seconds());
    pool.install(|| federation.round())?;
    Ok((clock.elapsed().as_secs_f64(), cpu_seconds() - cpu))
}

/// FedAvg, weighed by samples, over devices that make five local steps each.
pub(super) fn dense_fleet(bench: &Workbench) -> Result<Vec<Figure>> {
    let seed = bench.seed;
    round(seed, FEW, 2)?;
    let few = peak_rss_bytes();
    let (mut one, mut two, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.repeats {
        let (clock, seconds) = round(seed, DEVICES, 1)?;
        one.push(clock);
        cpu.push(seconds);
        two.push(round(seed, DEVICES, 2)?.0);
    }
    let more = few.zip(peak_rss_bytes()).map(|(few, all)| (all - few) as f64 / 1e6);
    let (one, two, cpu) = (median(one), median(two), median(cpu));
    let what = format!("{DEVICES} devices, {STEPS} steps each on 49,614 parameters, one round");
    let mut figures = vec![
        Figure::new("dense-fleet", what, cpu, "CPU-seconds"),
        Figure::new("dense-fleet", "the same per device", 1e6 * cpu / DEVICES as f64, "CPU-microseconds"),
        Figure::new("dense-fleet", "two threads against one, each", one / two / 2.0, "of a whole core")
            .bound("above 0.85, on two cores"),
    ];
    figures.extend(more.map(|more| {
        let what = format!("memory of {DEVICES} devices in a round beyond {FEW}");
        Figure::new("dense-fleet", what, more, "MB").bound("about 0")
    }));
    Ok(figures)
}
