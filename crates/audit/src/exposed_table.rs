//! What the rows of an update mean to a server that reads them.

use crate::AuditError;
use sottovoce_core::{Facts, math};
use sottovoce_models::federated::{self, Exposure, RowMeaning};
use sottovoce_protocol::{Parameters, Rows, Table, Update};
use std::sync::Arc;

/// All tables of a model whose rows say something about the person who sends them.
#[derive(Clone, Debug)]
pub struct ExposedTables(Vec<ExposedTable>);

impl ExposedTables {
    /// Of a model by its name; `facts` as its catalog has them.
    ///
    /// # Errors
    /// If it is not a federated model, exposes nothing, or needs facts that are not there.
    pub fn of(model: &str, facts: Option<&Arc<Facts>>) -> Result<Self, AuditError> {
        let unknown = || AuditError::Model { model: model.to_owned() };
        let exposures = federated::find(model).map_err(|_| unknown())?.exposure();
        let no_facts = || AuditError::NoFacts { model: model.to_owned() };
        let table = |exposure: &Exposure| {
            let facts = match exposure.rows {
                RowMeaning::Items => None,
                RowMeaning::Features => Some(facts.ok_or_else(no_facts)?.clone()),
            };
            Ok(ExposedTable { index: exposure.table, facts, bias: exposure.bias })
        };
        let tables = exposures.iter().map(table).collect::<Result<Vec<_>, AuditError>>()?;
        if tables.is_empty() { Err(unknown()) } else { Ok(Self(tables)) }
    }

    /// The tables, at least one.
    pub fn tables(&self) -> &[ExposedTable] {
        &self.0
    }

    /// The first table, whose vectors are the items'.
    pub fn first(&self) -> &ExposedTable {
        &self.0[0]
    }
}

/// One such table, and what its rows are.
#[derive(Clone, Debug)]
pub struct ExposedTable {
    /// Index in the layout.
    index: usize,
    /// Of rows that are features: which items have them.
    facts: Option<Arc<Facts>>,
    /// Whether the last column is a bias, whose change is positive for the person's items.
    bias: bool,
}

impl ExposedTable {
    /// Whether rows are features of items and not items.
    pub fn is_of_features(&self) -> bool {
        self.facts.is_some()
    }

    /// Whether rows end with a bias.
    pub fn has_bias(&self) -> bool {
        self.bias
    }

    /// This table of a shared model.
    pub fn of<'a>(&self, shared: &'a Parameters) -> Option<&'a Table> {
        shared.tables().get(self.index)
    }

    /// Its index in the layout.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The rows that are read.
    pub fn rows<'a>(&self, update: &'a Update) -> Option<&'a Rows> {
        update.tables().get(self.index)
    }

    /// The part of a row that is a vector.
    pub fn vector<'a>(&self, row: &'a [f32]) -> &'a [f32] {
        &row[..row.len() - usize::from(self.bias)]
    }

    /// Number of rows of the shared model that are read.
    pub fn height(&self, shared: &Parameters) -> usize {
        self.of(shared).map_or(0, |table| table.shape().rows as usize)
    }

    /// Turns a number a row into a number an item: itself, or the mean over the item's features, rare ones counting more.
    pub fn to_items(&self, rows: Vec<f32>) -> Vec<f32> {
        let Some(facts) = &self.facts else { return rows };
        let rarity: Vec<f32> = (0..facts.features()).map(|feature| rarity(facts, feature)).collect();
        let score = |item| {
            let features = facts.of(item).iter().map(|feature| feature as usize);
            let (sum, weight) = features.fold((0.0, 0.0), |(sum, weight), feature| {
                (sum + rarity[feature] * rows[feature], weight + rarity[feature])
            });
            if weight > 0.0 { sum / weight } else { 0.0 }
        };
        (0..facts.items()).map(score).collect()
    }

    /// The vector that the shared model has of each item: its row, or the mean of its features' rows.
    pub fn item_vectors(&self, shared: &Parameters) -> Vec<Vec<f32>> {
        let Some(table) = self.of(shared) else { return Vec::new() };
        let row = |row: usize| self.vector(table.row(row));
        let Some(facts) = &self.facts else {
            return (0..table.shape().rows as usize).map(|item| row(item).to_vec()).collect();
        };
        let width = table.shape().cols as usize - usize::from(self.bias);
        let mean = |item| {
            let features = facts.of(item);
            let mut sum = vec![0.0; width];
            for feature in features.iter() {
                math::add_scaled(&mut sum, 1.0 / features.len() as f32, row(feature as usize));
            }
            sum
        };
        (0..facts.items()).map(mean).collect()
    }
}

/// How telling it is to have a feature.
fn rarity(facts: &Facts, feature: usize) -> f32 {
    let holding = facts.items_with(feature).len().max(1);
    math::ln(1.0 + facts.items() as f64 / holding as f64) as f32
}
