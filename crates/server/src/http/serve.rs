//! Listening: HTTP/1.1 and 2, with or without TLS, until a shutdown.

use super::body::BodyBudget;
use super::callers::{Activity, AddressLimit, Callers};
use super::timeouts::{TimedStream, Timeouts};
use super::{Api, Part, answer, router};
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

/// How long requests in progress get to end at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const MAX_HEAD: usize = 32 << 10;
/// Simultaneous requests on an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Pause after the system fails to accept a connection, for lack of file descriptors say.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Options of a listener.
#[derive(Clone)]
pub struct ListenOptions {
    /// The TLS configuration; `None`: plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// The largest number of simultaneous connections.
    pub connections: usize,
    /// The largest number of simultaneous connections of one address.
    pub per_address: AddressLimit,
    /// Which routes there are.
    pub part: Part,
    /// How long callers may take.
    pub timeouts: Timeouts,
    /// Bytes of all bodies in memory at a time; beyond that, callers are told to retry.
    pub body_bytes: u64,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let (per_address, part, timeouts) = Default::default();
        Self { tls: None, connections: 10_000, per_address, part, timeouts, body_bytes: 1 << 30 }
    }
}

/// Serves until `stop` completes, then waits for requests in progress.
///
/// # Errors
/// If the limit on connections fails.
pub async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    options: ListenOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let served = serve_until(&server, listener, options, stop).await;
    server.stop();
    served
}

/// The same for one of several listeners; the server itself goes on.
pub(crate) async fn serve_until(
    server: &Arc<Server>,
    listener: TcpListener,
    options: ListenOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (close, closing) = watch::channel(false);
    let body_budget = BodyBudget::new(options.body_bytes);
    let api = Api { server: Arc::clone(server), closing, timeouts: options.timeouts, body_budget };
    let app = App { router: router(api.clone(), options.part), api };
    let connections = Arc::new(Semaphore::new(options.connections));
    let callers = Callers::new(options.per_address);
    let acceptor = options.tls.map(TlsAcceptor::from);
    let (graceful, mut stop) = (GracefulShutdown::new(), std::pin::pin!(stop));
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&connections).acquire_owned() => permit.map_err(io::Error::other)?,
            () = &mut stop => break,
        };
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
            () = &mut stop => break,
        };
        // Closed without a word: whoever has so many connections knows what to ask on them.
        let Some(caller) = callers.enter(from.ip()) else { continue };
        let (app, acceptor, watcher) = (app.clone(), acceptor.clone(), graceful.watcher());
        tokio::spawn(async move {
            app.accept(stream, acceptor, watcher).await;
            drop((permit, caller));
        });
    }
    drop(listener);
    let _notified = close.send(true);
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    Ok(())
}

/// What answers requests.
#[derive(Clone)]
struct App {
    router: Router,
    api: Api,
}

impl App {
    async fn accept(self, stream: TcpStream, acceptor: Option<TlsAcceptor>, watcher: Watcher) {
        // Responses are small, and must not wait for more.
        let _without = stream.set_nodelay(true);
        let Some(acceptor) = acceptor else { return self.serve(stream, watcher).await };
        match tokio::time::timeout(self.api.timeouts.head, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, watcher).await,
            Ok(Err(error)) => tracing::debug!(%error, "the TLS handshake failed"),
            Err(_) => tracing::debug!("the TLS handshake timed out"),
        }
    }

    async fn serve<S>(self, stream: S, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let timeouts = self.api.timeouts;
        let activity = Activity::new();
        let moving = activity.clone();
        let service = tower::service_fn(move |request: axum::http::Request<Incoming>| {
            let (Self { router, api }, moving) = (self.clone(), moving.clone());
            moving.note();
            async move {
                let answered = answer(&api, router, request).await;
                moving.note();
                Ok::<_, Infallible>(answered.map(|body| moving.watch(body)))
            }
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(timeouts.head)
            .max_buf_size(MAX_HEAD.max(64 << 10));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD as u32)
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(Duration::from_secs(30));
        let stream = TokioIo::new(TimedStream::new(stream, &timeouts, activity.clone()));
        let connection = builder.serve_connection_with_upgrades(stream, TowerToHyperService::new(service));
        tokio::select! {
            ended = watcher.watch(connection.into_owned()) => if let Err(error) = ended {
                tracing::debug!(%error, "a connection failed");
            },
            // HTTP/1.1 has a time-out of its own for the next head; HTTP/2 stays open as long as pings are answered.
            () = activity.idle(timeouts.idle) => tracing::debug!("an idle connection was closed"),
        }
    }
}

/// Listens at an address.
///
/// # Errors
/// If it is not available; the message names it.
pub async fn listen(address: &str) -> io::Result<(TcpListener, SocketAddr)> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(named)?;
    let at = listener.local_addr().map_err(named)?;
    Ok((listener, at))
}
