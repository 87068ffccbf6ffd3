//! Loads, cleans and splits interactions.

use sottovoce_data::{
    CatalogRule, Cleaning, CleaningReport, DataError, DataSplit, Dataset, Description, GraphConfig, Interactions,
    LINE_ORDER, LoadOptions, LoadReport, Remedy, Split, SplitConfig, clean, describe, load, read_graph, split_with,
};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// A data set, its cleaning and splitting.
#[derive(Clone, Debug, Default)]
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
    /// Which items are in the catalog.
    pub catalog: CatalogRule,
    /// For random splits.
    pub seed: u64,
}

impl DataPlan {
    /// A data set as it is, split into training and test part.
    pub fn new(source: impl Into<String>, seed: u64) -> Self {
        Self { source: source.into(), seed, ..Self::default() }
    }
}

/// Data ready for training.
#[derive(Debug)]
pub struct Prepared {
    /// The data set's name.
    pub name: String,
    /// Train, validation and test.
    pub parts: DataSplit,
    /// How the data were cleaned.
    pub cleaning: Cleaning,
    /// The split that was used.
    pub split: Split,
    /// Which items are in the catalog.
    pub catalog: CatalogRule,
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
    let (mut dataset, cleaned) = load_clean(&plan.source, &plan.load, &plan.cleaning)?;
    let how = choose_split(&mut dataset, plan.split, plan.validation)?;
    let description = describe(&dataset);
    let DataPlan { validation, relevant, catalog, seed, .. } = *plan;
    let parts = split_with(&dataset.interactions, SplitConfig { test: how, validation, relevant, catalog, seed });
    Ok(Prepared {
        name: dataset.name,
        parts,
        cleaning: plan.cleaning.clone(),
        split: how,
        catalog,
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
    /// A split by time of data without times.
    #[error(
        "{source_name}: the split {split} goes by time, but no column holds a timestamp ({columns}). Split at random \
         (--split random:0.8, in an experiment file split = \"random:0.8\"), or name the column \
         (--columns user=..,item=..,time=COLUMN, in an experiment file columns = \"..\"; time={LINE_ORDER} if the lines \
         are in the order of time)"
    )]
    NoTimes {
        /// The data set.
        source_name: String,
        /// The split.
        split: Split,
        /// The columns that were read.
        columns: String,
    },
}

impl PrepareError {
    /// What a user can do about it, where an option does.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Data(error) => error.remedy(),
            _ => None,
        }
    }
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
    dataset.report.remarks.extend(notes.messages(&facts, &dataset.interactions.item));
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

/// The split of a data set: the one asked for, or else the default, with a remark where that is not by time.
///
/// # Errors
/// If a split by time is asked for, or a validation part by time, and nothing says what came first: the order of rows
/// in a file says nothing about it.
pub fn choose_split(
    dataset: &mut Dataset,
    asked: Option<Split>,
    validation: Option<Split>,
) -> Result<Split, PrepareError> {
    let ordered = dataset.is_ordered();
    let split = asked.unwrap_or(default_split(ordered));
    let by_time = [Some(split), validation].into_iter().flatten().find(|split| !matches!(split, Split::Random(_)));
    if let Some(split) = by_time.filter(|_| !ordered) {
        let columns = dataset.report.columns.as_ref().map_or_else(String::new, ToString::to_string);
        return Err(PrepareError::NoTimes { source_name: dataset.name.clone(), split, columns });
    }
    if asked.is_none() && !ordered {
        dataset.report.remarks.push(format!("no timestamps: split at random ({split}), not by time"));
    }
    Ok(split)
}

/// By time where it is known what came first, at random where it is not.
pub fn default_split(ordered: bool) -> Split {
    if ordered { Split::Temporal(0.8) } else { Split::Random(0.8) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_data::load_bytes;

    #[test]
    fn rejects_data_that_cleaning_leaves_empty() {
        let cleaning = Cleaning { min_interactions: Some(1_000_000), ..Cleaning::default() };
        let plan = DataPlan { cleaning, ..DataPlan::new("synth:town:users=60", 1) };
        let message = prepare(&plan).unwrap_err().to_string();
        assert!(message.contains("nothing is left after cleaning"), "{message}");
    }

    /// The order of rows is no order in time, unless the format or the user says so.
    #[test]
    fn a_split_by_time_needs_times_or_an_order() {
        let text = b"user,item\n1,a\n1,b\n1,c\n1,d\n1,e\n";
        let load = |options: &str| {
            let columns = (!options.is_empty()).then(|| options.parse().unwrap());
            load_bytes("visits", &[("visits.csv", text)], &LoadOptions { columns, ..LoadOptions::default() }).unwrap()
        };
        let mut bare = load("");
        for (split, validation) in [("temporal:0.8", None), ("last", None), ("random:0.5", Some("last"))] {
            let parse = |split: &str| split.parse::<Split>().unwrap();
            let error = choose_split(&mut bare, Some(parse(split)), validation.map(parse)).unwrap_err().to_string();
            for part in ["no column holds a timestamp", "user = user, item = item", "--split random:0.8", "--columns"] {
                assert!(error.contains(part), "{error}");
            }
        }
        assert!(bare.report.remarks.is_empty());
        assert_eq!(choose_split(&mut bare, None, None).unwrap(), Split::Random(0.8));
        assert_eq!(bare.report.remarks, ["no timestamps: split at random (random:0.8), not by time"]);
        let mut ordered = load("user=user,item=item,time=line-order");
        assert_eq!(choose_split(&mut ordered, None, Some(Split::Last)).unwrap(), Split::Temporal(0.8));
        let lines = b"1 5 7 8 9 3\n2 6 4 8\n3 1 2\n";
        let mut sequences = load_bytes("sequences", &[("sequences.txt", lines)], &LoadOptions::default()).unwrap();
        assert_eq!(choose_split(&mut sequences, Some(Split::Last), None).unwrap(), Split::Last);
    }
}
