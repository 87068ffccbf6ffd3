//! The server's half of a federated model.

use crate::{ModelError as Error, Tensor, stored};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape};
use std::ops::Range;

/// What runs on the server: which tables the shared model has, and how they are initialised.
pub trait ServerModel: Send + Sync + 'static {
    /// Names and shapes of the tables for a catalog of this size.
    ///
    /// # Errors
    /// If the catalog is empty or too large for the wire format.
    fn layout(&self, items: usize) -> Result<Layout, ModelError>;

    /// The shared model before the first round.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError>;

    /// How the shared model is stored in model files: all columns of all tables, by names other than `users`.
    fn tensors(&self) -> Vec<TensorSlice>;
}

/// The shape of a table with a row for each item. A catalog past the wire format's limit is refused as such by
/// [`Layout::new`], also where it is past 32 bits.
pub fn item_rows(name: &str, items: usize, cols: usize) -> Shape {
    Shape::new(name, u32::try_from(items).unwrap_or(u32::MAX), cols as u32, Keyed::Items)
}

/// Some columns of a shared table, stored under a name of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSlice {
    name: &'static str,
    table: usize,
    columns: Range<usize>,
    /// Stored as one value a row, instead of as a matrix with one column.
    flat: bool,
}

impl TensorSlice {
    /// Neighbouring columns, stored as a matrix.
    pub fn matrix(name: &'static str, table: usize, columns: Range<usize>) -> Self {
        Self { name, table, columns, flat: false }
    }

    /// One column, stored as a vector.
    pub fn vector(name: &'static str, table: usize, column: usize) -> Self {
        Self { name, table, columns: column..column + 1, flat: true }
    }

    fn shape(&self, rows: usize) -> Vec<usize> {
        if self.flat { vec![rows] } else { vec![rows, self.columns.len()] }
    }

    /// Copies these columns out of a shared model. The model of an empty catalog has no tables.
    pub fn store(&self, shared: &Parameters) -> Tensor {
        let Some(table) = shared.tables().get(self.table) else {
            return stored::floats(self.name, self.shape(0), Vec::new());
        };
        let rows = table.values().chunks_exact(table.shape().cols as usize);
        let values = rows.flat_map(|row| &row[self.columns.clone()]).copied().collect();
        stored::floats(self.name, self.shape(table.shape().rows as usize), values)
    }

    /// Copies these columns back.
    ///
    /// # Errors
    /// If the tensor is missing or has another shape.
    pub fn restore(&self, tensors: &[Tensor], into: &mut Parameters) -> Result<(), Error> {
        let Some(table) = into.tables_mut().get_mut(self.table) else {
            return stored::take_floats(tensors, self.name, &self.shape(0)).map(|_| ());
        };
        let (rows, cols) = (table.shape().rows as usize, table.shape().cols as usize);
        let values = stored::take_floats(tensors, self.name, &self.shape(rows))?;
        let rows = table.values_mut().chunks_exact_mut(cols).zip(values.chunks_exact(self.columns.len()));
        rows.for_each(|(row, values)| row[self.columns.clone()].copy_from_slice(values));
        Ok(())
    }
}
