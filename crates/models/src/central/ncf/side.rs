//! One side of the model: the vectors of all users, or of all items.

use sottovoce_core::Rng;
use sottovoce_neural::{Adam, Arithmetic, Embedding, Init, Layout, NeuralError, RowGradients, Space};

/// A vector for the product, and with a tower another for that.
pub(super) struct Side {
    pub(super) layout: Layout,
    pub(super) parameters: Vec<f32>,
    product: Embedding,
    tower: Option<Embedding>,
}

/// Sizes of a side's vectors.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    pub(super) product: usize,
    /// None without a tower.
    pub(super) tower: Option<usize>,
}

/// Rows that a part of a batch looked up, and their gradients. A row may come more than once.
#[derive(Default)]
pub(super) struct Touched {
    pub(super) indices: Vec<u32>,
    pub(super) product: Vec<f32>,
    pub(super) tower: Vec<f32>,
}

impl Side {
    pub(super) fn new(
        name: &str,
        rows: usize,
        widths: Widths,
        deviation: f64,
        rng: &Rng,
    ) -> Result<Self, NeuralError> {
        let (mut layout, init) = (Layout::new(Arithmetic::Machine), Init::Normal(deviation));
        let product = Embedding::new(&mut layout, name, rows, widths.product, init)?;
        let tower = match widths.tower {
            Some(width) => Some(Embedding::new(&mut layout, &format!("tower.{name}"), rows, width, init)?),
            None => None,
        };
        let mut parameters = layout.zeros();
        layout.initialise(&mut parameters, rng)?;
        Ok(Self { layout, parameters, product, tower })
    }

    /// Values that looking up so many rows takes.
    pub(super) fn space(&self, rows: usize) -> usize {
        self.product.space(rows) + self.tower.map_or(0, |tower| tower.space(rows))
    }

    /// The looked-up vectors for the product and for the tower; the latter are empty without one. Values that have all but
    /// vanished are taken for 0: regularisation would pull them, and products with them, into denormal numbers, with
    /// which processors are a hundred times slower.
    pub(super) fn look_up<'a>(
        &self,
        indices: &[u32],
        space: &mut Space<'a, f32>,
    ) -> Result<[&'a mut [f32]; 2], NeuralError> {
        let product = self.product.forward(&self.parameters, indices, space)?;
        let tower = match self.tower {
            Some(tower) => tower.forward(&self.parameters, indices, space)?,
            None => &mut [],
        };
        for value in product.iter_mut().chain(&mut *tower) {
            *value = if value.abs() < 1e-12 { 0.0 } else { *value };
        }
        Ok([product, tower])
    }

    /// All vectors for the product.
    pub(super) fn product_table(&self) -> &[f32] {
        &self.parameters[self.product.table().range()]
    }

    /// All vectors for the tower.
    pub(super) fn tower_table(&self) -> Option<&[f32]> {
        self.tower.map(|tower| &self.parameters[tower.table().range()])
    }
}

/// How a side learns: Adam on the rows that were touched.
pub(super) struct SideTraining {
    adam: Adam<f32>,
    product: RowGradients<f32>,
    tower: Option<RowGradients<f32>>,
}

impl SideTraining {
    pub(super) fn new(side: &Side, rate: f64, room: usize) -> Result<Self, NeuralError> {
        Ok(Self {
            adam: Adam::new(rate, side.parameters.len()),
            product: side.product.row_gradients(room)?,
            tower: side.tower.map(|tower| tower.row_gradients(room)).transpose()?,
        })
    }

    /// Adds what all parts touched, in order, and steps.
    pub(super) fn step<'t>(
        &mut self,
        side: &mut Side,
        parts: impl Iterator<Item = &'t Touched>,
    ) -> Result<(), NeuralError> {
        for part in parts.filter(|part| !part.indices.is_empty()) {
            side.product.backward_rows(&part.indices, &part.product, &mut self.product)?;
            if let Some((table, rows)) = side.tower.zip(self.tower.as_mut()) {
                table.backward_rows(&part.indices, &part.tower, rows)?;
            }
        }
        self.adam.next_step();
        self.adam.step_rows(side.product.table(), &mut side.parameters, &mut self.product)?;
        if let Some((table, rows)) = side.tower.zip(self.tower.as_mut()) {
            self.adam.step_rows(table.table(), &mut side.parameters, rows)?;
        }
        Ok(())
    }
}
