//! The vectors of all users, or of all items.

use sottovoce_core::Rng;
use sottovoce_neural::{Adam, Arithmetic, Embedding, Init, Layout, NeuralError, RowGradients, Space};

/// A vector for the product and, with a tower, a second one for the tower.
pub(super) struct Embeddings {
    pub(super) layout: Layout,
    pub(super) parameters: Vec<f32>,
    product: Embedding,
    tower: Option<Embedding>,
}

/// Lengths of vectors.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    pub(super) product: usize,
    /// `None` without a tower.
    pub(super) tower: Option<usize>,
}

/// Rows that a micro-batch looked up, and their gradients. A row may occur more than once.
#[derive(Default)]
pub(super) struct LookedUp {
    pub(super) indices: Vec<u32>,
    pub(super) product: Vec<f32>,
    pub(super) tower: Vec<f32>,
}

impl Embeddings {
    pub(super) fn new(name: &str, rows: usize, widths: Widths, deviation: f64, rng: &Rng) -> Result<Self, NeuralError> {
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

    /// Size of the arena for looking up so many rows.
    pub(super) fn space(&self, rows: usize) -> usize {
        self.product.space(rows) + self.tower.map_or(0, |tower| tower.space(rows))
    }

    /// The looked-up vectors for the product and for the tower; the latter are empty without one. Tiny values are taken
    /// for 0: regularisation would turn them and their products into denormal numbers, which are a hundred times
    /// slower.
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

/// Adam on the rows that were looked up.
pub(super) struct EmbeddingsOptimiser {
    adam: Adam<f32>,
    product: RowGradients<f32>,
    tower: Option<RowGradients<f32>>,
}

impl EmbeddingsOptimiser {
    pub(super) fn new(embeddings: &Embeddings, learning_rate: f64, max_rows: usize) -> Result<Self, NeuralError> {
        Ok(Self {
            adam: Adam::new(learning_rate, embeddings.parameters.len()),
            product: embeddings.product.row_gradients(max_rows)?,
            tower: embeddings.tower.map(|tower| tower.row_gradients(max_rows)).transpose()?,
        })
    }

    /// Adds the gradients of all micro-batches, in order, and steps.
    pub(super) fn step<'t>(
        &mut self,
        embeddings: &mut Embeddings,
        batches: impl Iterator<Item = &'t LookedUp>,
    ) -> Result<(), NeuralError> {
        for rows in batches.filter(|rows| !rows.indices.is_empty()) {
            embeddings.product.backward_rows(&rows.indices, &rows.product, &mut self.product)?;
            if let Some((table, sums)) = embeddings.tower.zip(self.tower.as_mut()) {
                table.backward_rows(&rows.indices, &rows.tower, sums)?;
            }
        }
        self.adam.next_step();
        self.adam.step_rows(embeddings.product.table(), &mut embeddings.parameters, &mut self.product)?;
        if let Some((table, sums)) = embeddings.tower.zip(self.tower.as_mut()) {
            self.adam.step_rows(table.table(), &mut embeddings.parameters, sums)?;
        }
        Ok(())
    }
}
