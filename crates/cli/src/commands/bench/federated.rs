//! Federated training: FPL's configurations, and a fleet whose devices do nearly nothing.

use super::work::{FACTORS, Workbench};
use super::{Figure, median};
use crate::measure::cpu_seconds;
use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use sottovoce_core::{Histories, History, Rng};
use sottovoce_federation::{
    Aggregation, Cohort, Coordinator, Disclosure, Federation, Population, Schedule, SimulatedDevices, Strategy,
};
use sottovoce_models::federated::{Sum, erased};
use sottovoce_models::settings::Value;
use sottovoce_models::{ClientModel, TrainInput, TrainStats};
use sottovoce_protocol::{Keyed, ModelSpec, Parameters, Policy, Shape, Table, TermsDraft, Trained, UpdateError};
use std::time::Instant;

/// Epochs of pFPL+; what comes before the first is a small part of them.
const EPOCHS: i64 = 40;
/// The peer's epochs on the same data.
const PEER_EPOCHS: i64 = 20;
/// A step that the plain sum of all devices' updates bears.
const RATE: f64 = 0.005;

/// FPL: triples of pFPL+, rounds of sFPL, and what a second thread adds.
pub(super) fn fpl(bench: &Workbench) -> Result<Vec<Figure>> {
    let (seconds, trained, answer) =
        bench.measure(|| bench.train("fpl", &settings("pfpl+", EPOCHS)), Some(("implicit-bpr", PEER_EPOCHS)))?;
    let speed = trained.summary.triples as f64 / seconds / 1e6;
    let peer = answer.map(|a| a.compare(a.triples_per_cpu_s / 1e6, speed / (a.triples_per_cpu_s / 1e6)));
    let what = format!("pFPL+, {FACTORS} factors, {EPOCHS} epochs");
    let all = Figure::new("fpl", what, speed, "million triples per CPU-second").bound("at least 5 x").peer(peer);
    let (seconds, trained, _) = bench.measure(|| bench.train("fpl", &settings("sfpl", 1)), None)?;
    let rounds = trained.summary.turnout.rounds as f64 / seconds / 1e6;
    let one =
        Figure::new("fpl", "sFPL, one triple a round", rounds, "million rounds per CPU-second").bound("at least 1");
    Ok(vec![all, half_disclosed(bench)?, one, threads(bench)?])
}

/// pFPL+ where half of what people have is withheld, so that devices train twice; triples are of what is disclosed.
fn half_disclosed(bench: &Workbench) -> Result<Figure> {
    let settings = [&settings("pfpl+", EPOCHS)[..], &[("pi", Value::Real(0.5))]].concat();
    let (seconds, trained, answer) =
        bench.measure(|| bench.train("fpl", &settings), Some(("implicit-bpr", PEER_EPOCHS)))?;
    let speed = trained.summary.triples as f64 / seconds / 1e6;
    let peer = answer.map(|a| a.compare(a.triples_per_cpu_s / 1e6, speed / (a.triples_per_cpu_s / 1e6)));
    let figure = Figure::new("fpl", "pFPL+ at pi = 0.5, fixed disclosure", speed, "million triples per CPU-second");
    Ok(figure.bound("at least 4 x").peer(peer))
}

fn settings(configuration: &str, epochs: i64) -> [(&'static str, Value); 4] {
    [
        ("factors", Value::Integer(FACTORS)),
        ("configuration", Value::Word(configuration.to_owned())),
        ("learning_rate", Value::Real(RATE)),
        ("epochs", Value::Integer(epochs)),
    ]
}

/// How many times as fast pFPL+ is on two threads, by the clock on the wall.
fn threads(bench: &Workbench) -> Result<Figure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pools = [1, 2].map(|threads| ThreadPoolBuilder::new().num_threads(threads).build());
    let [one, two] = pools.map(|pool| pool.context("starting threads"));
    let pools = [one?, two?];
    let mut seconds = [const { Vec::new() }; 2];
    for _ in 0..bench.repeats {
        for (pool, seconds) in pools.iter().zip(&mut seconds) {
            let started = Instant::now();
            pool.install(|| bench.train("fpl", &settings("pfpl+", EPOCHS)))?;
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    let [one, two] = seconds.map(median);
    let what = format!("pFPL+ on two threads against one, of {cores} cores");
    let bound = if cores > 1 { "at least 1.7" } else { "at least 1.7, on two cores" };
    Ok(Figure::new("fpl", what, one / two, "times as fast by the clock").bound(bound))
}

const DEVICES: usize = 1000;
const VALUES: usize = 20_000;
/// Rounds that are measured at a time.
const ROUNDS: usize = 50;

/// A device that sends the same dense update every time.
struct Trivial {
    update: Vec<f32>,
}

impl ClientModel for Trivial {
    type Scratch = ();
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) {}

    fn train(
        &self,
        _: TrainInput<'_>,
        (): &mut (),
        _: &mut Rng,
        into: &mut Trained,
    ) -> Result<TrainStats, UpdateError> {
        into.copy_whole(0, &self.update)?;
        into.set_samples(1);
        Ok(TrainStats { samples: 1, loss: 0.0 })
    }

    fn score(&self, _: &Parameters, _: &[f32], _: History<'_>, into: &mut [f32]) {
        into.fill(0.0);
    }
}

/// A round with everything but training: policy, disclosure, ledger, delivery, the sum and the server's step.
pub(super) fn fleet(bench: &Workbench) -> Result<Vec<Figure>> {
    let mut federation = trivial_federation(bench.seed)?;
    // Buffers grow in the first rounds.
    federation.epoch()?;
    let mut seconds = Vec::new();
    for _ in 0..bench.repeats {
        let before = cpu_seconds();
        let report = federation.epoch()?;
        seconds.push((cpu_seconds() - before) / report.participation.received() as f64);
    }
    let speed = 1.0 / median(seconds);
    let what = format!("rounds of {DEVICES} devices that each send {VALUES} values");
    let bound = "at least 48000: 10 x pfl-research 0.6";
    Ok(vec![Figure::new("fleet", what, speed, "devices per CPU-second").bound(bound)])
}

fn trivial_federation(seed: u64) -> Result<Federation> {
    let rng = Rng::new(seed);
    let mut update = vec![0.0; VALUES];
    rng.stream("update", 0).fill_normal(1e-6, &mut update);
    // Everybody has one of two items, so that everybody can learn.
    let histories = Histories::from_lists(&vec![[0]; DEVICES], 2)?;
    let shape = Shape::new("weights", 100, (VALUES / 100) as u32, Keyed::Dense);
    let schedule = Schedule { cohort: Cohort::All, triples: 1, rounds: ROUNDS, mean_history: 20, devices: 100 };
    let strategy = Box::new(Sum { learning_rate: 1.0 });
    federation(Trivial { update }, histories, Table::zeros(shape)?, (schedule, strategy, None), rng)
}

/// A federation whose devices disclose everything; the shared model is one table. With an aggregation of its own,
/// devices are asked for their number of samples.
pub(super) fn federation(
    client: impl ClientModel,
    histories: Histories,
    start: Table,
    (schedule, strategy, aggregation): (Schedule, Box<dyn Strategy>, Option<Aggregation>),
    rng: Rng,
) -> Result<Federation> {
    let model = ModelSpec { name: start.shape().name.clone(), settings: Default::default() };
    let (population, start) = (Population::of(&histories), Parameters::new(vec![start])?);
    let disclosure = Disclosure::same(Policy::new(1.0)?, &rng);
    let devices = SimulatedDevices::new(erased(client), histories, start.layout(), disclosure, &rng);
    let terms = TermsDraft { model, samples: aggregation.is_some(), ..TermsDraft::default() };
    let mut coordinator = Coordinator::new(strategy, start, terms, schedule.cohort, rng);
    if let Some(aggregation) = aggregation {
        coordinator = coordinator.with_aggregation(aggregation)?;
    }
    coordinator.ask_among(population.devices);
    Ok(Federation::new(devices, coordinator, schedule, 1.0))
}
