//! A sum of co-occurrences, and its inverse or similarities: the server's step of `fed-ease` and `fed-item-knn`.

use super::Strategy;
use crate::Aggregate;
use crate::state::{put_f64s, put_u64s, take_f64s, take_numbers, take_u64s, unfit};
use sottovoce_models::federated::co_occurrences::{GramReadout, GramSpec, GramStep};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// What is made of co-occurrences of all groups and blocks of an epoch.
#[derive(Clone, Debug)]
pub struct Gram {
    spec: GramSpec,
    step: GramStep,
    /// The pass of the next round: times that everybody was asked for a block.
    pass: u64,
}

impl Gram {
    /// Before the first round.
    pub fn new(spec: GramSpec) -> Self {
        Self { spec, step: GramStep::default(), pass: 0 }
    }
}

impl Strategy for Gram {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        let sums = |table: usize| round.tables()[table].rows().map(|(row, _, sum)| (row, sum));
        self.step.take(&self.spec, (self.pass, round.noise), shared, sums);
    }

    fn begin_round(&mut self, pass: u64) {
        self.pass = pass;
    }

    fn changes_unsent_rows(&self) -> bool {
        true
    }

    fn advice(&self) -> String {
        match self.spec.readout {
            GramReadout::Inverse { regularisation } => format!("take a regularisation above {regularisation}"),
            GramReadout::Neighbours(_) => "a device sent values that are not of this model".to_owned(),
        }
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let GramStep { epoch, rounds, variances, gram } = &self.step;
        put_u64s(out, &[*epoch, rounds.len() as u64, gram.len() as u64])?;
        put_u64s(out, rounds)?;
        put_f64s(out, variances)?;
        put_f64s(out, gram)
    }

    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [epoch, blocks, length] = take_numbers(from)?;
        let begun = blocks != 0 || length != 0;
        let (expected, values) = self.spec.layout.numbers(shared);
        if begun && (blocks, length) != (expected, values) {
            return Err(unfit(format!(
                "{length} co-occurrences in {blocks} blocks where there are {values} in {expected}"
            )));
        }
        let mut step = GramStep {
            epoch,
            rounds: vec![0; blocks as usize],
            variances: vec![0.0; blocks as usize],
            gram: vec![0.0; length as usize],
        };
        take_u64s(from, &mut step.rounds)?;
        take_f64s(from, &mut step.variances)?;
        take_f64s(from, &mut step.gram)?;
        self.step = step;
        Ok(())
    }
}
