//! A server with a federation of many devices.

use crate::callers::{Commits, Outcome, call, probe};
use sottovoce_core::Rng;
use sottovoce_models::settings::Value;
use sottovoce_protocol::{
    DisclosureSeeds, FederationId, Layout, Ledger, Policy, RoundId, RoundTerms, RowOrigin, TermsDraft, Trained, codec,
};
use sottovoce_server::Server;
use sottovoce_server::federation::catalog::CheckedCatalog;
use sottovoce_server::federation::{Federation, FederationConfig};
use sottovoce_server::http::serve::{self, ListenOptions};
use sottovoce_server::storage::{self, TokenPurpose};
use sottovoce_server::versions::VersionStore;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const ITEMS: usize = 2000;
/// Check-ins at a time that are measured.
pub(crate) const CHECK_INS: usize = 60_000;

/// A listening server and its devices' credentials.
pub(crate) struct World {
    server: Arc<Server>,
    federation: Arc<Federation>,
    address: SocketAddr,
    credentials: Arc<Vec<String>>,
    /// An update's bytes for round 0; other rounds differ in their number only.
    pub(crate) update: Vec<u8>,
    layout: Layout,
    round: u64,
    pub(crate) counted: Commits,
    _folder: tempfile::TempDir,
}

/// A check-in as it goes over the wire.
pub(crate) fn check_in(federation: &str, credential: &str) -> Vec<u8> {
    format!(
        "POST /v1/federations/{federation}/check-in HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn upload(round: u64, credential: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/federations/load/rounds/{round}/updates HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {credential}\r\n\
         Idempotency-Key: k{round}\r\nContent-Type: application/vnd.sottovoce\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut request = Vec::with_capacity(head.len() + body.len());
    request.extend_from_slice(head.as_bytes());
    request.extend_from_slice(body);
    request
}

impl World {
    pub(crate) async fn start(devices: u32, bytes: usize) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let storage = storage::open(&folder.path().join("load.sqlite").display().to_string())?;
        let versions = VersionStore::open(&folder.path().join("models").display().to_string())?;
        let server = Server::open(Arc::from(storage), versions, None).await?;
        let mut config = FederationConfig::new("fpl");
        // The cost of single updates: so many would be sealed otherwise.
        let open = ("seal".to_owned(), Value::Word("none".to_owned()));
        config.settings = [("triples".to_owned(), Value::Integer(60)), open].into();
        (config.devices, config.rounds) = (devices, Some(1000));
        let catalog = std::iter::once("item".to_owned()).chain((0..ITEMS).map(|item| item.to_string()));
        let federation =
            server.create_federation("load", config.clone(), catalog.collect::<Vec<_>>().join("\n")).await?;
        let credentials = enrol(&server, &federation, devices).await?;
        let (listener, address) = serve::listen("127.0.0.1:0").await?;
        let options = ListenOptions::default();
        let serving = serve::serve(Arc::clone(&server), listener, options, std::future::pending());
        tokio::spawn(serving);
        let hosted = config.host(federation.id, &CheckedCatalog { items: ITEMS, facts: None })?;
        let layout = hosted.coordinator.layout().clone();
        let update = update(&layout, (federation.id, 0), bytes)?;
        let (round, counted) = (0, Commits::default());
        let credentials = Arc::new(credentials);
        let mut world =
            Self { server, federation, address, credentials, update, layout, round, counted, _folder: folder };
        world.counted = world.commits();
        Ok(world)
    }

    /// All devices send their update, and a probe checks in meanwhile.
    pub(crate) async fn upload_all(&mut self, callers: usize) -> Result<Outcome, Box<dyn Error>> {
        self.until_open().await;
        self.counted = self.commits();
        let (round, body) =
            (self.round, Arc::new(update(&self.layout, (self.federation.id, self.round), self.update.len())?));
        let stop = Arc::new(Notify::new());
        let outsider = check_in("load", &self.credentials[0]);
        let probing = tokio::spawn(probe(self.address, outsider, Arc::clone(&stop)));
        let credentials = Arc::clone(&self.credentials);
        let made = Arc::new(move |place: usize| upload(round, &credentials[place], &body));
        let rate = call(self.address, callers, self.credentials.len(), made, 201).await?;
        stop.notify_one();
        let mut times = probing.await?;
        times.sort_unstable();
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
        self.round += 1;
        Ok(Outcome { rate, p50: at(0.5), p99: at(0.99) })
    }

    /// All devices check in, and are given the terms of a round.
    pub(crate) async fn check_in_all(&mut self, callers: usize) -> Result<Outcome, Box<dyn Error>> {
        self.until_open().await;
        let credentials = Arc::clone(&self.credentials);
        let devices = credentials.len();
        let made = Arc::new(move |place: usize| check_in("load", &credentials[place % devices]));
        let rate = call(self.address, callers, CHECK_INS, made, 200).await?;
        Ok(Outcome { rate, p50: Duration::ZERO, p99: Duration::ZERO })
    }

    async fn until_open(&self) {
        loop {
            let view = self.federation.view(sottovoce_server::now());
            if view.under_way.is_some_and(|round| round.round == self.round && round.stored == 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The commits so far.
    pub(crate) fn commits(&self) -> Commits {
        let text = self.server.metrics();
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<f64>().ok()).unwrap_or(0.0) as u64
        };
        Commits { commits: number("sottovoce_commit_changes_count"), changes: number("sottovoce_commit_changes_sum") }
    }
}

/// Enrols many at the same time, so that they share transactions.
async fn enrol(
    server: &Arc<Server>,
    federation: &Arc<Federation>,
    devices: u32,
) -> Result<Vec<String>, Box<dyn Error>> {
    let purpose = TokenPurpose::Enrolment { federation: federation.id, uses: None };
    let (token, _) = server.add_token(purpose, "load", None).await?;
    let token = Arc::new(token);
    let mut credentials = Vec::new();
    let all: Vec<u32> = (0..devices).collect();
    for some in all.chunks(500) {
        let mut tasks = Vec::new();
        for &device in some {
            let (server, federation, token) = (Arc::clone(server), Arc::clone(federation), Arc::clone(&token));
            tasks.push(tokio::spawn(
                async move { server.enrol(&federation, &token, &format!("device-{device}")).await },
            ));
        }
        for task in tasks {
            credentials.push(task.await??.credential);
        }
    }
    Ok(credentials)
}

/// An update of about so many bytes, with values that do not compress.
fn update(layout: &Layout, (federation, round): (u64, u64), bytes: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let terms = TermsDraft { federation: FederationId(federation), round: RoundId(round), ..TermsDraft::default() };
    let (terms, mut rng) = (RoundTerms::freeze(terms)?, Rng::new(3));
    let width = layout.shapes()[0].cols as usize;
    let mut trained = Trained::new(layout);
    for row in 0..(bytes / (4 * width + 1)) as u32 {
        rng.fill_normal(0.01, trained.push_row(0, 7 * row, RowOrigin::Other)?);
    }
    let disclosed =
        trained.disclose(&Policy::new(1.0)?, &terms, 0, &mut Ledger::totals_only(), DisclosureSeeds::once(&mut rng))?;
    let mut out = Vec::new();
    codec::encode_update(&disclosed, &mut out);
    Ok(out)
}
