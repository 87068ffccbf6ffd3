//! A whole keeper, from its configuration to its shutdown.

use crate::journal::{Journal, JournalError};
use crate::key_file::{self, KeyError};
use crate::service::{Service, serve};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sottovoce_privacy::keeper::Keeper;
use sottovoce_privacy::secagg::Roster;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tracing_subscriber::EnvFilter;

/// What a keeper is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address and port; port 0 selects a free one.
    pub listen: String,
    /// Folder of the key and the journal.
    pub data: PathBuf,
    /// Certificate and key; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// The fewest updates that it opens together.
    pub least: u32,
    /// Identities of the devices that it opens rounds for, which then sign; `None`: it believes servers that devices
    /// are devices.
    pub roster: Option<Roster>,
    /// Federations that it serves, by the digest that their terms call `opener`; empty: all.
    pub openers: BTreeSet<[u8; 32]>,
    /// Filter of the log.
    pub log: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8471".to_owned(),
            data: "sottovoce-keeper".into(),
            tls: None,
            least: sottovoce_privacy::keeper::LEAST,
            roster: None,
            openers: BTreeSet::new(),
            log: "info".to_owned(),
        }
    }
}

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a keeper cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A certificate or its key.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not match.
    #[error("certificate and key: {0}")]
    Pair(#[from] rustls::Error),
    /// The system.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What the system reports.
        error: io::Error,
    },
    /// The log's filter.
    #[error("log: {0:?} is not a filter: {1}")]
    Log(String, String),
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> RunError {
    let what = what.into();
    |error| RunError::System { what, error }
}

/// A keeper that answers in the background.
pub struct RunningKeeper {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it uses TLS.
    pub tls: bool,
    /// Its public key.
    pub public: [u8; 32],
    /// Rounds that it has opened before.
    pub rounds: u64,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl RunningKeeper {
    /// Starts a keeper; requires a Tokio runtime.
    ///
    /// # Errors
    /// If its key, journal, certificate or address cannot be used.
    pub async fn start(config: &Config) -> Result<Self, RunError> {
        let tls = config.tls.as_ref().map(acceptor).transpose()?;
        let (secret, journal) = key_file::open(&config.data)?;
        let keeper = Keeper::new(*secret, config.least, config.roster.clone().map(Arc::new));
        let public = keeper.public();
        let journal = Journal::open(&journal, &public)?;
        let rounds = journal.rounds().map_err(|error| system("the journal")(io::Error::other(error)))?;
        let listener = TcpListener::bind(&config.listen).await;
        let listener = listener.map_err(system(format!("cannot listen at {}", config.listen)))?;
        let address = listener.local_addr().map_err(system("cannot listen"))?;
        let service = Arc::new(Service::new(keeper, journal, config.openers.clone()));
        let (stop, stopped) = watch::channel(false);
        let is_tls = tls.is_some();
        tracing::info!(%address, tls = is_tls, rounds, "listening");
        let serving = tokio::spawn(serve(service, listener, tls, stopped));
        Ok(Self { address, tls: is_tls, public, rounds, stop, serving })
    }

    /// Stops accepting requests and waits for those in progress.
    pub async fn stop(self) {
        let _told = self.stop.send(true);
        let _ended = self.serving.await;
    }
}

fn acceptor(tls: &Tls) -> Result<TlsAcceptor, RunError> {
    let wrong = |path: &Path, reason: &dyn ToString| RunError::Certificate {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate).map_err(|error| wrong(&tls.certificate, &error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| wrong(&tls.certificate, &error))?;
    if chain.is_empty() {
        return Err(wrong(&tls.certificate, &"no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| wrong(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(chain, key)?)))
}

/// Runs a keeper until the process is interrupted or terminated; `started` is called when it listens. Logs to standard
/// error: federations, rounds and counts, never devices.
///
/// # Errors
/// If it cannot start.
pub fn run(config: &Config, started: impl FnOnce(&RunningKeeper)) -> Result<(), RunError> {
    let filter = EnvFilter::try_new(&config.log);
    let filter = filter.map_err(|error| RunError::Log(config.log.clone(), error.to_string()))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // A program with a subscriber of its own keeps it.
    let _set = tracing::subscriber::set_global_default(builder.finish());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().map_err(system("no threads can be started"))?;
    runtime.block_on(async {
        let interrupted = interrupt().map_err(system("cannot wait for signals"))?;
        let keeper = RunningKeeper::start(config).await?;
        started(&keeper);
        interrupted.await;
        keeper.stop().await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// Completes when the process is interrupted or terminated.
fn interrupt() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => (),
            _ = terminated.recv() => (),
        }
        #[cfg(not(unix))]
        let _interrupted = tokio::signal::ctrl_c().await;
    })
}
