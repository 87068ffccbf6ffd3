//! A server in memory, with faults, and devices to try against it.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod http;

use sottovoce_core::Rng;
use sottovoce_device::{
    Bounds, Device, Digest, Enrolment, History, Items, MemoryStore, Method, ModelCache, NextStep, Options, Request,
    Response, Secret, Seeds, Store, StoreError, Timing, Transport, TransportError,
};
use sottovoce_models::federated::{ServerModel, fpl};
use sottovoce_privacy::quantize::RowLayout;
use sottovoce_privacy::tokens::{BlindedElement, Issuer, Token, from_hex};
use sottovoce_privacy::{PrivacyConfig, Quantization, SecureRng, anonymous_layer};
use sottovoce_protocol::{
    CriterionRequest, Difference, FederationId, ModelSpec, ModelVersion, Policy, Received, RoundId, RoundTerms,
    SharedModel, TermsDraft, ValueEncoding, codec,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub const ITEMS: usize = 40;
pub const TOKEN: &str = "sve_join";

pub fn spec() -> ModelSpec {
    let settings = [
        ("factors", "4"),
        ("triples", "12"),
        ("learning_rate", "0.05"),
        ("user_regularisation", "0.2"),
        ("positive_regularisation", "0.4"),
        ("negative_regularisation", "0.1"),
        ("regularise_biases", "true"),
        ("scale_regularisation", "false"),
        ("mean_history", "12"),
        ("steps", "together"),
        ("init_deviation", "0.1"),
        // As in the papers: with decoys, rows of hidden items would leave too, as if their owner did not have them.
        ("negatives", "papers"),
    ];
    let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    ModelSpec { name: "fpl".to_owned(), settings }
}

pub fn catalog() -> String {
    let lines = (0..ITEMS).map(|item| format!("i{item}\tItem {item}\tkind|{}\n", item % 3));
    std::iter::once("item\ttitle\tcategories\n".to_owned()).chain(lines).collect()
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The server never sees it.
    Before,
    /// The server acts, but its answer is lost.
    After,
    /// The server says that it is busy.
    Busy,
}

/// What a server says, whatever the request: a status and a code.
pub type Override = fn(&Request) -> Option<(u16, &'static str)>;

pub struct World {
    pub terms: TermsDraft,
    pub versions: Vec<Arc<SharedModel>>,
    pub differences: bool,
    pub private_models: bool,
    pub devices: BTreeMap<String, u64>,
    pub withdrawn: Vec<u64>,
    /// Device and round to key, bytes and how often they came.
    pub updates: BTreeMap<(u64, u64), (String, Vec<u8>, usize)>,
    /// Gives tokens, and what came with them: by nullifier, the bytes and how often they came.
    pub issuer: Option<Issuer>,
    pub tokens: BTreeMap<u64, BlindedElement>,
    pub anonymous: BTreeMap<[u8; 32], (Vec<u8>, usize)>,
    pub refusals: Vec<(u64, sottovoce_protocol::Refusal)>,
    pub requests: Vec<Request>,
    pub faults: Vec<Option<Fault>>,
    pub override_response: Override,
    pub state: &'static str,
    pub rolled_back: Option<u64>,
}

/// A server of one federation; a round is closed by hand.
pub struct Server(pub Mutex<World>);

impl Server {
    pub fn new() -> Arc<Self> {
        let shared = fpl::Server { factors: 4, init_deviation: 0.1 };
        let parameters = shared.init(ITEMS, &mut Rng::new(5)).unwrap();
        let model = SharedModel { federation: FederationId(9), version: ModelVersion(0), parameters };
        let terms = TermsDraft {
            federation: FederationId(9),
            cohort_size: 3,
            model: spec(),
            samples: true,
            ..TermsDraft::default()
        };
        Arc::new(Self(Mutex::new(World {
            terms,
            versions: vec![Arc::new(model)],
            differences: true,
            private_models: false,
            devices: BTreeMap::new(),
            withdrawn: Vec::new(),
            updates: BTreeMap::new(),
            issuer: None,
            tokens: BTreeMap::new(),
            anonymous: BTreeMap::new(),
            refusals: Vec::new(),
            requests: Vec::new(),
            faults: Vec::new(),
            override_response: |_| None,
            state: "waiting",
            rolled_back: None,
        })))
    }

    pub fn with<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    pub fn ask_for(&self, criterion: &str) {
        let asked = CriterionRequest { name: criterion.to_owned(), purpose: "to see whether it learns".to_owned() };
        self.with(|world| world.terms.criteria.push(asked));
    }

    /// Asks for uploads without a name: the terms have the key of the first, tokens are made with the second's.
    pub fn ask_for_anonymous_uploads(&self, named: &Issuer, issuer: Issuer) {
        let integers = Quantization { range: 8.0, clip: None, devices: 10, rows: RowLayout::Dense };
        let protection = PrivacyConfig { quantization: Some(integers), ..PrivacyConfig::default() };
        self.with(|world| {
            world.terms.privacy = protection.terms();
            world.terms.privacy.layers.push(anonymous_layer(named));
            world.issuer = Some(issuer);
        });
    }

    /// Adds up the round's updates, in order of devices, and goes on to the next.
    pub fn close_round(&self) {
        self.with(|world| {
            let mut model = SharedModel::clone(world.versions.last().unwrap());
            let mut received = Received::new(&model.parameters.layout());
            let round = world.terms.round.0;
            for (_, bytes, _) in world.updates.iter().filter(|((_, of), _)| *of == round).map(|(_, update)| update) {
                codec::decode_update(bytes, &mut received).unwrap();
                received.check(&RoundTerms::freeze(world.terms.clone()).unwrap()).unwrap();
                for (row, values) in received.update().tables()[0].iter() {
                    let row = model.parameters.tables_mut()[0].row_mut(row);
                    row.iter_mut().zip(values).for_each(|(value, change)| *value += 0.05 * change);
                }
            }
            model.version.0 += 1;
            world.terms.version = model.version;
            world.terms.round.0 += 1;
            world.versions.push(Arc::new(model));
        });
    }

    pub fn paths(&self) -> Vec<String> {
        self.with(|world| {
            let disclosed = |request: &Request| {
                let path = request.path.trim_start_matches("/v1/federations/films");
                format!("{} {path}", request.method.name())
            };
            world.requests.drain(..).map(|request| disclosed(&request)).collect()
        })
    }
}

fn answer(status: u16) -> Response {
    Response { status, ..Response::default() }
}

pub fn problem(status: u16, code: &str) -> Response {
    let body = format!(r#"{{"code":"{code}","status":{status},"title":"no","detail":"because {code}"}}"#);
    Response { body: body.into_bytes(), ..answer(status) }
}

impl World {
    fn handle(&mut self, request: &Request) -> Response {
        let path = request.path.strip_prefix("/v1/federations/films/").unwrap_or_default();
        let parts: Vec<&str> = path.split('/').collect();
        let bearer = request.bearer.as_deref().unwrap_or_default();
        let device = self.devices.get(bearer).copied();
        match (request.method, &parts[..]) {
            (Method::Get, ["catalog"]) => Response { body: catalog().into_bytes(), ..answer(200) },
            (Method::Post, ["devices"]) if bearer == TOKEN => self.enrol(request.idempotency_key.as_deref().unwrap()),
            (Method::Post, ["rounds", _, "anonymous-updates"]) => self.upload_anonymously(request),
            (Method::Get, ["models", ..]) if self.private_models && device.is_none() => problem(401, "no-credential"),
            (Method::Get, ["models", version]) => self.model(version.parse().unwrap()),
            (Method::Get, ["models", version, "from", held]) => {
                self.difference(version.parse().unwrap(), held.parse().unwrap())
            }
            _ => match device {
                None => problem(401, "bad-credential"),
                Some(device) => self.for_device(device, request, &parts),
            },
        }
    }

    fn for_device(&mut self, device: u64, request: &Request, parts: &[&str]) -> Response {
        match (request.method, parts) {
            (Method::Post, ["check-in"]) => self.check_in(device),
            (Method::Post, ["rounds", round, "updates"]) => self.upload(device, round.parse().unwrap(), request),
            (Method::Post, ["rounds", _, "token"]) => self.issue_token(device, request),
            (Method::Post, ["rounds", _, "refusal"]) => {
                let (_, round, refusal) = codec::decode_refusal(&request.body).unwrap();
                assert_eq!(round, self.terms.round);
                self.refusals.push((device, refusal));
                answer(204)
            }
            (Method::Delete, ["devices", "me"]) => {
                self.devices.retain(|_, &mut other| other != device);
                self.withdrawn.push(device);
                answer(204)
            }
            _ => problem(404, "no-such-thing"),
        }
    }

    fn issue_token(&mut self, device: u64, request: &Request) -> Response {
        let blinded = BlindedElement::from_bytes(&request.body).unwrap();
        if *self.tokens.entry(device).or_insert(blinded) != blinded {
            return problem(409, "token-taken");
        }
        let response = self.issuer.as_ref().unwrap().evaluate(&blinded, &mut SecureRng::new([9; 32]));
        Response { body: response.to_bytes().to_vec(), ..answer(200) }
    }

    fn upload_anonymously(&mut self, request: &Request) -> Response {
        assert_eq!(request.bearer, None);
        let token = from_hex(request.round_token.as_deref().unwrap()).unwrap();
        let token = Token::from_bytes(&token).unwrap();
        self.issuer.as_ref().unwrap().check(&token).unwrap();
        let entry = self.anonymous.entry(token.nullifier()).or_insert((request.body.to_vec(), 0));
        assert_eq!(entry.0, request.body[..]);
        entry.1 += 1;
        answer(if entry.1 == 1 { 201 } else { 200 })
    }

    fn enrol(&mut self, key: &str) -> Response {
        let next = (self.devices.len() + self.withdrawn.len()) as u64;
        let device = *self.devices.entry(format!("svd_{key}")).or_insert(next);
        let body = format!(r#"{{"device":{device},"credential":"svd_{key}"}}"#);
        Response { body: body.into_bytes(), ..answer(201) }
    }

    fn check_in(&mut self, device: u64) -> Response {
        let round = self.terms.round.0;
        let answered = self.updates.contains_key(&(device, round));
        if answered || self.state != "waiting" {
            let state = if answered { "done" } else { self.state };
            let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let headers = vec![header("retry-after", "7"), header("sottovoce-state", state)];
            return Response { headers, ..answer(204) };
        }
        let mut body = Vec::new();
        codec::encode_terms(&RoundTerms::freeze(self.terms.clone()).unwrap(), &mut body);
        let digest = Digest::of(&self.versions.last().unwrap().parameters).to_string();
        let mut headers = vec![("sottovoce-model-digest".to_owned(), digest)];
        let rolled_back = self.rolled_back.map(|version| ("sottovoce-went-back".to_owned(), version.to_string()));
        headers.extend(rolled_back);
        Response { status: 200, headers, body }
    }

    fn model(&self, version: usize) -> Response {
        let mut body = Vec::new();
        codec::encode_model(&self.versions[version], ValueEncoding::F32, &mut body).unwrap();
        Response { body, ..answer(200) }
    }

    fn difference(&self, version: usize, held: usize) -> Response {
        if !self.differences {
            return problem(404, "no-difference");
        }
        let (held, next) = (&self.versions[held], &self.versions[version]);
        let row = |model: &SharedModel, table: usize, row| model.parameters.tables()[table].row(row).to_vec();
        let changed = |table, at| row(held, table, at) != row(next, table, at);
        let base = (held.version, held.parameters.checksum());
        let difference = Difference::since_version(next, base, ValueEncoding::F32, changed).unwrap();
        let mut body = Vec::new();
        codec::encode_difference(&difference, &mut body).unwrap();
        Response { body, ..answer(200) }
    }

    fn upload(&mut self, device: u64, round: u64, request: &Request) -> Response {
        if RoundId(round) != self.terms.round {
            return problem(409, "round-closed");
        }
        let key = request.idempotency_key.clone().unwrap();
        match self.updates.get_mut(&(device, round)) {
            None => {
                self.updates.insert((device, round), (key, request.body.to_vec(), 1));
                answer(201)
            }
            Some((had, bytes, times)) if *had == key && bytes[..] == request.body[..] => {
                *times += 1;
                answer(200)
            }
            Some(_) => problem(409, "duplicate"),
        }
    }
}

impl Transport for Server {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let mut world = self.0.lock().unwrap();
        let fault = if world.faults.is_empty() { None } else { world.faults.remove(0) };
        if fault == Some(Fault::Before) {
            return Err(TransportError("no connection".to_owned()));
        }
        world.requests.push(request.clone());
        if fault == Some(Fault::Busy) {
            return Ok(problem(503, "busy"));
        }
        let response = match (world.override_response)(request) {
            Some((status, code)) => problem(status, code),
            None => world.handle(request),
        };
        if response.body.len() as u64 > request.max_response_bytes {
            return Err(TransportError("the answer is too long".to_owned()));
        }
        if fault == Some(Fault::After) { Err(TransportError("connection lost".to_owned())) } else { Ok(response) }
    }
}

pub fn history(user: u64) -> History {
    let ids: Vec<String> = (0..8).map(|n| format!("i{}", (user * 5 + n * 3) % ITEMS as u64)).collect();
    History::from_ids(ids.iter().map(String::as_str))
}

pub fn enrolment(user: u64) -> Enrolment {
    let policy = Policy::new(0.6).unwrap();
    let secret = Secret::new([user as u8 + 1; 32]);
    let seeds = Seeds::Simulated { seed: 3, user };
    let accept = ["open".to_owned()].into();
    Enrolment { history: history(user), seeds, accept, ..Enrolment::new("memory:", "films", TOKEN, secret, policy) }
}

/// A store that outlives the device: a device opened again finds what the one before has stored.
#[derive(Clone, Debug, Default)]
pub struct SharedStore(Arc<Mutex<MemoryStore>>);

impl SharedStore {
    pub fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        self.0.lock().unwrap()
    }
}

impl Store for SharedStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        self.lock().load()
    }

    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.lock().commit(state)
    }

    fn load_model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        self.lock().load_model()
    }

    fn save_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        self.lock().save_model(model)
    }

    fn load_catalog(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        self.lock().load_catalog()
    }

    fn save_catalog(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        self.lock().save_catalog(items)
    }

    fn clear_downloads(&mut self) -> Result<(), StoreError> {
        self.lock().clear_downloads()
    }
}

pub fn options() -> Options {
    Options { timing: Timing { initial_backoff: Duration::from_millis(10), ..Timing::default() }, ..Options::default() }
}

pub fn sharing(models: &Arc<impl ModelCache + 'static>) -> Options {
    let models: Arc<dyn ModelCache> = models.clone();
    Options { models, bounds: Bounds { ledger_bytes: None, ..Bounds::default() }, ..options() }
}

pub fn device(user: u64) -> (Device, SharedStore) {
    let store = SharedStore::default();
    (Device::enrol(Box::new(store.clone()), enrolment(user), options()).unwrap(), store)
}

/// Steps with a clock that passes over rests, until something else than a failure.
pub fn go(device: &mut Device, server: &Server, clock: &mut Duration) -> NextStep {
    for _ in 0..100 {
        let next = device.step(server, *clock).unwrap();
        match &next {
            NextStep::Wait(rest, sottovoce_device::WaitReason::Failed { .. }) => *clock += *rest,
            NextStep::Wait(rest, _) => {
                *clock += *rest;
                return next;
            }
            NextStep::Stop(_) => return next,
        }
    }
    panic!("a hundred failures in a row");
}
