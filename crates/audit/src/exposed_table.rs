//! What the rows of an update reveal.

use crate::AuditError;
use sottovoce_core::{Facts, math};
use sottovoce_models::federated::{self, Exposure, RowMeaning};
use sottovoce_protocol::{Parameters, Rows, Table, Update};
use std::sync::Arc;

/// The tables of a model whose updated rows reveal something about the user.
#[derive(Clone, Debug)]
pub struct ExposedTables(Vec<ExposedTable>);

impl ExposedTables {
    /// Of a federated model by its name; `facts` are the catalog's.
    ///
    /// # Errors
    /// If it is not a federated model, exposes nothing, or needs facts that are not there.
    pub fn of(model: &str, facts: Option<&Arc<Facts>>) -> Result<Self, AuditError> {
        let unknown = || AuditError::Model(model.to_owned());
        let exposures = federated::find(model).map_err(|_| unknown())?.exposure();
        let no_facts = || AuditError::NoFacts(model.to_owned());
        if exposures.iter().all(|exposure| exposure.rows == RowMeaning::Clusters) && !exposures.is_empty() {
            return Err(AuditError::Clusters(model.to_owned()));
        }
        let exposures: Vec<Exposure> =
            exposures.into_iter().filter(|exposure| exposure.rows != RowMeaning::Clusters).collect();
        let table = |exposure: &Exposure| {
            let facts = match exposure.rows {
                RowMeaning::Items | RowMeaning::Clusters => None,
                RowMeaning::Features => Some(facts.ok_or_else(no_facts)?.clone()),
            };
            Ok(ExposedTable { index: exposure.table, facts, bias: exposure.bias })
        };
        let tables = exposures.iter().map(table).collect::<Result<Vec<_>, AuditError>>()?;
        if tables.is_empty() { Err(unknown()) } else { Ok(Self(tables)) }
    }

    /// The tables, at least one.
    pub(crate) fn tables(&self) -> &[ExposedTable] {
        &self.0
    }

    /// The first table, whose vectors are the items'.
    pub(crate) fn first(&self) -> &ExposedTable {
        &self.0[0]
    }

    /// Whether rows are features of items, not items.
    pub fn are_features(&self) -> bool {
        self.first().is_of_features()
    }

    /// Number of rows of the first table.
    pub fn rows(&self, shared: &Parameters) -> usize {
        self.first().height(shared)
    }
}

/// One such table, and what its rows are.
#[derive(Clone, Debug)]
pub(crate) struct ExposedTable {
    /// Index in the layout.
    pub(crate) index: usize,
    /// Where rows are features: which items have them.
    facts: Option<Arc<Facts>>,
    /// Whether the last column is a bias, whose change is positive for the user's items.
    pub(crate) bias: bool,
}

impl ExposedTable {
    pub(crate) fn is_of_features(&self) -> bool {
        self.facts.is_some()
    }

    /// This table of a shared model.
    pub(crate) fn of<'a>(&self, shared: &'a Parameters) -> Option<&'a Table> {
        shared.tables().get(self.index)
    }

    /// This table of an update.
    pub(crate) fn rows<'a>(&self, update: &'a Update) -> Option<&'a Rows> {
        update.tables().get(self.index)
    }

    /// A row without its bias.
    pub(crate) fn vector<'a>(&self, row: &'a [f32]) -> &'a [f32] {
        &row[..row.len() - usize::from(self.bias)]
    }

    /// Number of rows of the shared model's table.
    pub(crate) fn height(&self, shared: &Parameters) -> usize {
        self.of(shared).map_or(0, |table| table.shape().rows as usize)
    }

    /// Turns values of rows into values of items: the same, or the mean over the item's features, weighted by rarity.
    pub(crate) fn to_items(&self, rows: Vec<f32>) -> Vec<f32> {
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

    /// The shared model's vector of each item: its row, or the mean of its features' rows.
    pub(crate) fn item_vectors(&self, shared: &Parameters) -> Vec<Vec<f32>> {
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

/// Inverse document frequency of a feature.
fn rarity(facts: &Facts, feature: usize) -> f32 {
    let items = facts.items_with(feature).len().max(1);
    math::ln(1.0 + facts.items() as f64 / items as f64) as f32
}
