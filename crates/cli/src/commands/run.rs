//! `run`: an experiment file, from start or from where it was stopped, to one report.

mod study;

use crate::args::{Common, Run};
use crate::progress::Bar;
use crate::{folder, measure, output};
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_data::LoadOptions;
use sottovoce_evaluate::report::{Report, Table};
use sottovoce_experiment::Experiment;
use sottovoce_experiment::compose::{WHO_SEES_WHAT, compose};
use sottovoce_experiment::engine::{self, Event, Options};
use sottovoce_experiment::journal::Existing;
use sottovoce_experiment::plan::Place;
use sottovoce_experiment::results::Results;
use sottovoce_experiment::runner::Runner;
use sottovoce_experiment::study::is_study;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// `sottovoce run FILE`.
pub(crate) fn run(args: &Run, common: &Common) -> Result<()> {
    let text =
        std::fs::read_to_string(&args.file).with_context(|| format!("reading {}", args.file.display()))?;
    if is_study(&text) {
        return study::run(args, &text, common);
    }
    let experiment = Experiment::read(&args.file)?;
    if args.plan {
        return show_plan(&experiment, common);
    }
    let out = args.out.clone().unwrap_or_else(|| default_folder(&args.file));
    let jobs = args.jobs.map_or_else(rayon::current_num_threads, usize::from);
    let results = carry_out(&experiment, &out, existing(args), jobs, common)?;
    let source = Source { text: &text, command: format!("sottovoce run {}", args.file.display()) };
    finish(&experiment, &results, &source, &out, common)?;
    Ok(())
}

fn existing(args: &Run) -> Existing {
    match (args.fresh, args.amend) {
        (true, _) => Existing::Fresh,
        (_, true) => Existing::Amend,
        _ => Existing::Resume,
    }
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
        return output::print_json(
            &serde_json::json!({"title": experiment.title, "trials": trials, "rows": rows}),
        );
    }
    output::print_line(&format!("{}: at most {trials} trials", experiment.title))?;
    for place in &places {
        output::print_line(&format!(
            "  {:5} {} on {}",
            place.trials(),
            place.contender.label,
            place.data.label
        ))?;
    }
    Ok(())
}

/// Runs the trials that are not recorded yet.
pub(super) fn carry_out(
    experiment: &Experiment,
    folder: &Path,
    existing: Existing,
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
                    output::note(&format!(
                        "going on: {recorded} of at most {trials} trials were done before"
                    ));
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
    let options = Options { folder, existing, jobs, stop: &AtomicBool::new(false), report: &report };
    Ok(engine::run(experiment, &runner, &options)?)
}

/// An experiment file's name and content, as it was run.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) command: String,
}

/// Writes the report and tells what is in it.
pub(super) fn finish(
    experiment: &Experiment,
    results: &Results,
    source: &Source<'_>,
    out: &Path,
    common: &Common,
) -> Result<PathBuf> {
    let provenance = [("command".to_owned(), source.command.clone())];
    let report = compose(experiment, source.text, results, &provenance);
    let tables: Vec<&Table> = report.tables().collect();
    // Who sees what, where the experiment has federated rows, is said in fewer columns than accuracy.
    let told = tables.iter().find(|table| table.caption.starts_with(WHO_SEES_WHAT)).or(tables.first());
    tell(&report, told.copied(), results, out, common)
}

/// Writes a report and its results, and tells its sentences and one table.
fn tell(
    report: &Report,
    table: Option<&Table>,
    results: &impl Serialize,
    out: &Path,
    common: &Common,
) -> Result<PathBuf> {
    let path = report.write(out).with_context(|| format!("writing the report into {}", out.display()))?;
    let json = serde_json::to_vec_pretty(results).context("writing results")?;
    folder::write_file(&out.join("results.json"), &json)?;
    if common.json {
        output::print_json(results)?;
        return Ok(path);
    }
    for sentence in &report.summary {
        output::print_line(&plain(sentence))?;
    }
    if let Some(table) = table {
        output::print_line(&format!("\n{}", output::table(table)))?;
    }
    output::print_line(&format!("report: {}", path.display()))?;
    Ok(path)
}

/// Prose without its marks of emphasis.
fn plain(sentence: &str) -> String {
    sentence.replace("**", "").replace('`', "")
}
