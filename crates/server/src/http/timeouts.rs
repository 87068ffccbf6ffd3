//! Timeouts of connections.

use super::callers::Activity;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long callers may take. After that the connection is closed, if possible with an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the head of a request to arrive, and for the TLS handshake.
    pub head: Duration,
    /// For the body of a request to arrive.
    pub body: Duration,
    /// For the caller to read the next part of a response.
    pub response: Duration,
    /// Without a request, a response or a part of one; longer than the others.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let [head, body, response, idle] = [10, 30, 60, 90].map(Duration::from_secs);
        Self { head, body, response, idle }
    }
}

/// Bytes written at once that are more than what keeps a connection open: HTTP/2's answers to pings have 17.
const MOVING: usize = 1024;

/// The start of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose other side must start in time and keep reading. The HTTP/1 implementation has a timeout for heads
/// of its own, but which protocol is used is known only after the first bytes.
pub(super) struct TimedStream<S> {
    stream: S,
    start: Option<Pin<Box<Sleep>>>,
    /// Bytes of the preface received.
    preface: usize,
    stalled: Option<Pin<Box<Sleep>>>,
    response: Duration,
    activity: Activity,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, timeouts: &Timeouts, activity: Activity) -> Self {
        let start = Some(Box::pin(tokio::time::sleep(timeouts.head)));
        Self { stream, start, preface: 0, stalled: None, response: timeouts.response, activity }
    }

    fn started_with(&mut self, bytes: &[u8]) {
        let expected = &PREFACE[self.preface..];
        self.preface += bytes.len();
        if self.preface >= PREFACE.len() || !expected.starts_with(bytes) {
            self.start = None;
        }
    }

    /// A long response that the caller reads is no idleness.
    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes >= MOVING) {
            self.activity.note();
        }
    }

    /// The result of a write, or an error if the other side has not read for too long.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.response)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match (&read, &mut self.start) {
            (_, None) => (),
            (Poll::Pending, Some(start)) => {
                ready!(start.as_mut().poll(cx));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            (Poll::Ready(_), Some(_)) => self.started_with(&buf.filled()[before..]),
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_written(&written);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note_written(&written);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.in_time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.in_time(cx, shut)
    }
}
