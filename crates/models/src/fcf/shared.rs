//! The server's half: one table with a row an item.

use crate::SharedPart;
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Item factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random factors.
    pub init_deviation: f32,
}

impl Shared {
    /// The table's name.
    pub const TABLE: &'static str = "items";

    fn shape(&self, items: usize) -> Shape {
        // A catalog past the wire format's limit is refused as such, also where it is past 32 bits.
        let rows = u32::try_from(items).unwrap_or(u32::MAX);
        Shape::new(Self::TABLE, rows, self.factors as u32, Keyed::Items)
    }
}

impl SharedPart for Shared {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape(items)])
    }

    fn start(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape(items))?;
        rng.fill_normal(self.init_deviation, table.values_mut());
        Parameters::new(vec![table])
    }
}
