//! `bench`: speed and memory of the hot paths, as ratios to a peer program where there is one.
//!
//! CPU seconds, not wall time: they hold better on a busy machine. Ours and the peer's runs alternate and medians are
//! compared, so that both see the same machine.

mod dense;
mod federated;
mod knowledge;
mod lookalike;
mod neural;
mod peer;
mod refrs;
mod sealing;
mod text;
mod work;

use crate::args::{Bench, Common};
use crate::output::{self, Usage};
use crate::progress::Bar;
use anyhow::Result;
use serde::Serialize;
use sottovoce_models::settings::nearest;
use std::fmt::Write;

/// One measured figure.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    name: &'static str,
    what: String,
    value: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Peer>,
}

/// The same work by a peer program.
#[derive(Clone, Debug, Serialize)]
struct Peer {
    name: String,
    value: f64,
    /// How many times faster we are.
    ratio: f64,
}

impl Figure {
    fn new(name: &'static str, what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name, what: what.into(), value, unit, bound: None, peer: None }
    }

    fn bound(mut self, bound: impl Into<String>) -> Self {
        self.bound = Some(bound.into());
        self
    }

    fn peer(mut self, peer: Option<Peer>) -> Self {
        self.peer = peer;
        self
    }
}

type Job = fn(&work::Workbench) -> Result<Vec<Figure>>;

const BENCHES: &[(&str, Job)] = &[
    ("load", work::load),
    ("bpr", work::bpr),
    ("ials", work::ials),
    ("fpl", federated::fpl),
    ("fleet", federated::fleet),
    ("kgflex", knowledge::kgflex),
    ("dense-fleet", dense::dense_fleet),
    ("neural-step", neural::step),
    ("multivae", neural::multivae),
    ("refrs", refrs::refrs),
    ("word2vec", text::word2vec),
    ("lookalike", lookalike::lookalike),
    ("secagg", sealing::secagg),
    ("keeper", sealing::keeper),
    #[cfg(feature = "he")]
    ("he", sealing::he),
    ("noise", sealing::noise),
    ("evaluate", work::evaluate),
    ("memory", work::memory),
];

/// `sottovoce bench`.
pub(crate) fn run(args: &Bench, common: &Common) -> Result<()> {
    let chosen = choose(&args.names)?;
    let bench = work::Workbench::new(args, common)?;
    let mut bar = Bar::new("measuring", chosen.len() as u64, common.quiet);
    let mut figures = Vec::new();
    for (done, (name, job)) in chosen.iter().enumerate() {
        bar.say(name);
        bar.set(done as u64, chosen.len() as u64);
        figures.extend(job(&bench)?);
    }
    drop(bar);
    let document = serde_json::json!({ "data": bench.describe(), "benches": figures });
    output::answer(common, &document, || format!("On {}:\n{}", bench.describe(), table(&figures)))
}

fn choose(names: &[String]) -> Result<Vec<(&'static str, Job)>> {
    if names.is_empty() {
        return Ok(BENCHES.to_vec());
    }
    names.iter().map(|name| find(name)).collect()
}

fn find(name: &str) -> Result<(&'static str, Job)> {
    let known = || BENCHES.iter().map(|(name, _)| *name);
    BENCHES.iter().find(|(candidate, _)| *candidate == name).copied().ok_or_else(|| {
        let near = nearest(name, known()).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
        let all: Vec<_> = known().collect();
        Usage(format!("there is no benchmark `{name}`{near}; benchmarks are: {}", all.join(", "))).into()
    })
}

fn table(figures: &[Figure]) -> String {
    let width = figures.iter().map(|figure| figure.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for figure in figures {
        let _ = write!(text, "{:11} {:width$}  {:>9} {}", figure.name, figure.what, short(figure.value), figure.unit);
        if let Some(peer) = &figure.peer {
            let _ = write!(text, "   {}: {} ({:.1} x)", peer.name, short(peer.value), peer.ratio);
        }
        if let Some(bound) = &figure.bound {
            let _ = write!(text, "   [{bound}]");
        }
        text.push('\n');
    }
    text
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Three to four significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_benchmark() {
        let error = choose(&["evalute".to_owned()]).unwrap_err();
        assert!(output::is_usage(&error));
        assert!(error.to_string().contains("did you mean `evaluate`?"), "{error}");
    }
}
