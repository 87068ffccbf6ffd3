//! The benchmarks of centralised models, and what all benchmarks share.

use super::peer::{self, Answer};
use super::{Figure, median};
use crate::args::{Bench, Common};
use crate::measure::cpu_seconds;
use crate::output;
use anyhow::{Context, Result, ensure};
use sottovoce_core::Catalog;
use sottovoce_data::{Cleaning, LoadOptions};
use sottovoce_evaluate::{EvaluationInput, Protocol};
use sottovoce_experiment::prepare::{DataPlan, Prepared, prepare};
use sottovoce_experiment::training::{self, Context as TrainingContext, ModelPlan, Trained};
use sottovoce_federation::registry;
use sottovoce_models::Flow;
use sottovoce_models::settings::Value;
use std::path::{Path, PathBuf};

/// Factors of all measured models.
pub(super) const FACTORS: i64 = 20;
const BPR_EPOCHS: i64 = 50;
const ALS_ITERATIONS: i64 = 15;
/// A town about as large as MovieLens 1M, for machines without data sets.
const STAND_IN: &str = "synth:town:users=30000";

/// Data, prepared once, and how to measure.
pub(super) struct Workbench {
    source: String,
    load: LoadOptions,
    pub(super) data: Prepared,
    file: PathBuf,
    peers: Option<String>,
    pub(super) repeats: usize,
    pub(super) seed: u64,
    _scratch: tempfile::TempDir,
}

impl Workbench {
    pub(super) fn new(args: &Bench, common: &Common) -> Result<Self> {
        let scratch = tempfile::tempdir().context("creating a scratch folder")?;
        let load =
            LoadOptions { data_dir: common.data_dir.clone(), graph: args.graph.plan(), ..LoadOptions::default() };
        let source = match &args.data {
            Some(source) => source.clone(),
            None => write_stand_in(scratch.path(), &load)?,
        };
        let plan = DataPlan {
            load: load.clone(),
            // The protocol of the peers: users with more than 20 interactions, the first 80 % of each to learn from
            // (at random where there are no timestamps).
            cleaning: Cleaning { min_interactions: Some(21), ..Cleaning::default() },
            ..DataPlan::new(&source, common.seed)
        };
        let data = prepare(&plan)?;
        ensure!(data.parts.train.interactions() > 0, "{source}: no user has more than 20 interactions");
        let file = data.notes.files.first().map(PathBuf::from).unwrap_or_default();
        let repeats = usize::from(args.repeats);
        Ok(Self { source, load, data, file, peers: args.peers.clone(), repeats, seed: common.seed, _scratch: scratch })
    }

    pub(super) fn describe(&self) -> String {
        let parts = &self.data.parts;
        let sizes = [parts.users.len(), parts.catalog.len(), parts.train.interactions()];
        let [users, items, interactions] = sizes.map(output::grouped);
        format!("{} ({users} users, {items} items, {interactions} training interactions)", self.data.name)
    }

    /// Alternates our work with the peer's; the median CPU seconds of ours, and the peer's median answer.
    pub(super) fn measure<T>(
        &self,
        mut ours: impl FnMut() -> Result<T>,
        peer: Option<(&str, i64)>,
    ) -> Result<(f64, T, Option<Answer>)> {
        let mut seconds = Vec::new();
        let mut answers = Vec::new();
        let mut last = None;
        for _ in 0..self.repeats {
            let before = cpu_seconds();
            last = Some(ours()?);
            seconds.push(cpu_seconds() - before);
            if let (Some(command), Some((name, epochs))) = (&self.peers, peer) {
                let options = [("factors", FACTORS as usize), ("epochs", epochs as usize), ("threads", 1)];
                answers.push(peer::call(command, name, Some(&self.file), &options)?);
            }
        }
        answers.sort_by(|a, b| a.cpu_s_per_epoch.total_cmp(&b.cpu_s_per_epoch));
        let answer = answers.get(answers.len() / 2).cloned();
        Ok((median(seconds), last.context("measured nothing")?, answer))
    }

    /// The peer's answer, if there is a peer.
    pub(super) fn ask(&self, peer: &str, with_data: bool, options: &[(&str, usize)]) -> Result<Option<Answer>> {
        self.ask_about(peer, with_data.then_some(self.file.as_path()), options)
    }

    /// The same about another file.
    pub(super) fn ask_about(
        &self,
        peer: &str,
        file: Option<&Path>,
        options: &[(&str, usize)],
    ) -> Result<Option<Answer>> {
        self.peers.as_ref().map(|command| peer::call(command, peer, file, options)).transpose()
    }

    pub(super) fn train(&self, name: &str, settings: &[(&str, Value)]) -> Result<Trained> {
        self.train_with_catalog(name, settings, &self.data.parts.catalog)
    }

    /// The same with another catalog.
    pub(super) fn train_with_catalog(
        &self,
        name: &str,
        settings: &[(&str, Value)],
        catalog: &Catalog,
    ) -> Result<Trained> {
        let model = registry::find(name)?;
        let settings = model.settings(settings.iter().cloned())?;
        let plan = ModelPlan { model, settings: &settings, seed: self.seed, evaluations: None };
        let context = TrainingContext { catalog: Some(catalog), ..TrainingContext::default() };
        Ok(training::train(&plan, &self.data.parts.train, &mut |_, _| Flow::Continue, context)?)
    }

    fn ndcg(&self, trained: &Trained, protocol: &Protocol) -> Result<f64> {
        let parts = &self.data.parts;
        let question = EvaluationInput {
            categories: parts.catalog.categories.as_ref(),
            ..EvaluationInput::new(&parts.train, &parts.test)
        };
        let evaluation = training::evaluate(&question, protocol, trained.recommender.as_ref())?;
        evaluation.at.get(&10).map(|metrics| metrics.ndcg).context("nDCG@10 was not measured")
    }
}

fn write_stand_in(folder: &Path, load: &LoadOptions) -> Result<String> {
    let town = sottovoce_data::load(STAND_IN, load)?;
    let path = folder.join("town.tsv");
    sottovoce_data::write_tsv(&town.interactions, &path)?;
    Ok(path.display().to_string())
}

/// Reading a file into interactions.
pub(super) fn load(bench: &Workbench) -> Result<Vec<Figure>> {
    let bytes = std::fs::metadata(&bench.file).with_context(|| format!("looking at {}", bench.file.display()))?.len();
    let (seconds, dataset, _) = bench.measure(|| Ok(sottovoce_data::load(&bench.source, &bench.load)?), None)?;
    let rows = dataset.interactions.user.len();
    let held = dataset.interactions.heap_bytes() as f64 / rows as f64;
    Ok(vec![
        Figure::new("load", "reading text into interactions", bytes as f64 / 1e6 / seconds, "MB per CPU-second")
            .bound("at least 150"),
        Figure::new("load", "interactions held in memory", held, "MB per million").bound("under 40"),
    ])
}

/// BPR-MF by stochastic gradient descent.
pub(super) fn bpr(bench: &Workbench) -> Result<Vec<Figure>> {
    let settings = [("factors", Value::Integer(FACTORS)), ("epochs", Value::Integer(BPR_EPOCHS))];
    let (seconds, trained, answer) =
        bench.measure(|| bench.train("bpr-mf", &settings), Some(("implicit-bpr", BPR_EPOCHS)))?;
    let speed = trained.summary.triples as f64 / seconds / 1e6;
    let ndcg = bench.ndcg(&trained, &Protocol::all_unrated([10]))?;
    let peer = |value: f64, ours: f64, answer: &Answer| answer.compare(value, ours / value);
    let what = format!("training, {FACTORS} factors, {BPR_EPOCHS} epochs");
    Ok(vec![
        Figure::new("bpr", what, speed, "million triples per CPU-second")
            .bound("at least 5 x")
            .peer(answer.as_ref().map(|a| peer(a.triples_per_cpu_s / 1e6, speed, a))),
        Figure::new("bpr", "accuracy of that model", ndcg, "nDCG@10")
            .bound("at least 1 x")
            .peer(answer.as_ref().map(|a| peer(a.ndcg, ndcg, a))),
    ])
}

/// Implicit alternating least squares.
pub(super) fn ials(bench: &Workbench) -> Result<Vec<Figure>> {
    let settings = [("factors", Value::Integer(FACTORS)), ("iterations", Value::Integer(ALS_ITERATIONS))];
    let (seconds, trained, answer) =
        bench.measure(|| bench.train("ials", &settings), Some(("implicit-als", ALS_ITERATIONS)))?;
    let each = seconds / ALS_ITERATIONS as f64;
    let ndcg = bench.ndcg(&trained, &Protocol::all_unrated([10]))?;
    let speed = answer.as_ref().map(|a| a.compare(a.cpu_s_per_epoch, a.cpu_s_per_epoch / each));
    let accuracy = answer.as_ref().map(|a| a.compare(a.ndcg, ndcg / a.ndcg));
    Ok(vec![
        Figure::new("ials", format!("one iteration, {FACTORS} factors"), each, "CPU-seconds")
            .bound("at least 1 x")
            .peer(speed),
        Figure::new("ials", "accuracy of that model", ndcg, "nDCG@10").peer(accuracy),
    ])
}

/// Ranking everything for everyone, with all metrics.
pub(super) fn evaluate(bench: &Workbench) -> Result<Vec<Figure>> {
    let trained = bench.train("bpr-mf", &[("factors", Value::Integer(FACTORS)), ("epochs", Value::Integer(1))])?;
    let protocol = Protocol::all_unrated([1, 5, 10, 20, 50]);
    let (seconds, _, _) = bench.measure(|| bench.ndcg(&trained, &protocol), None)?;
    let what = format!("full ranking, all metrics, {} users", output::grouped(bench.data.parts.users.len()));
    Ok(vec![Figure::new("evaluate", what, seconds, "CPU-seconds").bound("under 0.5 on ml-1m")])
}

/// Peak memory of a whole training run, in a process of its own.
pub(super) fn memory(bench: &Workbench) -> Result<Vec<Figure>> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = std::process::Command::new(program);
    command.args(["train", "--model", "bpr-mf", "--set", "epochs=2", "--min-interactions", "21", "--json", "--quiet"]);
    command.args(["--data", &bench.source]);
    if let Some(folder) = &bench.load.data_dir {
        command.arg("--data-dir").arg(folder);
    }
    let done = command.output().context("starting a training run")?;
    ensure!(done.status.success(), "the training run failed: {}", String::from_utf8_lossy(&done.stderr).trim());
    let outcome: serde_json::Value = serde_json::from_slice(&done.stdout).context("reading its JSON")?;
    let peak = outcome["peak_rss_bytes"].as_f64().context("this system does not report the memory of a process")?;
    Ok(vec![Figure::new("memory", "peak of a BPR-MF run", peak / 1e6, "MB").bound("under 150 on ml-1m")])
}
