//! `fleet`: many devices in one process, with a real server.

mod workers;

use crate::args::{Common, Fleet};
use crate::commands::device::enrol::check_open;
use crate::commands::federation::client::secret;
use crate::key_file;
use crate::model_dir::Arrays;
use crate::output::{self, Usage, usage};
use crate::people;
use crate::prepared::from_plan;
use crate::progress::Bar;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use sottovoce_core::Histories;
use sottovoce_device::{
    Action, Device, Enrolment, FileStore, History, HttpOptions, HttpTransport, Items, Key, MemoryStore, Options,
    ReadPage, Request, Response, Roster, Secret, Seeds, SharedCache, StopReason, Store, Timing, Transport,
    TransportError,
};
use sottovoce_experiment::people::Part;
use sottovoce_experiment::prepare::DataPlan;
use sottovoce_federation::Population;
use sottovoce_models::TensorData;
use sottovoce_protocol::{
    AudiencePolicy, Policy, PolicyError, Reportable, SealedDisclosure, SharedModel, codec, limits,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workers::Plan;

/// Pauses of a device: short, to load the server.
const TIMING: Timing = Timing {
    initial_backoff: Duration::from_millis(50),
    max_backoff: Duration::from_secs(2),
    check_in_interval: Duration::from_millis(200),
    conditions_interval: Duration::from_secs(1),
};
/// Bytes of small responses.
const SMALL: u64 = 1 << 20;

/// `sottovoce fleet`.
pub(crate) fn run(args: &Fleet, common: &Common) -> Result<()> {
    let start = Instant::now();
    let transport = transport(args)?;
    let about = about(&transport, &args.federation)?;
    check_open(&about, &args.federation, &args.accept)?;
    let users = users(args, common)?;
    let mut devices = users.devices(args, common, &transport)?;
    let number = devices.len();
    enrol(&mut devices, &transport, start, common.quiet)?;
    let enrolled = start.elapsed().as_secs_f64();
    if let Some(path) = &args.devices_out {
        crate::folder::write_file(path, users.table(&devices).as_bytes())?;
    }
    let schedule = Plan::new(devices, start, args.seconds.map(Duration::from_secs_f64));
    let mut bar = Bar::new("rounds", about["rounds"].as_u64().unwrap_or(0), common.quiet);
    let total = workers::run(&schedule, &transport, usize::from(args.connections), &mut bar)?;
    drop(bar);
    let model = with_retries(|| download(&transport, &args.federation))?;
    if let Some(path) = &args.model_out {
        write_model(path, &model)?;
    }
    let workers::Total { updates, dropped, declined, failures, .. } = total;
    let (version, checksum) = (model.version.0, format!("{:08x}", model.parameters.checksum()));
    let seconds = start.elapsed().as_secs_f64();
    let report = json!({
        "devices": number, "updates": updates, "dropped": dropped, "declined": declined, "failures": failures,
        "version": version, "checksum": checksum, "seconds": {"enrol": enrolled, "all": seconds},
    });
    output::answer(common, &report, || {
        format!(
            "{number} devices, {updates} updates accepted ({dropped} dropped, {declined} rounds declined, {failures} \
             failed requests) in {seconds:.1} s\nthe shared model is at version {version}, checksum {checksum}\n"
        )
    })
}

fn transport(args: &Fleet) -> Result<HttpTransport> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let ca = args.ca.as_deref().map(read).transpose()?;
    let options = HttpOptions {
        ca,
        idle_connections: usize::from(args.connections),
        request_timeout: Duration::from_secs(60),
        ..HttpOptions::default()
    };
    HttpTransport::new(&args.server, &options).map_err(|error| Usage(error.to_string()).into())
}

fn get(transport: &dyn Transport, path: String, max_response_bytes: u64) -> Result<Response> {
    let response = transport.send(&Request { path, max_response_bytes, ..Request::default() })?;
    if response.status != 200 {
        let (code, detail) = response.problem();
        bail!("the server responds {} {code}: {detail}", response.status);
    }
    Ok(response)
}

pub(crate) fn about(transport: &dyn Transport, federation: &str) -> Result<Value> {
    let response = get(transport, format!("/v1/federations/{federation}"), SMALL)?;
    serde_json::from_slice(&response.body).context("the server's description of the federation")
}

/// How long to wait for a server that is restarting.
const RESTART_TIMEOUT: Duration = Duration::from_secs(20);

/// Repeats requests to a server that has answered before and may be restarting.
fn with_retries<T>(request: impl Fn() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match request() {
            Err(error) if error.is::<TransportError>() && start.elapsed() < RESTART_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(200));
            }
            done => return done,
        }
    }
}

/// The catalog.
pub(crate) fn catalog(transport: &dyn Transport, federation: &str) -> Result<Arc<Items>> {
    let path = format!("/v1/federations/{federation}/catalog");
    let response = with_retries(|| get(transport, path.clone(), limits::MESSAGE_BYTES))?;
    Ok(Arc::new(Items::parse(response.body)?))
}

/// The current version.
fn download(transport: &dyn Transport, federation: &str) -> Result<SharedModel> {
    let version = about(transport, federation)?["version"].as_u64().unwrap_or(0);
    let path = format!("/v1/federations/{federation}/models/{version}");
    Ok(codec::decode_model(&get(transport, path, limits::MESSAGE_BYTES)?.body)?)
}

/// The users whose devices they are.
struct Users {
    train: Histories,
    ids: sottovoce_core::Names,
    names: sottovoce_core::Names,
    /// What people of a click log read last; empty for other data.
    pages: Vec<Vec<ReadPage>>,
    /// Those with training interactions.
    learners: Vec<u32>,
}

fn users(args: &Fleet, common: &Common) -> Result<Users> {
    let mut users = match people::are_clicks(&args.data, args.taxonomy.as_deref()) {
        true => of_clicks(args, common)?,
        false => of_interactions(args, common)?,
    };
    if let Some(devices) = args.devices {
        if users.learners.len() < devices as usize {
            let found = users.learners.len();
            return usage(format!("{devices} devices are wanted; {found} users have training interactions"));
        }
        users.learners.truncate(devices as usize);
    }
    Ok(users)
}

/// The people of a click log on whom the simulator trains, each with what their own device would know.
fn of_clicks(args: &Fleet, common: &Common) -> Result<Users> {
    let people = people::read(&args.data, args.taxonomy.as_deref(), common)?;
    let ids = people.catalog.ids.clone();
    let id = |&row: &u32| ids.get(row as usize).unwrap_or_default().to_owned();
    let page =
        |(title, rows): (&str, &[u32])| ReadPage { title: title.to_owned(), categories: rows.iter().map(id).collect() };
    let of_part = people.numbers(Part::Train);
    let pages = of_part.iter().map(|&person| people.recent(person).map(page).collect()).collect();
    let interests: Vec<&[u32]> = of_part.iter().map(|&person| people.interests(person)).collect();
    let train = Histories::from_lists(&interests, ids.len())?;
    let learners = Population::of(&train).devices;
    Ok(Users { train, names: people.ids(Part::Train), ids, pages, learners })
}

fn of_interactions(args: &Fleet, common: &Common) -> Result<Users> {
    let plan = DataPlan {
        load: args.reading.options(common),
        cleaning: args.cleaning.cleaning(common.seed),
        split: args.split,
        ..DataPlan::new(&args.data, common.seed)
    };
    let prepared = from_plan(&plan, common)?;
    let train = prepared.parts.train;
    let learners = Population::of(&train).devices;
    let (ids, names) = (prepared.parts.catalog.ids, prepared.parts.users);
    Ok(Users { train, ids, names, pages: Vec::new(), learners })
}

impl Users {
    /// Their devices, restored or new.
    fn devices(&self, args: &Fleet, common: &Common, transport: &dyn Transport) -> Result<Vec<Device>> {
        let token = secret(&args.token_file)?;
        let items = catalog(transport, &args.federation)?;
        let together = Arc::new(SharedCache::new());
        let key = key_file::read_shared(args.federation_key.as_deref())?;
        let wrong = |error: PolicyError| Usage(error.to_string());
        let mut policy = Policy::new(args.pi).map_err(wrong)?;
        let sealed = args.sealed_pi.map(|pi| SealedDisclosure::new(pi, SealedDisclosure::DEFAULT_LEAST));
        policy.sealed = sealed.transpose().map_err(wrong)?;
        policy.disclosure = args.disclosure;
        policy.criteria = match args.report.iter().any(|name| name == "all") {
            true => Reportable::All,
            false => Reportable::Only(args.report.iter().cloned().collect()),
        };
        if args.audiences {
            let (least_published, least_rotation) = (1, 1);
            policy.audiences = AudiencePolicy {
                takes_part: true,
                least_published,
                least_rotation,
                epsilon_per_day: f64::MAX,
                most_audiences: u32::MAX,
                ..AudiencePolicy::default()
            };
        }
        let make = |&user: &u32| {
            // Nobody asks these devices for recommendations.
            let (models, recommends) = (Arc::clone(&together) as Arc<_>, false);
            let options = Options { timing: TIMING, models, recommends, ..Options::default() };
            let mut store: Box<dyn Store> = match &args.store {
                Some(folder) => {
                    let folder = folder.join(format!("device-{user:07}"));
                    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
                    // A simulated device needs no secret key.
                    Box::new(FileStore::open(&folder, Key::new([7; 32]))?)
                }
                None => Box::new(MemoryStore::new()),
            };
            if store.load()?.is_some() {
                return Ok(Device::open(store, options)?);
            }
            let secret = secret_of(common.seed, user);
            let mut enrolment = Enrolment::new(&args.server, &args.federation, &token, secret, policy.clone());
            enrolment.seeds = Seeds::Simulated { seed: common.seed, user: u64::from(user) };
            let history = self.train.of(user as usize).iter().filter_map(|&item| self.ids.get(item as usize));
            enrolment.history = History::from_ids(history);
            enrolment.pages = self.pages.get(user as usize).cloned().unwrap_or_default();
            enrolment.items = Some(Arc::clone(&items));
            enrolment.key = key;
            enrolment.accept = args.accept.iter().cloned().collect();
            Ok(Device::enrol(store, enrolment, options)?)
        };
        let mut devices = self.learners.iter().map(make).collect::<Result<Vec<_>>>()?;
        // Devices know each other's keys, for rounds with signed identities.
        let roster: Arc<Roster> = Arc::new(devices.iter().map(Device::identity).collect());
        devices.iter_mut().for_each(|device| device.set_session_roster(Arc::clone(&roster)));
        Ok(devices)
    }

    /// The user of each device, one line each.
    fn table(&self, devices: &[Device]) -> String {
        let line = |(device, &user): (&Device, &u32)| {
            Some(format!("{}\t{}\n", device.number()?, self.names.get(user as usize)?))
        };
        devices.iter().zip(&self.learners).filter_map(line).collect()
    }
}

/// The secret of a device, the same in every run.
fn secret_of(seed: u64, user: u32) -> Secret {
    let mut rng = sottovoce_core::Rng::new(seed).stream("fleet", u64::from(user));
    let mut bytes = [0; 32];
    bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()));
    Secret::new(bytes)
}

fn cannot_enrol(why: &StopReason) -> anyhow::Error {
    let enrolled_before = matches!(why, StopReason::Rejected { code, .. } if code == "key-used");
    let hint = match enrolled_before {
        true => {
            "\nthis fleet has enrolled here before and kept no state: with `--store DIR` a fleet can be resumed; with \
            another `--seed` it enrols anew, as more devices"
        }
        false => "",
    };
    anyhow!("a device cannot enrol: {why}{hint}")
}

/// Enrols one after the other, so that devices are numbered in the order of users.
fn enrol(devices: &mut [Device], transport: &dyn Transport, start: Instant, quiet: bool) -> Result<()> {
    let mut bar = Bar::new("enrolling", devices.len() as u64, quiet);
    let steps = devices.len() as u64;
    for (index, device) in devices.iter_mut().enumerate() {
        while device.number().is_none() {
            match device.next_action(start.elapsed())? {
                Action::Send(request) => {
                    let answer = transport.send(&request);
                    if let Some(sottovoce_device::NextStep::Stop(end)) =
                        device.handle_response(start.elapsed(), answer)?
                    {
                        return Err(cannot_enrol(&end));
                    }
                }
                Action::Idle(sottovoce_device::NextStep::Wait(wait, _)) => std::thread::sleep(wait),
                Action::Idle(sottovoce_device::NextStep::Stop(end)) => return Err(cannot_enrol(&end)),
                Action::Train => bail!("a device that is not enrolled trains"),
            }
        }
        bar.set(index as u64 + 1, steps);
    }
    Ok(())
}

fn write_model(path: &Path, model: &SharedModel) -> Result<()> {
    let mut arrays = Arrays::default();
    for table in model.parameters.tables() {
        let shape = table.shape();
        let sides = vec![shape.rows as usize, shape.cols as usize];
        arrays.push(shape.name.clone(), sides, &TensorData::F32(table.values().to_vec()));
    }
    crate::folder::write_file(path, &arrays.serialise()?)
}
