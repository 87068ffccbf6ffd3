//! Data sets as the arguments of several commands ask for them.

use crate::args::{CleaningArgs, Common, Preparing, Source};
use crate::output;
use anyhow::Result;
use sottovoce_data::{Cleaning, CleaningReport, Dataset, LoadOptions, LoadReport, SkippedLines};
use sottovoce_experiment::prepare::{DataPlan, Prepared, load_clean, prepare};

/// Reads, cleans and splits a data set, and notes what was left out.
pub(crate) fn from_arguments(source: &str, how: &Preparing, common: &Common) -> Result<Prepared> {
    let Preparing { loading, split } = how;
    let data = prepare(&DataPlan {
        source: source.to_owned(),
        load: loading.options(common),
        cleaning: loading.cleaning.cleaning(),
        split: split.split,
        validation: split.validation,
        relevant: split.relevant,
        seed: common.seed,
    })?;
    show_notes(&data.notes, &data.cleaned, common);
    Ok(data)
}

/// Reads and cleans a data set, and notes what was left out.
pub(crate) fn read(source: &Source, cleaning: &CleaningArgs, common: &Common) -> Result<Dataset> {
    load(&source.data, &source.reading.options(common), &cleaning.cleaning(), common)
}

/// The same with options of the data crate.
pub(crate) fn load(data: &str, options: &LoadOptions, cleaning: &Cleaning, common: &Common) -> Result<Dataset> {
    let (dataset, cleaned) = load_clean(data, options, cleaning)?;
    show_notes(&dataset.report, &cleaned, common);
    Ok(dataset)
}

/// Notes what was skipped while reading and left out by cleaning.
fn show_notes(notes: &LoadReport, cleaned: &CleaningReport, common: &Common) {
    if common.quiet {
        return;
    }
    let SkippedLines { skipped, examples } = &notes.bad;
    if *skipped > 0 {
        let lines = if *skipped == 1 { "line was" } else { "lines were" };
        output::note(&format!("{skipped} bad {lines} skipped, such as {}", examples.join("; ")));
    }
    notes.remarks.iter().for_each(|remark| output::note(remark));
    cleaned.messages().iter().for_each(|line| output::note(line));
}
