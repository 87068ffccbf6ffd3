//! The server's half: items' vectors, and the output's weights.

use crate::SharedPart;
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Items' vectors in one table, the output's weights in another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random vectors; the output's weights begin at 1.
    pub init_deviation: f32,
}

impl Shared {
    /// Name of the table of items' vectors.
    pub const ITEMS: &'static str = "items";
    /// Name of the output's weights, a table of one row.
    pub const OUTPUT: &'static str = "output";

    fn shapes(&self, items: usize) -> [Shape; 2] {
        // A catalog past the wire format's limit is refused as such, also where it is past 32 bits.
        let (rows, cols) = (u32::try_from(items).unwrap_or(u32::MAX), self.factors as u32);
        [Shape::new(Self::ITEMS, rows, cols, Keyed::Items), Shape::new(Self::OUTPUT, 1, cols, Keyed::Dense)]
    }
}

impl SharedPart for Shared {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(self.shapes(items).into())
    }

    fn start(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let [items, output] = self.shapes(items);
        let mut vectors = Table::zeros(items)?;
        rng.fill_normal(self.init_deviation, vectors.values_mut());
        Parameters::new(vec![vectors, Table::new(output, vec![1.0; self.factors])?])
    }
}
