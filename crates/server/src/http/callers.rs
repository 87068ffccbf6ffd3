//! How many connections an address may hold, and when a connection is idle.

use crate::lock;
use axum::body::{Body, Bytes, HttpBody};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, SizeHint};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// The largest number of connections of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLimit {
    /// Connections; 0: any number.
    pub connections: usize,
    /// Whether it holds for this machine too, where a proxy in front may be.
    pub local: bool,
}

impl Default for AddressLimit {
    fn default() -> Self {
        Self { connections: 256, local: false }
    }
}

/// Open connections by address.
#[derive(Debug)]
pub(super) struct Callers {
    limit: AddressLimit,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(super) struct Caller {
    of: Arc<Callers>,
    /// `None`: not counted.
    address: Option<IpAddr>,
}

impl Callers {
    pub(super) fn new(limit: AddressLimit) -> Arc<Self> {
        Arc::new(Self { limit, open: Mutex::default() })
    }

    /// A connection from an address; `None` if it has too many.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Caller> {
        let address = household(address);
        if self.limit.connections == 0 || (address.is_loopback() && !self.limit.local) {
            return Some(Caller { of: Arc::clone(self), address: None });
        }
        let mut open = lock(&self.open);
        let count = open.entry(address).or_default();
        if *count >= self.limit.connections {
            return None;
        }
        *count += 1;
        Some(Caller { of: Arc::clone(self), address: Some(address) })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut open = lock(&self.of.open);
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

/// What one household has: an address of version 4, or a network of 64 bits of version 6, of which it has all
/// addresses.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) if !six.is_loopback() => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX))),
        other => other,
    }
}

/// When something last moved on a connection. What keeps a connection open without a request does not count.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Milliseconds since the start.
    last: Arc<AtomicU64>,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), last: Arc::default() }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    pub(super) fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Returns once nothing has moved for so long.
    pub(super) async fn idle(&self, limit: Duration) {
        let limit = limit.as_millis() as u64;
        loop {
            let idle = self.now() - self.last.load(Ordering::Relaxed);
            match limit.checked_sub(idle).filter(|left| *left > 0) {
                Some(left) => tokio::time::sleep(Duration::from_millis(left)).await,
                None => return,
            }
        }
    }

    /// The body, whose parts count.
    pub(super) fn watch(&self, body: Body) -> Body {
        Body::new(Watched { body: UnsyncBoxBody::new(body), activity: self.clone() })
    }
}

struct Watched {
    body: UnsyncBoxBody<Bytes, axum::Error>,
    activity: Activity,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.activity.note();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_household_has_so_many_connections() {
        let callers = Callers::new(AddressLimit { connections: 2, local: false });
        let enter = |address: &str| callers.enter(address.parse().unwrap());
        let (one, _two) = (enter("10.0.0.1").unwrap(), enter("::ffff:10.0.0.1").unwrap());
        assert!(enter("10.0.0.1").is_none() && enter("10.0.0.2").is_some());
        drop(one);
        let _three = enter("10.0.0.1").unwrap();
        let _six = [enter("2001:db8::1").unwrap(), enter("2001:db8::ffff:2").unwrap()];
        assert!(enter("2001:db8::3").is_none() && enter("2001:db8:0:1::1").is_some());
        let local: Vec<_> = (0..9).map(|_| enter("127.0.0.1").unwrap()).collect();
        assert_eq!((local.len(), lock(&callers.open).len()), (9, 2));
        let strict = Callers::new(AddressLimit { connections: 1, local: true });
        let _held = strict.enter("127.0.0.1".parse().unwrap()).unwrap();
        assert!(strict.enter("127.0.0.1".parse().unwrap()).is_none());
        assert!(strict.enter("::1".parse().unwrap()).is_some());
    }
}
