//! The interface for operators.

use super::Body;
use super::acts::ActDetail;
use super::problem::Problem;
use super::request::OperatorRequest;
use crate::federation::{AudienceError, Ending, FederationConfig, Schedule};
use crate::now;
use crate::server::{Role, Server};
use crate::storage::{Status, TokenPurpose, TokenRecord};
use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;

/// Bytes of a request that creates a federation: a catalog may be long.
const MAX_CREATION: u64 = 256 << 20;
/// Bytes of other requests.
const MAX_BYTES: u64 = 64 << 10;
/// New audiences and questions of an advertiser a day, unless its token says otherwise.
const DEFAULT_PER_DAY: u64 = 10;
/// Rounds in a response.
const MAX_ROUNDS: usize = 1000;
/// The interval of events.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

type Answer = Result<Response, Problem>;

fn views(server: &Server) -> Value {
    let all: Vec<_> = server.federations().iter().map(|each| each.view(now())).collect();
    json!({ "federations": all })
}

/// All federations.
pub(super) async fn list(request: OperatorRequest) -> Answer {
    request.require(Role::Observer)?;
    Ok(Json(views(&request.api.server)).into_response())
}

#[derive(Deserialize)]
struct NewFederation {
    name: String,
    catalog: String,
    #[serde(flatten)]
    config: serde_json::Map<String, Value>,
}

/// Creates a federation.
pub(super) async fn create(request: OperatorRequest, body: Body) -> Answer {
    request.require(Role::Operator)?;
    let NewFederation { name, catalog, config } = request.read(body, MAX_CREATION).await?;
    let config: FederationConfig = serde_json::from_value(Value::Object(config))
        .map_err(|error| Problem::new("wrong-config", error.to_string()))?;
    let model = config.model.clone();
    let federation = request.api.server.create_federation(&name, config, catalog).await?;
    let mut response = (StatusCode::CREATED, Json(federation.view(now()))).into_response();
    response.extensions_mut().insert(ActDetail { federation: Some(name), detail: format!("model {model}") });
    Ok(response)
}

/// A federation.
pub(super) async fn show(request: OperatorRequest) -> Answer {
    Ok(Json(request.federation(Role::Observer)?.view(now())).into_response())
}

/// Pauses, resumes or finishes a federation.
pub(super) async fn set_status(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let status = match request.params.action.as_str() {
        "pause" => Status::Paused,
        "resume" => Status::Running,
        "finish" => Status::Finished,
        _ => return Err(Problem::of("not-found")),
    };
    match federation.status() {
        Status::Failed(why) => {
            return Err(Problem::new("not-now", format!("training has failed and cannot continue: {why}")));
        }
        Status::Archived => return Err(Problem::of("archived")),
        Status::Finished if status != Status::Finished => {
            let detail = "the federation is finished; `sottovoce federation extend NAME --rounds N` adds rounds";
            return Err(Problem::new("not-now", detail));
        }
        _ => (),
    }
    federation.set_status(status).await?;
    Ok(Json(federation.view(now())).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    rounds: u64,
}

/// Adds rounds.
pub(super) async fn extend(request: OperatorRequest, body: Body) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let More { rounds } = request.read(body, MAX_BYTES).await?;
    federation.extend(rounds).await?;
    Ok(ActDetail::on(Json(federation.view(now())).into_response(), format!("{rounds} rounds")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSchedule {
    #[serde(default)]
    schedule: Option<Schedule>,
    #[serde(default)]
    endless: bool,
}

/// Sets when rounds are held, and whether there is an end to them.
pub(super) async fn schedule(request: OperatorRequest, body: Body) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let NewSchedule { schedule, endless } = request.read(body, MAX_BYTES).await?;
    let when = serde_json::to_string(&schedule).unwrap_or_default();
    federation.reschedule(schedule, endless).await?;
    let detail = format!("{when}{}", if endless { ", endless" } else { "" });
    Ok(ActDetail::on(Json(federation.view(now())).into_response(), detail))
}

/// What archiving or deleting would do.
pub(super) async fn deletion(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Observer)?;
    Ok(Json(request.api.server.deletion(&federation)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirmation {
    confirm: String,
}

/// Archives a federation.
pub(super) async fn archive(request: OperatorRequest, body: Body) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let Confirmation { confirm } = request.read(body, MAX_BYTES).await?;
    request.api.server.end_federation(&federation, Ending::Archive, &confirm).await?;
    Ok(Json(federation.view(now())).into_response())
}

#[derive(Deserialize)]
pub(super) struct Confirmed {
    #[serde(default)]
    confirm: String,
}

/// Deletes a federation.
pub(super) async fn delete(request: OperatorRequest, of: Result<Query<Confirmed>, QueryRejection>) -> Answer {
    let Query(Confirmed { confirm }) = of.map_err(|error| Problem::new("bad-request", error.body_text()))?;
    let federation = request.federation(Role::Admin)?;
    request.api.server.end_federation(&federation, Ending::Delete, &confirm).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What operators did, the latest first.
pub(super) async fn acts(request: OperatorRequest, page: Result<Query<Page>, QueryRejection>) -> Answer {
    let Query(page) = page.map_err(|error| Problem::new("bad-request", error.body_text()))?;
    request.require(Role::Operator)?;
    let limit = page.limit.unwrap_or(100).clamp(1, MAX_ROUNDS);
    let acts = request.api.server.acts(page.before, limit).await;
    Ok(Json(json!({ "acts": acts.map_err(Problem::unexpected("acts cannot be read"))? })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    version: u64,
}

/// Rolls training back to an earlier version.
pub(super) async fn roll_back(request: OperatorRequest, body: Body) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let Target { version } = request.read(body, MAX_BYTES).await?;
    federation.roll_back_to(version).await?;
    Ok(ActDetail::on(Json(federation.view(now())).into_response(), format!("version {version}")))
}

#[derive(Deserialize)]
pub(super) struct Page {
    before: Option<u64>,
    limit: Option<usize>,
}

/// Closed rounds, the latest first.
pub(super) async fn rounds(request: OperatorRequest, page: Result<Query<Page>, QueryRejection>) -> Answer {
    let Query(page) = page.map_err(|error| Problem::new("bad-request", error.body_text()))?;
    let federation = request.federation(Role::Observer)?;
    let limit = page.limit.unwrap_or(100).clamp(1, MAX_ROUNDS);
    let rounds = request.api.server.rounds(federation.id, page.before, limit).await.map_err(|error| {
        tracing::error!(federation = %federation.name, %error, "rounds cannot be read");
        Problem::of("not-stored").retry_after(10)
    })?;
    Ok(Json(json!({ "rounds": rounds })).into_response())
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct NewToken {
    label: String,
    role: Option<String>,
    uses: Option<u64>,
    per_day: Option<u64>,
    expires_in_seconds: Option<u64>,
}

impl NewToken {
    /// `suffix` is appended to the token; it is no part of the secret.
    async fn create(self, server: &Server, purpose: TokenPurpose, suffix: &str) -> Answer {
        if self.label.len() > 200 {
            return Err(Problem::new("bad-request", "a label has at most 200 bytes"));
        }
        let expires = self.expires_in_seconds.map(|seconds| now().saturating_add(seconds.saturating_mul(1000)));
        // Databases store signed numbers.
        let expires = expires.map(|at| at.min(i64::MAX as u64));
        let (token, view) = server
            .add_token(purpose, &self.label, expires)
            .await
            .map_err(Problem::unexpected("a token cannot be created"))?;
        let role =
            if let TokenPurpose::Operator { role } = &view.purpose { format!(", {role}") } else { String::new() };
        let detail = format!("token {}{role} {}", view.id, view.label).trim().to_owned();
        let mut body = serde_json::to_value(view).unwrap_or_default();
        body["token"] = format!("{token}{suffix}").into();
        let response = (StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)).into_response();
        Ok(ActDetail::on(response, detail))
    }
}

/// Creates an enrolment token.
pub(super) async fn add_enrolment_token(request: OperatorRequest, body: Body) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let new: NewToken = request.read(body, MAX_BYTES).await?;
    if new.role.is_some() || new.per_day.is_some() {
        return Err(Problem::new("bad-request", "an enrolment token has neither a role nor a quota a day"));
    }
    if new.uses == Some(0) {
        return Err(Problem::new(
            "bad-request",
            "a token with 0 uses admits nobody: expected at least 1, or none for any number",
        ));
    }
    if new.uses.is_some_and(|uses| uses > i64::MAX as u64) {
        return Err(Problem::new("bad-request", "uses is too large"));
    }
    let commitment = federation.commitment().map_err(Problem::unexpected("a token cannot be created"))?;
    let purpose = TokenPurpose::Enrolment { federation: federation.id, uses: new.uses };
    new.create(&request.api.server, purpose, &format!(".{commitment}")).await
}

/// Creates an advertiser's token.
pub(super) async fn add_advertiser(request: OperatorRequest, body: Body) -> Answer {
    let federation = request.federation(Role::Operator)?;
    federation.audience_config()?;
    let new: NewToken = request.read(body, MAX_BYTES).await?;
    if new.role.is_some() || new.uses.is_some() {
        return Err(Problem::new("bad-request", "an advertiser's token has neither a role nor a number of uses"));
    }
    let per_day = Some(new.per_day.unwrap_or(DEFAULT_PER_DAY)).filter(|&most| most > 0);
    if per_day.is_some_and(|most| most > i64::MAX as u64) {
        return Err(Problem::new("bad-request", "per_day is too large"));
    }
    new.create(&request.api.server, TokenPurpose::Advertiser { federation: federation.id, per_day }, "").await
}

/// The advertisers of a federation.
pub(super) async fn advertisers(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Operator)?;
    let advertiser = |record: TokenRecord| {
        let mut body = serde_json::to_value(&record).unwrap_or_default();
        let spent = federation.advertiser(record.id, now()).ok();
        body["epsilon"] = spent.as_ref().map(|spent| spent.epsilon).into();
        body["budget"] = spent.map(|spent| spent.budget).into();
        body
    };
    let all = request.api.server.advertisers(federation.id);
    Ok(Json(json!({ "advertisers": all.into_iter().map(advertiser).collect::<Vec<_>>() })).into_response())
}

/// Removes an advertiser's token. Its audiences stay until they are closed or end.
pub(super) async fn remove_advertiser(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Operator)?.id;
    let id = request.params.token;
    match request.api.server.remove_advertiser(id, federation).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Problem::new("not-found", format!("there is no advertiser {id}"))),
    }
}

/// All audiences of a federation.
pub(super) async fn audiences(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Observer)?;
    let all = federation.audiences(now()).ok_or(AudienceError::Disabled)?;
    Ok(Json(all).into_response())
}

/// Closes an audience of any advertiser.
pub(super) async fn close_audience(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Operator)?;
    Ok(Json(federation.close_audience(None, request.params.audience, now()).await?).into_response())
}

/// The enrolment tokens of a federation.
pub(super) async fn enrolment_tokens(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Operator)?.id;
    Ok(Json(json!({ "tokens": request.api.server.tokens(Some(federation)) })).into_response())
}

/// Removes an enrolment token.
pub(super) async fn remove_enrolment_token(request: OperatorRequest) -> Answer {
    let federation = request.federation(Role::Operator)?.id;
    remove(&request, Some(federation)).await
}

async fn remove(request: &OperatorRequest, federation: Option<u64>) -> Answer {
    let id = request.params.token;
    match request.api.server.remove_token(id, federation).await? {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Err(Problem::new("not-found", format!("there is no token {id}"))),
    }
}

/// Creates an operator's token.
pub(super) async fn add_token(request: OperatorRequest, body: Body) -> Answer {
    request.require(Role::Admin)?;
    let new: NewToken = request.read(body, MAX_BYTES).await?;
    let role = new.role.as_deref().and_then(Role::named);
    let role = role.ok_or_else(|| Problem::new("bad-request", "role is one of observer, operator, admin"))?;
    if new.uses.is_some() || new.per_day.is_some() {
        return Err(Problem::new("bad-request", "an operator's token has neither a number of uses nor a quota a day"));
    }
    new.create(&request.api.server, TokenPurpose::Operator { role: role.to_string() }, "").await
}

/// The operators' tokens.
pub(super) async fn tokens(request: OperatorRequest) -> Answer {
    request.require(Role::Admin)?;
    Ok(Json(json!({ "tokens": request.api.server.tokens(None) })).into_response())
}

/// Removes an operator's token.
pub(super) async fn remove_token(request: OperatorRequest) -> Answer {
    request.require(Role::Admin)?;
    remove(&request, None).await
}

/// Revokes a device's access.
pub(super) async fn revoke(request: OperatorRequest) -> Answer {
    let (federation, device) = (request.federation(Role::Operator)?, request.params.device);
    if !federation.has_device(device) {
        return Err(Problem::new("not-found", format!("there is no device {device}")));
    }
    federation.revoke(device).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Lifts the quarantine of a device.
pub(super) async fn release(request: OperatorRequest) -> Answer {
    let (federation, device) = (request.federation(Role::Operator)?, request.params.device);
    if !federation.is_quarantined(device) {
        return Err(Problem::new("not-found", format!("there is no device {device} in quarantine")));
    }
    federation.set_quarantine(device, None).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The role of the operator.
pub(super) async fn me(request: OperatorRequest) -> Answer {
    let role = request.require(Role::Observer)?;
    Ok(Json(json!({ "role": role.to_string() })).into_response())
}

/// The metrics.
pub(super) async fn metrics(request: OperatorRequest) -> Answer {
    request.require(Role::Observer)?;
    Ok(([(CONTENT_TYPE, crate::metrics::MEDIA_TYPE)], request.api.server.metrics()).into_response())
}

/// A stream of all federations, for the dashboard.
pub(super) async fn events(request: OperatorRequest) -> Answer {
    request.require(Role::Observer)?;
    let stream = futures_util::stream::unfold((request, true), |(request, first)| async move {
        if !first {
            tokio::select! {
                () = tokio::time::sleep(EVENT_INTERVAL) => (),
                () = request.api.closing() => return None,
            }
        }
        // The token may have expired or been removed in the meantime.
        request.require(Role::Observer).ok()?;
        let event = Event::default().event("federations").data(views(&request.api.server).to_string());
        Some((Ok::<_, Infallible>(event), (request, false)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()).into_response())
}
