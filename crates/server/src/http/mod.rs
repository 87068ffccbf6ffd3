//! HTTP: the devices' interface and the operators'.

mod address;
mod body;
mod callers;
mod devices;
mod operators;
pub mod problem;
mod routes;
mod sending;
pub mod serve;
pub mod tls;

use crate::federation::WIRE;
use crate::metrics;
use crate::server::Server;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use body::Body;
pub use devices::{DIGEST, KEY, STATE};
use hyper::body::Incoming;
use problem::{Coded, Problem};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tower::Service;

/// What handlers work with.
#[derive(Clone)]
pub struct Api {
    /// The server.
    pub server: Arc<Server>,
    closing: watch::Receiver<bool>,
}

impl Api {
    /// Of a server that closes when the signal says so.
    pub fn new(server: Arc<Server>, closing: watch::Receiver<bool>) -> Self {
        Self { server, closing }
    }

    /// Returns when the server closes.
    async fn closing(&self) {
        let mut closing = self.closing.clone();
        let _gone = closing.wait_for(|closing| *closing).await;
    }
}

/// All addresses.
pub fn router(api: Api) -> Router {
    Router::new()
        .merge(of_devices())
        .nest("/v1/operator", of_operators())
        .route("/healthz", get(|| async { "well\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(measured))
        .fallback(|| async { Problem::plain("not-found") })
        .method_not_allowed_fallback(|| async { Problem::plain("not-allowed-here") })
        .with_state(api)
}

fn of_devices() -> Router<Api> {
    let federation = "/v1/federations/{federation}";
    let at = |rest: &str| format!("{federation}{rest}");
    Router::new()
        .route(federation, get(devices::about))
        .route(&at("/catalog"), get(devices::catalog))
        .route(&at("/devices"), post(devices::enrol))
        .route(&at("/devices/me"), delete(devices::withdraw))
        .route(&at("/check-in"), post(devices::check_in))
        .route(&at("/models/{version}"), get(devices::model))
        .route(&at("/models/{version}/from/{held}"), get(devices::difference))
        .route(&at("/rounds/{round}/updates"), post(devices::update))
        .route(&at("/rounds/{round}/refusal"), post(devices::refusal))
}

fn of_operators() -> Router<Api> {
    Router::new()
        .route("/federations", get(operators::list).post(operators::create))
        .route("/federations/{federation}", get(operators::show))
        .route("/federations/{federation}/{action}", post(operators::stand))
        .route("/federations/{federation}/rounds", get(operators::rounds))
        .route("/federations/{federation}/devices/{device}", delete(operators::revoke))
        .route(
            "/federations/{federation}/enrolment-tokens",
            get(operators::enrolment_tokens).post(operators::add_enrolment_token),
        )
        .route(
            "/federations/{federation}/enrolment-tokens/{token}",
            delete(operators::remove_enrolment_token),
        )
        .route("/tokens", get(operators::tokens).post(operators::add_token))
        .route("/tokens/{token}", delete(operators::remove_token))
        .route("/events", get(operators::events))
}

async fn ready(State(api): State<Api>) -> Response {
    if api.server.is_ready().await {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
}

async fn measured(State(api): State<Api>, headers: axum::http::HeaderMap) -> Result<Response, Problem> {
    callers::operator(&api.server, &headers, crate::tokens::Role::Observer)?;
    let text = api.server.metrics.encode(&api.server);
    Ok(([(CONTENT_TYPE, crate::metrics::MEDIA)], text).into_response())
}

/// Headers that every answer has.
const ALWAYS: [(HeaderName, HeaderValue); 2] = [
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
];

/// Lets the router answer, and counts the request by its route, never by its address, which may say who calls. Around
/// the router instead of in it, where a layer would cost a check-in as much as everything else.
pub(crate) async fn answer(api: &Api, mut router: Router, request: Request<Incoming>) -> Response {
    let (start, method) = (Instant::now(), metrics::known(request.method()));
    let route = routes::of(request.uri().path());
    let mut response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    for (name, value) in ALWAYS {
        response.headers_mut().insert(name, value);
    }
    let code = response.extensions().get::<Coded>().map_or("", |coded| coded.0);
    api.server.metrics.answered(route, method, response.status(), code, start.elapsed());
    response
}
