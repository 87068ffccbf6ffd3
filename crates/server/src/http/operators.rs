//! The operators' interface.

use super::address::{Asked, At};
use super::body::is_not_packed;
use super::callers;
use super::problem::Problem;
use super::{Api, Body};
use crate::federation::{Federation, FederationConfig};
use crate::now;
use crate::storage::{Purpose, RoundRecord, Standing};
use crate::tokens::Role;
use axum::Json;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a new federation at most: a catalog may be long.
const MOST_FOUNDING: u64 = 256 << 20;
/// Bytes of other requests at most.
const MOST_BYTES: u64 = 64 << 10;
/// Rounds told at a time at most.
const MOST_ROUNDS: usize = 1000;
/// How often a watcher is told.
const EVENT_EVERY: Duration = Duration::from_secs(1);

type Answer = Result<Response, Problem>;

async fn read<T: DeserializeOwned>(body: Body, most: u64, headers: &HeaderMap) -> Result<T, Problem> {
    is_not_packed(headers)?;
    let (bytes, _share) = body.read(most, headers).await?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::new("bad-request", error.to_string()))
}

/// All federations.
pub(super) async fn list(State(api): State<Api>, headers: HeaderMap) -> Answer {
    callers::operator(&api.server, &headers, Role::Observer)?;
    let all: Vec<_> = api.server.federations().iter().map(|each| each.view(now())).collect();
    Ok(Json(json!({ "federations": all })).into_response())
}

/// A federation to be created.
#[derive(Deserialize)]
pub(super) struct Founding {
    name: String,
    catalog: String,
    #[serde(flatten)]
    config: serde_json::Map<String, Value>,
}

/// Creates a federation.
pub(super) async fn create(State(api): State<Api>, headers: HeaderMap, body: Body) -> Answer {
    callers::operator(&api.server, &headers, Role::Operator)?;
    let Founding { name, catalog, config } = read(body, MOST_FOUNDING, &headers).await?;
    let config: FederationConfig = serde_json::from_value(Value::Object(config))
        .map_err(|error| Problem::new("wrong-config", error.to_string()))?;
    let federation = api.server.found(&name, config, catalog).await?;
    Ok((StatusCode::CREATED, Json(federation.view(now()))).into_response())
}

fn found(api: &Api, headers: &HeaderMap, least: Role, name: &str) -> Result<Arc<Federation>, Problem> {
    callers::operator(&api.server, headers, least)?;
    callers::federation(&api.server, name)
}

/// One federation.
pub(super) async fn show(State(api): State<Api>, At(name): At<String>, headers: HeaderMap) -> Answer {
    let federation = found(&api, &headers, Role::Observer, &name)?;
    Ok(Json(federation.view(now())).into_response())
}

/// Pauses, resumes or ends a federation.
pub(super) async fn stand(
    State(api): State<Api>,
    At((name, to)): At<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let federation = found(&api, &headers, Role::Operator, &name)?;
    let standing = match to.as_str() {
        "pause" => Standing::Paused,
        "resume" => Standing::Running,
        "finish" => Standing::Finished,
        _ => return Err(Problem::plain("not-found")),
    };
    match federation.standing() {
        Standing::Failed(why) => {
            return Err(Problem::new("not-now", format!("training has failed and cannot go on: {why}")));
        }
        Standing::Finished if standing != Standing::Finished => {
            return Err(Problem::new("not-now", "the federation is finished"));
        }
        _ => (),
    }
    api.server.stand(&federation, standing).await?;
    Ok(Json(federation.view(now())).into_response())
}

/// Which rounds are asked for.
#[derive(Deserialize)]
pub(super) struct Which {
    before: Option<u64>,
    limit: Option<usize>,
}

/// Rounds that are over, the latest first.
pub(super) async fn rounds(
    State(api): State<Api>,
    At(name): At<String>,
    Asked(which): Asked<Which>,
    headers: HeaderMap,
) -> Answer {
    let federation = found(&api, &headers, Role::Observer, &name)?;
    let most = which.limit.unwrap_or(100).clamp(1, MOST_ROUNDS);
    let rounds = api.server.rounds(federation.id, which.before, most).await.map_err(|error| {
        tracing::error!(federation = %federation.name, %error, "rounds cannot be read");
        Problem::plain("not-stored").again_in(10)
    })?;
    let rounds: Vec<Value> = rounds.iter().map(told).collect();
    Ok(Json(json!({ "rounds": rounds })).into_response())
}

fn told(round: &RoundRecord) -> Value {
    let criteria: Value = serde_json::from_str(&round.criteria).unwrap_or_else(|_| json!({}));
    json!({
        "round": round.round,
        "version": round.version,
        "asked": round.asked,
        "counted": round.counted,
        "declined": round.declined,
        "refused": round.refused,
        "bytes_up": round.bytes_up,
        "bytes_down": round.bytes_down,
        "opened": round.opened,
        "closed": round.closed,
        "criteria": criteria,
        "remark": round.remark,
    })
}

/// A token to be made.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    label: String,
    role: Option<String>,
    uses: Option<u64>,
    expires_in_seconds: Option<u64>,
}

impl Wanted {
    async fn make(self, api: &Api, purpose: Purpose) -> Answer {
        if self.label.len() > 200 {
            return Err(Problem::new("bad-request", "a label has at most 200 bytes"));
        }
        let expires =
            self.expires_in_seconds.map(|seconds| now().saturating_add(seconds.saturating_mul(1000)));
        // Databases keep times as signed numbers.
        let expires = expires.map(|at| at.min(i64::MAX as u64));
        let made = api.server.add_token(purpose, &self.label, expires).await;
        let (token, view) = made.map_err(|error| {
            tracing::error!(%error, "a token cannot be made");
            Problem::plain("not-stored").again_in(10)
        })?;
        let mut body = serde_json::to_value(view).unwrap_or_default();
        body["token"] = token.into();
        Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)).into_response())
    }
}

/// Makes a token to enrol with.
pub(super) async fn add_enrolment_token(
    State(api): State<Api>,
    At(name): At<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let federation = found(&api, &headers, Role::Operator, &name)?;
    let wanted: Wanted = read(body, MOST_BYTES, &headers).await?;
    if wanted.role.is_some() {
        return Err(Problem::new("bad-request", "a token to enrol with has no role"));
    }
    if wanted.uses.is_some_and(|uses| uses > i64::MAX as u64) {
        return Err(Problem::new("bad-request", "uses is too large"));
    }
    let purpose = Purpose::Enrolment { federation: federation.id, uses: wanted.uses };
    wanted.make(&api, purpose).await
}

/// Tokens to enrol with.
pub(super) async fn enrolment_tokens(
    State(api): State<Api>,
    At(name): At<String>,
    headers: HeaderMap,
) -> Answer {
    let federation = found(&api, &headers, Role::Operator, &name)?;
    Ok(Json(json!({ "tokens": api.server.tokens(Some(federation.id)) })).into_response())
}

/// A token to enrol with is no longer taken.
pub(super) async fn remove_enrolment_token(
    State(api): State<Api>,
    At((name, id)): At<(String, u64)>,
    headers: HeaderMap,
) -> Answer {
    let federation = found(&api, &headers, Role::Operator, &name)?;
    remove(&api, id, Some(federation.id)).await
}

async fn remove(api: &Api, id: u64, of: Option<u64>) -> Answer {
    if !api.server.is_token_of(id, of) || !api.server.remove_token(id).await? {
        return Err(Problem::new("not-found", format!("there is no token {id}")));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Makes an operator's token.
pub(super) async fn add_token(State(api): State<Api>, headers: HeaderMap, body: Body) -> Answer {
    callers::operator(&api.server, &headers, Role::Admin)?;
    let wanted: Wanted = read(body, MOST_BYTES, &headers).await?;
    let role = wanted.role.as_deref().and_then(Role::named);
    let role = role.ok_or_else(|| Problem::new("bad-request", "role is one of observer, operator, admin"))?;
    if wanted.uses.is_some() {
        return Err(Problem::new("bad-request", "an operator's token has no number of uses"));
    }
    wanted.make(&api, Purpose::Operator { role: role.to_string() }).await
}

/// Operators' tokens.
pub(super) async fn tokens(State(api): State<Api>, headers: HeaderMap) -> Answer {
    callers::operator(&api.server, &headers, Role::Admin)?;
    Ok(Json(json!({ "tokens": api.server.tokens(None) })).into_response())
}

/// An operator's token is no longer taken.
pub(super) async fn remove_token(State(api): State<Api>, At(id): At<u64>, headers: HeaderMap) -> Answer {
    callers::operator(&api.server, &headers, Role::Admin)?;
    remove(&api, id, None).await
}

/// Shuts a device out.
pub(super) async fn revoke(
    State(api): State<Api>,
    At((name, device)): At<(String, u32)>,
    headers: HeaderMap,
) -> Answer {
    let federation = found(&api, &headers, Role::Operator, &name)?;
    if !federation.has_device(device) {
        return Err(Problem::new("not-found", format!("there is no device {device}")));
    }
    api.server.revoke(&federation, device).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What the caller may do.
pub(super) async fn me(State(api): State<Api>, headers: HeaderMap) -> Answer {
    let role = callers::operator(&api.server, &headers, Role::Observer)?;
    Ok(Json(json!({ "role": role.to_string() })).into_response())
}

/// All federations again and again, for a page that shows them live.
pub(super) async fn events(State(api): State<Api>, headers: HeaderMap) -> Answer {
    callers::operator(&api.server, &headers, Role::Observer)?;
    let stream = futures_util::stream::unfold((api, headers, true), |(api, headers, first)| async move {
        if !first {
            tokio::select! {
                () = tokio::time::sleep(EVENT_EVERY) => (),
                () = api.closing() => return None,
            }
        }
        // The token may have been removed or have expired meanwhile.
        callers::operator(&api.server, &headers, Role::Observer).ok()?;
        let all: Vec<_> = api.server.federations().iter().map(|each| each.view(now())).collect();
        let event = Event::default().event("federations").data(json!({ "federations": all }).to_string());
        Some((Ok::<_, Infallible>(event), (api, headers, false)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()).into_response())
}
