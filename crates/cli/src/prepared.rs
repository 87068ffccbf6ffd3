//! Data sets as the arguments of several commands ask for them.

use crate::args::{CleaningArgs, Common, Preparing, Source};
use crate::output;
use anyhow::Result;
use sottovoce_data::{Cleaning, CleaningReport, Dataset, LoadOptions, LoadReport, Remedy, SkippedLines};
use sottovoce_experiment::prepare::{DataPlan, PrepareError, Prepared, load_clean, prepare};

/// Reads, cleans and splits a data set, and notes what was left out.
pub(crate) fn from_arguments(source: &str, how: &Preparing, common: &Common) -> Result<Prepared> {
    let Preparing { loading, split, catalog } = how;
    let plan = DataPlan {
        source: source.to_owned(),
        load: loading.options(common),
        cleaning: loading.cleaning.cleaning(common.seed),
        split: split.split,
        validation: split.validation,
        relevant: split.relevant,
        catalog: *catalog,
        seed: common.seed,
    };
    let data = from_plan(&plan, common)?;
    if split.relevant.is_some() && data.description.ratings.is_none() && !common.quiet {
        output::note("--relevant does nothing: the set has no ratings");
    }
    Ok(data)
}

/// The same with a plan.
pub(crate) fn from_plan(plan: &DataPlan, common: &Common) -> Result<Prepared> {
    let data = prepare(plan).map_err(helped)?;
    show_notes(&data.notes, &data.cleaned, common);
    if !common.quiet {
        data.parts.cold.messages().iter().for_each(|line| output::note(line));
    }
    Ok(data)
}

/// Reads and cleans a data set, and notes what was left out.
pub(crate) fn read(source: &Source, cleaning: &CleaningArgs, common: &Common) -> Result<Dataset> {
    load(&source.data, &source.reading.options(common), &cleaning.cleaning(common.seed), common)
}

/// The same with options of the data crate.
pub(crate) fn load(data: &str, options: &LoadOptions, cleaning: &Cleaning, common: &Common) -> Result<Dataset> {
    let (dataset, cleaned) = load_clean(data, options, cleaning).map_err(helped)?;
    show_notes(&dataset.report, &cleaned, common);
    Ok(dataset)
}

/// The error with the option that helps.
fn helped(error: PrepareError) -> anyhow::Error {
    let option = match error.remedy() {
        Some(Remedy::SkipBad) => ": --skip-bad",
        Some(Remedy::Columns) => {
            ". Say which to read: --columns user=COLUMN,item=COLUMN[,rating=COLUMN][,time=COLUMN], a column being a number \
             from 0 or a name in the header"
        }
        Some(Remedy::Format) => ". --format names it, --columns user=COLUMN,item=COLUMN says which columns to read",
        _ => return error.into(),
    };
    anyhow::anyhow!("{error}{option}")
}

/// Notes what was skipped while reading and left out by cleaning.
fn show_notes(notes: &LoadReport, cleaned: &CleaningReport, common: &Common) {
    if common.quiet {
        return;
    }
    if let Some(columns) = &notes.columns {
        output::note(&format!("columns: {columns}"));
    }
    let SkippedLines { skipped, examples } = &notes.bad;
    if *skipped > 0 {
        let lines = if *skipped == 1 { "line was" } else { "lines were" };
        output::note(&format!("{skipped} bad {lines} skipped, such as {}", examples.join("; ")));
    }
    notes.remarks.iter().for_each(|remark| output::note(remark));
    cleaned.messages().iter().for_each(|line| output::note(line));
}
