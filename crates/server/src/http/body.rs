//! Reading a request's body, within its limits of bytes and time.

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

/// Room for all bodies that are being read or worked on.
#[derive(Debug)]
pub(super) struct Room {
    most: u64,
    taken: AtomicU64,
}

impl Room {
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicU64::new(0) })
    }
}

/// A share of the room, given back at the end.
#[derive(Debug)]
pub(super) struct Share {
    room: Arc<Room>,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, bytes: u64) -> Result<(), Problem> {
        let before = self.room.taken.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.room.most {
            return Err(Problem::plain("busy").again_in(1));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A request's body, not read yet.
pub(super) struct Body {
    body: axum::body::Body,
    slowest: Duration,
    share: Share,
}

impl FromRequest<Api> for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Infallible> {
        let share = Share { room: Arc::clone(&api.room), bytes: 0 };
        Ok(Self { body: request.into_body(), slowest: api.patience.body, share })
    }
}

fn too_large(most: u64) -> Problem {
    Problem::new("too-large", format!("at most {most} bytes are taken here"))
}

/// Nothing is ever unpacked: bodies are sent as they are.
pub(super) fn is_not_packed(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get_all(CONTENT_ENCODING).iter().find(|coding| *coding != "identity") {
        None => Ok(()),
        Some(coding) => {
            let words = format!("Content-Encoding is {coding:?}; bodies are sent as they are");
            Err(Problem::new("wrong-media", words))
        }
    }
}

impl Body {
    /// All of it, if it is not longer and not slower than it may be; and its share of the room, to be kept as long as it is
    /// worked on.
    pub(super) async fn read(self, most: u64, headers: &HeaderMap) -> Result<(Bytes, Share), Problem> {
        let stated = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if stated.is_some_and(|stated| stated > most) {
            return Err(too_large(most));
        }
        let read = tokio::time::timeout(self.slowest, self.gather(most, stated));
        read.await.unwrap_or_else(|_| Err(Problem::plain("slow")))
    }

    async fn gather(mut self, most: u64, stated: Option<u64>) -> Result<(Bytes, Share), Problem> {
        let mut all = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame
                .map_err(|error| Problem::new("bad-request", format!("the body ends early: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if (all.len() + data.len()) as u64 > most {
                return Err(too_large(most));
            }
            self.share.grow(data.len() as u64)?;
            // The usual case: all of it at once.
            if all.is_empty() && stated == Some(data.len() as u64) {
                return Ok((data, self.share));
            }
            all.extend_from_slice(&data);
        }
        Ok((all.freeze(), self.share))
    }
}
