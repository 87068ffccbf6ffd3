//! Reading a request's body, within its limit of bytes and time.

use super::problem::Problem;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::time::Duration;

/// A body takes at most so long to arrive.
pub(super) const SLOWEST: Duration = Duration::from_secs(30);

/// A request's body, not read yet.
pub(super) struct Body(axum::body::Body);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> Result<Self, Infallible> {
        Ok(Self(request.into_body()))
    }
}

fn too_large(most: u64) -> Problem {
    Problem::new("too-large", format!("at most {most} bytes are taken here"))
}

impl Body {
    /// All of it, if it is not longer and not slower than it may be.
    pub(super) async fn read(self, most: u64, headers: &HeaderMap) -> Result<Bytes, Problem> {
        let stated = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if stated.is_some_and(|stated| stated > most) {
            return Err(too_large(most));
        }
        let read = tokio::time::timeout(SLOWEST, self.gather(most, stated.unwrap_or(0) as usize));
        read.await.unwrap_or_else(|_| Err(Problem::plain("slow")))
    }

    async fn gather(mut self, most: u64, stated: usize) -> Result<Bytes, Problem> {
        let mut all = BytesMut::new();
        while let Some(frame) = self.0.frame().await {
            let frame = frame
                .map_err(|error| Problem::new("bad-request", format!("the body ends early: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if (all.len() + data.len()) as u64 > most {
                return Err(too_large(most));
            }
            // The usual case: all of it at once.
            if all.is_empty() && data.len() == stated {
                return Ok(data);
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    }
}
