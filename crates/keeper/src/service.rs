//! The keeper's answers over HTTP/1.1, with or without TLS.

use crate::journal::Journal;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sottovoce_privacy::keeper::{Answer, Keeper, OpenError, Opening, Refused};
use sottovoce_privacy::tokens::to_hex;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error, info, warn};

/// The media type of requests and answers.
const WIRE: &str = "application/vnd.sottovoce";
/// Devices of a round, at most.
const MAX_DEVICES: u32 = 100_000;
/// Requests that are worked on at a time: each holds a vector of the model's length.
const MAX_OPENINGS: usize = 2;
/// Simultaneous connections.
const MAX_CONNECTIONS: usize = 256;
/// How long a request's head, its body, and a handshake may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long requests in progress get to end at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after the system fails to accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A keeper, its journal, and whom it serves.
pub(crate) struct Service {
    pub(crate) keeper: Keeper,
    pub(crate) journal: Mutex<Journal>,
    /// Federations that it opens rounds of; empty: all.
    pub(crate) openers: BTreeSet<[u8; 32]>,
    pub(crate) openings: Semaphore,
}

impl Service {
    pub(crate) fn new(keeper: Keeper, journal: Journal, openers: BTreeSet<[u8; 32]>) -> Self {
        Self { keeper, journal: Mutex::new(journal), openers, openings: Semaphore::new(MAX_OPENINGS) }
    }

    /// The answer to an encoded request. Blocks.
    fn open(&self, bytes: &[u8]) -> (StatusCode, Vec<u8>) {
        let opening = match Opening::decode(bytes) {
            Ok(opening) => opening,
            Err(error) => return (StatusCode::BAD_REQUEST, format!("not a request: {error}\n").into_bytes()),
        };
        let (federation, round) = (opening.config.federation.0, opening.config.round.0);
        let opener = to_hex(&opening.config.opener[..4]);
        let admitted = match self.openers.is_empty() || self.openers.contains(&opening.config.opener) {
            true => {
                let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
                self.keeper.admit(&opening, &mut *journal)
            }
            false => return (StatusCode::FORBIDDEN, b"this keeper serves other federations\n".to_vec()),
        };
        match admitted {
            Ok(masks) => {
                info!(opener, federation, round, devices = opening.entries.len(), "opened");
                (StatusCode::OK, Answer::Opened(masks.sum()).encode())
            }
            Err(OpenError::Record(reason)) => {
                error!(opener, federation, round, reason, "the journal failed");
                (StatusCode::SERVICE_UNAVAILABLE, b"the journal failed; retry later\n".to_vec())
            }
            Err(error) => {
                warn!(opener, federation, round, %error, "refused");
                (StatusCode::CONFLICT, Answer::Refused(Refused::from(&error)).encode())
            }
        }
    }
}

fn response(status: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let kind = match status {
        StatusCode::OK | StatusCode::CONFLICT => WIRE,
        _ => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

async fn answer(service: Arc<Service>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let text = |status, text: String| {
        let mut response = response(status, text.into_bytes());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/key") => text(StatusCode::OK, format!("{}\n", to_hex(&service.keeper.public()))),
        (&Method::GET, "/health/ready") => text(StatusCode::OK, "ready\n".to_owned()),
        (&Method::POST, "/v1/open") => open(service, request).await,
        (_, "/v1/key" | "/v1/open" | "/health/ready") => {
            text(StatusCode::METHOD_NOT_ALLOWED, "not with this method\n".to_owned())
        }
        _ => text(StatusCode::NOT_FOUND, "there is /v1/open, /v1/key and /health/ready\n".to_owned()),
    }
}

async fn open(service: Arc<Service>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let failed = |status, text: &str| response(status, text.as_bytes().to_vec());
    let body = Limited::new(request.into_body(), Opening::most_bytes(MAX_DEVICES) as usize).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return failed(StatusCode::PAYLOAD_TOO_LARGE, &format!("the request: {error}\n")),
        Err(_) => return failed(StatusCode::REQUEST_TIMEOUT, "the request did not come in time\n"),
    };
    let asked = Arc::clone(&service);
    let Ok(permit) = service.openings.acquire().await else {
        return failed(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    };
    let opened = tokio::task::spawn_blocking(move || asked.open(&body)).await;
    drop(permit);
    match opened {
        Ok((status, bytes)) => response(status, bytes),
        Err(error) => {
            error!(%error, "a request ended the worker");
            failed(StatusCode::INTERNAL_SERVER_ERROR, "the keeper failed\n")
        }
    }
}

/// Serves until `stop` changes, then waits for requests in progress.
pub(crate) async fn serve(
    service: Arc<Service>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut stop: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stop.changed() => break,
            permit = Arc::clone(&permits).acquire_owned() => match permit {
                Ok(permit) => tokio::select! {
                    _ = stop.changed() => break,
                    accepted = listener.accept() => accepted.map(|(stream, _)| (stream, permit)),
                },
                Err(_) => break,
            },
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, permit)) => {
                let (service, tls, stop) = (Arc::clone(&service), tls.clone(), stop.clone());
                connections.spawn(async move {
                    accept(service, stream, tls, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
        warn!("some requests did not end in time");
    }
}

async fn accept(service: Arc<Service>, stream: TcpStream, tls: Option<TlsAcceptor>, stop: watch::Receiver<bool>) {
    let _without = stream.set_nodelay(true);
    let Some(tls) = tls else { return speak(service, stream, stop).await };
    match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => speak(service, stream, stop).await,
        Ok(Err(error)) => debug!(%error, "the TLS handshake failed"),
        Err(_) => debug!("the TLS handshake timed out"),
    }
}

async fn speak<S>(service: Arc<Service>, stream: S, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answers = service_fn(move |request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(answer(service, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answers));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stop.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection failed");
    }
}
