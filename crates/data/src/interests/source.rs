//! Where clicks come from.

use super::clicks::{ClickRules, Clicks};
use super::data_set;
use super::mind::mind_taxonomy;
use super::readers::{read_clicks, town_clicks};
use super::synthetic::{self, SyntheticClicks};
use super::taxonomy::Taxonomy;
use crate::error::{DataError, Result};
use crate::interactions::Dataset;
use crate::town::{self, Town, TownError};
use crate::{LoadOptions, find_source, load};
use std::path::{Path, PathBuf};

/// Where clicks come from: a synthetic population, a data set or a click log.
#[derive(Clone, Debug)]
pub enum ClickSource {
    /// People of one of two periods, by `synth:clicks[:users=N][:period=1|2][:seed=S]`.
    Synthetic(SyntheticClicks),
    /// The page views of a synthetic town.
    Town(Box<Town>),
    /// A data set of interactions, by `clicks:DATA`: visits to pages that are about their items' categories.
    Interactions(Box<Dataset>),
    /// A click log, or a folder of Microsoft News (MIND).
    Log(PathBuf),
}

impl ClickSource {
    /// Whether this names clicks that bring their own taxonomy: a synthetic population, or a data set as clicks.
    pub fn is_named(name: &str) -> bool {
        name == synthetic::PREFIX
            || name.starts_with(&format!("{}:", synthetic::PREFIX))
            || name.starts_with(data_set::PREFIX)
    }

    /// What a name or a path means; names are looked up under `data_dir`.
    ///
    /// # Errors
    /// If there is nothing there, or a parameter is wrong.
    pub fn find(name: &str, data_dir: Option<&Path>) -> Result<Self> {
        if let Some(set) = name.strip_prefix(data_set::PREFIX) {
            let options = LoadOptions { data_dir: data_dir.map(Path::to_owned), ..LoadOptions::default() };
            return Ok(Self::Interactions(Box::new(load(set, &options)?)));
        }
        if Self::is_named(name) {
            return Ok(Self::Synthetic(name.parse()?));
        }
        if name.starts_with(town::PREFIX) {
            let wrong = |error: TownError| {
                DataError::Synthetic(name.trim_start_matches("synth:").to_owned(), error.to_string())
            };
            let town = name.parse().and_then(|spec| Town::build(&spec)).map_err(wrong)?;
            return Ok(Self::Town(Box::new(town)));
        }
        Ok(Self::Log(find_source(name, data_dir)?))
    }

    /// The taxonomy that goes with it; `None` for a log that has none of its own.
    ///
    /// # Errors
    /// If MIND's folder cannot be read.
    pub fn taxonomy(&self) -> Result<Option<Taxonomy>> {
        Ok(match self {
            Self::Synthetic(_) => Some(synthetic::taxonomy()),
            Self::Town(_) => Some(Taxonomy::town()),
            Self::Interactions(set) => Some(data_set::taxonomy(set)?),
            Self::Log(path) if path.is_dir() => Some(mind_taxonomy(path)?),
            Self::Log(_) => None,
        })
    }

    /// The clicks, as far as the rules leave them.
    ///
    /// # Errors
    /// If they cannot be read, or none are left.
    pub fn read(&self, rules: &ClickRules) -> Result<Clicks> {
        match self {
            Self::Synthetic(spec) => synthetic::clicks(spec, rules),
            Self::Town(town) => town_clicks(town, rules),
            Self::Interactions(set) => data_set::clicks(set, rules),
            Self::Log(path) => read_clicks(path, rules),
        }
    }
}
