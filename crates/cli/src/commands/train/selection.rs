//! `train --select`: people's devices choose between candidates before the training.

use crate::args::{Common, Train};
use crate::output;
use crate::output::usage;
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_experiment::file::combinations;
use sottovoce_experiment::prepare::Prepared;
use sottovoce_federation::{Choice, registry};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Settings, Value};
use sottovoce_models::{Fit, Quiet};
use std::collections::BTreeMap;

/// What devices chose between, and what they found.
#[derive(Serialize)]
pub(crate) struct Selected {
    candidates: Vec<Found>,
    /// Index of the candidate that was trained.
    chosen: usize,
    /// Devices over which means are taken.
    devices: u64,
    /// Standard deviation of the noise on each mean.
    noise: f64,
    /// Trainings beside the last one.
    trainings: usize,
    /// Epsilons spent before the last training, if any; `epsilon` has them in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<super::Epsilons>,
}

#[derive(Serialize)]
struct Found {
    set: BTreeMap<String, Value>,
    /// nDCG@10 of people's newest items.
    #[serde(rename = "ndcg@10")]
    ndcg: f64,
}

impl Selected {
    pub(super) fn of(choice: &Choice) -> Self {
        let found =
            |(set, ndcg): &(Vec<(String, Value)>, f64)| Found { set: set.iter().cloned().collect(), ndcg: *ndcg };
        Self {
            candidates: choice.candidates.iter().map(found).collect(),
            chosen: choice.chosen,
            devices: choice.devices,
            noise: choice.noise,
            trainings: choice.trainings,
            epsilon: choice.privacy.as_ref().map(super::Epsilons::of),
        }
    }
}

/// Lets devices choose, if the arguments ask for it.
pub(super) fn choose(
    args: &Train,
    common: &Common,
    (model, settings): (&'static Model, &Settings),
    data: &Prepared,
) -> Result<Option<Choice>> {
    if args.select.is_empty() {
        return Ok(None);
    }
    if !registry::is_federated(model.name) {
        return usage(format!("--select is for federated models, and {} sees all data: use --validation", model.name));
    }
    let candidates = combinations(&args.select);
    let parts = &data.parts;
    let mut quiet = Quiet;
    let fit = Fit::new(common.seed, &mut quiet).knowing(Some(&parts.catalog));
    let choice = sottovoce_federation::choose(model.name, settings, &candidates, &parts.train, &fit);
    choice.with_context(|| format!("choosing between candidates on {}", data.name)).map(Some)
}

/// Prints the candidates.
pub(super) fn show(selected: &Selected) -> Result<()> {
    let Selected { candidates, chosen, devices, noise, trainings, epsilon } = selected;
    let trained = match trainings {
        0 => "from the sums of one training".to_owned(),
        1 => "from a training of its own".to_owned(),
        several => format!("from {several} trainings of their own"),
    };
    let noise = if *noise > 0.0 { format!(", noise {noise:.4}") } else { String::new() };
    let devices = output::grouped(*devices);
    output::print_line(&format!(
        "{} candidates {trained}, compared by {devices} devices on their newest items (sealed nDCG@10{noise}):",
        candidates.len()
    ))?;
    for (index, Found { set, ndcg }) in candidates.iter().enumerate() {
        let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mark = if index == *chosen { "   taken" } else { "" };
        output::print_line(&format!("  {ndcg:.4}  {}{mark}", set.join(" ")))?;
    }
    let Some(epsilon) = epsilon else { return Ok(()) };
    output::print_line(&epsilon.before_the_last_training())
}
