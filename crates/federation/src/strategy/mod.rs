//! How the server turns a cohort's updates into the next shared model.

mod gradient;
mod rows;

pub use gradient::{Adam, AdamSettings, Descent};
pub use rows::{Damped, Sum};

use crate::Collected;
use sottovoce_protocol::Parameters;

/// Turns what a round collected into the next shared model.
pub trait Strategy: Send + Sync {
    /// Changes the shared model, which has the layout of what was collected.
    fn absorb(&mut self, shared: &mut Parameters, round: &Collected);

    /// What to change when the shared model grows without bound.
    fn advice(&self) -> String;
}
