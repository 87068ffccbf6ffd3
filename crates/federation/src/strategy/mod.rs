//! How the server turns a cohort's updates into the next shared model.

mod gradient;
mod rows;

pub use gradient::{Adam, AdamSettings, Descent};
pub use rows::{Damped, Sum};

use crate::Collected;
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// Turns what a round collected into the next shared model.
pub trait Strategy: Send + Sync {
    /// Changes the shared model, which has the layout of what was collected.
    fn absorb(&mut self, shared: &mut Parameters, round: &Collected);

    /// What to change when the shared model grows without bound.
    fn advice(&self) -> String;

    /// Writes what it remembers from round to round, for a checkpoint.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let _ = out;
        Ok(())
    }

    /// Takes back what [`save`](Self::save) wrote; `shared` is the shared model as it was then.
    ///
    /// # Errors
    /// If it cannot be read.
    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let _ = (shared, from);
        Ok(())
    }
}
