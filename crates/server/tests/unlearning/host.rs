//! A server in this process, in a folder that outlives it, and devices that answer its rounds.

use sottovoce_core::Rng;
use sottovoce_protocol::{DisclosureSeeds, Ledger, Policy, RoundTerms, RowOrigin, Trained, codec};
use sottovoce_server::federation::catalog::CheckedCatalog;
use sottovoce_server::federation::{CheckIn, Federation, FederationConfig, RollbackError, Unlearn};
use sottovoce_server::storage::{self, RoundRecord, Storage, Stored, TokenPurpose};
use sottovoce_server::versions::VersionStore;
use sottovoce_server::{Server, now};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub(crate) const NAME: &str = "town";
const ITEMS: usize = 6;

/// A running server.
pub(crate) struct Host {
    server: Arc<Server>,
    runtime: Runtime,
}

/// Opens the database of a folder, once the server that used it has ended.
pub(crate) fn database(folder: &Path) -> Arc<dyn Storage> {
    let url = format!("sqlite:{}", folder.join("server.sqlite").display());
    let start = Instant::now();
    loop {
        match storage::open(&url) {
            Ok(storage) => return Arc::from(storage),
            Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn config(rounds: u64, unlearn: Unlearn) -> FederationConfig {
    let settings = serde_json::from_str(r#"{"factors": 2}"#).unwrap();
    let rounds = Some(rounds);
    FederationConfig { devices: 2, keep_versions: 3, settings, rounds, unlearn, ..FederationConfig::new("fcf") }
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl Host {
    pub(crate) fn open(folder: &Path) -> Self {
        let runtime = runtime();
        Self::open_on(folder, database(folder), runtime)
    }

    /// Opens a server on this database.
    pub(crate) fn open_on(folder: &Path, storage: Arc<dyn Storage>, runtime: Runtime) -> Self {
        let versions = VersionStore::open(&folder.join("models").display().to_string()).unwrap();
        let uploads = Some(folder.join("uploads"));
        let server = runtime.block_on(Server::open(storage, versions, uploads)).unwrap();
        Self { server, runtime }
    }

    /// Ends like a killed process: nothing is stored on the way.
    pub(crate) fn kill(self) {
        self.server.stop();
        let Self { server, runtime } = self;
        drop(server);
        runtime.shutdown_timeout(Duration::from_secs(5));
    }

    pub(crate) fn create(&self, config: FederationConfig) {
        let lines = (0..ITEMS).map(|number| format!("i{number}\tTitle\t\n"));
        let catalog = std::iter::once("item\ttitle\tcategories\n".to_owned()).chain(lines).collect();
        self.runtime.block_on(self.server.create_federation(NAME, config, catalog)).unwrap();
    }

    pub(crate) fn federation(&self) -> Arc<Federation> {
        self.server.federation(NAME).unwrap()
    }

    /// Records of closed rounds, the latest first.
    pub(crate) fn rounds(&self) -> Vec<RoundRecord> {
        self.runtime.block_on(self.server.rounds(self.federation().id, None, 100)).unwrap()
    }

    pub(crate) fn digest(&self) -> String {
        self.federation().public().digest
    }

    /// Enrols a device; returns its number.
    pub(crate) fn enrol(&self, key: &str) -> u32 {
        let federation = self.federation();
        let purpose = TokenPurpose::Enrolment { federation: federation.id, uses: None };
        let (token, _) = self.runtime.block_on(self.server.add_token(purpose, "", None)).unwrap();
        self.runtime.block_on(self.server.enrol(&federation, &token, key)).unwrap().device
    }

    pub(crate) fn withdraw(&self, device: u32) {
        self.runtime.block_on(self.federation().withdraw(device)).unwrap();
    }

    /// Rolls training back, as an operator does.
    pub(crate) fn roll_back(&self, version: u64) -> Result<(), RollbackError> {
        self.runtime.block_on(self.federation().roll_back_to(version))
    }

    /// Holds a round with these devices, each with the number of its person; returns the digest of its version.
    pub(crate) fn round(&self, people: &[(u32, u32)]) -> String {
        let federation = self.federation();
        let before = federation.public().version;
        self.answer(people);
        wait_until("the round produces a version", || federation.public().version > before);
        self.digest()
    }

    /// These devices answer the open round.
    pub(crate) fn answer(&self, people: &[(u32, u32)]) {
        let federation = self.federation();
        for &(device, person) in people {
            let mut selected = None;
            wait_until("the device is selected", || {
                selected = match federation.check_in(device, false, now()) {
                    CheckIn::Selected { terms, .. } => Some(terms),
                    CheckIn::Later { .. } => None,
                };
                selected.is_some()
            });
            let terms = codec::decode_terms(&selected.unwrap()).unwrap();
            let bytes = update(person, &terms);
            let from = (device, terms.round.0);
            let sent = federation.receive_update(from, "key", bytes.into());
            self.runtime.block_on(sent).unwrap();
        }
    }
}

/// The update of a person, the same in every round.
fn update(person: u32, terms: &RoundTerms) -> Vec<u8> {
    let catalog = CheckedCatalog { items: ITEMS, facts: None };
    let hosted = config(1, Unlearn::None).host(0, &catalog).unwrap();
    let mut trained = Trained::new(hosted.coordinator.layout());
    let value = 0.1 + person as f32;
    trained.push_row(0, person, RowOrigin::Other).unwrap().fill(value);
    trained.push_row(0, person + 1, RowOrigin::Other).unwrap().fill(-value);
    let policy = Policy::new(1.0).unwrap();
    let disclosed =
        trained.disclose(&policy, terms, 0, &mut Ledger::new(), DisclosureSeeds::once(&mut Rng::new(1))).unwrap();
    let mut bytes = Vec::new();
    codec::encode_update(&disclosed, &mut bytes);
    bytes
}

/// Numbers of the versions in a database.
pub(crate) fn versions(stored: &Stored) -> Vec<u64> {
    stored.versions.iter().map(|version| version.version).collect()
}

/// Numbers of the versions whose objects are in a folder.
pub(crate) fn objects(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder.join("models/federations/0")).unwrap();
    let number = |name: &str| name.strip_suffix(".safetensors")?.parse().ok();
    let mut numbers: Vec<u64> = files.filter_map(|file| number(file.unwrap().file_name().to_str()?)).collect();
    numbers.sort_unstable();
    numbers
}
