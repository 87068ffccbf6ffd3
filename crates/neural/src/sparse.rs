//! Inputs that are mostly zero, and gradients of a few rows of a table.

use crate::error::{Result, expect_len, size};
use crate::kernels::add_scaled;
use crate::{NeuralError, Real};

/// Rows with few values that are not zero: which interests a person has, which items a history holds.
///
/// A column may come twice in a row; its values add up.
#[derive(Clone, Copy, Debug)]
pub struct SparseRows<'a, R> {
    /// Where each row starts in `columns`, and where the last one ends; none for a single row.
    starts: Option<&'a [usize]>,
    columns: &'a [u32],
    /// None: all 1.
    values: Option<&'a [R]>,
    width: usize,
}

impl<'a, R: Real> SparseRows<'a, R> {
    /// A single row of this width: 1 in these columns, or these values.
    ///
    /// # Errors
    /// If a column is outside the row, or there is not a value for each.
    pub fn one(columns: &'a [u32], values: Option<&'a [R]>, width: usize) -> Result<Self> {
        size("width of sparse rows", &[width])?;
        if let Some(&column) = columns.iter().find(|&&column| column as usize >= width) {
            return Err(NeuralError::Index("column of a sparse row", column as usize, width));
        }
        if let Some(values) = values {
            expect_len("values of sparse rows", values.len(), columns.len())?;
        }
        Ok(Self { starts: None, columns, values, width })
    }

    /// Row `r` is `starts[r]..starts[r + 1]` of the columns.
    ///
    /// # Errors
    /// As [`one`](Self::one), or if starts do not rise from 0 to the number of columns.
    pub fn new(starts: &'a [usize], columns: &'a [u32], values: Option<&'a [R]>, width: usize) -> Result<Self> {
        let rows = Self::one(columns, values, width)?;
        let whole = starts.first() == Some(&0) && starts.last() == Some(&columns.len());
        if starts.len() < 2 {
            return Err(NeuralError::Empty("starts of sparse rows"));
        }
        if !(whole && starts.is_sorted()) {
            return Err(crate::error::setting("starts of sparse rows do not rise from 0 to the number of columns"));
        }
        Ok(Self { starts: Some(starts), ..rows })
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.starts.map_or(1, |starts| starts.len() - 1)
    }

    /// How wide they are.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Columns and values of a row; nothing of a row that is not there.
    #[inline]
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, R)> + Clone + use<'a, R> {
        let range = match self.starts {
            None if row == 0 => 0..self.columns.len(),
            Some(starts) if row + 1 < starts.len() => starts[row]..starts[row + 1],
            _ => 0..0,
        };
        let values = self.values.map(|values| &values[range.clone()]);
        let columns = self.columns[range].iter().enumerate();
        columns.map(move |(n, &column)| (column as usize, values.map_or(R::ONE, |values| values[n])))
    }
}

/// The gradient of a table of which a step touches few rows. Clearing and stepping cost what was touched, not what there is.
#[derive(Clone, Debug)]
pub struct RowGradients<R> {
    width: usize,
    /// Touched rows, in the order of their first touch.
    rows: Vec<u32>,
    values: Vec<R>,
    /// For each row of the table, one more than its index in `rows`; 0 if untouched.
    slots: Vec<u32>,
}

impl<R: Real> RowGradients<R> {
    /// For a table of so many rows of this width, with room for so many touched ones; touching more allocates.
    ///
    /// # Errors
    /// If a size is 0 or too large.
    pub fn new(rows: usize, width: usize, room: usize) -> Result<Self> {
        size("table", &[rows, width])?;
        if u32::try_from(rows).is_err() {
            return Err(NeuralError::TooLarge("rows of a table"));
        }
        let room = room.min(rows);
        let values = Vec::with_capacity(room * width);
        Ok(Self { width, rows: Vec::with_capacity(room), values, slots: vec![0; rows] })
    }

    /// Width of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of the table.
    pub fn table_rows(&self) -> usize {
        self.slots.len()
    }

    /// Adds `factor * gradient` to a row's gradient.
    ///
    /// # Errors
    /// If the row is not in the table, or the gradient is not as wide.
    #[inline]
    pub fn add(&mut self, row: usize, factor: R, gradient: &[R]) -> Result<()> {
        expect_len("gradient of a row", gradient.len(), self.width)?;
        let below = self.slots.len();
        let slot = self.slots.get_mut(row).ok_or(NeuralError::Index("row of a table", row, below))?;
        if *slot == 0 {
            self.rows.push(row as u32);
            self.values.resize(self.values.len() + self.width, R::ZERO);
            *slot = self.rows.len() as u32;
        }
        let start = (*slot as usize - 1) * self.width;
        add_scaled(&mut self.values[start..start + self.width], [factor], [gradient]);
        Ok(())
    }

    /// The touched rows and their gradients, in the order of their first touch.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[R])> {
        self.rows.iter().map(|&row| row as usize).zip(self.values.chunks_exact(self.width))
    }

    /// Whether no row was touched.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets all gradients.
    pub fn clear(&mut self) {
        for &row in &self.rows {
            self.slots[row as usize] = 0;
        }
        self.rows.clear();
        self.values.clear();
    }

    /// Adds all rows to a whole table's gradient.
    ///
    /// # Errors
    /// If the table has another size.
    pub fn add_to(&self, table: &mut [R]) -> Result<()> {
        expect_len("table", table.len(), self.slots.len() * self.width)?;
        for (row, gradient) in self.iter() {
            add_scaled(&mut table[row * self.width..][..self.width], [R::ONE], [gradient]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_yield_columns_and_values() {
        let rows = SparseRows::new(&[0, 2, 2, 3], &[4, 1, 0], Some(&[0.5f32, 2.0, 3.0]), 5).unwrap();
        let row = |n| rows.row(n).collect::<Vec<_>>();
        assert_eq!((rows.rows(), row(0), row(1)), (3, vec![(4, 0.5), (1, 2.0)], vec![]));
        assert_eq!((row(2), row(3)), (vec![(0, 3.0)], vec![]));
        let one = SparseRows::<f64>::one(&[3], None, 5).unwrap();
        assert_eq!((one.rows(), one.row(0).collect::<Vec<_>>(), one.row(1).count()), (1, vec![(3, 1.0)], 0));
    }

    #[test]
    fn rejects_inconsistent_rows() {
        let new = |starts: &[usize], columns: &[u32]| SparseRows::<f32>::new(starts, columns, None, 5).is_err();
        assert!(new(&[0, 1], &[5]) && new(&[0, 1], &[0, 1]) && new(&[1, 2], &[0, 1]) && new(&[], &[]));
        assert!(new(&[0, 2, 1, 2], &[0, 1]) && new(&[0], &[]));
        assert!(SparseRows::one(&[1], Some(&[1.0f32, 2.0]), 5).is_err());
        assert!(SparseRows::<f32>::one(&[], None, 0).is_err());
    }

    #[test]
    fn row_gradients_accumulate_and_clear() {
        let mut rows = RowGradients::new(6, 2, 2).unwrap();
        for (row, factor) in [(4, 1.0), (1, 2.0), (4, -3.0)] {
            rows.add(row, factor, &[1.0f64, 10.0]).unwrap();
        }
        assert_eq!(rows.iter().collect::<Vec<_>>(), [(4, &[-2.0, -20.0][..]), (1, &[2.0, 20.0][..])]);
        let mut table = [1.0; 12];
        rows.add_to(&mut table).unwrap();
        assert_eq!(table[8..10], [-1.0, -19.0]);
        rows.clear();
        assert!(rows.is_empty() && rows.add_to(&mut table[1..]).is_err());
        rows.add(4, 1.0, &[5.0, 6.0]).unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [(4, &[5.0, 6.0][..])]);
        assert!(rows.add(6, 1.0, &[0.0; 2]).is_err() && rows.add(0, 1.0, &[0.0]).is_err());
        assert!(RowGradients::<f32>::new(0, 2, 0).is_err() && RowGradients::<f32>::new(usize::MAX, 2, 0).is_err());
    }
}
