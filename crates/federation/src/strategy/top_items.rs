//! Counts, then co-occurrences of the items with the largest: the server's step of `fed-ease-top`.

use super::Strategy;
use crate::Aggregate;
use crate::state::{put_u64s, take_numbers};
use sottovoce_models::federated::fed_ease_top::{TopItemsSpec, TopItemsStep};
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// Two sums, in two rounds.
#[derive(Clone, Copy, Debug)]
pub struct TopItems {
    spec: TopItemsSpec,
    step: TopItemsStep,
}

impl TopItems {
    /// Before the first round.
    pub fn new(spec: TopItemsSpec) -> Self {
        Self { spec, step: TopItemsStep::default() }
    }
}

impl Strategy for TopItems {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        self.step.take(&self.spec, shared, round.noise, |table, into| {
            for (row, _, sum) in round.tables()[table].rows() {
                into.row_mut(row).copy_from_slice(sum);
            }
        });
    }

    fn changes_unsent_rows(&self) -> bool {
        true
    }

    fn advice(&self) -> String {
        "a device sent values that are not of this model; a clip of 1 bounds them".to_owned()
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[self.step.rounds])
    }

    fn restore(&mut self, _: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let [rounds] = take_numbers(from)?;
        self.step = TopItemsStep { rounds };
        Ok(())
    }
}
