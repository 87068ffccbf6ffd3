//! The device's half: a 1 for each of the owner's items; and the counts as scores.

use crate::{Because, ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng};
use sottovoce_protocol::{Parameters, RowOrigin, Trained};

/// What runs on devices. It has no settings.
#[derive(Clone, Copy, Debug)]
pub struct Client;

impl ClientModel for Client {
    type Scratch = ();
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) {}

    fn needs_seal(&self) -> bool {
        true
    }

    fn train(&self, input: TrainInput<'_>, (): &mut (), _: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = input.visible();
        if history.is_empty() || input.shared.tables().is_empty() {
            return Ok(TrainStats::default());
        }
        for &item in history.iter() {
            into.push_row(0, item, RowOrigin::Consumed)?.fill(1.0);
        }
        let samples = history.len() as u64;
        into.set_samples(samples);
        Ok(TrainStats { samples, loss: samples as f64 })
    }

    fn score(&self, shared: &Parameters, _: &[f32], _: History<'_>, into: &mut [f32]) {
        match shared.tables().first() {
            Some(counts) => into.copy_from_slice(counts.values()),
            None => assert!(into.is_empty(), "one score an item"),
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], _: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let Some(counts) = shared.tables().first() else { return vec![Vec::new(); items.len()] };
        let reason = |&item: &u32| {
            let weight = counts.values()[item as usize];
            vec![Reason { because: Because::Popular { people: weight.max(0.0).round() as u32 }, weight }]
        };
        items.iter().map(reason).collect()
    }
}
