//! Shared models as tensors of a model file, and back.

use sottovoce_models::{ModelError, Tensor, stored};
use sottovoce_protocol::{Layout, Parameters};
use std::ops::Range;

/// Some columns of a shared table under a name of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    name: &'static str,
    table: usize,
    columns: Range<usize>,
    /// A single column stored as one value a row, instead of as a matrix with one column.
    flat: bool,
}

impl Part {
    /// Neighbouring columns, stored as a matrix.
    pub(crate) fn matrix(name: &'static str, table: usize, columns: Range<usize>) -> Self {
        Self { name, table, columns, flat: false }
    }

    /// One column, stored as a vector.
    pub(crate) fn vector(name: &'static str, table: usize, column: usize) -> Self {
        Self { name, table, columns: column..column + 1, flat: true }
    }

    fn shape(&self, rows: usize) -> Vec<usize> {
        if self.flat { vec![rows] } else { vec![rows, self.columns.len()] }
    }

    /// Takes these columns out; of a model of an empty catalog, which has no tables, nothing.
    pub(crate) fn store(&self, shared: &Parameters) -> Tensor {
        let Some(table) = shared.tables().get(self.table) else {
            return stored::floats(self.name, self.shape(0), Vec::new());
        };
        let rows = table.values().chunks_exact(table.shape().cols as usize);
        let values = rows.flat_map(|row| &row[self.columns.clone()]).copied().collect();
        stored::floats(self.name, self.shape(table.shape().rows as usize), values)
    }

    fn restore(&self, tensors: &[Tensor], into: &mut Parameters) -> Result<(), ModelError> {
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

/// A shared model of this layout, put together from all its parts.
pub(crate) fn restore(
    parts: &[Part],
    tensors: &[Tensor],
    layout: Option<&Layout>,
) -> Result<Parameters, ModelError> {
    let mut shared = layout.map_or_else(Parameters::default, Parameters::zeros);
    parts.iter().try_for_each(|part| part.restore(tensors, &mut shared))?;
    Ok(shared)
}
