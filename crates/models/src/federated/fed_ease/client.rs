//! The device's half: pairs of the owner's items; and scores from the shared inverse.

use crate::spectral::{packed_cell, packed_cols};
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained};

/// What runs on devices. It has no settings.
#[derive(Clone, Copy, Debug)]
pub struct Client;

/// Working memory of [`Client`]: cells of the owner's pairs.
#[derive(Debug, Default)]
pub struct Scratch(Vec<(usize, usize)>);

/// P_ij.
fn value(table: &Table, i: u32, j: u32) -> f32 {
    let (row, col) = packed_cell(i as usize, j as usize, table.shape().rows as usize);
    table.row(row)[col]
}

/// Adds P_ij for all j but i: those that row i of the table has, and those of the rows before it.
fn add_row(table: &Table, i: usize, into: &mut [f32]) {
    let (items, row) = (into.len(), table.row(i));
    let (upper, lower) = into.split_at_mut(i);
    let after = lower.iter_mut().chain(upper.iter_mut());
    after.zip(row).skip(1).for_each(|(to, value)| *to += value);
    // Half way round, where there is such an item, was row i's to say.
    for step in 1..=items.saturating_sub(1) / 2 {
        let j = if step <= i { i - step } else { i + items - step };
        into[j] += table.row(j)[step];
    }
}

/// B_ij: 0 before the first round, and on the diagonal.
fn weight(table: &Table, i: u32, j: u32) -> f32 {
    let own = value(table, j, j);
    if i == j || own <= 0.0 { 0.0 } else { -value(table, i, j) / own }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) -> Scratch {
        Scratch::default()
    }

    fn needs_seal(&self) -> bool {
        true
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, _: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = input.visible();
        let Some(table) = input.shared.tables().first().filter(|_| !history.is_empty()) else {
            return Ok(TrainStats::default());
        };
        let (cells, items) = (&mut scratch.0, table.shape().rows as usize);
        cells.clear();
        for (index, &i) in history.iter().enumerate() {
            cells.extend(history[index..].iter().map(|&j| packed_cell(i as usize, j as usize, items)));
        }
        cells.sort_unstable();
        for row in cells.chunk_by(|a, b| a.0 == b.0) {
            let into = into.push_row(0, row[0].0 as u32, RowOrigin::Consumed)?;
            debug_assert_eq!(into.len(), packed_cols(items));
            into.fill(0.0);
            row.iter().for_each(|&(_, col)| into[col] = 1.0);
        }
        let samples = history.len() as u64;
        into.set_samples(samples);
        Ok(TrainStats { samples, loss: samples as f64 })
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        let Some(table) = shared.tables().first() else { return assert!(into.is_empty(), "one score an item") };
        assert_eq!(into.len(), table.shape().rows as usize, "one score an item");
        into.fill(0.0);
        history.iter().for_each(|&i| add_row(table, i as usize, into));
        for (j, score) in into.iter_mut().enumerate() {
            let own = table.row(j)[0];
            *score = if own > 0.0 { -*score / own } else { 0.0 };
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let Some(table) = shared.tables().first() else { return vec![Vec::new(); items.len()] };
        let reasons = |&j: &u32| history.iter().map(|&i| Reason::had(i, weight(table, i, j))).collect();
        items.iter().map(reasons).collect()
    }
}
