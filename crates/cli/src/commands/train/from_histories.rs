//! `train` on a history file: in memory, or with `--stream` from the file.
//!
//! A history file has no names, timestamps or test part: the model is trained, not evaluated.

use super::{Outcome, federated_names, show_federated, show_written, store_outcome};
use crate::args::{Common, Train};
use crate::folder;
use crate::measure::cpu_seconds;
use crate::model_dir::{self, About};
use crate::output::{self, Usage, grouped, usage};
use crate::progress::Bar;
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_federation::{HistoryFile, Simulation, registry};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::Settings;
use sottovoce_models::{Fit, Flow, Progress, Recommender, Summary, Watch};
use std::path::Path;
use std::time::Instant;

type HistoriesOutcome<'a> = Outcome<'a, DataFacts<'a>, Seconds>;

#[derive(Serialize)]
struct DataFacts<'a> {
    file: &'a str,
    users: usize,
    items: usize,
    interactions: u64,
}

#[derive(Serialize)]
struct Seconds {
    train: f64,
    train_cpu: f64,
}

/// Shows progress and remembers the loss.
struct LossMonitor {
    bar: Bar,
    loss: Option<f64>,
}

impl Watch for LossMonitor {
    fn after_epoch(&mut self, progress: &Progress<'_>) -> Flow {
        self.bar.set(progress.epoch as u64, progress.epochs as u64);
        self.loss = progress.loss;
        Flow::Continue
    }
}

pub(super) fn run(args: &Train, common: &Common, model: &'static Model, settings: &Settings) -> Result<()> {
    check(args)?;
    let mut recommender = streaming(model, settings)?;
    let file = HistoryFile::open(Path::new(&args.data))?;
    let (users, items) = (file.users(), file.catalog_size());
    let data = DataFacts { file: &args.data, users, items, interactions: file.interactions() };
    let bar = Bar::new(&format!("training {}", model.name), 1, common.quiet);
    let mut watch = LossMonitor { bar, loss: None };
    let (started, before) = (Instant::now(), cpu_seconds());
    let mut fit = Fit::new(common.seed, &mut watch);
    let summary = train(args.stream, file, &mut recommender, &mut fit)
        .with_context(|| format!("training {} on {}", model.name, args.data))?;
    let seconds = Seconds { train: started.elapsed().as_secs_f64(), train_cpu: cpu_seconds() - before };
    let loss = watch.loss;
    drop(watch);
    let outcome = Outcome {
        streamed: Some(args.stream),
        loss,
        ..Outcome::new((model, settings, common.seed), data, &summary, seconds)
    };
    store(args, &outcome, &recommender)?;
    if common.json { output::print_json(&outcome) } else { show(args, model, &outcome) }
}

fn streaming(model: &Model, settings: &Settings) -> Result<Simulation> {
    registry::simulation(model.name, settings).ok_or_else(|| {
        let message =
            format!("{} cannot be trained on a history file; models that can: {}", model.name, federated_names());
        Usage(message).into()
    })
}

/// Rejects options that need names, timestamps or a test part.
fn check(args: &Train) -> Result<()> {
    if !HistoryFile::is_one(Path::new(&args.data)) {
        return usage(format!(
            "--stream needs a history file, and {} is none; make one with `sottovoce data convert {} OUT.histories`",
            args.data, args.data
        ));
    }
    let given = [
        ("--validation", args.preparing.split.validation.is_some()),
        ("--split", args.preparing.split.split.is_some()),
        ("--checkpoint", args.checkpoint.is_some()),
        ("cleaning", !args.preparing.loading.cleaning.is_default()),
        ("--candidates", !args.ranks_all()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((what, _)) => usage(format!("{}: {what} does not apply to a history file", args.data)),
        None => Ok(()),
    }
}

fn train(stream: bool, file: HistoryFile, recommender: &mut Simulation, fit: &mut Fit<'_>) -> Result<Summary> {
    if stream {
        return Ok(recommender.fit_file(file, fit)?);
    }
    let histories = file.read_all()?;
    Ok(recommender.fit(&histories, fit)?)
}

fn store(args: &Train, outcome: &HistoriesOutcome<'_>, recommender: &dyn Recommender) -> Result<()> {
    let Some(out) = &args.out else { return Ok(()) };
    let about = About::new(outcome.model, outcome.settings, outcome.seed, &args.data, "");
    folder::write_whole(out, |folder| {
        model_dir::write_nameless(folder, &about, recommender)?;
        store_outcome(folder, outcome)
    })
}

fn show(args: &Train, model: &Model, outcome: &HistoriesOutcome<'_>) -> Result<()> {
    let data = &outcome.data;
    let (users, items, interactions) = (grouped(data.users), grouped(data.items), grouped(data.interactions));
    let streamed = if args.stream { ", streamed" } else { "" };
    output::print_line(&format!(
        "{} on {}: {users} users, {items} items, {interactions} interactions{streamed}",
        model.title, data.file
    ))?;
    let loss = outcome.loss.map_or_else(String::new, |loss| format!(", mean loss {loss:.4} in the last"));
    output::print_line(&format!(
        "{:.1} s training, {:.1} CPU s ({} epochs{loss})",
        outcome.seconds.train, outcome.seconds.train_cpu, outcome.epochs
    ))?;
    show_federated(outcome)?;
    if let Some(peak) = outcome.peak_rss_bytes {
        output::print_line(&format!("{:.0} MB peak memory", peak as f64 / 1e6))?;
    }
    show_written(args)
}
