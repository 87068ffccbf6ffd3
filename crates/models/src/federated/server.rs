//! The server's half of a federated model.

use crate::{ModelError as Error, Tensor, stored};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};
use std::borrow::Cow;
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

/// The server's half of a model that shares a row of factors for each item, with the item's bias in the last column
/// where items have one: so an item's row goes or stays as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ItemFactors<const BIAS: bool> {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random factors; biases begin at 0.
    pub init_deviation: f32,
}

impl<const BIAS: bool> ItemFactors<BIAS> {
    /// The table's name.
    pub const TABLE: &'static str = "items";

    fn shape(&self, items: usize) -> Shape {
        item_rows(Self::TABLE, items, self.factors + usize::from(BIAS))
    }
}

impl<const BIAS: bool> ServerModel for ItemFactors<BIAS> {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape(items)])
    }

    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape(items))?;
        for item in 0..items {
            rng.fill_normal(self.init_deviation, &mut table.row_mut(item)[..self.factors]);
        }
        Parameters::new(vec![table])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        let factors = TensorSlice::matrix("items", 0, 0..self.factors);
        let bias = BIAS.then(|| TensorSlice::vector("bias", 0, self.factors));
        [factors].into_iter().chain(bias).collect()
    }
}

/// Some columns of a shared table, stored under a name of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSlice {
    name: Cow<'static, str>,
    table: usize,
    columns: Range<usize>,
    /// Stored as one value a row, instead of as a matrix with one column.
    flat: bool,
}

impl TensorSlice {
    /// Neighbouring columns, stored as a matrix.
    pub fn matrix(name: impl Into<Cow<'static, str>>, table: usize, columns: Range<usize>) -> Self {
        Self { name: name.into(), table, columns, flat: false }
    }

    /// All columns, however many a catalog's table has, stored as a matrix.
    pub fn whole(name: impl Into<Cow<'static, str>>, table: usize) -> Self {
        Self::matrix(name, table, 0..usize::MAX)
    }

    /// One column, stored as a vector.
    pub fn vector(name: impl Into<Cow<'static, str>>, table: usize, column: usize) -> Self {
        Self { name: name.into(), table, columns: column..column + 1, flat: true }
    }

    fn columns(&self, cols: usize) -> Range<usize> {
        if self.columns.end == usize::MAX { 0..cols } else { self.columns.clone() }
    }

    fn shape(&self, rows: usize, cols: usize) -> Vec<usize> {
        if self.flat { vec![rows] } else { vec![rows, self.columns(cols).len()] }
    }

    /// Copies these columns out of a shared model. The model of an empty catalog has no tables.
    pub fn store(&self, shared: &Parameters) -> Tensor {
        let Some(table) = shared.tables().get(self.table) else {
            return stored::floats(&self.name, self.shape(0, 0), Vec::new());
        };
        let cols = table.shape().cols as usize;
        let rows = table.values().chunks_exact(cols);
        let values = rows.flat_map(|row| &row[self.columns(cols)]).copied().collect();
        stored::floats(&self.name, self.shape(table.shape().rows as usize, cols), values)
    }

    /// Copies these columns back.
    ///
    /// # Errors
    /// If the tensor is missing or has another shape.
    pub fn restore(&self, tensors: &[Tensor], into: &mut Parameters) -> Result<(), Error> {
        let Some(table) = into.tables_mut().get_mut(self.table) else {
            return stored::take_floats(tensors, &self.name, &self.shape(0, 0)).map(|_| ());
        };
        let (rows, cols) = (table.shape().rows as usize, table.shape().cols as usize);
        let values = stored::take_floats(tensors, &self.name, &self.shape(rows, cols))?;
        let columns = self.columns(cols);
        let rows = table.values_mut().chunks_exact_mut(cols).zip(values.chunks_exact(columns.len()));
        rows.for_each(|(row, values)| row[columns.clone()].copy_from_slice(values));
        Ok(())
    }

    /// Copies back the rows of a model of another catalog, of which each item's number is given; rows of other items
    /// stay as they are. Tables without a row for each item are copied whole.
    ///
    /// # Errors
    /// If the tensor is missing or has other columns, or fewer items than the numbers say.
    pub fn restore_items(&self, tensors: &[Tensor], items: &[Option<u32>], into: &mut Parameters) -> Result<(), Error> {
        let Some(table) = into.tables_mut().get_mut(self.table).filter(|table| table.shape().keyed == Keyed::Items)
        else {
            return self.restore(tensors, into);
        };
        let cols = table.shape().cols as usize;
        let (columns, earlier) =
            (self.columns(cols), items.iter().flatten().max().map_or(0, |&last| last as usize + 1));
        let rows = stored::length(tensors, &self.name)?.checked_div(columns.len()).unwrap_or(0).max(earlier);
        let values = stored::take_floats(tensors, &self.name, &self.shape(rows, cols))?;
        for (item, earlier) in items.iter().enumerate() {
            if let Some(earlier) = earlier {
                let from = &values[*earlier as usize * columns.len()..][..columns.len()];
                table.row_mut(item)[columns.clone()].copy_from_slice(from);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_an_earlier_catalog_come_back_to_their_items() {
        let server = ItemFactors::<true> { factors: 2, init_deviation: 0.1 };
        let [earlier, mut later] = [(3, 1), (4, 2)].map(|(n, seed)| server.init(n, &mut Rng::new(seed)).unwrap());
        let before = later.clone();
        let tensors: Vec<Tensor> = server.tensors().iter().map(|slice| slice.store(&earlier)).collect();
        let numbers = [Some(2), None, Some(0), None];
        server.tensors().iter().try_for_each(|slice| slice.restore_items(&tensors, &numbers, &mut later)).unwrap();
        let (row, old) = (|item| later.tables()[0].row(item), |item| earlier.tables()[0].row(item));
        assert_eq!((row(0), row(2)), (old(2), old(0)));
        assert!([1, 3].iter().all(|&item| row(item) == before.tables()[0].row(item)));
        let beyond = [Some(3), None, None, None];
        assert!(server.tensors()[0].restore_items(&tensors, &beyond, &mut later).is_err());
        let wider = ItemFactors::<true> { factors: 3, init_deviation: 0.1 };
        let mut other = wider.init(4, &mut Rng::new(1)).unwrap();
        assert!(wider.tensors()[0].restore_items(&tensors, &numbers, &mut other).is_err());
    }

    #[test]
    fn factors_begin_random_and_biases_at_zero() {
        let shared = ItemFactors::<true> { factors: 6, init_deviation: 0.1 };
        let start = shared.init(500, &mut Rng::new(1)).unwrap();
        assert!(start.check(&shared.layout(500).unwrap()).is_ok());
        let rows = || start.tables()[0].values().chunks_exact(7);
        assert!(rows().all(|row| row[6] == 0.0));
        let square: f32 = rows().flat_map(|row| &row[..6]).map(|value| value * value).sum();
        assert!((square / 3000.0 - 0.01).abs() < 0.001, "{square}");
        assert!(shared.init(0, &mut Rng::new(1)).is_err());
    }
}
