//! Listening: HTTP/1.1 and 2, with or without TLS, until it is time to stop.

use super::patience::{Patience, Watched};
use super::{Api, answer, router};
use crate::server::Server;
use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Requests under way get so long to end when the server stops.
const FAREWELL: Duration = Duration::from_secs(10);
/// Bytes of a request's head at most.
const MOST_HEAD: usize = 32 << 10;
/// Requests at the same time on one HTTP/2 connection.
const MOST_STREAMS: u32 = 128;
/// Breath after the system refuses a connection, for want of file descriptors say.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// How to listen.
#[derive(Clone)]
pub struct Listening {
    /// The TLS side; `None`: plain.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connections at the same time.
    pub connections: usize,
    /// How long callers may take.
    pub patience: Patience,
    /// Bytes of bodies that may be in memory at the same time; beyond, callers are told to come back.
    pub body_bytes: u64,
}

impl Default for Listening {
    fn default() -> Self {
        Self { tls: None, connections: 10_000, patience: Patience::default(), body_bytes: 1 << 30 }
    }
}

/// Serves until `stop` is done, then lets requests under way end.
///
/// # Errors
/// If the address of the listener cannot be told.
pub async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    listening: Listening,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (close, closing) = watch::channel(false);
    let patience = listening.patience;
    let api = Api::new(Arc::clone(&server), closing, patience, listening.body_bytes);
    let app = App { router: router(api.clone()), api };
    let room = Arc::new(Semaphore::new(listening.connections));
    let acceptor = listening.tls.map(TlsAcceptor::from);
    let (graceful, mut stop) = (GracefulShutdown::new(), std::pin::pin!(stop));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&room).acquire_owned() => place.map_err(io::Error::other)?,
            () = &mut stop => break,
        };
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(AFTER_REFUSAL).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        let (app, acceptor, watcher) = (app.clone(), acceptor.clone(), graceful.watcher());
        tokio::spawn(async move {
            talk(stream, acceptor, Service { app, patience }, watcher).await;
            drop(place);
        });
    }
    drop(listener);
    let _told = close.send(true);
    if tokio::time::timeout(FAREWELL, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    server.stop();
    Ok(())
}

/// What answers requests.
#[derive(Clone)]
struct App {
    router: Router,
    api: Api,
}

/// What a connection is served with.
struct Service {
    app: App,
    patience: Patience,
}

async fn talk(stream: TcpStream, acceptor: Option<TlsAcceptor>, service: Service, watcher: Watcher) {
    // Answers are small: they should not wait for more.
    let _without = stream.set_nodelay(true);
    match acceptor {
        None => converse(stream, service, watcher).await,
        Some(acceptor) => match tokio::time::timeout(service.patience.head, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => converse(stream, service, watcher).await,
            Ok(Err(error)) => tracing::debug!(%error, "no TLS"),
            Err(_) => tracing::debug!("no TLS in time"),
        },
    }
}

async fn converse<S>(stream: S, Service { app, patience }: Service, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = tower::service_fn(move |request: axum::http::Request<Incoming>| {
        let App { router, api } = app.clone();
        async move { Ok::<_, Infallible>(answer(&api, router, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(MOST_HEAD.max(64 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MOST_HEAD as u32)
        .max_concurrent_streams(MOST_STREAMS)
        .keep_alive_interval(Duration::from_secs(30));
    let stream = TokioIo::new(Watched::new(stream, &patience));
    let connection = builder.serve_connection_with_upgrades(stream, TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Listens at an address.
///
/// # Errors
/// If it cannot be had; the message names it.
pub async fn listen(address: &str) -> io::Result<(TcpListener, SocketAddr)> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(named)?;
    let at = listener.local_addr().map_err(named)?;
    Ok((listener, at))
}
