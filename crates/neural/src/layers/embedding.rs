//! A table of vectors, looked up by index.
//!
//! ```text
//! y_b = E[i_b]        dE[i_b] += dy_b
//! ```

use crate::error::{Result, expect_len};
use crate::kernels::add;
use crate::{Init, Layout, NeuralError, Real, Role, RowGradients, Slot, Space};

/// One vector for each of many things.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    table: Slot,
    rows: usize,
    width: usize,
}

impl Embedding {
    /// Adds `name.table` (rows x width) to a layout.
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, rows: usize, width: usize, init: Init) -> Result<Self> {
        let table = layout.add(format!("{name}.table"), &[rows, width], Role::Weight, init)?;
        Ok(Self { table, rows, width })
    }

    /// Where the table is.
    pub fn table(&self) -> Slot {
        self.table
    }

    /// Values that a forward of so many indices takes from the arena.
    pub fn space(&self, indices: usize) -> usize {
        indices.saturating_mul(self.width)
    }

    /// The vectors of these indices, one after the other.
    ///
    /// # Errors
    /// If there are no indices, one is not in the table, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        indices: &[u32],
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        self.check(indices)?;
        let table = self.table.of(parameters)?;
        let y = space.take(self.space(indices.len()))?;
        for (y, &index) in y.chunks_exact_mut(self.width).zip(indices) {
            y.copy_from_slice(&table[index as usize * self.width..][..self.width]);
        }
        Ok(y)
    }

    /// Adds the gradients of the looked-up vectors to the flat buffer.
    ///
    /// # Errors
    /// If an index is not in the table or lengths contradict each other.
    pub fn backward<R: Real>(&self, indices: &[u32], dy: &[R], gradients: &mut [R]) -> Result<()> {
        self.check_gradient(indices, dy)?;
        let table = self.table.of_mut(gradients)?;
        for (dy, &index) in dy.chunks_exact(self.width).zip(indices) {
            add(&mut table[index as usize * self.width..][..self.width], dy);
        }
        Ok(())
    }

    /// The same by rows: costs what was looked up, however large the table is.
    ///
    /// # Errors
    /// If an index is not in the table or lengths contradict each other.
    pub fn backward_rows<R: Real>(&self, indices: &[u32], dy: &[R], rows: &mut RowGradients<R>) -> Result<()> {
        self.check_gradient(indices, dy)?;
        expect_len("rows of an embedding", rows.table_rows(), self.rows)?;
        for (dy, &index) in dy.chunks_exact(self.width).zip(indices) {
            rows.add(index as usize, R::ONE, dy)?;
        }
        Ok(())
    }

    /// Row gradients of this table, with capacity for so many rows.
    ///
    /// # Errors
    /// If the table has more rows than a 32-bit index reaches.
    pub fn row_gradients<R: Real>(&self, room: usize) -> Result<RowGradients<R>> {
        RowGradients::new(self.rows, self.width, room)
    }

    fn check(&self, indices: &[u32]) -> Result<()> {
        if indices.is_empty() {
            return Err(NeuralError::Empty("indices of an embedding"));
        }
        match indices.iter().find(|&&index| index as usize >= self.rows) {
            None => Ok(()),
            Some(&index) => Err(NeuralError::Index("row of an embedding", index as usize, self.rows)),
        }
    }

    fn check_gradient<R>(&self, indices: &[u32], dy: &[R]) -> Result<()> {
        self.check(indices)?;
        expect_len("gradient of an embedding", dy.len(), self.space(indices.len()))
    }
}
