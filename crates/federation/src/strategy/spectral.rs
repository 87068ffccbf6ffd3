//! The largest eigenvalues of a sum over people: the server's step of `fed-spectral`.

use super::Strategy;
use crate::Aggregate;
use crate::state::{put_f64s, put_u64s, take_f64s, take_numbers, unfit};
use sottovoce_models::federated::fed_spectral::{SpectralRound, SpectralSpec, SpectralStep};
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
        let Some(sums) = round.tables().first() else { return };
        let sums = sums.rows().map(|(row, _, sum)| (row, sum));
        let round = SpectralRound { epoch: self.epoch, people: round.updates, noise: round.noise, sums };
        self.step.take(&self.spec, shared, round);
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
        let SpectralStep { rounds, epoch, people, eigenvalues, counts } = &self.step;
        put_u64s(out, &[*rounds, *epoch, *people, eigenvalues.len() as u64, counts.len() as u64])?;
        put_f64s(out, eigenvalues)?;
        put_f64s(out, counts)
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [rounds, epoch, people, length, items] = take_numbers(from)?;
        let [table, columns] = shared.tables() else { return Err(unfit("vectors of an empty catalog")) };
        let (cols, rows) = (u64::from(columns.shape().cols), u64::from(table.shape().rows));
        if length != 0 && length != cols || items != 0 && items != rows {
            return Err(unfit(format!("{length} eigenvalues of {cols} vectors, {items} counts of {rows} items")));
        }
        let (mut eigenvalues, mut counts) = (vec![0.0; length as usize], vec![0.0; items as usize]);
        take_f64s(from, &mut eigenvalues)?;
        take_f64s(from, &mut counts)?;
        self.step = SpectralStep { rounds, epoch, people, eigenvalues, counts };
        Ok(())
    }
}
