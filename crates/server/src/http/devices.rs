//! The devices' interface.

use super::call::Call;
use super::callers::bearer;
use super::problem::Problem;
use super::sending::{self, Caching};
use super::{Body, WIRE};
use crate::federation::{CheckIn, Encoded, Heard, MOST_NOTE, Taken};
use crate::now;
use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
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
/// The header that carries a round's one-time token.
pub const TOKEN: HeaderName = HeaderName::from_static("sottovoce-token");
/// Seconds after which a device in a sealed round asks again at the latest.
const SEAL_POLL_SECONDS: u32 = 2;
/// Bytes of what a token is asked for with at most: more than it has, so that a longer one is told why.
const MOST_BLINDED: u64 = 256;
/// Bytes of a refusal at most.
const MOST_REFUSAL: u64 = 4096;

/// What one would join.
pub(super) async fn about(call: Call) -> Response {
    with_caching(Json(call.federation.public()), "no-cache")
}

/// Which item each row is.
pub(super) async fn catalog(call: Call) -> Result<Response, Problem> {
    sending::send(&call.federation.catalog, &call.headers, Caching::Check)
}

#[derive(Serialize)]
struct Enrolled {
    device: u32,
    federation: u64,
    credential: String,
}

/// A device enrols.
pub(super) async fn enrol(call: Call) -> Result<Response, Problem> {
    let (token, key) = (bearer(&call.headers)?, call.key()?);
    let found = call.server.enrol(&call.federation, token, key).await?;
    let status = if found.again { StatusCode::OK } else { StatusCode::CREATED };
    let body =
        Enrolled { device: found.device, federation: call.federation.id, credential: found.credential };
    Ok(with_caching((status, Json(body)), "no-store"))
}

/// A device asks whether there is something to do.
pub(super) async fn check_in(call: Call) -> Result<Response, Problem> {
    let response = match call.federation.check_in(call.device()?, now()) {
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
            let mut response = later(seconds);
            response.headers_mut().insert(STATE, HeaderValue::from_static(state));
            response
        }
    };
    Ok(with_caching(response, "no-store"))
}

/// All of a version of the shared model.
pub(super) async fn model(call: Call<u64>) -> Result<Response, Problem> {
    let caching = caching_of_models(&call)?;
    let published = call
        .federation
        .version(call.at)
        .map_err(|was| Problem::plain(if was { "version-gone" } else { "version-unknown" }))?;
    send_counted(&call, &published.whole, caching)
}

/// What leads from a version held to another.
pub(super) async fn difference(call: Call<(u64, u64)>) -> Result<Response, Problem> {
    let caching = caching_of_models(&call)?;
    let (version, held) = call.at;
    let difference = call.federation.difference(version, held).map_err(|error| {
        tracing::error!(federation = %call.federation.name, version, %error, "a difference cannot be made");
        Problem::plain("no-difference")
    })?;
    let difference = difference.ok_or_else(|| Problem::plain("no-difference"))?;
    send_counted(&call, &difference, caching)
}

/// Models that are not for everybody take a device's credential.
fn caching_of_models<P>(call: &Call<P>) -> Result<Caching, Problem> {
    if !call.federation.config.private_models {
        return Ok(Caching::Forever);
    }
    call.device()?;
    Ok(Caching::Private)
}

fn send_counted<P>(call: &Call<P>, file: &Encoded, caching: Caching) -> Result<Response, Problem> {
    let response = sending::send(file, &call.headers, caching)?;
    let bytes = axum::body::HttpBody::size_hint(response.body()).exact().unwrap_or(0);
    call.federation.sent(bytes);
    call.server.metrics.sent(&call.federation.name, bytes);
    Ok(response)
}

/// A device sends its update.
pub(super) async fn update(call: Call<u64>, body: Body) -> Result<Response, Problem> {
    let (from, key) = (call.of_round()?, call.key()?);
    let (bytes, _share) = call.read(body, call.federation.upload_limit()).await?;
    let size = bytes.len() as u64;
    let taken = call.federation.take_update(&call.server.clerk, from, key, bytes, now()).await?;
    Ok(taken_in(&call, taken, size))
}

fn taken_in(call: &Call<u64>, taken: Taken, size: u64) -> Response {
    let (status, answer) = match taken {
        Taken::Stored => {
            call.server.metrics.received(&call.federation.name, size);
            (StatusCode::CREATED, "{\"stored\":true,\"repeated\":false}")
        }
        Taken::Repeated => (StatusCode::OK, "{\"stored\":true,\"repeated\":true}"),
    };
    (status, [(CONTENT_TYPE, "application/json")], answer).into_response()
}

/// A device asks for its token of a round.
pub(super) async fn token(call: Call<u64>, body: Body) -> Result<Response, Problem> {
    let from = call.of_round()?;
    let (bytes, _share) = call.read(body, MOST_BLINDED).await?;
    let issued = call.federation.give_token(&call.server.clerk, from, &bytes, now()).await?;
    Ok(([(CONTENT_TYPE, WIRE), (CACHE_CONTROL, "no-store")], issued).into_response())
}

/// Somebody sends an update with a token, and does not say who.
pub(super) async fn anonymous_update(call: Call<u64>, body: Body) -> Result<Response, Problem> {
    let text = call.headers.get(TOKEN).ok_or_else(|| Problem::plain("no-token"))?;
    let bytes = text.to_str().ok().and_then(from_hex).ok_or_else(|| Problem::plain("bad-token"))?;
    let token = Token::from_bytes(&bytes).map_err(|error| Problem::new("bad-token", error.to_string()))?;
    let key = call.key()?;
    call.is_plain_wire()?;
    // Before anything of the body is held.
    call.federation.check_token(call.at, &token)?;
    let (bytes, _share) = body.read(call.federation.upload_limit(), &call.headers).await?;
    let size = bytes.len() as u64;
    let clerk = &call.server.clerk;
    let taken = call.federation.take_anonymous(clerk, call.at, &token, key, bytes, now()).await?;
    Ok(taken_in(&call, taken, size))
}

/// A device says something so that a sealed sum can be opened.
pub(super) async fn say(call: Call<u64>, body: Body) -> Result<StatusCode, Problem> {
    let from = call.of_round()?;
    let (bytes, _share) = call.read(body, MOST_NOTE.max(call.federation.upload_limit())).await?;
    call.federation.take_note(&call.server.clerk, from, bytes).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What there is for a device in this step of a sealed round.
pub(super) async fn hear(call: Call<u64>) -> Result<Response, Problem> {
    let (device, round) = call.of_round()?;
    let response = match call.federation.hear(device, round)? {
        Heard::Message(bytes) => ([(CONTENT_TYPE, WIRE)], bytes).into_response(),
        Heard::Wait => later(call.federation.config.check_in_seconds.min(SEAL_POLL_SECONDS)),
    };
    Ok(with_caching(response, "no-store"))
}

/// A device will not answer.
pub(super) async fn refusal(call: Call<u64>, body: Body) -> Result<StatusCode, Problem> {
    let (device, round) = call.of_round()?;
    let (bytes, _share) = call.read(body, MOST_REFUSAL).await?;
    let decoded = codec::decode_refusal(&bytes);
    let (of, to, _) = decoded.map_err(|error| Problem::new("malformed", error.to_string()))?;
    if (of.0, to.0) != (call.federation.id, round) {
        return Err(Problem::new("wrong-round", format!("the refusal is for {of} and {to}")));
    }
    call.federation.take_refusal(&call.server.clerk, device, round, now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A device withdraws.
pub(super) async fn withdraw(call: Call) -> Result<StatusCode, Problem> {
    call.server.withdraw(&call.federation, call.device()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Nothing to do for so many seconds.
fn later(seconds: u32) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

fn with_caching(answer: impl IntoResponse, words: &'static str) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(words));
    response
}
