//! The device's half: pairs of the owner's items; and scores from the shared similarities.

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

/// Whether i, with this similarity, is among the neighbours of j: of equals the one with the smaller number is nearer.
fn is_near(similarities: &Pairs<'_>, i: u32, j: usize, similarity: f32) -> bool {
    let least = similarities.diagonal(j);
    similarity > least || similarity == least && least > 0.0 && i as f32 <= similarities.more(j)[0]
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
        let Some(all) = self.pairs.pairs(shared) else { return assert!(into.is_empty(), "one score an item") };
        assert_eq!(into.len(), all.items(), "one score an item");
        into.fill(0.0);
        all.each(&history, |i, j, similarity| {
            if is_near(&all, i, j, similarity) {
                into[j] += similarity;
            }
        });
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let Some(all) = self.pairs.pairs(shared) else { return vec![Vec::new(); items.len()] };
        let reasons = |&j: &u32| {
            let others = history.iter().filter(|&&i| i != j).map(|&i| (i, all.at(i, j)));
            let near = others.filter(|&(i, similarity)| is_near(&all, i, j as usize, similarity));
            near.map(|(i, similarity)| Reason::had(i, similarity)).collect()
        };
        items.iter().map(reasons).collect()
    }
}
