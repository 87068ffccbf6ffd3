//! `run`: an experiment file, from start or from where it was stopped, to one report.

use crate::args::{Common, Run};
use crate::progress::Bar;
use crate::{measure, output};
use anyhow::{Context, Result};
use sottovoce_data::LoadOptions;
use sottovoce_experiment::Experiment;
use sottovoce_experiment::compose::{self, Provenance};
use sottovoce_experiment::engine::{self, Event, Options};
use sottovoce_experiment::journal::Existing;
use sottovoce_experiment::plan::Place;
use sottovoce_experiment::results::Results;
use sottovoce_experiment::runner::Runner;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// `sottovoce run FILE`.
pub(crate) fn run(args: &Run, common: &Common) -> Result<()> {
    let experiment = Experiment::read(&args.file)?;
    if args.plan {
        return show_plan(&experiment, common);
    }
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("reading {}", args.file.display()))?;
    let out = args.out.clone().unwrap_or_else(|| default_folder(&args.file));
    let jobs = args.jobs.map_or_else(rayon::current_num_threads, usize::from);
    let results = carry_out(&experiment, &out, args.fresh, jobs, common)?;
    let started = format!("sottovoce run {}", args.file.display());
    finish(&experiment, &results, (&args.file.display().to_string(), &text), &started, &out, common)
}

fn default_folder(file: &Path) -> PathBuf {
    Path::new("runs").join(file.file_stem().unwrap_or(file.as_os_str()))
}

fn show_plan(experiment: &Experiment, common: &Common) -> Result<()> {
    let places = Place::all(experiment);
    let trials: usize = places.iter().map(Place::trials).sum();
    if common.json {
        let rows: Vec<_> = places
            .iter()
            .map(|place| serde_json::json!({"data": place.data.label, "row": place.contender.label, "trials": place.trials()}))
            .collect();
        return output::print_json(&serde_json::json!({"title": experiment.title, "trials": trials, "rows": rows}));
    }
    output::print_line(&format!("{}: at most {trials} trials", experiment.title))?;
    for place in &places {
        output::print_line(&format!("  {:5} {} on {}", place.trials(), place.contender.label, place.data.label))?;
    }
    Ok(())
}

/// Runs the trials that are not recorded yet.
pub(super) fn carry_out(
    experiment: &Experiment,
    folder: &Path,
    fresh: bool,
    jobs: usize,
    common: &Common,
) -> Result<Results> {
    let load = LoadOptions { data_dir: common.data_dir.clone(), ..LoadOptions::default() };
    let runner = Runner::new(load, measure::peak_rss_bytes);
    let bar = Mutex::new(Bar::new("trials", 1, common.quiet));
    let quiet = common.quiet;
    let report = |event: Event<'_>| {
        let Ok(mut bar) = bar.lock() else { return };
        match event {
            Event::Begun { trials, recorded, torn } => {
                bar.set(recorded as u64, trials as u64);
                if recorded > 0 && !quiet {
                    output::note(&format!("going on: {recorded} of at most {trials} trials were done before"));
                }
                if torn && !quiet {
                    output::note("the last line of the journal was torn; its trial runs again");
                }
            }
            Event::Started(trial) => bar.say(&trial.describe()),
            Event::Epoch { .. } => bar.tick(),
            Event::Finished { recorded, trials, .. } => bar.set(recorded as u64, trials as u64),
        }
    };
    let options = Options {
        folder,
        existing: if fresh { Existing::Discard } else { Existing::Resume },
        jobs,
        stop: &AtomicBool::new(false),
        report: &report,
    };
    Ok(engine::run(experiment, &runner, &options)?)
}

/// Writes the report and tells where it is.
pub(super) fn finish(
    experiment: &Experiment,
    results: &Results,
    file: (&str, &str),
    command: &str,
    out: &Path,
    common: &Common,
) -> Result<()> {
    let provenance = Provenance { version: env!("CARGO_PKG_VERSION"), command, file };
    let report = compose::report(experiment, results, &provenance);
    report.write(out).with_context(|| format!("writing the report into {}", out.display()))?;
    if common.json {
        return output::print_json(results);
    }
    for sentence in &report.summary {
        output::print_line(&sentence.replace("**", ""))?;
    }
    for table in compose::main_tables(&report) {
        output::print_line(&format!("\n{}", table.to_text(output::terminal_width())))?;
    }
    output::print_line(&format!("report: {}", out.join("report.html").display()))
}

/// Seconds since a moment, for people.
pub(super) fn took(started: Instant) -> String {
    format!("{:.1} s", started.elapsed().as_secs_f64())
}
