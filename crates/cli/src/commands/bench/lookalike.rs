//! Look-alike modelling: a round of one deployed device, and one round each of many simulated ones.

use super::work::Workbench;
use super::{Figure, median};
use crate::measure::cpu_seconds;
use anyhow::{Context, Result};
use sottovoce_core::Rng;
use sottovoce_data::interests::ClickSource;
use sottovoce_device::{
    Device, Digest, Enrolment, History, Items, MemoryStore, Method, NextStep, Options, ReadPage, Request, Response,
    Secret, Transport, TransportError, WaitReason,
};
use sottovoce_experiment::people::{Part, People};
use sottovoce_experiment::training::{self, Context as TrainingContext, ModelPlan};
use sottovoce_federation::registry;
use sottovoce_models::Flow;
use sottovoce_models::federated::find;
use sottovoce_models::federated::lookalike::{NetworkConfig, Text};
use sottovoce_models::settings::{Config, Settings, Value};
use sottovoce_protocol::{
    FederationId, ModelVersion, Policy, RoundId, RoundTerms, SharedModel, TermsDraft, ValueEncoding, codec,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// People of a population of which a few have one interest only and are left out, and half of the others, at least
/// 100,000, train.
const PEOPLE: usize = 205_000;
/// Rounds of the deployed device that are measured at a time.
const ROUNDS: usize = 40;

/// Both.
pub(super) fn lookalike(bench: &Workbench) -> Result<Vec<Figure>> {
    let mut figures = vec![device_round(bench)?];
    figures.push(simulated(bench)?);
    Ok(figures)
}

fn people(users: usize, seed: u64) -> Result<People> {
    let name = format!("synth:clicks:users={users}");
    Ok(People::read(&ClickSource::find(&name, None)?, &name, None, seed)?)
}

/// One sample of each device, titles read, FedAdam.
fn simulated(bench: &Workbench) -> Result<Figure> {
    let people = people(PEOPLE, bench.seed)?;
    let pages = people.pages(Text::Titles, NetworkConfig::default().dim)?;
    let train = people.all_interests(Part::Train, &pages)?;
    let model = registry::find("lookalike")?;
    let settings = model.settings([("epochs", Value::Integer(1))])?;
    let plan = ModelPlan { model, settings: &settings, seed: bench.seed, evaluations: None };
    let mut seconds = Vec::new();
    for _ in 0..bench.repeats {
        let before = cpu_seconds();
        training::train(&plan, &train, &mut |_, _| Flow::Continue, TrainingContext::default())?;
        seconds.push(cpu_seconds() - before);
    }
    let what = format!("{} simulated devices, one round each of one sample, titles", train.users());
    Ok(Figure::new("lookalike", what, median(seconds), "CPU-seconds").bound("under 60"))
}

/// A server that has a new model and a round for the device each time it asks.
struct Rounds {
    terms: Vec<Vec<u8>>,
    models: Vec<Vec<u8>>,
    digest: String,
    round: AtomicUsize,
}

impl Transport for Rounds {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let Rounds { terms, models, digest, round } = self;
        let now = round.load(Ordering::Relaxed);
        let (mut status, mut headers, mut body) = (200, Vec::new(), Vec::new());
        match (request.method, request.path.rsplit_once("/federations/town/").map_or("", |(_, rest)| rest)) {
            (Method::Post, "devices") => body = br#"{"device": 3, "credential": "svd_3"}"#.to_vec(),
            (_, "check-in") => {
                body.clone_from(&terms[now]);
                headers.push(("sottovoce-model-digest".to_owned(), digest.clone()));
            }
            (_, path) if path.contains("/from/") => status = 404,
            (_, path) if path.starts_with("models/") => body.clone_from(&models[now]),
            _ => {
                round.fetch_add(1, Ordering::Relaxed);
                status = 201;
            }
        }
        Ok(Response { status, headers, body })
    }
}

/// Everything that a deployed device does in a round but the network: terms, decoding a new model, encoding titles,
/// training, disclosure, the ledger, encoding the update, storing its state.
fn device_round(bench: &Workbench) -> Result<Figure> {
    let people = people(400, bench.seed)?;
    let person = people.numbers(Part::Train).iter().copied().max_by_key(|&person| people.interests(person).len());
    let person = person.context("somebody has interests")?;
    let id = |row: u32| people.catalog.ids.get(row as usize).unwrap_or_default().to_owned();
    let page = |(title, rows): (&str, &[u32])| ReadPage {
        title: title.to_owned(),
        categories: rows.iter().map(|&row| id(row)).collect(),
    };
    let mut catalog = "item\ttitle\tcategories\n".to_owned();
    catalog.extend((0..people.catalog.len() as u32).map(|row| format!("{}\t\t\n", id(row))));
    catalog += &people.title_encoder(NetworkConfig::default().dim)?.catalog_text();
    let interests: Vec<String> = people.interests(person).iter().map(|&row| id(row)).collect();
    let mut enrolment = Enrolment::new("memory:", "town", "sve_1", Secret::new([7; 32]), Policy::new(1.0)?);
    enrolment.accept = ["open".to_owned()].into();
    enrolment.history = History::from_ids(interests.iter().map(String::as_str));
    enrolment.pages = people.recent(person).map(page).collect();
    enrolment.items = Some(Arc::new(Items::parse(catalog.into_bytes())?));
    let mut device = Device::enrol(Box::new(MemoryStore::new()), enrolment, Options::default())?;
    let server = rounds(people.catalog.len(), bench)?;
    let mut now = Duration::from_secs(1_700_000_000);
    let mut step = |device: &mut Device| -> Result<()> {
        now += Duration::from_secs(3600);
        match device.step(&server, now)? {
            NextStep::Wait(_, WaitReason::UpdateAccepted { .. }) => Ok(()),
            other => anyhow::bail!("the device's round ended with {other:?}"),
        }
    };
    step(&mut device)?;
    let mut runs = Vec::new();
    for _ in 0..bench.repeats {
        let before = cpu_seconds();
        for _ in 0..ROUNDS {
            step(&mut device)?;
        }
        runs.push(1e3 * (cpu_seconds() - before) / ROUNDS as f64);
    }
    let what = "a deployed device's round, 307 categories, titles, a new model each";
    Ok(Figure::new("lookalike", what, median(runs), "CPU-milliseconds").bound("under 2"))
}

fn rounds(categories: usize, bench: &Workbench) -> Result<Rounds> {
    let entry = find("lookalike")?;
    let settings = Settings::check("lookalike", &entry.schema(), [])?;
    let spec = sottovoce_models::federated::lookalike::LookalikeConfig::read(&settings).to_terms("lookalike");
    let parameters = entry.configure(&settings).server().init(categories, &mut Rng::new(bench.seed))?;
    let digest = Digest::of(&parameters).to_string();
    let (mut terms, mut models) = (Vec::new(), Vec::new());
    for round in 0..=(bench.repeats * ROUNDS + 1) as u64 {
        let (federation, version) = (FederationId(4), ModelVersion(round));
        let draft = TermsDraft {
            federation,
            version,
            round: RoundId(round),
            cohort_size: 50,
            model: spec.clone(),
            ..TermsDraft::default()
        };
        let mut bytes = Vec::new();
        codec::encode_terms(&RoundTerms::freeze(draft)?, &mut bytes);
        terms.push(bytes);
        let mut bytes = Vec::new();
        let model = SharedModel { federation, version, parameters: parameters.clone() };
        codec::encode_model(&model, ValueEncoding::F32, &mut bytes)?;
        models.push(bytes);
    }
    Ok(Rounds { terms, models, digest, round: AtomicUsize::new(0) })
}
