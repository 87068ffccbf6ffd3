//! The largest eigenvalues of a sum over people: the server's step of `fed-spectral`.

use super::Strategy;
use crate::Aggregate;
use crate::state::{put_f64s, put_u64s, take_f64s, take_numbers, unfit};
use sottovoce_models::federated::fed_spectral::{SpectralSpec, SpectralStep};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// Subspace iteration, a step a round.
#[derive(Clone, Debug)]
pub struct Spectral {
    spec: SpectralSpec,
    step: SpectralStep,
    /// The epoch of the next round.
    epoch: u64,
}

impl Spectral {
    /// Before the first round.
    pub fn new(spec: SpectralSpec) -> Self {
        Self { spec, step: SpectralStep::default(), epoch: 0 }
    }
}

impl Strategy for Spectral {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        let (Some(table), Some(sums)) = (shared.tables_mut().first_mut(), round.tables().first()) else { return };
        self.step.take(&self.spec, self.epoch, table, sums.rows().map(|(row, _, sum)| (row, sum)));
    }

    fn begin_round(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    fn changes_unsent_rows(&self) -> bool {
        true
    }

    fn advice(&self) -> String {
        "a device sent values that are not of this model; seal_range or a clip bounds them".to_owned()
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let SpectralStep { rounds, epoch, eigenvalues } = &self.step;
        put_u64s(out, &[*rounds, *epoch, eigenvalues.len() as u64])?;
        put_f64s(out, eigenvalues)
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [rounds, epoch, length] = take_numbers(from)?;
        let cols = shared.tables().first().map_or(0, |table| u64::from(table.shape().cols));
        if length != 0 && length != cols {
            return Err(unfit(format!("{length} eigenvalues of {cols} vectors")));
        }
        let mut eigenvalues = vec![0.0; length as usize];
        take_f64s(from, &mut eigenvalues)?;
        self.step = SpectralStep { rounds, epoch, eigenvalues };
        Ok(())
    }
}
