//! Neural networks: a step of the reference model, and epochs of MultiVAE, next to PyTorch's.

use super::work::Workbench;
use super::{Figure, Peer, median};
use crate::measure::cpu_seconds;
use anyhow::{Context, Result};
use rayon::ThreadPoolBuilder;
use sottovoce_core::Rng;
use sottovoce_models::settings::Value;
use sottovoce_neural::{Arithmetic, SparseRows};
use sottovoce_testing::reference::{INTERESTS, PAGE, PAGES, Reference};
use std::time::Instant;

/// Steps of the reference model: one sample as on a device, and a batch as in centralised training.
pub(super) fn step(bench: &Workbench) -> Result<Vec<Figure>> {
    [(1, Arithmetic::Portable), (64, Arithmetic::Machine)]
        .into_iter()
        .map(|(rows, arithmetic)| step_of(bench, rows, arithmetic))
        .collect()
}

fn step_of(bench: &Workbench, rows: usize, arithmetic: Arithmetic) -> Result<Figure> {
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..bench.repeats {
        ours.push(time_steps(rows, arithmetic, bench.seed)?);
        peers.extend(bench.ask("torch-step", false, &[("batch", rows), ("threads", 1)])?);
    }
    let value = median(ours);
    peers.sort_by(|a, b| a.cpu_us_per_step.total_cmp(&b.cpu_us_per_step));
    let peer = peers.get(peers.len() / 2).map(|a| a.compare(a.cpu_us_per_step, a.cpu_us_per_step / value));
    let what = format!("reference step, 66,743 parameters, batch {rows}, {arithmetic:?}");
    let figure = Figure::new("neural-step", what, value, "CPU-microseconds").peer(peer);
    Ok(if rows == 1 { figure.bound("at most 40 to 55, at least 10 x") } else { figure })
}

/// The median of short runs in CPU microseconds a step, as the peer measures its own.
fn time_steps(rows: usize, arithmetic: Arithmetic, seed: u64) -> Result<f64> {
    let mut model = Reference::<f32>::new(arithmetic, rows, seed)?;
    let (starts, columns, pages) = samples(rows, &mut Rng::new(seed).stream("samples", 0));
    let interests = SparseRows::new(&starts, &columns, None, INTERESTS)?;
    let steps = 200 / rows.min(20);
    let mut runs = Vec::new();
    for _ in 0..60 {
        let before = cpu_seconds();
        for _ in 0..steps {
            model.step(&interests, &pages)?;
        }
        runs.push(1e6 * (cpu_seconds() - before) / steps as f64);
    }
    Ok(median(runs))
}

/// About one interest in a hundred, as the peer's.
fn samples(rows: usize, rng: &mut Rng) -> (Vec<usize>, Vec<u32>, Vec<f32>) {
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for _ in 0..rows {
        columns.extend((0..INTERESTS as u32).filter(|_| rng.chance(0.01)));
        starts.push(columns.len());
    }
    let mut pages = vec![0.0; rows * PAGES * PAGE];
    rng.fill_normal(1.0, &mut pages);
    (starts, columns, pages)
}

/// Epochs of a measured MultiVAE.
const EPOCHS: usize = 3;

/// An epoch of MultiVAE 600-200-600: CPU seconds on one thread, seconds by the clock on two.
pub(super) fn multivae(bench: &Workbench) -> Result<Vec<Figure>> {
    [1, 2].into_iter().map(|threads| epochs(bench, threads)).collect()
}

fn epochs(bench: &Workbench, threads: usize) -> Result<Figure> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().context("starting threads")?;
    let settings = [("epochs", Value::Integer(EPOCHS as i64))];
    let (mut ours, mut peers, mut name) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..bench.repeats {
        let (started, before) = (Instant::now(), cpu_seconds());
        pool.install(|| bench.train("multivae", &settings))?;
        let seconds = if threads == 1 { cpu_seconds() - before } else { started.elapsed().as_secs_f64() };
        ours.push(seconds / EPOCHS as f64);
        if let Some(answer) = bench.ask("torch-multivae", true, &[("epochs", EPOCHS), ("threads", threads)])? {
            peers.push(if threads == 1 { answer.cpu_s_per_epoch } else { answer.wall_s_per_epoch });
            name = answer.peer;
        }
    }
    let value = median(ours);
    let theirs = (!peers.is_empty()).then(|| median(peers));
    let peer = theirs.map(|theirs| Peer { name, value: theirs, ratio: theirs / value });
    let unit = if threads == 1 { "CPU-seconds" } else { "seconds by the clock" };
    let what = format!("an epoch, 600-200-600, {threads} thread{}", if threads == 1 { "" } else { "s" });
    Ok(Figure::new("multivae", what, value, unit).bound("at least 1 x").peer(peer))
}
