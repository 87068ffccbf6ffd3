//! The device's half: one vector, sent for each of the owner's items; and scores from the shared vectors.

use super::{FedSpectralConfig, UNIT};
use crate::spectral::{GraphFilter, ItemVectors, Readout};
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_protocol::{Parameters, RowOrigin, Trained};

/// What runs on devices.
#[derive(Clone, Debug)]
pub struct Client {
    /// The settings.
    pub config: FedSpectralConfig,
}

/// Working memory of [`Client`]: x' Q, and what else a row has.
#[derive(Debug, Default)]
pub struct Scratch(Vec<f32>);

/// How scores are computed.
enum Scoring<'a> {
    Vectors(ItemVectors<'a>),
    Filter(GraphFilter<'a>),
}

impl Client {
    /// The shared vectors; `None` for an empty catalog.
    fn scoring<'a>(&self, shared: &'a Parameters) -> Option<Scoring<'a>> {
        let [table, columns] = shared.tables() else { return None };
        let (values, cols, readout) = (table.values(), table.shape().cols as usize, self.config.readout);
        let factors = self.config.vectors().min(columns.shape().cols as usize);
        Some(match readout {
            Readout::GfCf => {
                let (eigenvalues, alpha) = (columns.row(1), self.config.alpha as f32);
                Scoring::Filter(GraphFilter { values, cols, factors, eigenvalues, alpha })
            }
            Readout::Ease | Readout::Svd => Scoring::Vectors(ItemVectors { values, cols, factors, readout }),
        })
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
        let [table, columns] = input.shared.tables() else { return Ok(TrainStats::default()) };
        if history.is_empty() {
            return Ok(TrainStats::default());
        }
        let (sum, samples, cols) = (&mut scratch.0, history.len(), columns.shape().cols as usize);
        sum.clear();
        sum.resize(table.shape().cols as usize, 0.0);
        history.iter().for_each(|&item| math::add(sum, table.row(item as usize)));
        let used = &sum[..self.config.vectors().min(cols)];
        let loss = (samples as f64 - f64::from(math::dot(used, used))).max(0.0);
        let is_graph = self.config.readout == Readout::GfCf;
        let exponent = if is_graph { 1.0 } else { self.config.user_exponent };
        let weight = math::pow(samples as f64, -exponent) as f32;
        sum.iter_mut().zip(columns.row(0)).for_each(|(value, scale)| *value *= weight * scale);
        // The last column counts people.
        sum[cols..].fill(UNIT as f32);
        for &item in history.iter() {
            into.push_row(0, item, RowOrigin::Consumed)?.copy_from_slice(sum);
        }
        into.set_samples(samples as u64);
        Ok(TrainStats { samples: samples as u64, loss })
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        match self.scoring(shared) {
            Some(Scoring::Vectors(vectors)) => vectors.score(&history, into),
            Some(Scoring::Filter(filter)) => filter.score(&history, into),
            None => assert!(into.is_empty(), "one score an item"),
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        match self.scoring(shared) {
            Some(Scoring::Vectors(vectors)) => vectors.reasons(&history, items),
            Some(Scoring::Filter(filter)) => filter.reasons(&history, items),
            None => vec![Vec::new(); items.len()],
        }
    }
}
