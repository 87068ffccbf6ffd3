//! A hostile request and its expected response.

use crate::client::Request;

pub(crate) enum Expected {
    /// An answer with a status and a code.
    Told(u16, &'static str),
    /// An answer without a body, from below the interface.
    Bare(u16),
    /// No response: the server closes the connection.
    HungUp,
    /// Valid, but changes nothing.
    Fine(u16),
}

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) request: Request,
    pub(crate) expected: Expected,
}

/// A case.
pub(crate) fn case(name: impl Into<String>, request: Request, expected: Expected) -> Case {
    Case { name: name.into(), request, expected }
}

/// A request with a secret and a body of the wire format.
pub(crate) fn wire(method: &str, path: &str, secret: &str, key: &str, body: &[u8]) -> Request {
    let authorization = format!("Bearer {secret}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("idempotency-key", key),
        ("content-type", "application/vnd.sottovoce"),
    ];
    Request::of(method, path, &headers, body)
}

/// A request with a secret and a body of JSON.
pub(crate) fn json(method: &str, path: &str, secret: &str, body: &str) -> Request {
    let authorization = format!("Bearer {secret}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    Request::of(method, path, &headers, body.as_bytes())
}
