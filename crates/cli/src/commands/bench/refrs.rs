//! ReFRS: what a device pays for a local batch and for a list.

use super::work::Workbench;
use super::{Figure, median};
use crate::measure::cpu_seconds;
use anyhow::Result;
use sottovoce_core::{Facts, History, Rng};
use sottovoce_models::federated::clustering::Assignment;
use sottovoce_models::federated::refrs::{Refrs, RefrsConfig};
use sottovoce_models::federated::{ClientModel, FederatedModel, ServerModel, TrainInput};
use sottovoce_protocol::Trained;
use std::sync::Arc;

/// A catalog as large as ml-1m's.
const ITEMS: usize = 3700;

/// An epoch of both networks over a session of 100 interactions, the paper's local batch; and the scores of all items.
pub(super) fn refrs(bench: &Workbench) -> Result<Vec<Figure>> {
    let mut config = RefrsConfig { local_epochs: 1, recommender_epochs: 1, ..RefrsConfig::default() };
    config.clustering.assignment = Assignment::Single;
    let facts = Arc::new(Facts::none(ITEMS));
    let client = Refrs::client(&config, &facts);
    let shared = Refrs::server(&config, &facts).init(ITEMS, &mut Rng::new(bench.seed))?;
    let prepared = client.prepare(&shared);
    let sequence: Vec<u32> = (0..config.session as u32).map(|n| n * 31 % ITEMS as u32).collect();
    let mut items = sequence.clone();
    items.sort_unstable();
    let history = History { sequence: &sequence, ..(&items).into() };
    let mut private = vec![0.0; client.private_values()];
    client.init_private(&mut private, &mut Rng::new(bench.seed));
    let (mut scratch, mut into) = (client.scratch(ITEMS), Trained::new(&shared.layout()));
    let (mut batches, mut lists, mut scores) = (Vec::new(), Vec::new(), vec![0.0; ITEMS]);
    for run in 0..40 {
        let before = cpu_seconds();
        for step in 0..5 {
            into.clear();
            let private = &mut private[..];
            let input = TrainInput { shared: &shared, prepared: &prepared, private, history, hidden: &[] };
            client.train(input, &mut scratch, &mut Rng::new(5 * run + step), &mut into)?;
        }
        batches.push(200.0 * (cpu_seconds() - before));
        let before = cpu_seconds();
        (0..5).for_each(|_| client.score(&shared, &private, history, &mut scores));
        lists.push(200.0 * (cpu_seconds() - before));
    }
    let values = private.len();
    let batch = Figure::new(
        "refrs",
        format!("ReFRS, an epoch over a session of 100, {values} parameters"),
        median(batches),
        "CPU-milliseconds",
    );
    let list = Figure::new("refrs", format!("ReFRS, scores of {ITEMS} items"), median(lists), "CPU-milliseconds");
    Ok(vec![batch.bound("at most 10"), list])
}
