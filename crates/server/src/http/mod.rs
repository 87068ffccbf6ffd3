//! HTTP: the devices' interface and the operators'.

mod address;
mod body;
mod call;
mod callers;
mod devices;
mod openapi;
mod operators;
mod page;
pub mod patience;
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
use body::{Body, Room};
pub use call::KEY;
pub use devices::{DIGEST, SEAT, STATE, TOKEN, WENT_BACK};
use hyper::body::Incoming;
pub use openapi::DOCUMENT;
use patience::Patience;
use problem::{Coded, Problem};
use routes::Routes;
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
    patience: Patience,
    room: Arc<Room>,
}

impl Api {
    /// Of a server that closes when the signal says so, has so much patience, and so many bytes of room for bodies.
    pub fn new(
        server: Arc<Server>,
        closing: watch::Receiver<bool>,
        patience: Patience,
        body_bytes: u64,
    ) -> Self {
        Self { server, closing, patience, room: Room::new(body_bytes) }
    }

    /// Returns when the server closes.
    async fn closing(&self) {
        let mut closing = self.closing.clone();
        let _gone = closing.wait_for(|closing| *closing).await;
    }
}

/// All addresses.
pub fn router(api: Api) -> Router {
    routes()
        .router
        .fallback(|| async { Problem::plain("not-found") })
        .method_not_allowed_fallback(|| async { Problem::plain("not-allowed-here") })
        .with_state(api)
}

/// Method and path of every request that is understood.
pub fn addresses() -> Vec<(&'static str, String)> {
    routes().known
}

fn routes() -> Routes {
    let general = Routes::default()
        .get("/", page::page)
        .get("/dashboard", page::page)
        .get("/dashboard/page.css", page::style)
        .get("/dashboard/page.js", page::script)
        .get("/openapi.json", openapi::document)
        .get("/healthz", || async { "well\n" })
        .get("/readyz", ready)
        .get("/metrics", measured);
    of_operators(of_devices(general))
}

fn of_devices(routes: Routes) -> Routes {
    let federation = "/v1/federations/{federation}";
    let at = |rest: &str| format!("{federation}{rest}");
    routes
        .get(federation, devices::about)
        .get(&at("/catalog"), devices::catalog)
        .post(&at("/devices"), devices::enrol)
        .delete(&at("/devices/me"), devices::withdraw)
        .post(&at("/check-in"), devices::check_in)
        .get(&at("/models/{version}"), devices::model)
        .get(&at("/models/{version}/from/{held}"), devices::difference)
        .post(&at("/rounds/{round}/updates"), devices::update)
        .post(&at("/rounds/{round}/token"), devices::token)
        .post(&at("/rounds/{round}/anonymous-updates"), devices::anonymous_update)
        .post(&at("/rounds/{round}/refusal"), devices::refusal)
        .post(&at("/rounds/{round}/seal"), devices::say)
        .get(&at("/rounds/{round}/seal"), devices::hear)
}

fn of_operators(routes: Routes) -> Routes {
    let all = "/v1/operator/federations";
    let at = |rest: &str| format!("{all}/{{federation}}{rest}");
    routes
        .get(all, operators::list)
        .post(all, operators::create)
        .get(&at(""), operators::show)
        .post(&at("/{action}"), operators::stand)
        .get(&at("/rounds"), operators::rounds)
        .delete(&at("/devices/{device}"), operators::revoke)
        .get(&at("/enrolment-tokens"), operators::enrolment_tokens)
        .post(&at("/enrolment-tokens"), operators::add_enrolment_token)
        .delete(&at("/enrolment-tokens/{token}"), operators::remove_enrolment_token)
        .get("/v1/operator/tokens", operators::tokens)
        .post("/v1/operator/tokens", operators::add_token)
        .delete("/v1/operator/tokens/{token}", operators::remove_token)
        .get("/v1/operator/me", operators::me)
        .get("/v1/operator/events", operators::events)
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

async fn called(mut router: Router, request: Request<Incoming>) -> Response {
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Lets the router answer, and counts the request by its route, never by its address, which may say who calls. Around
/// the router instead of in it, where a layer would cost a check-in as much as everything else.
pub(crate) async fn answer(api: &Api, router: Router, request: Request<Incoming>) -> Response {
    let (start, method) = (Instant::now(), metrics::known(request.method()));
    let route = routes::of(request.uri().path());
    let mut response = if method == "GET" || route.ends_with("/check-in") {
        called(router, request).await
    } else {
        // A caller that hangs up does not leave a change half made: it is made to its end.
        let changing = tokio::spawn(async move { called(router, request).await });
        changing.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
    };
    for (name, value) in ALWAYS {
        response.headers_mut().insert(name, value);
    }
    let code = response.extensions().get::<Coded>().map_or("", |coded| coded.0);
    api.server.metrics.answered(route, method, response.status(), code, start.elapsed());
    response
}
