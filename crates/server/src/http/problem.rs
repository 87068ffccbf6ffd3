//! Error responses: a status, a stable code, and a description.

use crate::commit_queue::CommitError;
use crate::error::ServerError;
use crate::federation::{AudienceError, EndError, PlanError, RollbackError, UploadError};
use crate::server::{CreateError, EnrolError};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Every code, with its status and meaning: the table of docs/http-api.md.
pub const CODES: &[(&str, u16, &str)] = &[
    ("bad-request", 400, "The request is invalid; see the detail"),
    ("no-credential", 401, "There is no `Authorization: Bearer` header"),
    ("bad-credential", 401, "The credential or token is unknown or no longer valid"),
    ("no-token", 401, "There is no `Sottovoce-Token` header"),
    ("bad-token", 401, "The token does not belong to this round; discard the update and check in"),
    ("revoked", 403, "An operator has revoked this device's access"),
    ("not-asked", 403, "The device is not in this round's cohort; check in"),
    ("not-allowed", 403, "The token's role does not permit this"),
    ("no-federation", 404, "There is no federation of this name"),
    ("not-found", 404, "There is nothing at this address"),
    ("version-unknown", 404, "This version has never existed"),
    ("no-difference", 404, "There is no difference to this version; download the whole model"),
    ("not-allowed-here", 405, "This address does not support this method"),
    ("slow", 408, "The request took too long to arrive"),
    ("round-closed", 409, "The round is closed; discard the update and check in"),
    ("duplicate", 409, "Another answer of this device to this round is stored; discard this one"),
    ("key-used", 409, "The device that enrolled with this key has used its credential; enrol with a new, random key"),
    ("key-reused", 409, "Other bytes are stored under this key"),
    ("token-taken", 409, "This device was issued another token for this round; discard the update"),
    ("other-way", 409, "This round expects updates with, or without, a one-time token; see its terms"),
    ("name-taken", 409, "There is one of this name already"),
    ("not-now", 409, "This is not possible in the current state; see the detail"),
    (
        "archived",
        410,
        "The federation is archived: it takes no devices and holds no rounds; what a device has stays its own",
    ),
    ("deleted", 410, "The federation was deleted; what a device has stays its own"),
    ("version-gone", 410, "This version is no longer stored; check in"),
    ("too-large", 413, "The body is too long"),
    ("wrong-media", 415, "The body has another media type, or is compressed, which uploads must not be"),
    ("bad-range", 416, "The range is outside the file"),
    ("malformed", 422, "The body is not a message of the wire format; see the detail"),
    ("wrong-round", 422, "The update is for another round or federation; check in"),
    ("wrong-shape", 422, "The update is for tables of other shapes; download the model"),
    ("not-finite", 422, "The update has a value that is not a finite number"),
    ("wrong-encoding", 422, "The values are not encoded as the terms ask, or the update reports more than was asked"),
    ("row-too-large", 422, "The norm of a row exceeds the federation's bound"),
    ("wrong-config", 422, "The federation's configuration or catalog is invalid; see the detail"),
    ("budget-spent", 403, "The privacy budget does not allow another measurement; see the detail"),
    ("below-k", 404, "There are too few to be published; nothing else is said about them"),
    ("quota", 429, "The advertiser's quota is used up for now; see the detail"),
    ("used-up", 403, "The enrolment token has no uses left"),
    ("busy", 503, "The server is overloaded; retry the same request after the time given"),
    ("not-stored", 503, "The database failed; retry the same request later"),
];

/// An error response.
#[derive(Debug)]
pub struct Problem {
    code: &'static str,
    detail: String,
    retry_after: Option<u32>,
}

impl Problem {
    /// A problem with its own description.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry_after: None }
    }

    /// A problem with the description of its code.
    pub fn of(code: &'static str) -> Self {
        Self::new(code, meaning(code).1)
    }

    /// Asks the caller to retry after this many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// An error that only the log explains.
    pub(super) fn unexpected<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| {
            tracing::error!(%error, "{what}");
            Self::of("not-stored").retry_after(10)
        }
    }

    /// Its code.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

fn meaning(code: &str) -> (StatusCode, &'static str) {
    let found = CODES.iter().find(|(each, ..)| *each == code);
    let (_, status, text) = found.copied().unwrap_or(("", 500, "an error of the server"));
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), text)
}

/// Marks a response for the metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProblemCode(pub(super) &'static str);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, title) = meaning(self.code);
        let mut body = json!({"title": title, "status": status.as_u16(), "code": self.code, "detail": self.detail});
        if let Some(seconds) = self.retry_after {
            body["retry_after"] = seconds.into();
        }
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.extend(self.retry_after.map(|seconds| (RETRY_AFTER, seconds.into())));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(ProblemCode(self.code));
        response
    }
}

impl From<UploadError> for Problem {
    fn from(error: UploadError) -> Self {
        let (code, retry_after) = match &error {
            UploadError::NotAsked => ("not-asked", None),
            UploadError::RoundClosed => ("round-closed", None),
            UploadError::Duplicate => ("duplicate", None),
            UploadError::KeyReused => ("key-reused", None),
            UploadError::Invalid { code, .. } => (*code, None),
            UploadError::TokenTaken => ("token-taken", None),
            UploadError::WrongChannel => ("other-way", None),
            UploadError::Busy => ("busy", Some(1)),
            UploadError::NotStored => ("not-stored", Some(10)),
        };
        Self { retry_after, ..Self::new(code, error.to_string()) }
    }
}

impl From<EnrolError> for Problem {
    fn from(error: EnrolError) -> Self {
        match error {
            EnrolError::BadToken => Self::new("bad-credential", error.to_string()),
            EnrolError::UsedUp => Self::of("used-up"),
            EnrolError::KeyUsed => Self::of("key-used"),
            EnrolError::Busy => Self::new("busy", error.to_string()).retry_after(1),
            EnrolError::NotStored => Self::new("not-stored", error.to_string()).retry_after(10),
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Busy | CommitError::ShuttingDown => Self::of("busy").retry_after(1),
            CommitError::Storage(_) => Self::of("not-stored").retry_after(10),
        }
    }
}

impl From<AudienceError> for Problem {
    fn from(error: AudienceError) -> Self {
        let code = match error {
            AudienceError::Commit(error) => return error.into(),
            AudienceError::Disabled | AudienceError::Unknown(_) => "not-found",
            AudienceError::Invalid(..) => "bad-request",
            AudienceError::NameTaken(_) => "name-taken",
            AudienceError::Closed(_) => "not-now",
            AudienceError::Quota(_) => "quota",
            AudienceError::Budget(_) => "budget-spent",
            AudienceError::Few(_) => "below-k",
            AudienceError::Token(_) => "bad-token",
            AudienceError::Repeated(_) => "duplicate",
        };
        Self::new(code, error.to_string())
    }
}

impl From<RollbackError> for Problem {
    fn from(error: RollbackError) -> Self {
        match error {
            RollbackError::Unknown(_) => Self::new("version-unknown", error.to_string()),
            RollbackError::Gone(..) => Self::new("version-gone", error.to_string()),
            RollbackError::Current(_) => Self::new("not-now", error.to_string()),
            RollbackError::Busy | RollbackError::Stopping => Self::new("busy", error.to_string()).retry_after(1),
        }
    }
}

impl From<PlanError> for Problem {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Config(error) => Self::new("wrong-config", error.to_string()),
            PlanError::State(why) => Self::new("not-now", why),
            PlanError::Server(error) => error.into(),
        }
    }
}

impl From<EndError> for Problem {
    fn from(error: EndError) -> Self {
        match error {
            EndError::NotConfirmed(_) => Self::new("bad-request", error.to_string()),
            EndError::Archived => Self::new("not-now", error.to_string()),
            EndError::Busy | EndError::Stopping => Self::new("busy", error.to_string()).retry_after(1),
        }
    }
}

impl From<ServerError> for Problem {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Commit(error) => error.into(),
            _ => Self::unexpected("the server failed")(error),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::NameTaken(_) => Self::new("name-taken", error.to_string()),
            CreateError::Config(_) => Self::new("wrong-config", error.to_string()),
            CreateError::Open(ServerError::Commit(error)) => error.into(),
            CreateError::Open(_) => Self::unexpected("a federation cannot be created")(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_every_upload_error_has_one() {
        let mut codes: Vec<&str> = CODES.iter().map(|(code, ..)| *code).collect();
        codes.sort_unstable();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all);
        let invalid = |code| UploadError::Invalid { code, detail: String::new() };
        for error in [
            UploadError::NotAsked,
            UploadError::RoundClosed,
            invalid("wrong-round"),
            UploadError::Duplicate,
            UploadError::KeyReused,
            invalid("malformed"),
            invalid("wrong-shape"),
            invalid("not-finite"),
            invalid("wrong-encoding"),
            invalid("row-too-large"),
            UploadError::TokenTaken,
            invalid("bad-token"),
            UploadError::WrongChannel,
            UploadError::Busy,
            UploadError::NotStored,
        ] {
            let problem = Problem::from(error);
            assert!(codes.contains(&problem.code()), "{problem:?}");
            assert!(problem.into_response().status().as_u16() < 504);
        }
    }
}
