//! The devices' interface.

use super::address::At;
use super::body::is_not_packed;
use super::callers::{self, bearer};
use super::problem::Problem;
use super::sending::{self, Caching};
use super::{Api, Body, WIRE};
use crate::federation::{CheckIn, Federation, Heard, MOST_NOTE, Taken};
use crate::now;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sottovoce_privacy::tokens::{Token, from_hex};
use sottovoce_protocol::codec;

/// The header that names the hash of the model to train on.
pub const DIGEST: HeaderName = HeaderName::from_static("sottovoce-model-digest");
/// The header that says why there is nothing to do.
pub const STATE: HeaderName = HeaderName::from_static("sottovoce-state");
/// The header that names a device's place in the cohort, where updates are sealed.
pub const SEAT: HeaderName = HeaderName::from_static("sottovoce-seat");
/// The header that names the version with which training last went back.
pub const WENT_BACK: HeaderName = HeaderName::from_static("sottovoce-went-back");
/// The header by which a repeated request is known.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that carries a round's one-time token.
pub const TOKEN: HeaderName = HeaderName::from_static("sottovoce-token");
/// Letters of a key at most.
const MOST_KEY: usize = 64;
/// Seconds after which a device in a sealed round asks again at the latest.
const SEAL_POLL_SECONDS: u32 = 2;
/// Bytes of what a token is asked for with at most: more than it has, so that a longer one is told why.
const MOST_BLINDED: u64 = 256;
/// Bytes of a refusal at most.
const MOST_REFUSAL: u64 = 4096;

/// What one would join.
pub(super) async fn about(State(api): State<Api>, At(name): At<String>) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let mut response = Json(federation.public()).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Which item each row is.
pub(super) async fn catalog(
    State(api): State<Api>,
    At(name): At<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    sending::send(&federation.catalog, &headers, Caching::Check)
}

#[derive(Serialize)]
struct Enrolled {
    device: u32,
    federation: u64,
    credential: String,
}

/// A device enrols.
pub(super) async fn enrol(
    State(api): State<Api>,
    At(name): At<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let (token, key) = (bearer(&headers)?, key(&headers)?);
    let found = api.server.enrol(&federation, token, key).await?;
    let status = if found.again { StatusCode::OK } else { StatusCode::CREATED };
    let body = Enrolled { device: found.device, federation: federation.id, credential: found.credential };
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A device asks whether there is something to do.
pub(super) async fn check_in(
    State(api): State<Api>,
    At(name): At<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    let mut response = match federation.check_in(device, now()) {
        CheckIn::Asked { terms, model, seat, went_back } => {
            let mut response = terms.into_response();
            if let Some(seat) = seat {
                response.headers_mut().insert(SEAT, seat.into());
            }
            if let Some(version) = went_back {
                response.headers_mut().insert(WENT_BACK, version.into());
            }
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(WIRE));
            response.headers_mut().insert(DIGEST, model.digest_header.clone());
            response
        }
        CheckIn::Later { seconds, state } => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            response.headers_mut().insert(STATE, HeaderValue::from_static(state));
            response
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// All of a version of the shared model.
pub(super) async fn model(
    State(api): State<Api>,
    At((name, version)): At<(String, u64)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let caching = if federation.config.private_models {
        callers::device(&federation, &headers)?;
        Caching::Private
    } else {
        Caching::Forever
    };
    let published = federation
        .version(version)
        .map_err(|was| Problem::plain(if was { "version-gone" } else { "version-unknown" }))?;
    let response = sending::send(&published.whole, &headers, caching)?;
    count_sent(&api, &federation, &response);
    Ok(response)
}

/// What leads from a version held to another.
pub(super) async fn difference(
    State(api): State<Api>,
    At((name, version, held)): At<(String, u64, u64)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let caching = if federation.config.private_models {
        callers::device(&federation, &headers)?;
        Caching::Private
    } else {
        Caching::Forever
    };
    let difference = federation.difference(version, held).map_err(|error| {
        tracing::error!(federation = %federation.name, version, %error, "a difference cannot be made");
        Problem::plain("no-difference")
    })?;
    let difference = difference.ok_or_else(|| Problem::plain("no-difference"))?;
    let response = sending::send(&difference, &headers, caching)?;
    count_sent(&api, &federation, &response);
    Ok(response)
}

fn count_sent(api: &Api, federation: &Federation, response: &Response) {
    let bytes = axum::body::HttpBody::size_hint(response.body()).exact().unwrap_or(0);
    federation.sent(bytes);
    api.server.metrics.sent(&federation.name, bytes);
}

/// A device sends its update.
pub(super) async fn update(
    State(api): State<Api>,
    At((name, round)): At<(String, u64)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    let key = key(&headers)?.to_owned();
    is_plain_wire(&headers)?;
    let (bytes, _share) = body.read(federation.upload_limit(), &headers).await?;
    let size = bytes.len() as u64;
    let taken = federation.take_update(&api.server.clerk, (device, round), &key, bytes, now()).await?;
    Ok(taken_in(&api, &federation, taken, size))
}

fn taken_in(api: &Api, federation: &Federation, taken: Taken, size: u64) -> Response {
    let (status, answer) = match taken {
        Taken::Stored => {
            api.server.metrics.received(&federation.name, size);
            (StatusCode::CREATED, "{\"stored\":true,\"repeated\":false}")
        }
        Taken::Repeated => (StatusCode::OK, "{\"stored\":true,\"repeated\":true}"),
    };
    (status, [(CONTENT_TYPE, "application/json")], answer).into_response()
}

/// A device asks for its token of a round.
pub(super) async fn token(
    State(api): State<Api>,
    At((name, round)): At<(String, u64)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    is_plain_wire(&headers)?;
    let (bytes, _share) = body.read(MOST_BLINDED, &headers).await?;
    let issued = federation.give_token(&api.server.clerk, (device, round), &bytes, now()).await?;
    Ok(([(CONTENT_TYPE, WIRE), (CACHE_CONTROL, "no-store")], issued).into_response())
}

/// Somebody sends an update with a token, and does not say who.
pub(super) async fn anonymous_update(
    State(api): State<Api>,
    At((name, round)): At<(String, u64)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let text = headers.get(TOKEN).ok_or_else(|| Problem::plain("no-token"))?;
    let bytes = text.to_str().ok().and_then(from_hex).ok_or_else(|| Problem::plain("bad-token"))?;
    let token = Token::from_bytes(&bytes).map_err(|error| Problem::new("bad-token", error.to_string()))?;
    let key = key(&headers)?.to_owned();
    is_plain_wire(&headers)?;
    // Before anything of the body is held.
    federation.check_token(round, &token)?;
    let (bytes, _share) = body.read(federation.upload_limit(), &headers).await?;
    let size = bytes.len() as u64;
    let taken = federation.take_anonymous(&api.server.clerk, round, &token, &key, bytes, now()).await?;
    Ok(taken_in(&api, &federation, taken, size))
}

/// A device says something so that a sealed sum can be opened.
pub(super) async fn say(
    State(api): State<Api>,
    At((name, round)): At<(String, u64)>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    is_plain_wire(&headers)?;
    let (bytes, _share) = body.read(MOST_NOTE.max(federation.upload_limit()), &headers).await?;
    federation.take_note(&api.server.clerk, (device, round), bytes).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What there is for a device in this step of a sealed round.
pub(super) async fn hear(
    State(api): State<Api>,
    At((name, round)): At<(String, u64)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    let mut response = match federation.hear(device, round)? {
        Heard::Message(bytes) => ([(CONTENT_TYPE, WIRE)], bytes).into_response(),
        Heard::Wait => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            let seconds = federation.config.check_in_seconds.min(SEAL_POLL_SECONDS);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
            response
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A device will not answer.
pub(super) async fn refusal(
    State(api): State<Api>,
    At((name, round)): At<(String, u64)>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    is_plain_wire(&headers)?;
    let (bytes, _share) = body.read(MOST_REFUSAL, &headers).await?;
    let decoded = codec::decode_refusal(&bytes);
    let (of, to, _) = decoded.map_err(|error| Problem::new("malformed", error.to_string()))?;
    if (of.0, to.0) != (federation.id, round) {
        return Err(Problem::new("wrong-round", format!("the refusal is for {of} and {to}")));
    }
    federation.take_refusal(&api.server.clerk, device, round, now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A device withdraws.
pub(super) async fn withdraw(
    State(api): State<Api>,
    At(name): At<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let federation = callers::federation(&api.server, &name)?;
    let device = callers::device(&federation, &headers)?;
    api.server.withdraw(&federation, device).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The key by which a repetition is known.
fn key(headers: &HeaderMap) -> Result<&str, Problem> {
    let wrong = || {
        let words = "the header Idempotency-Key must have 1 to 64 letters, digits, hyphens and underscores";
        Problem::new("bad-request", words)
    };
    let key = headers.get(KEY).and_then(|value| value.to_str().ok()).ok_or_else(wrong)?;
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=MOST_KEY).contains(&key.len()) && key.bytes().all(letter) { Ok(key) } else { Err(wrong()) }
}

/// Uploads are messages of the wire format and not compressed.
fn is_plain_wire(headers: &HeaderMap) -> Result<(), Problem> {
    is_not_packed(headers)?;
    match headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()) {
        Some(media) if media.split(';').next().is_some_and(|media| media.trim() == WIRE) => Ok(()),
        media => {
            let words = format!("Content-Type is {}, expected {WIRE}", media.unwrap_or("missing"));
            Err(Problem::new("wrong-media", words))
        }
    }
}
