//! A sum of co-occurrences and its inverse: the server's step of `fed-ease`.

use super::Strategy;
use crate::Aggregate;
use crate::state::{put_f64s, put_u64s, take_f64s, take_numbers, unfit};
use sottovoce_models::federated::fed_ease::{GramSpec, GramStep};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// EASE's inverse, of all groups of an epoch.
#[derive(Clone, Debug)]
pub struct Gram {
    spec: GramSpec,
    step: GramStep,
    /// The epoch of the next round.
    epoch: u64,
}

impl Gram {
    /// Before the first round.
    pub fn new(spec: GramSpec) -> Self {
        Self { spec, step: GramStep::default(), epoch: 0 }
    }
}

impl Strategy for Gram {
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
        format!("take a regularisation above {}", self.spec.regularisation)
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.step.epoch, self.step.gram.len() as u64])?;
        put_f64s(out, &self.step.gram)
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [epoch, length] = take_numbers(from)?;
        let values = shared.tables().first().map_or(0, |table| table.values().len() as u64);
        if length != 0 && length != values {
            return Err(unfit(format!("{length} co-occurrences where there are {values}")));
        }
        let mut gram = vec![0.0; length as usize];
        take_f64s(from, &mut gram)?;
        self.step = GramStep { epoch, gram };
        Ok(())
    }
}
