//! The server's half: one table with a row an item.

use crate::SharedPart;
use sottovoce_core::Rng;
use sottovoce_protocol::{Keyed, Layout, ModelError, Parameters, Shape, Table};

/// Item factors and biases in one table, the bias in the last column, so that an item's row goes or stays as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// Length of an item's vector.
    pub factors: usize,
    /// Standard deviation of the first random factors; biases begin at 0.
    pub init_deviation: f32,
}

impl Shared {
    /// The table's name.
    pub const TABLE: &'static str = "items";

    fn shape(&self, items: usize) -> Shape {
        // A catalog past the wire format's limit is refused as such, also where it is past 32 bits.
        let rows = u32::try_from(items).unwrap_or(u32::MAX);
        Shape::new(Self::TABLE, rows, self.factors as u32 + 1, Keyed::Items)
    }
}

impl SharedPart for Shared {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![self.shape(items)])
    }

    fn start(&self, items: usize, rng: &mut Rng) -> Result<Parameters, ModelError> {
        let mut table = Table::zeros(self.shape(items))?;
        for item in 0..items {
            rng.fill_normal(self.init_deviation, &mut table.row_mut(item)[..self.factors]);
        }
        Parameters::new(vec![table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_begin_random_and_biases_at_zero() {
        let shared = Shared { factors: 6, init_deviation: 0.1 };
        let start = shared.start(500, &mut Rng::new(1)).unwrap();
        assert!(start.check(&shared.layout(500).unwrap()).is_ok());
        let rows = || start.tables()[0].values().chunks_exact(7);
        assert!(rows().all(|row| row[6] == 0.0));
        let square: f32 = rows().flat_map(|row| &row[..6]).map(|value| value * value).sum();
        assert!((square / 3000.0 - 0.01).abs() < 0.001, "{square}");
        assert!(shared.start(0, &mut Rng::new(1)).is_err());
    }
}
