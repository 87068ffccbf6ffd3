//! The loop over epochs of models that are trained step by step.

use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary};

/// The outcome of one epoch.
pub(crate) struct EpochStats {
    /// Triples or interactions trained on.
    pub(crate) triples: usize,
    /// Mean loss, if the model computes one.
    pub(crate) loss: Option<f64>,
    /// Whether all parameters are finite.
    pub(crate) finite: bool,
}

/// Trains until the last epoch or until `fit` stops it.
///
/// # Errors
/// Those of `run_epoch`, which takes the number of the epoch from 1; and, with this advice, if loss or parameters are
/// no longer finite.
pub(crate) fn run_epochs<M: Recommender>(
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
        summary.epochs = epoch;
        summary.triples += triples as u64;
        if fit.watch.after_epoch(&Progress { epoch, epochs, loss, model: &*model }) == Flow::Stop {
            break;
        }
    }
    Ok(summary)
}
