//! The state of a federation between two rounds, to go on from later.
//!
//! All randomness comes from streams named by the round's number, so that the numbers here are all there is: shared
//! model, private models, what the strategy remembers, clock, counts. A federation founded anew with the same settings,
//! data and seed takes them back and goes on with the same bytes as one that was never interrupted.

use crate::ParticipationStats;
use crate::state::{put_f64s, put_u64s, take_numbers, take_reals, take_u64s, unfit};
use crate::{EpochReport, Federation};
use std::io::{self, Read, Write};

/// Raised when what is written changes.
const FORMAT: u64 = 2;

impl Federation {
    /// Writes the state.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put_u64s(out, &[FORMAT, self.partial_epoch.rounds])?;
        put_f64s(out, &[self.clock])?;
        self.partial_epoch.report.save(out)?;
        self.coordinator.save(out)?;
        self.row_updates.tables().iter().try_for_each(|counts| put_u64s(out, counts))?;
        self.devices.save(out)
    }

    /// Takes back what [`save`](Self::save) wrote, of a federation founded alike. After an error this one is of no use.
    ///
    /// # Errors
    /// If it cannot be read, or is of another kind of federation.
    pub fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let [format, partial_epoch] = take_numbers(from)?;
        if format != FORMAT {
            return Err(unfit(format!("a federation's state in format {format}; this program reads {FORMAT}")));
        }
        if partial_epoch >= self.schedule.rounds as u64 {
            return Err(unfit(format!("{partial_epoch} rounds of an epoch that has {}", self.schedule.rounds)));
        }
        let [clock] = take_reals(from)?;
        self.clock = clock;
        self.partial_epoch.rounds = partial_epoch;
        self.partial_epoch.report = EpochReport::restore(from)?;
        self.coordinator.restore(from)?;
        self.row_updates.tables.iter_mut().try_for_each(|counts| take_u64s(from, counts))?;
        self.devices.restore(from)
    }
}

impl EpochReport {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { mut participation, down } = *self;
        put_u64s(out, &participation.counts_mut().map(|count| *count))?;
        put_u64s(out, &[down])?;
        put_f64s(out, &[participation.loss, participation.seconds])
    }

    fn restore(from: &mut dyn Read) -> io::Result<Self> {
        let mut participation = ParticipationStats::default();
        for count in participation.counts_mut() {
            [*count] = take_numbers(from)?;
        }
        let [down] = take_numbers(from)?;
        [participation.loss, participation.seconds] = take_reals(from)?;
        Ok(Self { participation, down })
    }
}
