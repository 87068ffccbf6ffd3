//! Data as the arguments of several commands ask for it.

use crate::args::{Common, Preparing};
use crate::tell;
use anyhow::Result;
use sottovoce_experiment::trial::{self, DataPlan, Prepared};

/// Reads, cleans and splits, and says what was left out.
pub(crate) fn from_arguments(source: &str, how: &Preparing, common: &Common) -> Result<Prepared> {
    let Preparing { reading, graph, cleaning, split } = how;
    let plan = DataPlan {
        source: source.to_owned(),
        load: reading.with_graph(graph, common),
        cleaning: cleaning.cleaning(),
        split: split.split,
        validation: split.validation,
        relevant: split.relevant,
        seed: common.seed,
    };
    let data = trial::prepare(&plan)?;
    if !common.quiet {
        tell::about_reading(&data.notes);
        tell::about_cleaning(&data.cleaned);
    }
    Ok(data)
}
