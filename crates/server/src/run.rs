//! A whole server, from its configuration to its shutdown.

use crate::config::Config;
use crate::error::ServerError;
use crate::federation::Clock;
use crate::http::Part;
use crate::http::serve::{self, ListenOptions};
use crate::http::tls::{Certificates, TlsError};
use crate::private_file;
use crate::server::{Role, Server};
use crate::storage::{self, ActRecord, TokenPurpose};
use crate::versions::VersionStore;
use futures_util::FutureExt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing_subscriber::EnvFilter;

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What is stored.
    #[error(transparent)]
    Open(#[from] ServerError),
    /// The first token.
    #[error("the first admin's token cannot be stored: {0}")]
    Token(ServerError),
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

/// How long tasks get to end when the runtime shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that accepts requests in the background.
pub struct RunningServer {
    /// Its address.
    pub address: SocketAddr,
    /// The operators' address, if they have one of their own.
    pub operator_address: Option<SocketAddr>,
    /// Whether it uses TLS.
    pub tls: bool,
    /// The file with an admin's token, if one was created by this start.
    pub admin_token: Option<PathBuf>,
    /// The server itself.
    pub server: Arc<Server>,
    certificates: Option<Arc<Certificates>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<()>>,
}

impl RunningServer {
    /// Starts a server; requires a Tokio runtime.
    ///
    /// # Errors
    /// If the configuration or what is stored is invalid, or the address is not available.
    pub async fn start(config: &Config) -> Result<Self, RunError> {
        Self::start_at(config, Arc::new(crate::now)).await
    }

    /// The same with a clock by which rounds are held, for tests.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_at(config: &Config, clock: Clock) -> Result<Self, RunError> {
        let data = &config.data;
        private_file::create_folder(data).map_err(system(format!("the folder {}", data.display())))?;
        let certificates = config.tls.as_ref().map(|tls| Certificates::open(tls, &data.join("tls"))).transpose()?;
        let tls = certificates.as_ref().map(Certificates::config).transpose()?;
        let url = config.database();
        let opened = tokio::task::spawn_blocking(move || storage::open(&url)).await;
        let storage = opened.map_err(|error| system("a worker stopped")(io::Error::other(error)))?;
        let storage = Arc::from(storage.map_err(ServerError::from)?);
        let versions = VersionStore::open(&config.models()).map_err(ServerError::from)?;
        let server = Server::open_at(storage, versions, Some(data.join("uploads")), clock).await?;
        let admin_token = match (server.has_no_admin(), config.new_admin_token) {
            (true, _) => Some(admin_token(&server, data, "first").await?),
            (false, true) => Some(admin_token(&server, data, "recovered").await?),
            (false, false) => None,
        };
        let (listener, address) = serve::listen(&config.listen).await.map_err(system("cannot listen"))?;
        let operators = match &config.operator_listen {
            Some(address) => Some(serve::listen(address).await.map_err(system("cannot listen for operators"))?),
            None => None,
        };
        let operator_address = operators.as_ref().map(|(_, address)| *address);
        let (stop, stopped) = oneshot::channel();
        let (connections, per_address) = (config.connections.max(1), config.per_address());
        let options = ListenOptions { tls, connections, per_address, ..ListenOptions::default() };
        let tls = options.tls.is_some();
        tracing::info!(%address, tls, federations = server.federations().len(), "listening");
        let serving = tokio::spawn(serve_all(Arc::clone(&server), listener, operators, options, stopped));
        Ok(Self { address, operator_address, tls, admin_token, server, certificates, stop, serving })
    }

    /// Reads certificate and key again, for new connections; returns whether there are any. After an error the ones
    /// from before stay in use.
    ///
    /// # Errors
    /// If a file cannot be read, or they do not match.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let reloaded = self.certificates.as_ref().map(|certificates| certificates.reload()).transpose()?;
        Ok(reloaded.is_some())
    }

    /// Stops accepting requests and waits for those in progress.
    ///
    /// # Errors
    /// If it had failed before.
    pub async fn stop(self) -> io::Result<()> {
        drop(self.stop);
        self.serving.await.map_err(io::Error::other)?
    }
}

/// Serves devices, and operators at an address of their own if there is one, until told to stop.
async fn serve_all(
    server: Arc<Server>,
    listener: TcpListener,
    operators: Option<(TcpListener, SocketAddr)>,
    options: ListenOptions,
    stop: oneshot::Receiver<()>,
) -> io::Result<()> {
    // A server whose handle is dropped stops as well.
    let stop = stop.map(drop).shared();
    let Some((own, _)) = operators else { return serve::serve(server, listener, options, stop).await };
    let for_operators = ListenOptions { part: Part::Operators, ..options.clone() };
    let for_devices = ListenOptions { part: Part::Devices, ..options };
    let (devices, operators) = tokio::join!(
        serve::serve_until(&server, listener, for_devices, stop.clone()),
        serve::serve_until(&server, own, for_operators, stop),
    );
    server.stop();
    devices.and(operators)
}

/// Runs a server until the process is interrupted or terminated; `started` is called when it listens. Logs to standard
/// error.
///
/// # Errors
/// If it cannot start. A running server does not fail; it logs errors.
pub fn run(config: &Config, started: impl FnOnce(&RunningServer)) -> Result<(), RunError> {
    start_logging(config)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.threads > 0 {
        builder.worker_threads(config.threads);
    }
    let runtime = builder.enable_all().build().map_err(system("no threads can be started"))?;
    let ran = runtime.block_on(async {
        let interrupted = interrupt().map_err(system("cannot wait for signals"))?;
        // From here on, a request to read certificates again does not end the process.
        let hangups = Hangups::new().map_err(system("cannot wait for signals"))?;
        let server = RunningServer::start(config).await?;
        started(&server);
        tokio::select! {
            () = interrupted => (),
            () = hangups.reload(&server) => (),
        }
        server.stop().await.map_err(system("cannot serve"))?;
        tracing::info!("stopped");
        Ok(())
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ran
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

/// Requests to read certificates again (SIGHUP).
struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    fn new() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    /// Reads them again at each request, for ever.
    #[cfg(unix)]
    async fn reload(mut self, server: &RunningServer) {
        while self.signal.recv().await.is_some() {
            match server.reload() {
                Ok(true) => tracing::info!("certificate and key were read again"),
                Ok(false) => tracing::info!("there is no certificate to read again"),
                Err(error) => tracing::error!(%error, "the certificate from before stays in use"),
            }
        }
        std::future::pending().await
    }

    #[cfg(not(unix))]
    async fn reload(self, _: &RunningServer) {
        std::future::pending().await
    }
}

/// Creates an admin's token, in a file that only its owner can read. Whoever can do so has the server's files.
async fn admin_token(server: &Server, folder: &Path, label: &str) -> Result<PathBuf, RunError> {
    let purpose = TokenPurpose::Operator { role: Role::Admin.to_string() };
    let (token, record) = server.add_token(purpose, label, None).await.map_err(RunError::Token)?;
    let act = ActRecord {
        at: crate::now(),
        label: "whoever runs the server".to_owned(),
        act: "create operator token".to_owned(),
        detail: format!("token {}, admin {label}", record.id),
        ..ActRecord::default()
    };
    server.record_act(act).await.map_err(|error| RunError::Token(error.into()))?;
    let path = folder.join("admin.token");
    let written = private_file::write(&path, &format!("{token}\n"));
    written.map_err(system(format!("the file {}", path.display())))?;
    Ok(path)
}

/// Logs name federations, rounds and counts; never devices, addresses or secrets.
fn start_logging(config: &Config) -> Result<(), RunError> {
    let filter = EnvFilter::try_new(&config.log);
    let filter = filter.map_err(|error| RunError::Log(config.log.clone(), error.to_string()))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let set = if config.log_json {
        tracing::subscriber::set_global_default(builder.json().finish())
    } else {
        tracing::subscriber::set_global_default(builder.with_ansi(false).finish())
    };
    // A program with a subscriber of its own keeps it.
    if set.is_err() {
        tracing::debug!("a log subscriber is set already");
    }
    Ok(())
}
