//! A dense layer.
//!
//! ```text
//! y  = x W + b
//! dW += x' dy      db += sum of dy's rows      dx += dy W'
//! ```
//! W has a row for each input (the transpose of PyTorch's weight): an input that is zero skips its row in all three
//! products, and a multi-hot input changes only the rows of its ones.

use crate::error::{Result, expect_len, rows_of};
use crate::kernels::{add, add_scaled, kernel};
use crate::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use crate::{Arithmetic, Init, Layout, Real, Role, RowGradients, Slot, Space, SparseRows};

/// y = x W + b.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    weight: Slot,
    bias: Option<Slot>,
    inputs: usize,
    outputs: usize,
    arithmetic: Arithmetic,
}

impl Linear {
    /// Adds `name.weight` (inputs x outputs) and `name.bias` to a layout, uniform within 1 / sqrt(inputs).
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, outputs: usize) -> Result<Self> {
        Self::with_init(layout, name, inputs, outputs, Init::fan_in(inputs))
    }

    /// The same with another start for weight and bias.
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn with_init(layout: &mut Layout, name: &str, inputs: usize, outputs: usize, init: Init) -> Result<Self> {
        let mut linear = Self::without_bias(layout, name, inputs, outputs, init)?;
        linear.bias = Some(layout.add(format!("{name}.bias"), &[outputs], Role::Bias, init)?);
        Ok(linear)
    }

    /// y = x W.
    ///
    /// # Errors
    /// If a size is 0 or the name is taken.
    pub fn without_bias(layout: &mut Layout, name: &str, inputs: usize, outputs: usize, init: Init) -> Result<Self> {
        let weight = layout.add(format!("{name}.weight"), &[inputs, outputs], Role::Weight, init)?;
        Ok(Self { weight, bias: None, inputs, outputs, arithmetic: layout.arithmetic() })
    }

    /// Width of an input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Width of an output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Where the weight is.
    pub fn weight(&self) -> Slot {
        self.weight
    }

    /// Values that a forward of so many rows takes from the arena.
    pub fn space(&self, batch: usize) -> usize {
        batch.saturating_mul(self.outputs)
    }

    /// y, for one row or many.
    ///
    /// # Errors
    /// If x is not whole rows, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(&self, parameters: &[R], x: &[R], space: &mut Space<'a, R>) -> Result<&'a mut [R]> {
        let batch = rows_of("input of Linear", x.len(), self.inputs)?;
        let y = self.biased(parameters, batch, space)?;
        self.add_rows(parameters, Matrix::new(x, self.inputs)?, MatrixMut::new(y, self.outputs)?)?;
        Ok(y)
    }

    /// Adds x W to rows that hold the bias already.
    pub(crate) fn add_rows<R: Real>(&self, parameters: &[R], x: Matrix<'_, R>, y: MatrixMut<'_, R>) -> Result<()> {
        let weight = Matrix::new(self.weight.of(parameters)?, self.outputs)?;
        add_product(self.arithmetic, x, weight, y)
    }

    /// y of sparse rows.
    ///
    /// # Errors
    /// If the rows are not as wide as the input, or the arena or the parameters are too small.
    pub fn forward_sparse<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &SparseRows<'_, R>,
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        expect_len("width of Linear's sparse input", x.width(), self.inputs)?;
        let y = self.biased(parameters, x.rows(), space)?;
        add_sparse_product(x, self.weight.of(parameters)?, y, self.outputs);
        Ok(y)
    }

    /// As many rows of bias.
    pub(crate) fn biased<'a, R: Real>(
        &self,
        parameters: &[R],
        batch: usize,
        space: &mut Space<'a, R>,
    ) -> Result<&'a mut [R]> {
        let y = space.take(self.space(batch))?;
        match self.bias {
            Some(bias) => {
                let bias = bias.of(parameters)?;
                y.chunks_exact_mut(self.outputs).for_each(|row| row.copy_from_slice(bias));
            }
            None => y.fill(R::ZERO),
        }
        Ok(y)
    }

    /// Adds the bias to each row.
    pub(crate) fn add_bias<R: Real>(&self, parameters: &[R], y: &mut [R]) -> Result<()> {
        if let Some(bias) = self.bias {
            let bias = bias.of(parameters)?;
            y.chunks_exact_mut(self.outputs).for_each(|row| add(row, bias));
        }
        Ok(())
    }

    /// Adds the gradients of weight and bias, and of x where asked for.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        dy: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
    ) -> Result<()> {
        let batch = rows_of("input of Linear", x.len(), self.inputs)?;
        expect_len("gradient of Linear's output", dy.len(), self.space(batch))?;
        let (x, dy) = (Matrix::new(x, self.inputs)?, Matrix::new(dy, self.outputs)?);
        self.add_weight_gradient(x, dy, gradients)?;
        self.add_bias_gradient(dy, gradients)?;
        match dx {
            Some(dx) => self.add_input_gradient(parameters, dy, MatrixMut::new(dx, self.inputs)?),
            None => Ok(()),
        }
    }

    /// dW += x' dy.
    pub(crate) fn add_weight_gradient<R: Real>(
        &self,
        x: Matrix<'_, R>,
        dy: Matrix<'_, R>,
        gradients: &mut [R],
    ) -> Result<()> {
        let weight = MatrixMut::new(self.weight.of_mut(gradients)?, self.outputs)?;
        add_transposed_product(self.arithmetic, x, dy, weight)
    }

    /// db += sum of dy's rows.
    pub(crate) fn add_bias_gradient<R: Real>(&self, dy: Matrix<'_, R>, gradients: &mut [R]) -> Result<()> {
        if let Some(bias) = self.bias {
            let sum = bias.of_mut(gradients)?;
            dy.iter_rows().for_each(|row| add(sum, row));
        }
        Ok(())
    }

    /// dx += dy W'.
    pub(crate) fn add_input_gradient<R: Real>(
        &self,
        parameters: &[R],
        dy: Matrix<'_, R>,
        dx: MatrixMut<'_, R>,
    ) -> Result<()> {
        let weight = Matrix::new(self.weight.of(parameters)?, self.outputs)?;
        add_product_by_transposed(self.arithmetic, dy, weight, dx)
    }

    /// Adds the gradients of weight and bias for sparse rows, to the flat buffer.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn backward_sparse<R: Real>(&self, x: &SparseRows<'_, R>, dy: &[R], gradients: &mut [R]) -> Result<()> {
        let dy = self.sparse_gradient(x, dy)?;
        let weight = self.weight.of_mut(gradients)?;
        add_sparse_gradient(x, dy, weight, self.outputs);
        self.add_bias_gradient(dy, gradients)
    }

    /// The same, with the weight's gradient by rows; only the bias's goes to the flat buffer.
    ///
    /// # Errors
    /// If lengths contradict each other.
    pub fn backward_rows<R: Real>(
        &self,
        x: &SparseRows<'_, R>,
        dy: &[R],
        rows: &mut RowGradients<R>,
        gradients: &mut [R],
    ) -> Result<()> {
        let dy = self.sparse_gradient(x, dy)?;
        expect_len("rows of Linear's weight", rows.table_rows(), self.inputs)?;
        for (r, dy) in dy.iter_rows().enumerate() {
            for (column, value) in x.row(r) {
                rows.add(column, value, dy)?;
            }
        }
        self.add_bias_gradient(dy, gradients)
    }

    fn sparse_gradient<'d, R: Real>(&self, x: &SparseRows<'_, R>, dy: &'d [R]) -> Result<Matrix<'d, R>> {
        expect_len("width of Linear's sparse input", x.width(), self.inputs)?;
        expect_len("gradient of Linear's output", dy.len(), self.space(x.rows()))?;
        Matrix::new(dy, self.outputs)
    }
}

kernel! {
    fn add_sparse_product<'s, R>(x: &'s SparseRows<'s, R>, weight: &'s [R], y: &'s mut [R], outputs: usize) {
        for (r, y) in y.chunks_exact_mut(outputs).enumerate() {
            for (column, value) in x.row(r) {
                add_scaled(y, [value], [&weight[column * outputs..][..outputs]]);
            }
        }
    }
}

kernel! {
    fn add_sparse_gradient<'s, R>(x: &'s SparseRows<'s, R>, dy: Matrix<'s, R>, weight: &'s mut [R], outputs: usize) {
        for (r, dy) in dy.iter_rows().enumerate() {
            for (column, value) in x.row(r) {
                add_scaled(&mut weight[column * outputs..][..outputs], [value], [dy]);
            }
        }
    }
}
