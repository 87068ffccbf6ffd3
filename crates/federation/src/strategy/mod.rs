//! How the server turns a cohort's updates into the next shared model.

mod adaptive;
mod adaptive_mean;
mod clustered;
mod gradient;
mod gram;
mod mean;
mod moments;
mod rows;
mod spectral;
mod top_items;

pub use adaptive::AdaptiveSumStrategy;
pub use adaptive_mean::AdaptiveMean;
pub use clustered::{Clustered, Clusterer};
pub use gradient::Adam;
pub use gram::Gram;
pub use spectral::Spectral;
pub use top_items::TopItems;

use crate::Aggregate;
use sottovoce_models::ClusterFigures;
use sottovoce_models::federated::AggregationSpec;
use sottovoce_protocol::Parameters;
use std::io::{self, Read, Write};

/// The strategy that a model asks for, before the first round.
pub fn build(spec: AggregationSpec) -> Box<dyn Strategy> {
    match spec {
        AggregationSpec::Sum(sum) => Box::new(sum),
        AggregationSpec::AdaptiveSum(settings) => Box::new(AdaptiveSumStrategy::new(settings)),
        AggregationSpec::DampedSum(damped) => Box::new(damped),
        AggregationSpec::Mean(mean) => Box::new(mean),
        AggregationSpec::AdaptiveMean(settings) => Box::new(AdaptiveMean::new(settings)),
        AggregationSpec::Sgd(sgd) => Box::new(sgd),
        AggregationSpec::Adam(settings) => Box::new(Adam::new(settings)),
        AggregationSpec::Clustered(spec) => Box::new(Clustered::new(spec)),
        AggregationSpec::Spectral(spec) => Box::new(Spectral::new(spec)),
        AggregationSpec::Gram(spec) => Box::new(Gram::new(spec)),
        AggregationSpec::TopItems(spec) => Box::new(TopItems::new(spec)),
    }
}

/// Turns a round's aggregate into the next shared model.
pub trait Strategy: Send + Sync {
    /// Changes the shared model, which has the aggregate's layout; only rows that were sent, because the distributed
    /// model follows those, unless it [says otherwise](Self::changes_unsent_rows).
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate);

    /// Says which epoch the next round is of, where cohorts of an epoch do not overlap.
    fn begin_round(&mut self, epoch: u64) {
        let _ = epoch;
    }

    /// Whether it needs to know which device sent what.
    fn identifies_devices(&self) -> bool {
        false
    }

    /// Whether it changes rows that nobody sent.
    fn changes_unsent_rows(&self) -> bool {
        false
    }

    /// From now on does not wait for what it computes on other threads, unless its settings say so: for servers, which
    /// have devices waiting.
    fn never_wait(&mut self) {}

    /// What came of clustering, for strategies that find clusters.
    fn clusters(&self) -> Option<&ClusterFigures> {
        None
    }

    /// Advice when training diverges.
    fn advice(&self) -> String;

    /// Writes its state, for a checkpoint.
    ///
    /// # Errors
    /// If it cannot be written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let _ = out;
        Ok(())
    }

    /// Restores what [`save`](Self::save) wrote; `shared` is the shared model as it was then.
    ///
    /// # Errors
    /// If it cannot be read.
    fn restore(&mut self, shared: &Parameters, from: &mut dyn Read) -> io::Result<()> {
        let _ = (shared, from);
        Ok(())
    }
}

#[cfg(test)]
mod example {
    use super::*;
    use sottovoce_protocol::{Keyed, RowOrigin, Shape, Table, Trained};

    /// Four rows of two values.
    pub(super) fn shared() -> Parameters {
        let values = vec![0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, -0.8];
        Parameters::new(vec![Table::new(Shape::new("items", 4, 2, Keyed::Items), values).unwrap()]).unwrap()
    }

    /// A round in which so many devices send the same rows.
    pub(super) fn aggregate(rows: &[(u32, [f32; 2])], devices: usize) -> Aggregate {
        let layout = shared().layout();
        let (mut trained, mut aggregate) = (Trained::new(&layout), Aggregate::new(&layout));
        for (row, values) in rows {
            trained.push_row(0, *row, RowOrigin::Other).unwrap().copy_from_slice(values);
        }
        (0..devices).for_each(|_| aggregate.add(trained.update()));
        aggregate
    }
}
