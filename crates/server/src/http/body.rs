//! Reading the body of a request, within limits of size and time.

use super::Api;
use super::problem::Problem;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Memory for all bodies that are being read or processed.
#[derive(Debug)]
pub(super) struct BodyBudget {
    limit: u64,
    used: AtomicU64,
}

impl BodyBudget {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }
}

/// Bytes of the budget that a body uses, released when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Arc<BodyBudget>,
    bytes: u64,
}

impl Reservation {
    fn grow(&mut self, bytes: u64) -> Result<(), Problem> {
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.budget.limit {
            return Err(Problem::of("busy").retry_after(1));
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The body of a request, not read yet.
pub(super) struct Body {
    body: axum::body::Body,
    timeout: Duration,
    reservation: Reservation,
}

impl FromRequest<Api> for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Infallible> {
        let reservation = Reservation { budget: Arc::clone(&api.body_budget), bytes: 0 };
        Ok(Self { body: request.into_body(), timeout: api.timeouts.body, reservation })
    }
}

fn too_large(limit: u64) -> Problem {
    Problem::new("too-large", format!("at most {limit} bytes are accepted here"))
}

/// Bodies are never decompressed.
pub(super) fn require_identity(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get_all(CONTENT_ENCODING).iter().find(|coding| *coding != "identity") {
        None => Ok(()),
        Some(coding) => {
            let detail = format!("Content-Encoding is {coding:?}; compressed bodies are not accepted");
            Err(Problem::new("wrong-media", detail))
        }
    }
}

impl Body {
    /// The whole body, and its part of the budget, to be held while it is processed.
    pub(super) async fn read(self, limit: u64, headers: &HeaderMap) -> Result<(Bytes, Reservation), Problem> {
        let stated = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if stated.is_some_and(|stated| stated > limit) {
            return Err(too_large(limit));
        }
        let read = tokio::time::timeout(self.timeout, self.collect(limit, stated));
        read.await.unwrap_or_else(|_| Err(Problem::of("slow")))
    }

    async fn collect(mut self, limit: u64, stated: Option<u64>) -> Result<(Bytes, Reservation), Problem> {
        let mut all = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| Problem::new("bad-request", format!("the body ends early: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if (all.len() + data.len()) as u64 > limit {
                return Err(too_large(limit));
            }
            self.reservation.grow(data.len() as u64)?;
            // The usual case: one frame.
            if all.is_empty() && stated == Some(data.len() as u64) {
                return Ok((data, self.reservation));
            }
            all.extend_from_slice(&data);
        }
        Ok((all.freeze(), self.reservation))
    }
}
