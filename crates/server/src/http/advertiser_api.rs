//! The interface for advertisers.

use super::Body;
use super::problem::Problem;
use super::request::AdvertiserRequest;
use crate::now;
use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Bytes of a request.
const MAX_BYTES: u64 = 64 << 10;

type Answer = Result<Response, Problem>;

fn answer(status: StatusCode, body: impl Serialize) -> Answer {
    Ok((status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response())
}

/// The advertiser's audiences and budget.
pub(super) async fn list(request: AdvertiserRequest) -> Answer {
    answer(StatusCode::OK, request.federation.advertiser(request.advertiser.id, now())?)
}

/// Creates an audience, which is measured before it is served.
pub(super) async fn create(request: AdvertiserRequest, body: Body) -> Answer {
    let new = request.read(body, MAX_BYTES).await?;
    answer(StatusCode::CREATED, request.federation.create_audience(request.advertiser, new, now()).await?)
}

/// An audience.
pub(super) async fn show(request: AdvertiserRequest) -> Answer {
    let id = request.params.audience;
    answer(StatusCode::OK, request.federation.audience(Some(request.advertiser.id), id, now())?)
}

/// Closes an audience.
pub(super) async fn close(request: AdvertiserRequest) -> Answer {
    let id = request.params.audience;
    answer(StatusCode::OK, request.federation.close_audience(Some(request.advertiser.id), id, now()).await?)
}

/// Has an audience measured again.
pub(super) async fn measure(request: AdvertiserRequest) -> Answer {
    let id = request.params.audience;
    answer(StatusCode::ACCEPTED, request.federation.measure_audience(request.advertiser, id, now()).await?)
}

/// Asks for sizes at several thresholds.
pub(super) async fn thresholds(request: AdvertiserRequest, body: Body) -> Answer {
    let new = request.read(body, MAX_BYTES).await?;
    answer(StatusCode::ACCEPTED, request.federation.ask_thresholds(request.advertiser, new, now()).await?)
}

/// A measurement.
pub(super) async fn measurement(request: AdvertiserRequest) -> Answer {
    let id = request.params.measurement;
    answer(StatusCode::OK, request.federation.measurement(request.advertiser.id, id)?)
}

#[derive(Deserialize)]
pub(super) struct OfRotation {
    rotation: Option<u64>,
}

/// The segment ids of an audience in a rotation that is over.
pub(super) async fn segments(request: AdvertiserRequest, of: Result<Query<OfRotation>, QueryRejection>) -> Answer {
    let Query(of) = of.map_err(|error| Problem::new("bad-request", error.body_text()))?;
    let id = request.params.audience;
    let (rotation, segments) = request.federation.segments(request.advertiser.id, id, of.rotation, now())?;
    answer(StatusCode::OK, json!({"audience": id, "rotation": rotation, "segments": segments}))
}
