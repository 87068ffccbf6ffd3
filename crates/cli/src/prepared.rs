//! Data sets as the arguments of several commands ask for them.

use crate::args::{Common, Preparing};
use crate::output;
use anyhow::Result;
use sottovoce_data::{CleaningReport, LoadReport};
use sottovoce_experiment::prepare::{DataPlan, Prepared, prepare};

/// Reads, cleans and splits a data set, and notes what was left out.
pub(crate) fn from_arguments(source: &str, how: &Preparing, common: &Common) -> Result<Prepared> {
    let Preparing { reading, graph, cleaning, split } = how;
    let data = prepare(&DataPlan {
        source: source.to_owned(),
        load: reading.options(Some(graph), common),
        cleaning: cleaning.cleaning(),
        split: split.split,
        validation: split.validation,
        relevant: split.relevant,
        seed: common.seed,
    })?;
    show_notes(&data.notes, &data.cleaned, common);
    Ok(data)
}

/// Notes what was skipped while reading and left out by cleaning.
pub(crate) fn show_notes(notes: &LoadReport, cleaned: &CleaningReport, common: &Common) {
    if common.quiet {
        return;
    }
    if notes.skipped > 0 {
        let lines = if notes.skipped == 1 { "line was" } else { "lines were" };
        output::note(&format!("{} bad {lines} skipped, such as {}", notes.skipped, notes.examples.join("; ")));
    }
    notes.remarks.iter().for_each(|remark| output::note(remark));
    cleaned.messages().iter().for_each(|line| output::note(line));
}
