//! How long callers may take, and connections that hold them to it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long callers may take. Beyond, they are told so where that is possible, and the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For the head of a request to arrive, and for a connection to agree on TLS.
    pub head: Duration,
    /// For the body of a request to arrive.
    pub body: Duration,
    /// For the caller to take in the next piece of an answer.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let [head, body, answer] = [10, 30, 60].map(Duration::from_secs);
        Self { head, body, answer }
    }
}

/// How an HTTP/2 connection begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose other side must begin in time and go on reading what it asked for. The time for heads of HTTP/1 is
/// the protocol's own; but which protocol is spoken is known only after the first bytes.
pub(super) struct Watched<S> {
    stream: S,
    beginning: Option<Pin<Box<Sleep>>>,
    /// Bytes of the preface that have come.
    preface: usize,
    stalled: Option<Pin<Box<Sleep>>>,
    answer: Duration,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, patience: &Patience) -> Self {
        let beginning = Some(Box::pin(tokio::time::sleep(patience.head)));
        Self { stream, beginning, preface: 0, stalled: None, answer: patience.answer }
    }

    fn begun_with(&mut self, bytes: &[u8]) {
        let expected = &PREFACE[self.preface..];
        self.preface += bytes.len();
        if self.preface >= PREFACE.len() || !expected.starts_with(bytes) {
            self.beginning = None;
        }
    }

    /// What became of a write, unless the other side has not read for too long.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.answer)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match (&read, &mut self.beginning) {
            (_, None) => (),
            (Poll::Pending, Some(beginning)) => {
                ready!(beginning.as_mut().poll(cx));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            (Poll::Ready(_), Some(_)) => self.begun_with(&buf.filled()[before..]),
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
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
