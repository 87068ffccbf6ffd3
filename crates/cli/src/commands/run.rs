//! `run`: an experiment file, from the start or from where it was interrupted, to one report.

use crate::args::{Common, Run};
use crate::progress::Bar;
use crate::{folder, measure, output};
use anyhow::{Context, Result};
use serde_json::json;
use sottovoce_data::LoadOptions;
use sottovoce_experiment::classifier::Classifiers;
use sottovoce_experiment::engine::{self, Event, Options, Trials};
use sottovoce_experiment::journal::{Existing, Recorded};
use sottovoce_experiment::plan::RowPlan;
use sottovoce_experiment::recommender::Recommenders;
use sottovoce_experiment::results::Results;
use sottovoce_experiment::{Experiment, report};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// `sottovoce run FILE`.
pub(crate) fn run(args: &Run, common: &Common) -> Result<()> {
    let (experiment, text) = Experiment::read(&args.file)?;
    if !common.quiet {
        experiment.warnings.iter().for_each(|warning| output::note(warning));
    }
    if args.plan {
        return show_plan(&experiment, common);
    }
    let default = || Path::new("runs").join(args.file.file_stem().unwrap_or(args.file.as_os_str()));
    let out = args.out.clone().unwrap_or_else(default);
    let jobs = args.jobs.map_or_else(rayon::current_num_threads, usize::from);
    let existing = match (args.fresh, args.amend) {
        (true, _) => Existing::Fresh,
        (_, true) => Existing::Amend,
        _ => Existing::Resume,
    };
    let results = execute(&experiment, &out, existing, jobs, common)?;
    let source = Source { text: &text, command: format!("sottovoce run {}", args.file.display()) };
    finish(&experiment, &results, &source, &out, common)?;
    Ok(())
}

fn show_plan(experiment: &Experiment, common: &Common) -> Result<()> {
    let plans = RowPlan::all(experiment);
    let trials: usize = plans.iter().map(RowPlan::trials).sum();
    let rounds = experiment.classification().map(|task| task.rounds);
    let row = |plan: &RowPlan| json!({"data": plan.data.label(), "row": plan.spec.label, "trials": plan.trials()});
    let rows: Vec<_> = plans.iter().map(row).collect();
    let mut document = json!({"title": experiment.about.title, "trials": trials, "rows": rows});
    if let Some(rounds) = rounds {
        document["rounds"] = rounds.into();
    }
    output::answer(common, &document, || {
        let each = rounds.map_or_else(String::new, |rounds| format!(" of at most {rounds} rounds"));
        let row = |plan: &RowPlan| format!("  {:5} {} on {}\n", plan.trials(), plan.spec.label, plan.data.label());
        let rows: String = plans.iter().map(row).collect();
        format!("{}: at most {trials} trials{each}\n{rows}", experiment.about.title)
    })
}

/// Runs the trials that are not recorded yet.
pub(super) fn execute(
    experiment: &Experiment,
    folder: &Path,
    existing: Existing,
    jobs: usize,
    common: &Common,
) -> Result<Results> {
    let data_dir = common.data_dir.clone();
    let trials: Box<dyn Trials> = match experiment.classification() {
        Some(_) => Box::new(Classifiers::new(data_dir)),
        None => {
            let load = LoadOptions { data_dir, ..LoadOptions::default() };
            Box::new(Recommenders::new(load, measure::peak_rss_bytes))
        }
    };
    let bar = Mutex::new(Bar::new("trials", 1, common.quiet));
    let report = |event: Event<'_>| {
        if let Ok(mut bar) = bar.lock() {
            show_event(&event, &mut bar, common.quiet);
        }
    };
    let options = Options { folder, existing, jobs, stop: &AtomicBool::new(false), report: &report };
    Ok(engine::run(experiment, &*trials, &options)?)
}

fn show_event(event: &Event<'_>, bar: &mut Bar, quiet: bool) {
    match event {
        Event::Begun { trials, recorded, torn } => {
            bar.set(*recorded as u64, *trials as u64);
            if *recorded > 0 && !quiet {
                output::note(&format!("resuming: {recorded} of at most {trials} trials are done"));
            }
            if *torn && !quiet {
                output::note("the last line of the journal was torn; its trial runs again");
            }
        }
        Event::Data { label, notes } if !quiet => {
            notes.iter().for_each(|line| output::note(&format!("{label}: {line}")));
        }
        Event::Data { .. } => {}
        Event::Started(trial) => bar.say(&trial.describe()),
        Event::Progress { trial, done, planned, value: Some(value) } => {
            let accuracy = 100.0 * value;
            bar.say(&format!("{}: round {done} of {planned}, {accuracy:.1} %", trial.describe()));
            bar.tick();
        }
        Event::Progress { .. } => bar.tick(),
        Event::Finished { trial, outcome, recorded, trials } => {
            bar.set(*recorded as u64, *trials as u64);
            if let Recorded::Done(summary) = outcome
                && let Some(curve) = summary.accuracy_curve.as_ref().filter(|_| !quiet)
            {
                let (rounds, accuracy) = (curve.rounds(), 100.0 * curve.best.accuracy);
                output::note(&format!("{}: {rounds} rounds, {accuracy:.2} %", trial.describe()));
            }
        }
    }
}

/// The text of an experiment file, and the command that ran it.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) command: String,
}

/// Writes report and results, and prints the summary and the main table.
pub(super) fn finish(
    experiment: &Experiment,
    results: &Results,
    source: &Source<'_>,
    out: &Path,
    common: &Common,
) -> Result<PathBuf> {
    let provenance = [("command".to_owned(), source.command.clone())];
    let report = report::compose(experiment, source.text, results, &provenance);
    let path = report.write(out).with_context(|| format!("writing the report into {}", out.display()))?;
    let json = serde_json::to_vec_pretty(results).context("writing results")?;
    folder::write_file(&out.join("results.json"), &json)?;
    if common.json {
        output::print_json(results)?;
        return Ok(path);
    }
    for sentence in &report.summary {
        output::print_line(&sentence.replace("**", "").replace('`', ""))?;
    }
    if let Some(table) = report::headline(&report) {
        output::print_line(&format!("\n{}", output::table(table)))?;
    }
    output::print_line(&format!("report: {}", path.display()))?;
    Ok(path)
}
