//! The device's half: pairs of the owner's items; and scores from the shared inverse.

use crate::federated::co_occurrences::{PairLayout, Pairs};
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainResult};
use sottovoce_core::{History, Rng};
use sottovoce_protocol::{Parameters, Trained};

/// What runs on devices.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub(super) pairs: PairLayout,
}

/// Working memory of [`Client`]: cells of the owner's pairs.
#[derive(Debug, Default)]
pub struct Scratch(Vec<(usize, usize)>);

/// B_ij: 0 before the first round, and on the diagonal.
fn weight(inverse: Pairs<'_>, i: u32, j: u32) -> f32 {
    let own = inverse.diagonal(j as usize);
    if i == j || own <= 0.0 { 0.0 } else { -inverse.at(i, j) / own }
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
        self.pairs.write(&input, &mut scratch.0, into)
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        let Some(inverse) = self.pairs.pairs(shared) else { return assert!(into.is_empty(), "one score an item") };
        assert_eq!(into.len(), inverse.items(), "one score an item");
        into.fill(0.0);
        inverse.each(&history, |_, j, value| into[j] += value);
        for (j, score) in into.iter_mut().enumerate() {
            let own = inverse.diagonal(j);
            *score = if own > 0.0 { -*score / own } else { 0.0 };
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let Some(inverse) = self.pairs.pairs(shared) else { return vec![Vec::new(); items.len()] };
        let reasons = |&j: &u32| history.iter().map(|&i| Reason::had(i, weight(inverse, i, j))).collect();
        items.iter().map(reasons).collect()
    }
}
