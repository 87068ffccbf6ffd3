//! Loads, cleans and splits interactions.

use sottovoce_data::{
    Cleaning, CleaningReport, DataError, DataSplit, Dataset, Description, GraphConfig, Interactions, LoadOptions,
    LoadReport, Split, SplitConfig, clean, describe, load, read_graph, split_with,
};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// A data set, its cleaning and splitting.
#[derive(Clone, Debug)]
pub struct DataPlan {
    /// A file, a folder, a bare name or `synth:...`.
    pub source: String,
    /// How it is read.
    pub load: LoadOptions,
    /// Which interactions are kept.
    pub cleaning: Cleaning,
    /// How histories are divided; `None` chooses by whether there are timestamps.
    pub split: Option<Split>,
    /// How a validation part is taken off the training part.
    pub validation: Option<Split>,
    /// Held-out interactions rated below it do not count.
    pub relevant: Option<f32>,
    /// For random splits.
    pub seed: u64,
}

impl DataPlan {
    /// A data set as it is, split into training and test part.
    pub fn new(source: impl Into<String>, seed: u64) -> Self {
        Self {
            source: source.into(),
            load: LoadOptions::default(),
            cleaning: Cleaning::default(),
            split: None,
            validation: None,
            relevant: None,
            seed,
        }
    }
}

/// Data ready for training.
#[derive(Debug)]
pub struct Prepared {
    /// The data set's name.
    pub name: String,
    /// Train, validation and test.
    pub parts: DataSplit,
    /// The split that was used.
    pub split: Split,
    /// The cleaned data, described; its fingerprint is in there.
    pub description: Description,
    /// Warnings of the reader.
    pub notes: LoadReport,
    /// What cleaning left out.
    pub cleaned: CleaningReport,
    /// Wall-clock seconds that loading, cleaning and splitting took.
    pub seconds: f64,
}

/// Loads, cleans and splits.
///
/// # Errors
/// If the data cannot be read, or nothing is left of it.
pub fn prepare(plan: &DataPlan) -> Result<Prepared, PrepareError> {
    let started = Instant::now();
    let (dataset, cleaned) = load_clean(&plan.source, &plan.load, &plan.cleaning)?;
    let description = describe(&dataset);
    let how = plan.split.unwrap_or(default_split(!dataset.interactions.time.is_empty()));
    let DataPlan { validation, relevant, seed, .. } = *plan;
    let parts = split_with(&dataset.interactions, SplitConfig { test: how, validation, relevant, seed });
    Ok(Prepared {
        name: dataset.name,
        parts,
        split: how,
        description,
        notes: dataset.report,
        cleaned,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Why there is no data to train on.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Cleaning left nothing.
    #[error("{source_name}: nothing is left after cleaning: {}", lines.join("; "))]
    NothingLeft {
        /// The data set.
        source_name: String,
        /// What was left out, and why.
        lines: Vec<String>,
    },
}

/// Loads and cleans, and reads the features of the remaining items from the knowledge graph, if one is named.
///
/// # Errors
/// If the data or the graph cannot be read, or nothing is left of the data.
pub fn load_clean(
    source: &str,
    options: &LoadOptions,
    cleaning: &Cleaning,
) -> Result<(Dataset, CleaningReport), PrepareError> {
    let mut dataset = load(source, options)?;
    let first = options.graph.as_ref().filter(|plan| plan.first);
    if let Some(plan) = first {
        add_features(&mut dataset, plan, options)?;
        dataset.interactions = only_with_features(dataset.interactions);
    }
    let (cleaned, notes) = clean(dataset.interactions, cleaning);
    dataset.interactions = cleaned;
    if dataset.interactions.is_empty() {
        return Err(PrepareError::NothingLeft { source_name: dataset.name, lines: notes.messages() });
    }
    match (&options.graph, first) {
        (Some(plan), None) => add_features(&mut dataset, plan, options)?,
        (_, Some(_)) => {
            let facts = &mut dataset.interactions.catalog.facts;
            *facts = facts.take().map(|facts| Arc::new(facts.without_unused_features()));
        }
        (None, None) => (),
    }
    Ok((dataset, notes))
}

/// Adds the features of a knowledge graph to the catalog.
fn add_features(dataset: &mut Dataset, plan: &GraphConfig, options: &LoadOptions) -> Result<(), DataError> {
    let catalog = &dataset.interactions.catalog;
    let (facts, notes) = read_graph(plan, &dataset.name, catalog, options)?;
    dataset.report.remarks.extend(notes.messages(&facts));
    dataset.interactions.catalog.facts = Some(Arc::new(facts));
    Ok(())
}

/// The interactions with items that have features.
fn only_with_features(all: Interactions) -> Interactions {
    let Some(facts) = all.catalog.facts.clone() else { return all };
    let has_features = |row: &u32| !facts.of(all.item[*row as usize] as usize).is_empty();
    let rows: Vec<u32> = (0..all.len() as u32).filter(has_features).collect();
    all.select(&rows)
}

/// By time where there are timestamps, at random where there are none.
pub fn default_split(timestamps: bool) -> Split {
    if timestamps { Split::Temporal(0.8) } else { Split::Random(0.8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_data_that_cleaning_leaves_empty() {
        let cleaning = Cleaning { min_interactions: Some(1_000_000), ..Cleaning::default() };
        let plan = DataPlan { cleaning, ..DataPlan::new("synth:town:users=60", 1) };
        let message = prepare(&plan).unwrap_err().to_string();
        assert!(message.contains("nothing is left after cleaning"), "{message}");
    }
}
