//! A federated model from outside this workspace: trained, evaluated, audited and deployed without a change to any
//! crate.
//!
//! Federated popularity with personal re-ranking. The server counts how many devices have each item. A device scores
//! items by popularity, and moves those up that are as popular as what its user likes:
//! `score = p - strength |p - taste|`, with `p = ln(1 + count)` and `taste` the mean `p` of the user's items.
//!
//! **What leaves the device**: once, a 1 for each disclosed item. Taste is computed on the device and never leaves.
//!
//! Run it: `cargo run -p sottovoce-federation --example custom_model`

#![allow(clippy::print_stdout, reason = "a program that says what it does")]

use anyhow::{Context, Result, ensure};
use sottovoce_audit::{CuriousServer, ExposedTables, Subjects, View};
use sottovoce_core::{Facts, Histories, Rng, math};
use sottovoce_device::{
    Device, Digest, Enrolment, History, HttpOptions, HttpTransport, MemoryStore, Options, Secret, Seeds,
};
use sottovoce_evaluate::{EvaluationInput, Protocol, evaluate};
use sottovoce_federation::registry;
use sottovoce_models::federated::{
    AggregationSpec, ClientModel, EpochTraffic, Epochs, Exposure, FederatedModel, ModelInfo, RowMeaning, ServerModel,
    Sum, TensorSlice, TrainInput, TrainResult, TrainStats, item_rows, register,
};
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet, TensorData, config};
use sottovoce_protocol::{Layout, ModelError, Parameters, Policy, RowOrigin, Table, Trained};
use sottovoce_server::storage::TokenPurpose;
use sottovoce_server::{Config, FederationConfig, RunningServer};
use std::sync::Arc;
use std::time::{Duration, Instant};

config! {
    /// Settings of the model. Command line, experiment files, round terms and help follow from this.
    struct RerankConfig {
        /// How strongly a user's own taste for popular items counts; 0: popularity alone
        strength: f64 = 0.5, in 0.0..=10.0 => [device];
    }
}

/// The model.
struct PopularityRerank;

impl FederatedModel for PopularityRerank {
    const INFO: ModelInfo = ModelInfo {
        name: "popularity-rerank",
        title: "Popularity, re-ranked",
        summary: "Popularity as a sum over devices, re-ranked on each device by its user's taste for popular items",
        paper: "none",
    };
    const EPOCHS: Epochs = Epochs { default: 1, help: "Epochs; in one, every device is asked once" };

    type Config = RerankConfig;
    type Client = RerankClient;
    type Server = Counts;

    fn client(config: &RerankConfig, _: &Arc<Facts>) -> RerankClient {
        RerankClient { strength: config.strength as f32 }
    }

    fn server(_: &RerankConfig, _: &Arc<Facts>) -> Counts {
        Counts
    }

    fn aggregation(_: &RerankConfig, _: usize) -> AggregationSpec {
        AggregationSpec::Sum(Sum { learning_rate: 1.0 })
    }

    /// Rows name the user's items, and their only value is positive.
    fn exposure() -> Vec<Exposure> {
        vec![Exposure { table: 0, rows: RowMeaning::Items, bias: true }]
    }

    fn vectors_per_epoch(_: &RerankConfig, traffic: &EpochTraffic) -> f64 {
        let EpochTraffic { schedule, cohort, items, pi, .. } = *traffic;
        (schedule.rounds * cohort) as f64 * (items as f64 + pi * schedule.triples as f64)
    }
}

/// The server's half: a count for each item.
struct Counts;

impl ServerModel for Counts {
    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        Layout::new(vec![item_rows("counts", items, 1)])
    }

    fn init(&self, items: usize, _: &mut Rng) -> Result<Parameters, ModelError> {
        Parameters::new(vec![Table::zeros(item_rows("counts", items, 1))?])
    }

    fn tensors(&self) -> Vec<TensorSlice> {
        vec![TensorSlice::vector("counts", 0, 0)]
    }
}

/// The client's half. The private model is one value: whether the user's items were counted.
struct RerankClient {
    strength: f32,
}

impl ClientModel for RerankClient {
    type Scratch = ();
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) {}

    fn private_values(&self) -> usize {
        1
    }

    fn init_private(&self, private: &mut [f32], _: &mut Rng) {
        private.fill(0.0);
    }

    fn train(&self, input: TrainInput<'_>, (): &mut (), _: &mut Rng, into: &mut Trained) -> TrainResult {
        if input.private[0] > 0.0 || input.history.is_empty() {
            return Ok(TrainStats::default());
        }
        let origins = vec![RowOrigin::Consumed; input.history.len()];
        into.push_rows(0, &input.history, &origins)?.fill(1.0);
        into.set_samples(input.history.len() as u64);
        input.private[0] = 1.0;
        Ok(TrainStats { samples: input.history.len() as u64, loss: 0.0 })
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: sottovoce_core::History<'_>, into: &mut [f32]) {
        let counts = shared.tables().first().map_or(&[][..], Table::values);
        for (score, &count) in into.iter_mut().zip(counts) {
            *score = math::ln(1.0 + f64::from(count)) as f32;
        }
        let taste = history.iter().map(|&item| into[item as usize]).sum::<f32>() / history.len().max(1) as f32;
        into.iter_mut().for_each(|score| *score -= self.strength * (*score - taste).abs());
    }
}

const USERS: u32 = 24;
const ITEMS: usize = 30;
const SEED: u64 = 5;

/// A skewed catalog, and users of whom every third likes what few have.
fn people() -> Result<(Histories, Histories)> {
    let mut rng = Rng::new(SEED);
    let mut lists: Vec<Vec<u32>> = Vec::new();
    for user in 0..USERS {
        let draw = |rng: &mut Rng| match user % 3 {
            0 => rng.below(ITEMS as u32),
            _ => (rng.unit() * rng.unit() * rng.unit() * ITEMS as f64) as u32,
        };
        let mut list: Vec<u32> = (0..9).map(|_| draw(&mut rng)).collect();
        list.sort_unstable();
        list.dedup();
        lists.push(list);
    }
    let train: Vec<Vec<u32>> = lists.iter().map(|list| list[1..].to_vec()).collect();
    let test: Vec<Vec<u32>> = lists.iter().map(|list| list[..1].to_vec()).collect();
    Ok((Histories::from_lists(&train, ITEMS)?, Histories::from_lists(&test, ITEMS)?))
}

/// Trains in the simulator, with a curious server looking on; returns the shared model's digest.
fn simulate(train: &Histories, test: &Histories) -> Result<Digest> {
    let model = registry::find("popularity-rerank")?;
    let settings = model.settings([("strength", Value::Real(0.5))])?;
    let tables = ExposedTables::of(model.name, None)?;
    let subjects = Subjects::draw(train, None, USERS as usize, SEED);
    let server = Arc::new(CuriousServer::new(tables, subjects, View::Uploads, Vec::new()));
    let mut recommender =
        registry::recorded(model.name, &settings, server.clone()).context("it is a federated model")?;
    let summary = recommender.fit(train, &mut Fit::new(SEED, &mut Quiet))?;
    ensure!(summary.turnout.received == u64::from(USERS), "{summary:?}");

    let input = EvaluationInput::new(train, test);
    let evaluation = evaluate(&input, &Protocol::all_unrated([10]), |user, into: &mut [f32]| {
        recommender.score(user, into);
    })?;
    let metrics = &evaluation.at[&10];
    println!("trained: nDCG@10 {:.3}, {} bytes up", metrics.ndcg, summary.traffic.up);

    let findings = server.conclude()?;
    let combined = findings.combined().context("all attacks together")?;
    println!("audited: AUC {:.3}, a popularity baseline reaches {:.3}", combined.auc, combined.popularity_auc);
    ensure!(combined.auc > 0.95, "every upload names its user's items: {}", combined.auc);

    let tensors = recommender.tensors();
    let counts = tensors.iter().find(|tensor| tensor.name == "counts").context("the shared model is stored")?;
    let TensorData::F32(counts) = &counts.data else { anyhow::bail!("counts are floats") };
    let table = Table::new(item_rows("counts", ITEMS, 1), counts.clone())?;
    Ok(Digest::of(&Parameters::new(vec![table])?))
}

/// Deploys it: a coordinator service on a free port, and devices that reach it over HTTP; returns the digest of its
/// model.
fn deploy(train: &Histories) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let config = Config { listen: "127.0.0.1:0".to_owned(), data: folder.path().join("server"), ..Config::default() };
    let runtime = tokio::runtime::Runtime::new()?;
    let running = runtime.block_on(RunningServer::start(&config))?;
    let name = "example";
    let federation =
        FederationConfig { seed: SEED, devices: USERS, ..FederationConfig::new(PopularityRerank::INFO.name) };
    let ids: Vec<String> = (0..ITEMS).map(|item| format!("item-{item:02}")).collect();
    let catalog = ids.iter().fold("item\ttitle\tcategories\n".to_owned(), |text, id| format!("{text}{id}\t{id}\t\n"));
    let server = Arc::clone(&running.server);
    let hosted = runtime.block_on(server.create_federation(name, federation, catalog))?;
    let purpose = TokenPurpose::Enrolment { federation: hosted.id, uses: None };
    let (token, _) = runtime.block_on(server.add_token(purpose, "", None))?;

    let address = format!("http://{}", running.address);
    let transport = HttpTransport::new(&address, &HttpOptions::default())?;
    let start = Instant::now();
    let mut devices = Vec::new();
    for user in 0..USERS {
        let secret = Secret::new([user as u8 + 1; 32]);
        let mut enrolment = Enrolment::new(&address, name, &token, secret, Policy::new(1.0)?);
        // Nothing seals these few updates: people have to agree to that.
        enrolment.accept = ["open".to_owned()].into();
        // The simulator's random numbers, so that both can be compared bit for bit. Never for people's devices.
        enrolment.seeds = Seeds::Simulated { seed: SEED, user: u64::from(user) };
        enrolment.history = History::from_ids(train.of(user as usize).iter().map(|&item| ids[item as usize].as_str()));
        let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, Options::default())?;
        let waits = device.join(&transport, start.elapsed())?;
        ensure!(waits.is_none(), "device {user} is not enrolled: {waits:?}");
        devices.push(device);
    }
    // Time is the caller's: a device that is told to come back in a minute is asked again as if a minute had passed.
    let mut now = start.elapsed();
    while hosted.public().version == 0 {
        ensure!(start.elapsed() < Duration::from_secs(60), "the round does not end");
        for device in &mut devices {
            device.step(&transport, now)?;
        }
        now += Duration::from_secs(3600);
    }
    let list = devices[0].recommend(3)?;
    println!("deployed: user 0 is recommended {}", list.items[0].item);
    let digest = hosted.public().digest;
    runtime.block_on(running.stop())?;
    Ok(digest)
}

fn main() -> Result<()> {
    register::<PopularityRerank>()?;
    let (train, test) = people()?;
    let simulated = simulate(&train, &test)?;
    let deployed = deploy(&train)?;
    ensure!(simulated.to_string() == deployed, "simulated {simulated}, deployed {deployed}");
    println!("simulated equals deployed: {deployed}");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn trains_evaluates_audits_and_deploys() {
        super::main().unwrap();
    }
}
