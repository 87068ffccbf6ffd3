//! First and second moments of every value of the shared model, for adaptive strategies.

use crate::state::{put_f32s, take_f32s};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// By table: both moments of each value; empty before the first round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moments(pub(super) Vec<Vec<[f32; 2]>>);

impl Moments {
    /// Makes room before the first round; moments begin with `start`.
    pub(super) fn grow(&mut self, shared: &Parameters, start: [f32; 2]) {
        if self.0.is_empty() {
            self.0 = shared.tables().iter().map(|table| vec![start; table.shape().values()]).collect();
        }
    }

    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.iter().try_for_each(|moments| put_f32s(out, moments.as_flattened()))
    }

    /// Reads what [`save`](Self::save) wrote, if there was anything.
    pub(super) fn restore(&mut self, any: bool, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        self.0.clear();
        if any {
            self.grow(shared, [0.0; 2]);
        }
        self.0.iter_mut().try_for_each(|moments| take_f32s(from, moments.as_flattened_mut()))
    }
}
