//! Callers that hold connections.

use crate::client::{Request, send};
use crate::scene::{BODY_BYTES, Host, TIMEOUTS};
use serde_json::json;
use sottovoce_server::Role;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Whether the connection ends within a time.
pub(crate) fn ends_within(mut stream: TcpStream, time: Duration) -> bool {
    let (start, mut buffer) = (Instant::now(), vec![0; 4096]);
    stream.set_read_timeout(Some(time)).unwrap();
    while start.elapsed() < time {
        if matches!(stream.read(&mut buffer), Ok(0) | Err(_)) {
            return start.elapsed() < time;
        }
    }
    false
}

#[test]
fn closes_connections_that_do_not_read() {
    let host = Host::new();
    // Enough requests that the responses do not fit into the socket buffers.
    let mut stream = TcpStream::connect(host.at).unwrap();
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: t\r\n\r\n".repeat(50);
    let start = Instant::now();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    while start.elapsed() < Duration::from_secs(30) && stream.write_all(&request).is_ok() {}
    let waited = start.elapsed();
    assert!(waited >= TIMEOUTS.response && waited < Duration::from_secs(20), "{waited:?}");
}

#[test]
fn event_stream_ends_with_its_token() {
    let host = Host::new();
    let token = host.token(Role::Observer);
    let id = host.server.tokens(None).last().unwrap().id;
    let mut stream = TcpStream::connect(host.at).unwrap();
    let head = format!("GET /v1/operator/events HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 64];
    stream.read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&first));
    assert_eq!(host.call("DELETE", &format!("/v1/operator/tokens/{id}"), &host.admin, b"").status, 204);
    let mut rest = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // The end of a chunked answer; the connection itself may be used again.
    let start = Instant::now();
    while !rest.ends_with("0\r\n\r\n") && start.elapsed() < Duration::from_secs(5) {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap_or(0);
        rest.push_str(&String::from_utf8_lossy(&buffer[..count]));
        if count == 0 {
            break;
        }
    }
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
}

#[test]
fn closes_idle_connections() {
    let host = Host::new();
    let mut stream = TcpStream::connect(host.at).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").unwrap();
    assert!(ends_within(stream, TIMEOUTS.head * 10));
}

#[test]
fn bodies_beyond_the_budget_are_busy() {
    let host = Host::new();
    let authorization = format!("Bearer {}", host.admin);
    let length = (2 * BODY_BYTES).to_string();
    let headers = [("authorization", authorization.as_str()), ("content-length", length.as_str())];
    let half = vec![b' '; BODY_BYTES as usize + 1];
    let request = Request::head("POST", "/v1/operator/federations", &headers).then(Duration::ZERO, half);
    let answer = send(host.at, &request);
    assert_eq!((answer.status, answer.code().as_str(), answer.header("retry-after")), (503, "busy", Some("1")));
    // Its budget is released.
    host.create("films", &json!({}));
}
