//! The server's half: rows of the encoder and of the output by item, and the layers between them.

use super::layers::{Kind, Middle};
use crate::federated::{ServerModel, TensorSlice, item_rows};
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// What the network is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Which autoencoder.
    pub kind: Kind,
    /// Width of the hidden layers.
    pub hidden: usize,
    /// Width of the code, where it is drawn.
    pub latent: usize,
}

impl Server {
    /// Name of the encoder's rows.
    pub const ENCODER: &'static str = "encoder";
    /// Name of the output's rows; the last column is the items' bias.
    pub const OUTPUT: &'static str = "output";
    /// Name of all between, a table of one row.
    pub const MIDDLE: &'static str = "middle";

    /// The layers between. Widths are bounded by settings, so that their buffer can be laid out.
    pub(super) fn middle(&self) -> Option<Middle> {
        Middle::new(self.kind, self.hidden, self.latent).ok()
    }

    /// Number of values of the layers between.
    pub fn between(&self) -> usize {
        self.middle().map_or(0, |middle| middle.layout.len())
    }

    fn shapes(&self, items: usize) -> [Shape; 3] {
        [
            item_rows(Self::ENCODER, items, self.hidden),
            item_rows(Self::OUTPUT, items, self.hidden + 1),
            Shape::new(Self::MIDDLE, 1, self.between() as u32, Keyed::Dense),
        ]
    }
}

impl ServerModel for Server {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(self.shapes(items).into())
    }

    /// Weights as Xavier and Glorot draw them, biases 0.
    fn init(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let [encoder, output, middle] = self.shapes(items).map(Table::zeros);
        let (mut encoder, mut output, mut middle) = (encoder?, output?, middle?);
        let deviation = (2.0 / (items + self.hidden) as f64).sqrt() as f32;
        rng.fill_normal(deviation, encoder.values_mut());
        for item in 0..items {
            rng.fill_normal(deviation, &mut output.row_mut(item)[..self.hidden]);
        }
        if let Some(layers) = self.middle() {
            // Its buffer is as long as the layout says.
            let _ = layers.layout.initialise(middle.values_mut(), &rng.stream("middle", 0));
        }
        Parameters::new(vec![encoder, output, middle])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![
            TensorSlice::matrix("encoder", 0, 0..self.hidden),
            TensorSlice::matrix("output", 1, 0..self.hidden),
            TensorSlice::vector("output_bias", 1, self.hidden),
            TensorSlice::matrix("middle", 2, 0..self.between()),
        ]
    }
}
