//! HTTP: the interfaces for devices and operators.

mod acts;
mod advertiser_api;
mod auth;
mod body;
pub mod callers;
mod dashboard;
mod device_api;
mod download;
mod openapi;
mod operator_api;
pub mod problem;
mod request;
mod routes;
pub mod serve;
pub mod timeouts;
pub mod tls;

pub use openapi::DOCUMENT;
pub use routes::{Part, routes};

use crate::federation::WIRE;
use crate::metrics::method_label;
use crate::server::Server;
use axum::Router;
use axum::extract::State;
use axum::http::header::{HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use body::{Body, BodyBudget};
use hyper::body::Incoming;
use problem::{Problem, ProblemCode};
use std::sync::Arc;
use std::time::Instant;
use timeouts::Timeouts;
use tokio::sync::watch;
use tower::Service;

/// The state of all handlers.
#[derive(Clone)]
struct Api {
    server: Arc<Server>,
    closing: watch::Receiver<bool>,
    timeouts: Timeouts,
    body_budget: Arc<BodyBudget>,
}

impl Api {
    /// Returns when the server shuts down.
    async fn closing(&self) {
        let mut closing = self.closing.clone();
        let _gone = closing.wait_for(|closing| *closing).await;
    }
}

fn router(api: Api, part: Part) -> Router {
    routes::router(part)
        .fallback(|| async { Problem::of("not-found") })
        .method_not_allowed_fallback(|| async { Problem::of("not-allowed-here") })
        .with_state(api)
}

async fn ready(State(api): State<Api>) -> Response {
    if api.server.is_ready().await {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
}

/// Headers of every response.
const COMMON_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

async fn call(mut router: Router, request: Request<Incoming>) -> Response {
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Routes a request, and counts it by its route, never by its URL, which may identify the caller. Around the router
/// instead of a layer in it, which would double the cost of a check-in.
async fn answer(api: &Api, router: Router, request: Request<Incoming>) -> Response {
    let (start, method) = (Instant::now(), method_label(request.method()));
    let route = routes::route_of(request.uri().path());
    let mut response = if method == "GET" || route.ends_with("/check-in") {
        call(router, request).await
    } else {
        // If the caller hangs up, a change that has begun is completed.
        let (act, server) = (acts::Act::of(&api.server, route, &request), Arc::clone(&api.server));
        let changing = tokio::spawn(async move {
            let response = call(router, request).await;
            if let Some(act) = act.map(|act| act.answered(&response)) {
                acts::record(&server, act).await;
            }
            response
        });
        changing.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
    };
    response.headers_mut().extend(COMMON_HEADERS);
    let code = response.extensions().get::<ProblemCode>().map_or("", |code| code.0);
    api.server.services.metrics.answered(route, method, response.status(), code, start.elapsed());
    response
}
