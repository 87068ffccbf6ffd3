//! The loop over epochs of models that are trained step by step.

use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary};

/// The outcome of one epoch.
pub(super) struct EpochStats {
    /// Triples or interactions trained on.
    pub(super) triples: usize,
    /// Mean loss, if the model computes one.
    pub(super) loss: Option<f64>,
    /// Whether all parameters are finite.
    pub(super) finite: bool,
}

/// Trains until the last epoch or until `fit` stops it.
///
/// # Errors
/// Those of `run_epoch`, which takes the number of the epoch from 1; and, with this advice, if loss or parameters are
/// no longer finite.
pub(super) fn run_epochs<M: Recommender>(
    model: &mut M,
    epochs: usize,
    fit: &mut Fit<'_>,
    advice: &str,
    mut run_epoch: impl FnMut(&mut M, u64) -> Result<EpochStats, ModelError>,
) -> Result<Summary, ModelError> {
    let mut summary = Summary::default();
    for epoch in 1..=epochs {
        let EpochStats { triples, loss, finite } = run_epoch(model, epoch as u64)?;
        if !finite || loss.is_some_and(|loss| !loss.is_finite()) {
            return Err(ModelError::Diverged { epoch, advice: advice.to_owned() });
        }
        let progress = Progress { epoch, epochs, loss, model: &*model };
        if fit.after_epoch(&mut summary, triples as u64, &progress) == Flow::Stop {
            break;
        }
    }
    Ok(summary)
}
