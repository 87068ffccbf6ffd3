//! The device's half: one vector, sent for each of the owner's items; and scores from the shared vectors.

use super::{FedSpectralConfig, UNIT};
use crate::spectral::ItemVectors;
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_protocol::{Parameters, RowOrigin, Trained};

/// What runs on devices.
#[derive(Clone, Debug)]
pub struct Client {
    /// The settings.
    pub config: FedSpectralConfig,
}

/// Working memory of [`Client`]: x' Q.
#[derive(Debug, Default)]
pub struct Scratch(Vec<f32>);

impl Client {
    /// The shared vectors; `None` for an empty catalog.
    fn vectors<'a>(&self, shared: &'a Parameters) -> Option<ItemVectors<'a>> {
        let table = shared.tables().first()?;
        let cols = table.shape().cols as usize;
        let (factors, readout) = (self.config.vectors().min(cols), self.config.readout);
        Some(ItemVectors { values: table.values(), cols, factors, readout })
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) -> Scratch {
        Scratch::default()
    }

    /// The samples are the owner's items; the loss is what of the history the vectors do not explain.
    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, _: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = input.visible();
        let Some(table) = input.shared.tables().first().filter(|_| !history.is_empty()) else {
            return Ok(TrainStats::default());
        };
        let (sum, samples) = (&mut scratch.0, history.len());
        sum.clear();
        sum.resize(table.shape().cols as usize, 0.0);
        history.iter().for_each(|&item| math::add(sum, table.row(item as usize)));
        let used = &sum[..self.config.vectors().min(sum.len())];
        let loss = (samples as f64 - f64::from(math::dot(used, used))).max(0.0);
        let weight = UNIT * math::pow(samples as f64, -self.config.user_exponent) as f32;
        sum.iter_mut().for_each(|value| *value *= weight);
        for &item in history.iter() {
            into.push_row(0, item, RowOrigin::Consumed)?.copy_from_slice(sum);
        }
        into.set_samples(samples as u64);
        Ok(TrainStats { samples: samples as u64, loss })
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        match self.vectors(shared) {
            Some(vectors) => vectors.score(&history, into),
            None => assert!(into.is_empty(), "one score an item"),
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let vectors = self.vectors(shared);
        vectors.map_or_else(|| vec![Vec::new(); items.len()], |vectors| vectors.reasons(&history, items))
    }
}
