//! The server without its network interface: federations, devices and tokens.

mod tokens;

pub use tokens::Role;

use crate::commit_queue::{CommitError, CommitQueue};
use crate::error::ServerError;
use crate::federation::round_driver::drive;
use crate::federation::{
    Advertiser, Audiences, Clock, ConfigError, CredentialHolder, Deletion, EndError, Ending, Federation,
    FederationConfig, Published, ResumeError, Services, StoredFederation, catalog, check_name,
};
use crate::metrics::Metrics;
use crate::secret::{self, Kind};
use crate::storage::{
    ActRecord, Change, FederationRecord, Hash, Millis, RoundRecord, Storage, StorageError, Stored, TokenPurpose,
    TokenRecord, VersionRecord,
};
use crate::versions::{VersionState, VersionStore};
use crate::{lock, now};
use sottovoce_federation::HostedFederation;
use sottovoce_protocol::ModelVersion;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokens::Tokens;
use tokio::task::JoinSet;

/// Why a federation was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Its configuration or catalog.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is one of this name.
    #[error("there is a federation {0} already")]
    NameTaken(String),
    /// It cannot be stored or started.
    #[error(transparent)]
    Open(#[from] ServerError),
}

/// Why a device was not enrolled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnrolError {
    /// Not a valid token of this federation.
    #[error("this token does not admit devices to this federation")]
    BadToken,
    /// It has no uses left.
    #[error("this token has no uses left")]
    UsedUp,
    /// The device that enrolled with this key has its credential, and whoever asks again is perhaps another.
    #[error("a device that enrolled with this key has used its credential; enrol with a new, random key")]
    KeyUsed,
    /// Try again.
    #[error("busy; retry with the same key")]
    Busy,
    /// The database.
    #[error("the enrolment could not be stored; retry later with the same key")]
    NotStored,
}

/// An enrolled device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// Its number.
    pub device: u32,
    /// Its credential; the server does not store it.
    pub credential: String,
    /// Whether it had enrolled before with the same key.
    pub again: bool,
}

/// All federations, and what they run on.
pub struct Server {
    pub(crate) services: Services,
    /// The folder of retained uploads.
    uploads: Option<PathBuf>,
    secret: Hash,
    federations: RwLock<BTreeMap<String, Arc<Federation>>>,
    tokens: Mutex<Tokens>,
    /// Credentials that are being stored.
    enrolling: Mutex<HashSet<Hash>>,
    /// Names of deleted federations.
    gone: Mutex<HashSet<String>>,
    /// The number of the next federation; locked while one is created.
    next_federation: tokio::sync::Mutex<u64>,
    tasks: Mutex<JoinSet<()>>,
}

impl Server {
    /// [`open_at`](Self::open_at) with the clock of the system.
    ///
    /// # Errors
    /// As [`open_at`](Self::open_at).
    pub async fn open(
        storage: Arc<dyn Storage>,
        versions: VersionStore,
        uploads: Option<PathBuf>,
    ) -> Result<Arc<Self>, ServerError> {
        Self::open_at(storage, versions, uploads, Arc::new(now)).await
    }

    /// Resumes all stored federations and their open rounds, which are held by this clock. Federations can retain
    /// uploads only if there is a folder for them.
    ///
    /// # Errors
    /// If something cannot be read or is inconsistent.
    pub async fn open_at(
        storage: Arc<dyn Storage>,
        versions: VersionStore,
        uploads: Option<PathBuf>,
        clock: Clock,
    ) -> Result<Arc<Self>, ServerError> {
        let reader = Arc::clone(&storage);
        let load = move || Ok::<_, StorageError>((reader.load()?, reader.secret()?));
        let loaded = tokio::task::spawn_blocking(load).await;
        let (mut stored, secret) = loaded??;
        let metrics = Arc::new(Metrics::new());
        let commits = Arc::clone(&metrics);
        let queue = CommitQueue::start(Arc::clone(&storage), move |changes, took| commits.committed(changes, took))?;
        let server = Arc::new(Self {
            services: Services { storage, queue, versions: Arc::new(versions), metrics, clock },
            uploads,
            secret,
            federations: RwLock::default(),
            tokens: Mutex::new(Tokens::new(std::mem::take(&mut stored.tokens), stored.next_token)),
            enrolling: Mutex::default(),
            gone: Mutex::new(stored.gone.iter().map(|gone| gone.name.clone()).collect()),
            next_federation: tokio::sync::Mutex::new(stored.next_federation),
            tasks: Mutex::default(),
        });
        for record in std::mem::take(&mut stored.federations) {
            server.resume(stored.split_off(record)).await?;
        }
        // What a server that was killed had left to do.
        for gone in stored.gone.iter().filter(|gone| !gone.versions.is_empty()) {
            server.remove_versions(gone.federation, &gone.versions).await?;
        }
        Ok(server)
    }

    /// Removes the objects of a deleted federation's versions.
    async fn remove_versions(&self, federation: u64, versions: &str) -> Result<(), ServerError> {
        for version in versions.split(' ').filter_map(|version| version.parse().ok()) {
            self.services.versions.delete(federation, version).await?;
        }
        Ok(self.services.queue.commit(vec![Change::CleanUp { federation }]).await?)
    }

    /// Whether there was a federation of this name.
    pub(crate) fn was_deleted(&self, name: &str) -> bool {
        lock(&self.gone).contains(name)
    }

    /// Archives or deletes a federation; `confirmed` repeats its name.
    ///
    /// # Errors
    /// If it is not confirmed or another change is under way.
    pub async fn end_federation(&self, federation: &Federation, how: Ending, confirmed: &str) -> Result<(), EndError> {
        federation.end_for_good(how, confirmed).await?;
        lock(&self.tokens).remove_of(federation.id);
        if how == Ending::Delete {
            self.federations.write().unwrap_or_else(PoisonError::into_inner).remove(&federation.name);
            lock(&self.gone).insert(federation.name.clone());
            let versions: Vec<String> = federation.versions().iter().map(u64::to_string).collect();
            // What is left is removed at the next start.
            if let Err(error) = self.remove_versions(federation.id, &versions.join(" ")).await {
                tracing::warn!(federation = %federation.name, %error, "versions are not removed");
            }
        }
        Ok(())
    }

    /// What archiving or deleting a federation would do.
    pub fn deletion(&self, federation: &Federation) -> Deletion {
        federation.deletion(self.tokens(Some(federation.id)).len() + self.advertisers(federation.id).len())
    }

    /// Records what an operator did.
    ///
    /// # Errors
    /// If that could not be stored.
    pub async fn record_act(&self, act: ActRecord) -> Result<(), CommitError> {
        self.services.queue.commit(vec![Change::AddAct(act)]).await
    }

    /// Operators' acts before a number, the latest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn acts(&self, before: Option<u64>, limit: usize) -> Result<Vec<ActRecord>, StorageError> {
        let storage = Arc::clone(&self.services.storage);
        let read = tokio::task::spawn_blocking(move || storage.acts(before, limit)).await;
        read.unwrap_or_else(|error| {
            Err(StorageError::Database { what: "reading acts".to_owned(), reason: error.to_string() })
        })
    }

    /// The operator's token: its number, name and role.
    pub(crate) fn operator(&self, token: &str) -> Option<(u64, String, Role)> {
        secret::is_of(Kind::Operator, token).then_some(())?;
        let tokens = lock(&self.tokens);
        let hash = secret::hash(token);
        let role = tokens.role(&hash, now())?;
        tokens.find(&hash, now()).map(|record| (record.id, record.label.clone(), role))
    }

    /// The folder of a federation's retained uploads. Its name is valid in a path.
    fn uploads_of(&self, name: &str) -> Option<PathBuf> {
        self.uploads.as_ref().map(|folder| folder.join(name))
    }

    /// Resumes a stored federation.
    async fn resume(self: &Arc<Self>, stored: StoredFederation) -> Result<(), ServerError> {
        let record = &stored.record;
        let name = record.name.clone();
        let config: FederationConfig = serde_json::from_str(&record.config).map_err(ResumeError::of(&name))?;
        let text = std::str::from_utf8(&record.catalog).map_err(ResumeError::of(&name))?;
        let catalog = catalog::check(text).map_err(ResumeError::of(&name))?;
        let mut hosted = config.host(record.id, &catalog).map_err(ResumeError::of(&name))?;
        let VersionState { version, shared, state, .. } = self.services.versions.get(record.id, record.version).await?;
        let resumed = hosted.coordinator.resume(ModelVersion(version), shared, &mut &state[..]);
        resumed.map_err(|error| ResumeError::of(&name)(format!("version {version}: {error}")))?;
        let messages = stored.round.as_ref().map(|round| round.messages.clone()).unwrap_or_default();
        let uploads = self.uploads_of(&name);
        let federation = Federation::new(stored, config, hosted, self.secret, uploads, self.services.clone())?;
        let replayed = tokio::task::spawn_blocking(move || federation.replay_seal(&messages).map(|()| federation));
        self.start(replayed.await??);
        Ok(())
    }

    /// Starts the task that drives a federation.
    fn start(&self, federation: Federation) -> Arc<Federation> {
        let federation = Arc::new(federation);
        let mut all = self.federations.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(federation.name.clone(), Arc::clone(&federation));
        lock(&self.tasks).spawn(drive(Arc::clone(&federation)));
        federation
    }

    /// Creates a federation; it starts at once.
    ///
    /// # Errors
    /// If its name is taken, or its configuration or catalog is invalid; then nothing is created.
    pub async fn create_federation(
        &self,
        name: &str,
        mut config: FederationConfig,
        catalog_text: String,
    ) -> Result<Arc<Federation>, CreateError> {
        check_name(name)?;
        config.check()?;
        let catalog = catalog::check(&catalog_text).map_err(ConfigError::from)?;
        let mut next = self.next_federation.lock().await;
        if self.federation(name).is_some() {
            return Err(CreateError::NameTaken(name.to_owned()));
        }
        let id = *next;
        config.keeper = config.keeper.map(|keeper| keeper.founded(&self.secret, id));
        let (config, hosted) = config.founded(id, &catalog, self.uploads.is_some())?;
        let version = self.first_version(id, name, &config, &hosted).await?;
        let json = serde_json::to_string(&config).unwrap_or_default();
        let record = FederationRecord::new(id, name, json, catalog_text.into_bytes(), now());
        let change = Change::CreateFederation(Box::new(record.clone()), version.clone());
        self.services.queue.commit(vec![change]).await.map_err(ServerError::from)?;
        *next += 1;
        tracing::info!(federation = name, model = %config.model, items = catalog.items, "federation created");
        let (devices, receipts, versions) = (Vec::new(), Vec::new(), vec![version]);
        let audiences = Audiences::default();
        let stored = StoredFederation { record, devices, round: None, receipts, versions, audiences };
        let (uploads, services) = (self.uploads_of(name), self.services.clone());
        let federation = Federation::new(stored, config, hosted, self.secret, uploads, services);
        Ok(self.start(federation.map_err(ServerError::from)?))
    }

    async fn first_version(
        &self,
        federation: u64,
        name: &str,
        config: &FederationConfig,
        hosted: &HostedFederation,
    ) -> Result<VersionRecord, CreateError> {
        let state = VersionState::of(&hosted.coordinator, federation, name, &config.model);
        let state = state.map_err(ServerError::from)?;
        let bytes = self.services.versions.put(&state, None).await.map_err(ServerError::from)?;
        let digest = Published::of(&hosted.coordinator).map_err(ConfigError::from)?.digest;
        Ok(VersionRecord { federation, version: 0, digest, bytes, created: now(), rounds: 0 })
    }

    /// The federation of this name.
    pub fn federation(&self, name: &str) -> Option<Arc<Federation>> {
        self.federations.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All federations, by name.
    pub fn federations(&self) -> Vec<Arc<Federation>> {
        self.federations.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Enrols a device; with the same key and token again, the same one, until it has used its credential.
    ///
    /// # Errors
    /// If the token is not valid, or the device could not be stored.
    pub async fn enrol(&self, federation: &Federation, token: &str, key: &str) -> Result<Enrolled, EnrolError> {
        // What follows the secret is for the device.
        let hash = secret::hash(token.split('.').next().unwrap_or_default());
        let token = {
            let tokens = lock(&self.tokens);
            let record = tokens.find(&hash, now()).ok_or(EnrolError::BadToken)?;
            match record.purpose {
                TokenPurpose::Enrolment { federation: of, .. } if of == federation.id => record.id,
                _ => return Err(EnrolError::BadToken),
            }
        };
        let credential = secret::credential(&self.secret, federation.id, &hash, key);
        let credential_hash = secret::hash(&credential);
        if !lock(&self.enrolling).insert(credential_hash) {
            return Err(EnrolError::Busy);
        }
        let enrolled = self.store_enrolment(federation, token, credential_hash).await;
        lock(&self.enrolling).remove(&credential_hash);
        let (device, again) = enrolled?;
        Ok(Enrolled { device, credential, again })
    }

    async fn store_enrolment(
        &self,
        federation: &Federation,
        token: u64,
        credential: Hash,
    ) -> Result<(u32, bool), EnrolError> {
        match federation.credential_holder(&credential) {
            CredentialHolder::Device(device) if federation.has_called(device) => return Err(EnrolError::KeyUsed),
            CredentialHolder::Device(device) => return Ok((device, true)),
            CredentialHolder::Revoked => return Err(EnrolError::BadToken),
            CredentialHolder::Unknown => (),
        }
        if !lock(&self.tokens).spend(token) {
            return Err(EnrolError::UsedUp);
        }
        let added = federation.add_device(credential, token).await;
        added.map(|device| (device, false)).map_err(|error| {
            lock(&self.tokens).unspend(token);
            match error {
                CommitError::Busy | CommitError::ShuttingDown => EnrolError::Busy,
                CommitError::Storage(_) => EnrolError::NotStored,
            }
        })
    }

    /// Creates a token, which is returned once and not stored.
    ///
    /// # Errors
    /// If there is no randomness, or it could not be stored.
    pub async fn add_token(
        &self,
        purpose: TokenPurpose,
        label: &str,
        expires: Option<Millis>,
    ) -> Result<(String, TokenRecord), ServerError> {
        let token = secret::new(match purpose {
            TokenPurpose::Enrolment { .. } => Kind::Enrolment,
            TokenPurpose::Advertiser { .. } => Kind::Advertiser,
            TokenPurpose::Operator { .. } => Kind::Operator,
        })?;
        // Enqueued under the lock: numbers are stored in ascending order.
        let (record, enqueued) = {
            let mut tokens = lock(&self.tokens);
            tokens.next += 1;
            let (hash, label) = (secret::hash(&token), label.to_owned());
            let record = TokenRecord { id: tokens.next - 1, purpose, hash, label, created: now(), expires };
            (record.clone(), self.services.queue.enqueue(vec![Change::AddToken(record)])?)
        };
        enqueued.done().await?;
        lock(&self.tokens).add(record.clone());
        Ok((token, record))
    }

    /// Removes a token of a federation, or an operator's; returns whether there was one.
    ///
    /// # Errors
    /// If that could not be stored.
    pub async fn remove_token(&self, id: u64, federation: Option<u64>) -> Result<bool, CommitError> {
        self.remove_one(id, &self.tokens(federation)).await
    }

    async fn remove_one(&self, id: u64, among: &[TokenRecord]) -> Result<bool, CommitError> {
        let exists = among.iter().any(|token| token.id == id);
        if exists {
            self.services.queue.commit(vec![Change::RemoveToken { id }]).await?;
            lock(&self.tokens).remove(id);
        }
        Ok(exists)
    }

    /// The enrolment tokens of a federation, or the operators' tokens.
    pub fn tokens(&self, federation: Option<u64>) -> Vec<TokenRecord> {
        let wanted = |record: &&TokenRecord| match record.purpose {
            TokenPurpose::Enrolment { federation: of, .. } => Some(of) == federation,
            TokenPurpose::Advertiser { .. } => false,
            TokenPurpose::Operator { .. } => federation.is_none(),
        };
        lock(&self.tokens).iter().filter(wanted).cloned().collect()
    }

    /// The advertisers' tokens of a federation.
    pub fn advertisers(&self, of: u64) -> Vec<TokenRecord> {
        let wanted = |record: &&TokenRecord| matches!(record.purpose, TokenPurpose::Advertiser { federation, .. } if federation == of);
        lock(&self.tokens).iter().filter(wanted).cloned().collect()
    }

    /// Removes an advertiser's token; returns whether there was one.
    ///
    /// # Errors
    /// If that could not be stored.
    pub async fn remove_advertiser(&self, id: u64, federation: u64) -> Result<bool, CommitError> {
        self.remove_one(id, &self.advertisers(federation)).await
    }

    /// The advertiser of a federation with this token.
    pub fn advertiser(&self, token: &str, of: u64) -> Option<Advertiser> {
        secret::is_of(Kind::Advertiser, token).then_some(())?;
        let tokens = lock(&self.tokens);
        let record = tokens.find(&secret::hash(token), now())?;
        match record.purpose {
            TokenPurpose::Advertiser { federation, per_day } if federation == of => {
                Some(Advertiser { id: record.id, per_day })
            }
            _ => None,
        }
    }

    /// The role that a token gives.
    pub fn role(&self, token: &str) -> Option<Role> {
        secret::is_of(Kind::Operator, token).then_some(())?;
        lock(&self.tokens).role(&secret::hash(token), now())
    }

    /// Whether there is no admin's token yet.
    pub(crate) fn has_no_admin(&self) -> bool {
        let admin = TokenPurpose::Operator { role: Role::Admin.to_string() };
        !self.tokens(None).iter().any(|token| token.purpose == admin)
    }

    /// Closed rounds before a round, the latest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn rounds(
        &self,
        federation: u64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RoundRecord>, StorageError> {
        let storage = Arc::clone(&self.services.storage);
        let read = tokio::task::spawn_blocking(move || storage.rounds(federation, before, limit)).await;
        read.unwrap_or_else(|error| {
            Err(StorageError::Database { what: "reading rounds".to_owned(), reason: error.to_string() })
        })
    }

    /// Whether the database can be read and written.
    pub async fn is_ready(&self) -> bool {
        let storage = Arc::clone(&self.services.storage);
        let answers = tokio::task::spawn_blocking(move || storage.secret().is_ok()).await.unwrap_or(false);
        answers && self.services.queue.is_healthy()
    }

    /// The metrics in the OpenMetrics text format.
    pub fn metrics(&self) -> String {
        self.services.metrics.encode(self)
    }

    /// Stops opening and closing rounds. The next start resumes open ones.
    pub fn stop(&self) {
        lock(&self.tasks).abort_all();
    }
}

impl Stored {
    /// Takes out what belongs to a federation.
    fn split_off(&mut self, record: FederationRecord) -> StoredFederation {
        let id = record.id;
        let audiences = Audiences::split_off(self, id);
        let receipts = self.receipts.extract_if(.., |(federation, ..)| *federation == id);
        StoredFederation {
            record,
            receipts: receipts.map(|(_, round, receipt)| (round, receipt)).collect(),
            devices: self.devices.extract_if(.., |device| device.federation == id).collect(),
            round: self.rounds.extract_if(.., |round| round.opening.federation == id).next(),
            versions: self.versions.extract_if(.., |version| version.federation == id).collect(),
            audiences,
        }
    }
}
