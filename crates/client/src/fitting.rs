//! Fitting a private model to a shared one without taking part in a round: nothing leaves.

use crate::{ClientError, LoadedModel, streams};
use sottovoce_core::{History, Rng};
use sottovoce_models::{TrainInput, TrainStats};
use sottovoce_protocol::SharedModel;
use std::sync::Arc;

/// Steps whose losses are compared with those of the steps before. One step may see a few samples only.
const WINDOW: usize = 10;
/// Steps at most, for a loss that keeps falling.
const MOST_STEPS: usize = 30 * WINDOW;
/// A window whose mean loss is not smaller than this fraction of the smallest before is the last.
const PROGRESS: f64 = 0.99;

/// How far a private model is to be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitting {
    /// As many steps as it takes until the loss no longer falls.
    Whole,
    /// One step: the model was fitted before, and the shared one has moved a little.
    Step,
}

/// Whether training still gets anywhere.
#[derive(Default)]
struct Progress {
    steps: usize,
    loss: f64,
    samples: u64,
    /// The smallest mean loss of a window.
    smallest: Option<f64>,
}

impl Progress {
    /// Takes a step into account; returns whether there is to be another.
    fn goes_on(&mut self, stats: &TrainStats) -> bool {
        self.steps += 1;
        (self.loss, self.samples) = (self.loss + stats.loss, self.samples + stats.samples);
        if stats.samples == 0 || self.steps >= MOST_STEPS {
            return false;
        }
        if !self.steps.is_multiple_of(WINDOW) {
            return true;
        }
        let mean = self.loss / self.samples as f64;
        let falls = self.smallest.is_none_or(|smallest| mean < PROGRESS * smallest);
        (self.loss, self.samples, self.smallest) = (0.0, 0, Some(self.smallest.map_or(mean, |least| least.min(mean))));
        falls
    }
}

impl LoadedModel {
    /// Fits a private model to the shared one and the whole history, while the shared one stays as it is. `private` is
    /// the one to go on with; one that does not fit begins anew. Each step is the model's own training, whose update is
    /// discarded: nothing leaves, and no ledger changes. What comes of it must not go into later updates, which are not
    /// to depend on more than their round's terms say; see [`run_round`](Self::run_round).
    ///
    /// # Errors
    /// As [`score`](Self::score), or if the result is not finite.
    pub fn fit(
        &mut self,
        shared: &Arc<SharedModel>,
        private: Option<&[f32]>,
        history: History<'_>,
        (rng, fitting): (&Rng, Fitting),
    ) -> Result<Vec<f32>, ClientError> {
        let items = self.check(&shared.parameters, self.private_values(), &history)?;
        let mut private = self.continue_from(private, || rng.stream(streams::PRIVATE, 0));
        // A model without a private part has all it needs, and so has one whose owner has nothing to learn from.
        if private.is_empty() || history.is_empty() {
            return Ok(private);
        }
        self.prepare(shared, items, &shared.parameters.layout());
        let (client, prepared, buffers) = self.parts();
        let (Some((_, prepared)), Some((_, _, buffers))) = (prepared, buffers) else { return Ok(private) };
        let mut progress = Progress::default();
        loop {
            let mut rng = rng.stream(streams::FITTING, progress.steps as u64);
            let input =
                TrainInput { shared: &shared.parameters, prepared, private: &mut private, history, hidden: &[] };
            let stats = buffers.train_alone(client, input, &mut rng)?;
            if !progress.goes_on(&stats) || fitting == Fitting::Step {
                break;
            }
        }
        if private.iter().all(|value| value.is_finite()) { Ok(private) } else { Err(ClientError::Adapted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(loss: impl Fn(usize) -> f64) -> usize {
        let mut progress = Progress::default();
        (0..).find(|&step| !progress.goes_on(&TrainStats { samples: 1, loss: loss(step) })).unwrap() + 1
    }

    #[test]
    fn ends_when_the_loss_no_longer_falls() {
        assert_eq!(steps(|_| 0.7), 2 * WINDOW);
        assert_eq!(steps(|step| 1.0 / (step / WINDOW + 1) as f64), MOST_STEPS);
        assert_eq!(steps(|step| if step < 35 { 1.0 - step as f64 / 50.0 } else { 0.3 }), 6 * WINDOW);
        let nothing = TrainStats::default();
        assert!(!Progress::default().goes_on(&nothing));
    }
}
