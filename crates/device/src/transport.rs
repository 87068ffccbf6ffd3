//! Requests and responses, independent of the transport.

use serde_json::Value;
use std::sync::Arc;
use thiserror::Error;

/// HTTP method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Read.
    #[default]
    Get,
    /// Send.
    Post,
    /// Remove.
    Delete,
}

impl Method {
    /// Its name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// The media type of protocol messages.
pub const WIRE: &str = "application/vnd.sottovoce";

/// A request of a device to its server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path from the server's root.
    pub path: String,
    /// Bearer token: the enrolment token or the device's credential.
    pub bearer: Option<String>,
    /// One-time token of an anonymous upload, for the header `sottovoce-token`. Such a request has no bearer, and
    /// should not use a connection that has carried one.
    pub round_token: Option<String>,
    /// Whether to say, in the header `sottovoce-audiences`, that the owner takes part in audiences.
    pub audiences: bool,
    /// By which the server recognises a repeated request.
    pub idempotency_key: Option<String>,
    /// A protocol message, of type [`WIRE`]; empty for none.
    pub body: Arc<[u8]>,
    /// Limit on the response's body; a transport rejects longer ones.
    pub max_response_bytes: u64,
}

/// A response of the server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case, and values. A transport need not pass on headers other than [`HEADERS`].
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Without credentials, tokens, keys and what is sent.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, path, body, .. } = self;
        let request = &mut f.debug_struct("Request");
        request.field("method", method).field("path", path).field("bytes", &body.len()).finish_non_exhaustive()
    }
}

/// Without the body, which may be a credential.
impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { status, headers, body } = self;
        let response = &mut f.debug_struct("Response");
        response.field("status", status).field("headers", headers).field("bytes", &body.len()).finish_non_exhaustive()
    }
}

/// Headers that a device reads.
pub const HEADERS: [&str; 6] = [
    "retry-after",
    "sottovoce-state",
    "sottovoce-waits-for",
    "sottovoce-model-digest",
    "sottovoce-seat",
    "sottovoce-went-back",
];

impl Response {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Seconds after which the server asks to be contacted again, a day at most.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let seconds: u64 = self.header("retry-after")?.trim().parse().ok()?;
        Some(seconds.min(86_400))
    }

    /// Code and explanation of an error response; either may be empty.
    pub fn problem(&self) -> (String, String) {
        let document: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |key: &str| document.get(key).and_then(Value::as_str).map(short).unwrap_or_default();
        let detail = Some(text("detail")).filter(|detail| !detail.is_empty());
        (text("code"), detail.unwrap_or_else(|| text("title")))
    }
}

/// A server's text is shown to people and held in memory: without control characters, and of limited length.
pub(crate) fn short(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(300).collect()
}

/// There was no response. The server may have acted all the same.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Carries requests to the server and responses back. All devices of a fleet may share one.
pub trait Transport: Send + Sync {
    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// If there was no complete response.
    fn send(&self, request: &Request) -> Result<Response, TransportError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_problems_and_tolerates_other_bodies() {
        let of = |body: &str| Response { body: body.as_bytes().to_vec(), ..Response::default() }.problem();
        let (code, detail) = of(r#"{"code":"round-closed","title":"t","detail":"too late\u0007"}"#);
        assert_eq!((code.as_str(), detail.as_str()), ("round-closed", "too late"));
        assert_eq!(of(r#"{"title":"Not found"}"#).1, "Not found");
        assert_eq!(of("<html>"), (String::new(), String::new()));
        assert_eq!(of(&format!("{{\"detail\":\"{}\"}}", "x".repeat(5000))).1.len(), 300);
    }

    #[test]
    fn retry_after_is_at_most_a_day() {
        let after = |value: &str| {
            let headers = vec![("retry-after".to_owned(), value.to_owned())];
            Response { headers, ..Response::default() }.retry_after()
        };
        assert_eq!(after("7"), Some(7));
        assert_eq!(after("99999999999"), Some(86_400));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), None);
    }
}
