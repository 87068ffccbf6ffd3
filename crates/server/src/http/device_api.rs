//! The interface for devices.

use super::auth::bearer;
use super::download;
use super::problem::Problem;
use super::request::DeviceRequest;
use super::{Body, WIRE};
use crate::federation::{Admission, CheckIn, Encoded, MAX_REPORT, MAX_REQUEST};
use crate::now;
use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use sottovoce_privacy::tokens::{Token, from_hex};
use sottovoce_protocol::codec;

/// The hash of the model to train on.
const MODEL_DIGEST: HeaderName = HeaderName::from_static("sottovoce-model-digest");
/// Why there is nothing to do.
const STATE: HeaderName = HeaderName::from_static("sottovoce-state");
/// What the federation waits for.
const WAITS_FOR: HeaderName = HeaderName::from_static("sottovoce-waits-for");
/// The device's index in the cohort, if updates are sealed.
const SEAT: HeaderName = HeaderName::from_static("sottovoce-seat");
/// The version that the last rollback created.
const ROLLED_BACK: HeaderName = HeaderName::from_static("sottovoce-went-back");
/// A round's one-time token.
const TOKEN: HeaderName = HeaderName::from_static("sottovoce-token");
/// The device's owner takes part in audiences.
const AUDIENCES: HeaderName = HeaderName::from_static("sottovoce-audiences");
/// The longest interval at which a device in a sealed round polls, in seconds.
const SEAL_POLL_SECONDS: u32 = 2;
/// Bytes of a blinded token request: more than it has, so that a longer one is rejected with a reason.
const MAX_BLINDED: u64 = 256;
/// Bytes of a refusal.
const MAX_REFUSAL: u64 = 4096;

type Answer = Result<Response, Problem>;

/// What a device would join.
pub(super) async fn about(request: DeviceRequest) -> Response {
    with_caching(Json(request.federation.public()), download::REVALIDATE)
}

/// The item of each row.
pub(super) async fn catalog(request: DeviceRequest) -> Answer {
    download::send(&request.federation.catalog, &request.headers, download::REVALIDATE)
}

/// Enrols a device.
pub(super) async fn enrol(request: DeviceRequest) -> Answer {
    let (token, key) = (bearer(&request.headers)?, request.enrolment_key()?);
    if request.federation.is_archived() {
        return Err(Problem::of("archived"));
    }
    let enrolled = request.server.enrol(&request.federation, token, key).await?;
    let status = if enrolled.again { StatusCode::OK } else { StatusCode::CREATED };
    let (device, federation) = (enrolled.device, request.federation.id);
    let body = json!({"device": device, "federation": federation, "credential": enrolled.credential});
    Ok(with_caching((status, Json(body)), "no-store"))
}

/// A device asks for something to do.
pub(super) async fn check_in(request: DeviceRequest) -> Answer {
    let in_audiences = request.headers.contains_key(AUDIENCES);
    let response = match request.federation.check_in(request.device()?, in_audiences, now()) {
        CheckIn::Selected { terms, model, seat, rolled_back } => {
            let mut response = terms.into_response();
            let headers = response.headers_mut();
            headers.extend(seat.map(|seat| (SEAT, seat.into())));
            headers.extend(rolled_back.map(|version| (ROLLED_BACK, version.into())));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(WIRE));
            headers.insert(MODEL_DIGEST, model.digest_header.clone());
            response
        }
        CheckIn::Later { seconds, state, waits_for, model } => {
            let mut response = later(seconds);
            let headers = response.headers_mut();
            headers.insert(STATE, HeaderValue::from_static(state));
            headers.extend(model.map(|model| (MODEL_DIGEST, model.digest_header.clone())));
            let waits_for = waits_for.and_then(|text| HeaderValue::try_from(text).ok());
            headers.extend(waits_for.map(|text| (WAITS_FOR, text)));
            response
        }
    };
    Ok(with_caching(response, "no-store"))
}

/// What a device needs to know of the current model where it is in no round: the model's name and settings, its version
/// and its digest.
pub(super) async fn current_model(request: DeviceRequest) -> Answer {
    caching_of_models(&request)?;
    let (model, rolled_back) = request.federation.current_terms();
    let mut response = model.terms.clone().into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(WIRE));
    headers.insert(MODEL_DIGEST, model.digest_header.clone());
    headers.extend(rolled_back.map(|version| (ROLLED_BACK, version.into())));
    Ok(with_caching(response, download::REVALIDATE))
}

/// A version of the shared model.
pub(super) async fn model(request: DeviceRequest) -> Answer {
    let caching = caching_of_models(&request)?;
    let missing = |existed| Problem::of(if existed { "version-gone" } else { "version-unknown" });
    let published = request.federation.version(request.params.version).map_err(missing)?;
    send_model(&request, &published.whole, caching)
}

/// The difference between the version that a device holds and another.
pub(super) async fn difference(request: DeviceRequest) -> Answer {
    let caching = caching_of_models(&request)?;
    let (version, held) = (request.params.version, request.params.held);
    let difference = request.federation.difference(version, held).map_err(|error| {
        tracing::error!(federation = %request.federation.name, version, %error, "a difference cannot be computed");
        Problem::of("no-difference")
    })?;
    send_model(&request, &*difference.ok_or_else(|| Problem::of("no-difference"))?, caching)
}

/// Private models require a device's credential.
fn caching_of_models(request: &DeviceRequest) -> Result<&'static str, Problem> {
    if !request.federation.config.private_models {
        return Ok(download::PUBLIC);
    }
    request.device()?;
    Ok(download::PRIVATE)
}

fn send_model(request: &DeviceRequest, file: &Encoded, caching: &'static str) -> Answer {
    let response = download::send(file, &request.headers, caching)?;
    let bytes = axum::body::HttpBody::size_hint(response.body()).exact().unwrap_or(0);
    request.federation.count_sent(bytes);
    Ok(response)
}

/// A device uploads its update.
pub(super) async fn update(request: DeviceRequest, body: Body) -> Answer {
    let (from, key) = (request.device_and_round()?, request.key()?);
    let (bytes, _reservation) = request.read(body, request.federation.upload_limit).await?;
    let admission = request.federation.receive_update(from, key, bytes).await?;
    Ok(accepted(admission))
}

fn accepted(admission: Admission) -> Response {
    let repeated = admission == Admission::Repeated;
    let status = if repeated { StatusCode::OK } else { StatusCode::CREATED };
    (status, Json(json!({"stored": true, "repeated": repeated}))).into_response()
}

/// A device requests its token of a round.
pub(super) async fn token(request: DeviceRequest, body: Body) -> Answer {
    let from = request.device_and_round()?;
    let (bytes, _reservation) = request.read(body, MAX_BLINDED).await?;
    let issued = request.federation.issue_token(from, &bytes, now()).await?;
    Ok(([(CONTENT_TYPE, WIRE), (CACHE_CONTROL, "no-store")], issued).into_response())
}

/// The one-time token in a request's header.
fn one_time_token(request: &DeviceRequest) -> Result<Token, Problem> {
    let text = request.headers.get(TOKEN).ok_or_else(|| Problem::of("no-token"))?;
    let bytes = text.to_str().ok().and_then(from_hex).ok_or_else(|| Problem::of("bad-token"))?;
    Token::from_bytes(&bytes).map_err(|error| Problem::new("bad-token", error.to_string()))
}

/// The audiences that are served. The same for all, and asked for without a credential.
pub(super) async fn audiences(request: DeviceRequest) -> Answer {
    Ok(with_caching(Json(request.federation.audience_list(now())?), download::REVALIDATE))
}

/// A device requests its tokens for the audiences of a rotation.
pub(super) async fn audience_tokens(request: DeviceRequest, body: Body) -> Answer {
    let device = request.device()?;
    let (bytes, _reservation) = request.read(body, MAX_REQUEST).await?;
    let issued = request.federation.issue_audience_tokens(device, request.params.rotation, &bytes, now()).await?;
    Ok(([(CONTENT_TYPE, WIRE), (CACHE_CONTROL, "no-store")], issued).into_response())
}

/// A segment id is reported with a one-time token, without a credential.
pub(super) async fn report(request: DeviceRequest, body: Body) -> Answer {
    let token = one_time_token(&request)?;
    let of = (request.params.audience, request.params.rotation);
    request.require_wire()?;
    // Before the body uses memory.
    request.federation.check_report(of.0, of.1, &token, now())?;
    let (bytes, _reservation) = body.read(MAX_REPORT, &request.headers).await?;
    let new = request.federation.receive_report(of, &token, &bytes, now()).await?;
    Ok(accepted(if new { Admission::New } else { Admission::Repeated }))
}

/// An update is uploaded with a one-time token, without a credential.
pub(super) async fn anonymous_update(request: DeviceRequest, body: Body) -> Answer {
    let token = one_time_token(&request)?;
    let (key, round) = (request.key()?, request.params.round);
    request.require_wire()?;
    // Before the body uses memory.
    request.federation.check_token(round, &token)?;
    let (bytes, _reservation) = body.read(request.federation.upload_limit, &request.headers).await?;
    let from = (round, &token);
    let admission = request.federation.receive_anonymous_update(from, key, bytes).await?;
    Ok(accepted(admission))
}

/// A device sends a message of secure aggregation.
pub(super) async fn send_seal_message(request: DeviceRequest, body: Body) -> Result<StatusCode, Problem> {
    let from = request.device_and_round()?;
    let limit = request.federation.seal_message_limit(request.params.round);
    let (bytes, _reservation) = request.read(body, limit).await?;
    request.federation.receive_seal_message(from, bytes).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A device asks for its message of secure aggregation.
pub(super) async fn seal_message(request: DeviceRequest) -> Answer {
    let (device, round) = request.device_and_round()?;
    let response = match request.federation.seal_message_for(device, round)? {
        Some(bytes) => ([(CONTENT_TYPE, WIRE)], bytes).into_response(),
        None => later(request.federation.config.check_in_seconds.min(SEAL_POLL_SECONDS)),
    };
    Ok(with_caching(response, "no-store"))
}

/// A device declines a round.
pub(super) async fn refusal(request: DeviceRequest, body: Body) -> Result<StatusCode, Problem> {
    let from = request.device_and_round()?;
    let (bytes, _reservation) = request.read(body, MAX_REFUSAL).await?;
    let decoded = codec::decode_refusal(&bytes);
    let (federation, round, _) = decoded.map_err(|error| Problem::new("malformed", error.to_string()))?;
    if (federation.0, round.0) != (request.federation.id, from.1) {
        return Err(Problem::new("wrong-round", format!("the refusal is for {federation} and {round}")));
    }
    request.federation.decline(from, now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A device withdraws.
pub(super) async fn withdraw(request: DeviceRequest) -> Result<StatusCode, Problem> {
    request.federation.withdraw(request.device()?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Nothing to do for this many seconds.
fn later(seconds: u32) -> Response {
    (StatusCode::NO_CONTENT, [(RETRY_AFTER, HeaderValue::from(seconds))]).into_response()
}

fn with_caching(answer: impl IntoResponse, directive: &'static str) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(directive));
    response
}
