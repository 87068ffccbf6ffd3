//! The record of operators' acts: every request of an operator that changes something, done or refused.

use super::problem::ProblemCode;
use crate::now;
use crate::server::Server;
use crate::storage::ActRecord;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;

/// What a handler says of its act beside what the address says.
#[derive(Clone, Debug, Default)]
pub(super) struct ActDetail {
    /// The federation, where the address does not name it.
    pub(super) federation: Option<String>,
    /// What exactly.
    pub(super) detail: String,
}

impl ActDetail {
    /// Adds what exactly was done to a response.
    pub(super) fn on(mut response: Response, detail: impl Into<String>) -> Response {
        response.extensions_mut().insert(Self { federation: None, detail: detail.into() });
        response
    }
}

/// What every request is called that changes something. A test compares it with the routes.
pub(super) const ACTS: &[(&str, &str, &str)] = &[
    ("POST", "/v1/operator/federations", "create federation"),
    ("POST", "/v1/operator/federations/{federation}/{action}", ""),
    ("POST", "/v1/operator/federations/{federation}/rollback", "roll back"),
    ("POST", "/v1/operator/federations/{federation}/extend", "extend"),
    ("POST", "/v1/operator/federations/{federation}/schedule", "schedule"),
    ("POST", "/v1/operator/federations/{federation}/archive", "archive"),
    ("DELETE", "/v1/operator/federations/{federation}", "delete federation"),
    ("DELETE", "/v1/operator/federations/{federation}/devices/{device}", "revoke device"),
    ("DELETE", "/v1/operator/federations/{federation}/quarantine/{device}", "release device"),
    ("POST", "/v1/operator/federations/{federation}/enrolment-tokens", "create enrolment token"),
    ("DELETE", "/v1/operator/federations/{federation}/enrolment-tokens/{token}", "revoke enrolment token"),
    ("DELETE", "/v1/operator/federations/{federation}/audiences/{audience}", "close audience"),
    ("POST", "/v1/operator/federations/{federation}/advertisers", "create advertiser"),
    ("DELETE", "/v1/operator/federations/{federation}/advertisers/{token}", "revoke advertiser"),
    ("POST", "/v1/operator/tokens", "create operator token"),
    ("DELETE", "/v1/operator/tokens/{token}", "revoke operator token"),
];

/// An act that is being done.
pub(super) struct Act(ActRecord);

impl Act {
    /// The act that a request is, if it is one of an operator with a token.
    pub(super) fn of(server: &Server, route: &'static str, request: &Request<Incoming>) -> Option<Self> {
        let method = request.method().as_str();
        let (.., name) = ACTS.iter().find(|(of, path, _)| (*of, *path) == (method, route))?;
        let (token, label, role) = server.operator(super::auth::bearer(request.headers()).ok()?)?;
        let parts: Vec<&str> = request.uri().path().split('/').collect();
        // What a caller may write into an address is no longer than this.
        let part = |place: usize| parts.get(place).map(|part| part.chars().take(80).collect::<String>());
        let federation = part(4).filter(|_| route.contains("{federation}"));
        let last = part(parts.len() - 1).unwrap_or_default();
        let act = if name.is_empty() { last.clone() } else { (*name).to_owned() };
        let numbered = route.ends_with('}') && !route.ends_with("{federation}") && !name.is_empty();
        let detail = if numbered { last } else { String::new() };
        let (at, token, role) = (now(), Some(token), role.to_string());
        Some(Self(ActRecord { at, token, label, role, act, federation, detail, ..ActRecord::default() }))
    }

    /// The act, with what came of it.
    pub(super) fn answered(self, response: &Response) -> ActRecord {
        let Self(mut act) = self;
        act.status = response.status().as_u16().into();
        if let Some(more) = response.extensions().get::<ActDetail>() {
            act.federation = act.federation.or_else(|| more.federation.clone());
            act.detail.clone_from(&more.detail);
        }
        if let Some(code) = response.extensions().get::<ProblemCode>() {
            act.detail = format!("{} refused: {}", act.detail, code.0).trim().to_owned();
        }
        act
    }
}

/// Records an act. It is done already: a failure is the log's matter.
pub(super) async fn record(server: &Server, act: ActRecord) {
    if let Err(error) = server.record_act(act).await {
        tracing::error!(%error, "an operator's act is not recorded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes;

    #[test]
    fn every_change_of_an_operator_has_a_name() {
        let changes =
            routes().into_iter().filter(|(method, path)| *method != "GET" && path.starts_with("/v1/operator/"));
        let mut changes: Vec<(&str, String)> = changes.collect();
        let mut named: Vec<(&str, String)> =
            ACTS.iter().map(|(method, path, _)| (*method, (*path).to_owned())).collect();
        changes.sort();
        named.sort();
        assert_eq!(changes, named);
    }
}
