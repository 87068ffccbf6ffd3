//! A request to a federation: which one, where in it, and from whom.

use super::address::At;
use super::body::{Body, Share, is_not_packed};
use super::problem::Problem;
use super::{Api, WIRE, callers};
use crate::federation::Federation;
use crate::server::Server;
use axum::extract::FromRequestParts;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The header by which a repeated request is known.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Letters of a key at most.
const MOST_KEY: usize = 64;

/// A request to a federation that there is.
pub(super) struct Call<P = ()> {
    pub(super) server: Arc<Server>,
    pub(super) federation: Arc<Federation>,
    /// What else is variable in the path: a round, a version.
    pub(super) at: P,
    pub(super) headers: HeaderMap,
}

/// What may follow a federation's name among the variable parts of a path.
pub(super) trait Place: Sized {
    type Path: DeserializeOwned + Send;

    /// The federation's name, and what follows.
    fn part(path: Self::Path) -> (String, Self);
}

impl Place for () {
    type Path = String;

    fn part(name: String) -> (String, Self) {
        (name, ())
    }
}

impl Place for u64 {
    type Path = (String, u64);

    fn part(path: (String, u64)) -> (String, Self) {
        path
    }
}

impl Place for (u64, u64) {
    type Path = (String, u64, u64);

    fn part((name, first, second): (String, u64, u64)) -> (String, Self) {
        (name, (first, second))
    }
}

impl<P: Place> FromRequestParts<Api> for Call<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let At(path) = At::from_request_parts(parts, api).await?;
        let (name, at) = P::part(path);
        let federation = callers::federation(&api.server, &name)?;
        Ok(Self { server: Arc::clone(&api.server), federation, at, headers: parts.headers.clone() })
    }
}

impl<P> Call<P> {
    /// The device that calls.
    pub(super) fn device(&self) -> Result<u32, Problem> {
        callers::device(&self.federation, &self.headers)
    }

    /// The key by which a repetition is known.
    pub(super) fn key(&self) -> Result<&str, Problem> {
        let wrong = || {
            let words =
                "the header Idempotency-Key must have 1 to 64 letters, digits, hyphens and underscores";
            Problem::new("bad-request", words)
        };
        let key = self.headers.get(KEY).and_then(|value| value.to_str().ok()).ok_or_else(wrong)?;
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=MOST_KEY).contains(&key.len()) && key.bytes().all(letter) { Ok(key) } else { Err(wrong()) }
    }

    /// Uploads are messages of the wire format and not compressed.
    pub(super) fn is_plain_wire(&self) -> Result<(), Problem> {
        is_not_packed(&self.headers)?;
        match self.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()) {
            Some(media) if media.split(';').next().is_some_and(|media| media.trim() == WIRE) => Ok(()),
            media => {
                let words = format!("Content-Type is {}, expected {WIRE}", media.unwrap_or("missing"));
                Err(Problem::new("wrong-media", words))
            }
        }
    }

    /// All of a message of the wire format; see [`Body::read`].
    pub(super) async fn read(&self, body: Body, most: u64) -> Result<(Bytes, Share), Problem> {
        self.is_plain_wire()?;
        body.read(most, &self.headers).await
    }
}

impl Call<u64> {
    /// The device that calls, and the round it calls about.
    pub(super) fn of_round(&self) -> Result<(u32, u64), Problem> {
        Ok((self.device()?, self.at))
    }
}
