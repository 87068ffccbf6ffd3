//! The shared model's numbers: named tables of one shape for everybody.

use crate::error::ModelError;
use crate::{FederationId, ModelVersion, limits};
use std::collections::BTreeSet;

/// What a table's rows stand for, which decides what a disclosure policy can say about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Keyed {
    /// A dense tensor: rows mean nothing by themselves; goes whole or not at all.
    Dense = 0,
    /// One row an item of the catalog. All such tables share one decision per item and round.
    Items = 1,
    /// One row something else a person's history may touch: a feature, a category.
    Others = 2,
}

/// Name and shape of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Name, unique in its layout.
    pub name: String,
    /// Number of rows, at least 1.
    pub rows: u32,
    /// Values in a row, at least 1.
    pub cols: u32,
    /// What a row stands for.
    pub keyed: Keyed,
}

impl Shape {
    /// A shape; checked when it becomes part of a [`Layout`].
    pub fn new(name: &str, rows: u32, cols: u32, keyed: Keyed) -> Self {
        Self { name: name.to_owned(), rows, cols, keyed }
    }

    /// Number of values.
    pub fn values(&self) -> usize {
        self.rows as usize * self.cols as usize
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let within = |field, found: u64, most| {
            let wrong = || ModelError::Limit(self.name.clone(), field, found, most);
            if (1..=most).contains(&found) { Ok(()) } else { Err(wrong()) }
        };
        within("the length of the name", self.name.len() as u64, limits::NAME_BYTES)?;
        within("rows", self.rows.into(), limits::ROWS)?;
        within("cols", self.cols.into(), limits::COLS)?;
        within("rows times cols", u64::from(self.rows) * u64::from(self.cols), limits::MESSAGE_BYTES)
    }
}

/// Names and shapes of a model's tables: what both sides must agree on before they exchange rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    shapes: Vec<Shape>,
    fingerprint: u32,
}

impl Layout {
    /// Checks limits and that names differ.
    ///
    /// # Errors
    /// Names the first table that does not fit.
    pub fn new(shapes: Vec<Shape>) -> Result<Self, ModelError> {
        if shapes.len() as u64 > limits::TABLES {
            let (table, found) = (String::new(), shapes.len() as u64);
            return Err(ModelError::Limit(table, "tables", found, limits::TABLES));
        }
        let mut names = BTreeSet::new();
        for shape in &shapes {
            shape.check()?;
            if !names.insert(&shape.name) {
                return Err(ModelError::Twice(shape.name.clone()));
            }
        }
        let fingerprint = fingerprint(&shapes);
        Ok(Self { shapes, fingerprint })
    }

    /// The shapes, in the order in which updates number the tables.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// CRC-32 of the layout as the wire format writes it: updates carry it instead of names and shapes.
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }
}

fn fingerprint(shapes: &[Shape]) -> u32 {
    let mut bytes = Vec::new();
    for shape in shapes {
        crate::codec::write_shape(shape, &mut bytes);
    }
    crc32fast::hash(&bytes)
}

/// One table with its values, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    shape: Shape,
    values: Vec<f32>,
}

impl Table {
    /// From values in row order.
    ///
    /// # Errors
    /// If the shape is past its limits, or the values are not rows times cols or not finite.
    pub fn new(shape: Shape, values: Vec<f32>) -> Result<Self, ModelError> {
        shape.check()?;
        if values.len() != shape.values() {
            let (found, rows, cols) = (values.len(), shape.rows, shape.cols);
            return Err(ModelError::Values(shape.name, found, rows, cols));
        }
        if !sottovoce_core::math::all_finite(&values) {
            return Err(ModelError::NotFinite(shape.name));
        }
        Ok(Self { shape, values })
    }

    /// All zero.
    ///
    /// # Errors
    /// If the shape is past its limits.
    pub fn zeros(shape: Shape) -> Result<Self, ModelError> {
        shape.check()?;
        let values = vec![0.0; shape.values()];
        Ok(Self { shape, values })
    }

    /// Name and shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, to be changed; their number stays.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        let cols = self.shape.cols as usize;
        &self.values[row * cols..(row + 1) * cols]
    }

    /// One row, to be changed.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let cols = self.shape.cols as usize;
        &mut self.values[row * cols..(row + 1) * cols]
    }
}

/// All tables of a shared model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    tables: Vec<Table>,
}

impl Parameters {
    /// From tables with different names.
    ///
    /// # Errors
    /// If there are too many tables or two of one name.
    pub fn new(tables: Vec<Table>) -> Result<Self, ModelError> {
        Layout::new(tables.iter().map(|table| table.shape.clone()).collect())?;
        Ok(Self { tables })
    }

    /// All zero, of this layout.
    pub fn zeros(layout: &Layout) -> Self {
        let zeros = |shape: &Shape| Table { shape: shape.clone(), values: vec![0.0; shape.values()] };
        Self { tables: layout.shapes.iter().map(zeros).collect() }
    }

    /// Names and shapes.
    pub fn layout(&self) -> Layout {
        let shapes: Vec<_> = self.tables.iter().map(|table| table.shape.clone()).collect();
        let fingerprint = fingerprint(&shapes);
        Layout { shapes, fingerprint }
    }

    /// Whether these are tables of this layout.
    ///
    /// # Errors
    /// With both fingerprints if not.
    pub fn check(&self, layout: &Layout) -> Result<(), ModelError> {
        if self.tables.iter().map(Table::shape).eq(&layout.shapes) {
            return Ok(());
        }
        Err(ModelError::Layout(self.layout().fingerprint, layout.fingerprint))
    }

    /// The tables, in layout order.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The tables, to change their values.
    pub fn tables_mut(&mut self) -> &mut [Table] {
        &mut self.tables
    }

    /// Number of values in all tables.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.values.len()).sum()
    }

    /// Whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// CRC-32 of all values as little-endian f32, table after table: two sides that hold the same bits agree on it.
    pub fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        self.le_bytes(|bytes| hasher.update(bytes));
        hasher.finalize()
    }

    /// Hands out all values as little-endian f32, table after table: what digests of the model are of.
    pub fn le_bytes(&self, mut take: impl FnMut(&[u8])) {
        self.tables.iter().for_each(|table| crate::values::as_le_bytes(&table.values, &mut take));
    }
}

/// A version of a federation's shared model, as server and devices hold it.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedModel {
    /// Whose model.
    pub federation: FederationId,
    /// Which state of it.
    pub version: ModelVersion,
    /// Its numbers.
    pub parameters: Parameters,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_reject_wrong_shapes_and_values() {
        let shape = || Shape::new("q", 2, 3, Keyed::Items);
        let wrong = Table::new(shape(), vec![0.0; 5]).unwrap_err();
        assert_eq!(wrong.to_string(), "table \"q\": 5 values for 2 rows of 3");
        let wrong = Table::new(shape(), vec![0.0, 1.0, f32::NAN, 0.0, 0.0, 0.0]).unwrap_err();
        assert_eq!(wrong, ModelError::NotFinite("q".into()));
        assert_eq!(Layout::new(vec![shape(), shape()]), Err(ModelError::Twice("q".into())));
        let wrong = Layout::new(vec![Shape::new("q", 0, 3, Keyed::Items)]).unwrap_err();
        assert_eq!(wrong.to_string(), format!("table \"q\": rows is 0, expected 1 to {}", limits::ROWS));
        assert!(Table::zeros(Shape::new("big", 1 << 28, 1 << 22, Keyed::Dense)).is_err());
    }

    #[test]
    fn fingerprint_depends_on_names_shapes_and_keys() {
        let of =
            |name, rows, cols, keyed| Layout::new(vec![Shape::new(name, rows, cols, keyed)]).unwrap().fingerprint();
        let first = of("q", 2, 3, Keyed::Items);
        for other in [
            of("p", 2, 3, Keyed::Items),
            of("q", 3, 2, Keyed::Items),
            of("q", 2, 4, Keyed::Items),
            of("q", 2, 3, Keyed::Dense),
        ] {
            assert_ne!(first, other);
        }
    }
}
