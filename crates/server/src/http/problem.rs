//! What a caller is told when something is not done: a status, a code that stays the same, and words.

use crate::clerk::ClerkError;
use crate::federation::Refused;
use crate::server::{EnrolError, FoundingError, WithdrawError};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Every code there is, with its status and what it means: the table of docs/http-api.md.
pub const CODES: &[(&str, u16, &str)] = &[
    ("bad-request", 400, "The request is not understood; the detail says where"),
    ("no-credential", 401, "There is no `Authorization: Bearer` header"),
    ("bad-credential", 401, "The credential or token is not known here, or no longer"),
    ("no-token", 401, "There is no `Sottovoce-Token` header"),
    ("bad-token", 401, "The token is not one of this round; drop the update and check in"),
    ("revoked", 403, "An operator has shut this device out"),
    ("not-asked", 403, "The device is not of this round's cohort; check in"),
    ("not-allowed", 403, "The token's role does not allow this"),
    ("no-federation", 404, "There is no federation of this name"),
    ("not-found", 404, "There is nothing at this address"),
    ("version-unknown", 404, "There has been no such version"),
    ("no-difference", 404, "There is no difference to this version; take all of the model"),
    ("not-allowed-here", 405, "This address does not know this method"),
    ("slow", 408, "The request took too long to arrive"),
    ("round-closed", 409, "The round is over; drop the update and check in"),
    ("duplicate", 409, "Another answer of this device to this round is stored; drop this one"),
    ("key-reused", 409, "Other bytes are stored under this key"),
    ("token-taken", 409, "Another token of this round was given to this device; drop the update"),
    ("other-way", 409, "Updates of this round come in another way, with or without a token; see its terms"),
    ("name-taken", 409, "There is a federation of this name already"),
    ("not-now", 409, "That cannot be done in this state; the detail says why"),
    ("version-gone", 410, "This version is no longer kept; check in"),
    ("too-large", 413, "The body is longer than is taken"),
    ("wrong-media", 415, "The body is of another media type, or compressed, which uploads must not be"),
    ("bad-range", 416, "The range is outside the file"),
    ("malformed", 422, "The body is not a message of the wire format; the detail says where"),
    ("wrong-round", 422, "The update is for another round or federation; check in"),
    ("wrong-shape", 422, "The update is for tables of other shapes; download the model"),
    ("not-finite", 422, "The update has a value that is not a finite number"),
    (
        "wrong-encoding",
        422,
        "The values are not written as the terms ask, or the update says more than was asked",
    ),
    ("row-too-large", 422, "A row is larger than the federation's bound"),
    ("wrong-config", 422, "The federation's configuration or catalog is wrong; the detail says where"),
    ("used-up", 403, "The enrolment token has been used as often as it may"),
    ("busy", 503, "Too much to do at this moment; send the same again after the time said"),
    ("not-stored", 503, "The database does not take it; send the same again later"),
];

/// An answer that says what was not done and why.
#[derive(Debug)]
pub struct Problem {
    code: &'static str,
    detail: String,
    retry_after: Option<u32>,
}

impl Problem {
    /// With words of its own.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry_after: None }
    }

    /// With the table's words.
    pub fn plain(code: &'static str) -> Self {
        Self::new(code, meaning(code).1)
    }

    /// To be tried again after so many seconds.
    #[must_use]
    pub fn again_in(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Its code.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

fn meaning(code: &str) -> (StatusCode, &'static str) {
    let found = CODES.iter().find(|(each, ..)| *each == code);
    let (_, status, words) = found.copied().unwrap_or(("", 500, "a mistake of the server's"));
    (StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), words)
}

/// Marks an answer for the metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coded(pub(crate) &'static str);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, title) = meaning(self.code);
        let mut body =
            json!({"title": title, "status": status.as_u16(), "code": self.code, "detail": self.detail});
        if let Some(seconds) = self.retry_after {
            body["retry_after"] = seconds.into();
        }
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Coded(self.code));
        response
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let code = match &refused {
            Refused::NotAsked => "not-asked",
            Refused::RoundClosed => "round-closed",
            Refused::WrongRound(_) => "wrong-round",
            Refused::Duplicate => "duplicate",
            Refused::KeyReused => "key-reused",
            Refused::Malformed(_) => "malformed",
            Refused::WrongShape(_) => "wrong-shape",
            Refused::NotFinite(_) => "not-finite",
            Refused::WrongEncoding(_) => "wrong-encoding",
            Refused::RowTooLarge { .. } => "row-too-large",
            Refused::TokenTaken => "token-taken",
            Refused::BadToken(_) => "bad-token",
            Refused::OtherWay => "other-way",
            Refused::Busy => return Problem::new("busy", refused.to_string()).again_in(1),
            Refused::NotStored => return Problem::new("not-stored", refused.to_string()).again_in(10),
        };
        let detail = match &refused {
            Refused::WrongRound(detail) => detail.clone(),
            other => other.to_string(),
        };
        Problem::new(code, detail)
    }
}

impl From<EnrolError> for Problem {
    fn from(error: EnrolError) -> Self {
        match error {
            EnrolError::BadToken => Problem::new("bad-credential", error.to_string()),
            EnrolError::UsedUp => Problem::plain("used-up"),
            EnrolError::Busy => Problem::new("busy", error.to_string()).again_in(1),
            EnrolError::NotStored => Problem::new("not-stored", error.to_string()).again_in(10),
        }
    }
}

impl From<ClerkError> for Problem {
    fn from(error: ClerkError) -> Self {
        match error {
            ClerkError::Busy | ClerkError::Gone => Problem::plain("busy").again_in(1),
            ClerkError::Storage(_) => Problem::plain("not-stored").again_in(10),
        }
    }
}

impl From<WithdrawError> for Problem {
    fn from(error: WithdrawError) -> Self {
        match error {
            WithdrawError::Clerk(error) => error.into(),
            WithdrawError::Kept(error) => {
                tracing::error!(%error, "a withdrawal waits for what cannot be deleted");
                Problem::plain("not-stored").again_in(10)
            }
        }
    }
}

impl From<FoundingError> for Problem {
    fn from(error: FoundingError) -> Self {
        match error {
            FoundingError::Taken(_) => Problem::new("name-taken", error.to_string()),
            FoundingError::Config(_) | FoundingError::Catalog(_) | FoundingError::Model(_) => {
                Problem::new("wrong-config", error.to_string())
            }
            FoundingError::Clerk(error) => error.into(),
            FoundingError::Versions(_) | FoundingError::Found(_) => {
                tracing::error!(%error, "a federation could not be created");
                Problem::plain("not-stored").again_in(10)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_there_once_and_every_refusal_has_one() {
        let mut codes: Vec<&str> = CODES.iter().map(|(code, ..)| *code).collect();
        codes.sort_unstable();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all);
        let text = String::new;
        let row = Refused::RowTooLarge { table: 0, row: 1, norm: text(), most: text() };
        for refused in [
            Refused::NotAsked,
            Refused::RoundClosed,
            Refused::WrongRound(text()),
            Refused::Duplicate,
            Refused::KeyReused,
            Refused::Malformed(text()),
            Refused::WrongShape(text()),
            Refused::NotFinite(text()),
            Refused::WrongEncoding(text()),
            row,
            Refused::TokenTaken,
            Refused::BadToken(text()),
            Refused::OtherWay,
            Refused::Busy,
            Refused::NotStored,
        ] {
            let problem = Problem::from(refused);
            assert!(codes.contains(&problem.code()), "{problem:?}");
            assert!(problem.into_response().status().as_u16() < 504);
        }
    }
}
