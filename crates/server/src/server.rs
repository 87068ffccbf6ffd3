//! The server without its network: federations, tokens, and what they stand on.

use crate::clerk::{Clerk, ClerkError};
use crate::federation::drive::{Tools, drive};
use crate::federation::{
    CatalogError, ConfigError, Federation, FederationConfig, FoundError, Founded, KeepError, Published,
    Unlearn, catalog, config,
};
use crate::metrics::Metrics;
use crate::now;
use crate::secret::{self, Kind, NoRandomness};
use crate::storage::{
    AnonymousReceipt, Change, DeviceRecord, FederationRecord, Hash, Millis, OpenRound, Purpose, Receipt,
    RoundRecord, Standing, Storage, StorageError, TokenRecord, VersionRecord,
};
use crate::tokens::{Role, TokenView, Tokens};
use crate::versions::{VersionState, Versions, VersionsError};
use sottovoce_federation::registry::HostError;
use sottovoce_federation::{FederationError, Hosted};
use sottovoce_protocol::ModelVersion;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::task::JoinSet;

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The shared models.
    #[error(transparent)]
    Versions(#[from] VersionsError),
    /// A federation.
    #[error(transparent)]
    Found(#[from] FoundError),
    /// A thread.
    #[error("no thread can be started: {0}")]
    Thread(#[from] std::io::Error),
    /// Randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The first token.
    #[error("the first operator's token cannot be stored: {0}")]
    Token(#[from] ClerkError),
}

/// Why a federation was not created.
#[derive(Debug, thiserror::Error)]
pub enum FoundingError {
    /// Its name, or a value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its catalog.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There is one of this name.
    #[error("there is a federation {0} already")]
    Taken(String),
    /// It could not be written down.
    #[error(transparent)]
    Clerk(#[from] ClerkError),
    /// Its first version could not be written.
    #[error(transparent)]
    Versions(#[from] VersionsError),
    /// What was written makes no sense.
    #[error(transparent)]
    Found(#[from] FoundError),
    /// Its model.
    #[error(transparent)]
    Model(#[from] FederationError),
}

impl From<HostError> for FoundingError {
    fn from(error: HostError) -> Self {
        Self::Config(ConfigError::Model(error))
    }
}

/// Why a device was not enrolled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnrolError {
    /// Not a token of this federation, or no longer.
    #[error("this token does not let devices into this federation")]
    BadToken,
    /// It has been used as often as it may.
    #[error("this token has been used as often as it may")]
    UsedUp,
    /// Try again.
    #[error("busy; try again with the same key")]
    Busy,
    /// It could not be written down.
    #[error("the enrolment could not be stored; try again later with the same key")]
    NotStored,
}

/// Why a device has not withdrawn.
#[derive(Debug, thiserror::Error)]
pub enum WithdrawError {
    /// It could not be written down.
    #[error(transparent)]
    Clerk(#[from] ClerkError),
    /// What is kept of it could not be deleted.
    #[error(transparent)]
    Kept(#[from] KeepError),
}

/// A device that is enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub device: u32,
    /// Its credential; it is not stored here.
    pub credential: String,
    /// Whether it had enrolled before with the same key.
    pub again: bool,
}

/// All federations and what they stand on.
pub struct Server {
    storage: Arc<dyn Storage>,
    pub(crate) clerk: Clerk,
    versions: Arc<Versions>,
    /// Where federations may keep uploads.
    uploads: Option<PathBuf>,
    secret: Hash,
    federations: RwLock<BTreeMap<String, Arc<Federation>>>,
    tokens: Mutex<Tokens>,
    /// Credentials that are being written down.
    enrolling: Mutex<HashSet<Hash>>,
    /// One federation is founded at a time; the number of the next.
    founding: tokio::sync::Mutex<u64>,
    tasks: Mutex<JoinSet<()>>,
    /// What is measured.
    pub metrics: Arc<Metrics>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Begins with what is stored, and goes on with all rounds under way.
    ///
    /// # Errors
    /// If something cannot be read or makes no sense.
    pub async fn open(storage: Arc<dyn Storage>, versions: Versions) -> Result<Arc<Self>, OpenError> {
        Self::open_with_uploads(storage, versions, None).await
    }

    /// The same with a folder for uploads, where federations are to keep them.
    ///
    /// # Errors
    /// If something cannot be read or makes no sense.
    pub async fn open_with_uploads(
        storage: Arc<dyn Storage>,
        versions: Versions,
        uploads: Option<PathBuf>,
    ) -> Result<Arc<Self>, OpenError> {
        let reading = Arc::clone(&storage);
        let read = move || Ok::<_, StorageError>((reading.load()?, reading.secret()?));
        let loaded = tokio::task::spawn_blocking(read);
        let (stored, secret) = loaded.await.map_err(std::io::Error::other)??;
        let metrics = Arc::new(Metrics::new());
        let clerk = Clerk::start(Arc::clone(&storage), Arc::clone(&metrics) as Arc<_>)?;
        let server = Arc::new(Self {
            storage,
            clerk,
            versions: Arc::new(versions),
            uploads,
            secret,
            federations: RwLock::default(),
            tokens: Mutex::new(Tokens::new(stored.tokens, stored.next_token)),
            enrolling: Mutex::default(),
            founding: tokio::sync::Mutex::new(stored.next_federation),
            tasks: Mutex::default(),
            metrics,
        });
        let mut parts = Parts {
            devices: stored.devices,
            rounds: stored.rounds,
            receipts: stored.receipts,
            anonymous: stored.anonymous,
            versions: stored.versions,
        };
        for record in stored.federations {
            let uploads = server.uploads_of(&record.name);
            let found = parts.take(record, secret, uploads);
            server.go_on(found).await?;
        }
        Ok(server)
    }

    /// Where a federation may keep uploads. Its name can stand in an address, and so in a path.
    fn uploads_of(&self, name: &str) -> Option<PathBuf> {
        self.uploads.as_ref().map(|folder| folder.join(name))
    }

    /// Goes on with a federation that is stored.
    async fn go_on(self: &Arc<Self>, found: Founded) -> Result<(), OpenError> {
        let record = &found.record;
        let wrong = |reason: String| FoundError::Record { name: record.name.clone(), reason };
        let config: FederationConfig =
            serde_json::from_str(&record.config).map_err(|error| wrong(error.to_string()))?;
        let text = std::str::from_utf8(&record.catalog).map_err(|error| wrong(error.to_string()))?;
        let catalog = catalog::check(text).map_err(|error| wrong(error.to_string()))?;
        let mut hosted = config.host(record.id, &catalog).map_err(|error| wrong(error.to_string()))?;
        let VersionState { version, shared, state, .. } =
            self.versions.get(record.id, record.version).await?;
        let resumed = hosted.coordinator.resume(ModelVersion(version), shared, &mut &state[..]);
        resumed.map_err(|error| wrong(format!("version {version}: {error}")))?;
        let notes = found.round.as_ref().map(|round| round.notes.clone()).unwrap_or_default();
        let federation = Federation::new(found, config, hosted)?;
        let storage = Arc::clone(&self.storage);
        let again = tokio::task::spawn_blocking(move || {
            federation.hear_again(&notes, storage.as_ref()).map(|()| federation)
        });
        self.host(again.await.map_err(std::io::Error::other)??);
        Ok(())
    }

    fn host(self: &Arc<Self>, federation: Federation) -> Arc<Federation> {
        let federation = Arc::new(federation);
        let mut all = self.federations.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(federation.name.clone(), Arc::clone(&federation));
        let tools = Tools {
            storage: Arc::clone(&self.storage),
            clerk: self.clerk.clone(),
            versions: Arc::clone(&self.versions),
            observer: Arc::clone(&self.metrics) as Arc<_>,
        };
        lock(&self.tasks).spawn(drive(Arc::clone(&federation), tools));
        federation
    }

    /// Creates a federation; it runs at once.
    ///
    /// # Errors
    /// If its name is taken, or its configuration or catalog is wrong; then nothing is created.
    pub async fn found(
        self: &Arc<Self>,
        name: &str,
        config: FederationConfig,
        catalog_text: String,
    ) -> Result<Arc<Federation>, FoundingError> {
        config::check_name(name)?;
        config.check()?;
        let catalog = catalog::check(&catalog_text)?;
        let mut next = self.founding.lock().await;
        if self.federation(name).is_some() {
            return Err(FoundingError::Taken(name.to_owned()));
        }
        let id = *next;
        let hosted = config.host(id, &catalog)?;
        config.check_sealing(&hosted.coordinator)?;
        config.check_recording(&hosted.coordinator, self.uploads.is_some())?;
        let version = self.first_version(id, name, &config, &hosted).await?;
        let record = FederationRecord {
            id,
            name: name.to_owned(),
            config: serde_json::to_string(&config).unwrap_or_default(),
            catalog: catalog_text.into_bytes(),
            created: now(),
            standing: Standing::Running,
            next_device: 0,
            next_round: 0,
            version: 0,
            undone: 0,
            went_back: None,
            unlearn: None,
        };
        let change = Change::Found(Box::new(record.clone()), version.clone());
        self.clerk.write(vec![change]).await?;
        *next += 1;
        let (devices, round, versions) = (Vec::new(), None, vec![version]);
        let (receipts, anonymous, secret) = (Vec::new(), Vec::new(), self.secret);
        let uploads = self.uploads_of(name);
        let found = Founded { record, devices, round, receipts, anonymous, versions, secret, uploads };
        tracing::info!(federation = name, model = %config.model, items = catalog.items, "federation created");
        Ok(self.host(Federation::new(found, config, hosted)?))
    }

    async fn first_version(
        &self,
        id: u64,
        name: &str,
        config: &FederationConfig,
        hosted: &Hosted,
    ) -> Result<VersionRecord, FoundingError> {
        let mut memory = Vec::new();
        hosted
            .coordinator
            .save_memory(&mut memory)
            .map_err(|error| FoundError::Record { name: name.to_owned(), reason: error.to_string() })?;
        let state = VersionState {
            federation: id,
            version: 0,
            name: name.to_owned(),
            model: config.model.clone(),
            shared: hosted.coordinator.shared().parameters.clone(),
            state: memory,
        };
        let bytes = self.versions.put(&state, None).await?;
        let digest = Published::of(&hosted.coordinator)?.digest;
        Ok(VersionRecord { federation: id, version: 0, digest, bytes, created: now(), rounds: 0 })
    }

    /// The federation of this name.
    pub fn federation(&self, name: &str) -> Option<Arc<Federation>> {
        self.federations.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All federations, by name.
    pub fn federations(&self) -> Vec<Arc<Federation>> {
        self.federations.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Changes whether a federation trains.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub async fn stand(&self, federation: &Federation, standing: Standing) -> Result<(), ClerkError> {
        let change = Change::Stand { federation: federation.id, standing: standing.clone() };
        self.clerk.write(vec![change]).await?;
        federation.set_standing(standing);
        Ok(())
    }

    /// Enrols a device; with the same key and token again, the same one.
    ///
    /// # Errors
    /// If the token is not taken, or the device could not be written down.
    pub async fn enrol(&self, federation: &Federation, token: &str, key: &str) -> Result<Found, EnrolError> {
        let hash = secret::hash(token);
        let token = {
            let tokens = lock(&self.tokens);
            let record = tokens.find(&hash, now()).ok_or(EnrolError::BadToken)?;
            match record.purpose {
                Purpose::Enrolment { federation: of, .. } if of == federation.id => record.id,
                _ => return Err(EnrolError::BadToken),
            }
        };
        let credential = secret::credential(&self.secret, federation.id, &hash, key);
        let known = secret::hash(&credential);
        if !lock(&self.enrolling).insert(known) {
            return Err(EnrolError::Busy);
        }
        let enrolled = self.write_enrolment(federation, token, known).await;
        lock(&self.enrolling).remove(&known);
        let (device, again) = enrolled?;
        Ok(Found { device, credential, again })
    }

    async fn write_enrolment(
        &self,
        federation: &Federation,
        token: u64,
        credential: Hash,
    ) -> Result<(u32, bool), EnrolError> {
        match federation.caller(&credential) {
            crate::federation::Caller::Device(device) => return Ok((device, true)),
            crate::federation::Caller::Revoked => return Err(EnrolError::BadToken),
            crate::federation::Caller::Unknown => (),
        }
        if !lock(&self.tokens).spend(token) {
            return Err(EnrolError::UsedUp);
        }
        let (at, revoked) = (now(), false);
        let (device, handed_in) = federation.number(at, |number, enrolled| {
            let device =
                DeviceRecord { federation: federation.id, number, credential, enrolled, seen: at, revoked };
            let change = Change::Enrol { device: device.clone(), token };
            (device, self.clerk.hand_in(vec![change]))
        });
        let written = match handed_in {
            Ok(handed_in) => handed_in.written().await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            lock(&self.tokens).give_back(token);
            return Err(match error {
                ClerkError::Busy | ClerkError::Gone => EnrolError::Busy,
                ClerkError::Storage(_) => EnrolError::NotStored,
            });
        }
        federation.enrolled(&device);
        self.metrics.enrolled(&federation.name);
        Ok((device.number, false))
    }

    /// A device withdraws: nothing of it is kept, and where the configuration says so training goes back to before it.
    ///
    /// # Errors
    /// If what is kept of it could not be deleted, or the withdrawal could not be written down.
    pub async fn withdraw(&self, federation: &Federation, device: u32) -> Result<(), WithdrawError> {
        let _undisturbed = federation.forget_uploads(device).await?;
        let unlearn = federation.config.unlearn == Unlearn::Retrain;
        self.clerk.write(vec![Change::Withdraw { federation: federation.id, device, unlearn }]).await?;
        federation.gone(device, false, now());
        Ok(())
    }

    /// Shuts a device out.
    ///
    /// # Errors
    /// If that could not be written down.
    pub async fn revoke(&self, federation: &Federation, device: u32) -> Result<(), ClerkError> {
        self.clerk.write(vec![Change::Revoke { federation: federation.id, device }]).await?;
        federation.gone(device, true, now());
        Ok(())
    }

    /// Makes a token; it is told once and not stored.
    ///
    /// # Errors
    /// If there is no randomness, or it could not be written down.
    pub async fn add_token(
        &self,
        purpose: Purpose,
        label: &str,
        expires: Option<Millis>,
    ) -> Result<(String, TokenView), OpenError> {
        let kind = match purpose {
            Purpose::Enrolment { .. } => Kind::Enrolment,
            Purpose::Operator { .. } => Kind::Operator,
        };
        let token = secret::new(kind)?;
        // Numbers are written down in their order.
        let (record, handed_in) = {
            let mut tokens = lock(&self.tokens);
            tokens.next += 1;
            let (hash, label) = (secret::hash(&token), label.to_owned());
            let record = TokenRecord { id: tokens.next - 1, purpose, hash, label, created: now(), expires };
            let handed_in = self.clerk.hand_in(vec![Change::AddToken(record.clone())]);
            (record, handed_in?)
        };
        handed_in.written().await?;
        let view = TokenView::from(&record);
        lock(&self.tokens).add(record);
        Ok((token, view))
    }

    /// A token is no longer taken; says whether there was one.
    ///
    /// # Errors
    /// If that could not be written down.
    pub async fn remove_token(&self, id: u64) -> Result<bool, ClerkError> {
        if lock(&self.tokens).get(id).is_none() {
            return Ok(false);
        }
        self.clerk.write(vec![Change::RemoveToken { id }]).await?;
        lock(&self.tokens).remove(id);
        Ok(true)
    }

    /// Tokens that operators see: for enrolling in a federation, or operators' own.
    pub fn tokens(&self, of: Option<u64>) -> Vec<TokenView> {
        let wanted = |record: &&TokenRecord| match record.purpose {
            Purpose::Enrolment { federation, .. } => Some(federation) == of,
            Purpose::Operator { .. } => of.is_none(),
        };
        lock(&self.tokens).iter().filter(wanted).map(TokenView::from).collect()
    }

    /// Whether a token is for enrolling in this federation, or an operator's.
    pub fn is_token_of(&self, id: u64, of: Option<u64>) -> bool {
        self.tokens(of).iter().any(|token| token.id == id)
    }

    /// The role that a token gives.
    pub fn role(&self, token: &str) -> Option<Role> {
        secret::is_of(Kind::Operator, token).then_some(())?;
        lock(&self.tokens).role(&secret::hash(token), now())
    }

    /// Whether nobody could do anything yet: there is no admin's token.
    pub fn has_no_admin(&self) -> bool {
        let is_admin =
            |record: &TokenRecord| record.purpose == Purpose::Operator { role: Role::Admin.to_string() };
        !lock(&self.tokens).iter().any(is_admin)
    }

    /// Rounds that are over, the latest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn rounds(
        &self,
        federation: u64,
        before: Option<u64>,
        most: usize,
    ) -> Result<Vec<RoundRecord>, StorageError> {
        let storage = Arc::clone(&self.storage);
        let read = tokio::task::spawn_blocking(move || storage.rounds(federation, before, most)).await;
        read.unwrap_or_else(|error| {
            Err(StorageError::Database { what: "reading rounds".to_owned(), reason: error.to_string() })
        })
    }

    /// Whether the database answers and takes what is written.
    pub async fn is_ready(&self) -> bool {
        let storage = Arc::clone(&self.storage);
        let answers = tokio::task::spawn_blocking(move || storage.ping().is_ok()).await.unwrap_or(false);
        answers && self.clerk.is_well()
    }

    /// Stops opening and closing rounds. What is under way is gone on with at the next start.
    pub fn stop(&self) {
        lock(&self.tasks).abort_all();
    }
}

/// What is stored of all federations, to be dealt out.
struct Parts {
    devices: Vec<DeviceRecord>,
    rounds: Vec<OpenRound>,
    receipts: Vec<(u64, u64, Receipt)>,
    anonymous: Vec<(u64, u64, AnonymousReceipt)>,
    versions: Vec<VersionRecord>,
}

impl Parts {
    fn take(&mut self, record: FederationRecord, secret: Hash, uploads: Option<PathBuf>) -> Founded {
        let id = record.id;
        let devices = self.devices.extract_if(.., |device| device.federation == id).collect();
        let round = self.rounds.extract_if(.., |round| round.opening.federation == id).next();
        let receipts = self.receipts.extract_if(.., |(federation, ..)| *federation == id);
        let receipts = receipts.map(|(_, round, receipt)| (round, receipt)).collect();
        let anonymous = self.anonymous.extract_if(.., |(federation, ..)| *federation == id);
        let anonymous = anonymous.map(|(_, round, receipt)| (round, receipt)).collect();
        let versions = self.versions.extract_if(.., |version| version.federation == id).collect();
        Founded { record, devices, round, receipts, anonymous, versions, secret, uploads }
    }
}
