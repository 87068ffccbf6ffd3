//! `run` with a study file.

use super::{default_folder, existing, tell};
use crate::args::{Common, Run};
use crate::output;
use crate::progress::Bar;
use anyhow::Result;
use serde_json::json;
use sottovoce_experiment::study::{Event, Options, Study, compose, run as carry_out};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Runs a study, or says what would be run.
pub(super) fn run(args: &Run, text: &str, common: &Common) -> Result<()> {
    let study = Study::parse(&args.file.display().to_string(), text)?;
    if args.plan {
        return show_plan(&study, common);
    }
    let out = args.out.clone().unwrap_or_else(|| default_folder(&args.file));
    let jobs = args.jobs.map_or_else(rayon::current_num_threads, usize::from);
    let (bar, quiet) = (Mutex::new((Bar::new("rounds", 1, common.quiet), 0, 1)), common.quiet);
    let report = |event: Event<'_>| {
        let Ok(mut shown) = bar.lock() else { return };
        let (bar, done, all) = &mut *shown;
        match event {
            Event::Begun { configurations, recorded } => {
                (*done, *all) = (0, (configurations - recorded) * study.rounds);
                if recorded > 0 && !quiet {
                    output::note(&format!(
                        "going on: {recorded} of {configurations} trainings were done before"
                    ));
                }
            }
            Event::Round { configuration, accuracy, .. } => {
                *done += 1;
                bar.say(&format!("{} {:.1} %", configuration.aggregation, 100.0 * accuracy));
            }
            Event::Finished { configuration, course } => {
                // A training that ended early leaves its rounds undone.
                *all -= study.rounds.saturating_sub(course.rounds()).min(*all - *done);
                if !quiet {
                    let (rounds, accuracy) = (course.rounds(), 100.0 * course.best.accuracy);
                    output::note(&format!("{}: {rounds} rounds, {accuracy:.2} %", configuration.describe()));
                }
            }
        }
        bar.set(*done as u64, (*all).max(1) as u64);
    };
    let options = Options {
        folder: &out,
        existing: existing(args),
        jobs,
        data_dir: common.data_dir.as_deref(),
        stop: &AtomicBool::new(false),
        report: &report,
    };
    let results = carry_out(&study, &options)?;
    drop(bar);
    let provenance = [("command".to_owned(), format!("sottovoce run {}", args.file.display()))];
    let report = compose(&study, text, &results, &provenance);
    let last = report.tables().filter(|table| table.caption.starts_with("Rounds until")).last();
    tell(&report, last, &results, &out, common)?;
    Ok(())
}

fn show_plan(study: &Study, common: &Common) -> Result<()> {
    let (seeds, rates) = (study.seeds.len(), study.training.rates.len());
    let tried = if rates > 1 { rates } else { 0 };
    let trainings = study.aggregations.len() * seeds + tried;
    if common.json {
        let rows: Vec<String> = study.aggregations.iter().map(ToString::to_string).collect();
        return output::print_json(
            &json!({"title": study.title, "trainings": trainings, "rounds": study.rounds, "aggregations": rows}),
        );
    }
    let rounds = study.rounds;
    output::print_line(&format!(
        "{}: at most {trainings} trainings of at most {rounds} rounds",
        study.title
    ))?;
    if tried > 0 {
        output::print_line(&format!("  {tried:5} learning rates with {}", study.aggregations[0]))?;
    }
    for aggregation in &study.aggregations {
        output::print_line(&format!("  {seeds:5} {aggregation}"))?;
    }
    Ok(())
}
