//! A server from configuration to farewell, for programs without an async runtime of their own.

use crate::config::{Config, ConfigFileError};
use crate::http::serve::{self, Listening};
use crate::http::tls::{self, TlsError};
use crate::server::{OpenError, Server};
use crate::storage::{self, Purpose, StorageError};
use crate::tokens::Role;
use crate::versions::{Versions, VersionsError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The database.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Shared models.
    #[error(transparent)]
    Versions(#[from] VersionsError),
    /// What is stored.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The system.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What it says.
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

/// A server that has begun to listen.
#[derive(Debug)]
pub struct Started {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether with TLS.
    pub tls: bool,
    /// The file with the first admin's token, if it was made just now.
    pub admin_token: Option<PathBuf>,
}

/// Runs a server until it is interrupted or asked to end; `started` is called when it listens.
///
/// # Errors
/// If it cannot begin. A server that runs does not fail; it logs what goes wrong.
pub fn run(config: &Config, started: impl FnOnce(&Started)) -> Result<(), RunError> {
    log(config)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.threads > 0 {
        builder.worker_threads(config.threads);
    }
    let runtime = builder.enable_all().build().map_err(system("no threads can be started"))?;
    let ran = runtime.block_on(listen(config, started));
    // What is written meanwhile is written; what is not was not acknowledged.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    ran
}

async fn listen(config: &Config, started: impl FnOnce(&Started)) -> Result<(), RunError> {
    create_private(&config.data)?;
    let certificate = config.certificate()?;
    let tls = certificate.as_ref().map(tls::config).transpose()?;
    let url = config.database();
    let opened = tokio::task::spawn_blocking(move || storage::open(&url)).await;
    let storage = opened.map_err(|error| system("a worker stopped")(io::Error::other(error)))??;
    let versions = Versions::open(&config.models())?;
    let uploads = Some(config.data.join("uploads"));
    let server = Server::open_with_uploads(Arc::from(storage), versions, uploads).await?;
    let admin_token =
        if server.has_no_admin() { Some(first_token(&server, &config.data).await?) } else { None };
    let (listener, address) = serve::listen(&config.listen).await.map_err(system("cannot listen"))?;
    let listening = Listening { tls, connections: config.connections.max(1), ..Listening::default() };
    let told = Started { address, tls: listening.tls.is_some(), admin_token };
    let stop = stop_signal().map_err(system("cannot wait for signals"))?;
    tracing::info!(%address, tls = told.tls, federations = server.federations().len(), "listening");
    started(&told);
    serve::serve(server, listener, listening, stop).await.map_err(system("cannot serve"))?;
    tracing::info!("stopped");
    Ok(())
}

/// Is done when the process is interrupted or asked to end.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => (),
            _ = asked.recv() => (),
        }
        #[cfg(not(unix))]
        let _interrupted = tokio::signal::ctrl_c().await;
    })
}

/// A folder that only its owner can look into.
fn create_private(folder: &Path) -> Result<(), RunError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(system(format!("the folder {}", folder.display())))
}

/// Makes the first admin's token, in a file that only its owner can read.
async fn first_token(server: &Server, folder: &Path) -> Result<PathBuf, RunError> {
    let purpose = Purpose::Operator { role: Role::Admin.to_string() };
    let (token, _) = server.add_token(purpose, "first", None).await?;
    let path = folder.join("admin.token");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&path).and_then(|mut file| writeln!(file, "{token}"));
    written.map_err(system(format!("the file {}", path.display())))?;
    Ok(path)
}

/// Logs go to standard error. They name federations, rounds and counts; never devices, addresses or secrets.
fn log(config: &Config) -> Result<(), RunError> {
    let wrong = |error: &dyn ToString| RunError::Log(config.log.clone(), error.to_string());
    let filter = EnvFilter::try_new(&config.log).map_err(|error| wrong(&error))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let set = if config.log_json {
        tracing::subscriber::set_global_default(builder.json().finish())
    } else {
        tracing::subscriber::set_global_default(builder.with_ansi(false).finish())
    };
    // A program that has its own log keeps it.
    if set.is_err() {
        tracing::debug!("logging as the program does");
    }
    Ok(())
}
