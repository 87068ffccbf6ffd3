//! People of a click log, as the arguments of several commands ask for them.

use crate::args::Common;
use anyhow::Result;
use sottovoce_data::interests::{ClickRules, ClickSource, Taxonomy};
use sottovoce_experiment::people::People;
use std::path::Path;

/// Whether a source is a click log: by its name, or because a taxonomy is given.
pub(crate) fn are_clicks(data: &str, taxonomy: Option<&str>) -> bool {
    taxonomy.is_some() || ClickSource::is_named(data)
}

/// Reads a click log; `own` stands for the taxonomy that comes with it.
pub(crate) fn read(data: &str, taxonomy: Option<&str>, common: &Common) -> Result<People> {
    let source = ClickSource::find(data, common.data_dir.as_deref())?;
    let taxonomy = match taxonomy {
        None | Some("own") => source.taxonomy()?,
        Some(file) => Some(Taxonomy::read(Path::new(file))?),
    };
    Ok(People::read(&source, data, taxonomy.map(ClickRules::new), common.seed)?)
}
