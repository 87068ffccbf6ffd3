//! Connections that are held open so that nobody else gets in.

use crate::client::{Request, send};
use crate::scene::{BODY_BYTES, Host, TIMEOUTS};
use crate::streams::ends_within;
use sottovoce_server::http::callers::AddressLimit;
use sottovoce_server::http::serve::ListenOptions;
use sottovoce_server::{Config, RunningServer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// HTTP/2's greeting with settings.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A ping, which is answered.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping";

/// An HTTP/2 connection that asks for nothing.
fn second_protocol(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(GREETING).unwrap();
    let mut settings = [0; 9];
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.read_exact(&mut settings).unwrap();
    assert_eq!(settings[3], 4, "{settings:?}");
    stream
}

/// Whether a request is answered within some seconds.
fn is_served(at: SocketAddr, path: &str) -> bool {
    let asked = format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
    let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_secs(2)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut status = [0; 12];
    stream.write_all(asked.as_bytes()).is_ok() && stream.read_exact(&mut status).is_ok() && status.ends_with(b"200")
}

#[test]
fn idle_http2_connections_are_closed() {
    let host = Host::new();
    let (silent, mut pinging) = (second_protocol(host.at), second_protocol(host.at));
    let start = Instant::now();
    let pinger = std::thread::spawn(move || {
        // It is alive, and that is all.
        while start.elapsed() < TIMEOUTS.idle * 10 {
            if pinging.write_all(PING).is_err() {
                return start.elapsed();
            }
            let mut answers = [0; 4096];
            if matches!(pinging.read(&mut answers), Ok(0) | Err(_)) {
                return start.elapsed();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Duration::MAX
    });
    assert!(ends_within(silent, TIMEOUTS.idle * 5));
    assert!(pinger.join().unwrap() < TIMEOUTS.idle * 5);
}

#[test]
fn one_address_cannot_hold_all_connections() {
    let per_address = AddressLimit { connections: 3, local: true };
    let (timeouts, body_bytes) = (TIMEOUTS, BODY_BYTES);
    let host = Host::with(ListenOptions { per_address, timeouts, body_bytes, ..ListenOptions::default() });
    let held: Vec<TcpStream> = (0..3).map(|_| second_protocol(host.at)).collect();
    assert_eq!(send(host.at, &Request::of("GET", "/healthz", &[], b"")).status, 0);
    // They are not forgotten, and when they end others get in.
    drop(held);
    let start = Instant::now();
    while !is_served(host.at, "/healthz") {
        assert!(start.elapsed() < Duration::from_secs(20), "the address stays shut out");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn operators_get_in_when_the_devices_listener_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config {
        listen: "127.0.0.1:0".to_owned(),
        operator_listen: Some("127.0.0.1:0".to_owned()),
        data: folder.path().join("server"),
        connections: 4,
        log: "off".to_owned(),
        ..Config::default()
    };
    let server = runtime.block_on(RunningServer::start(&config)).unwrap();
    let (devices, operators) = (server.address, server.operator_address.unwrap());
    // Each side has its own routes.
    let status = |at, path| send(at, &Request::of("GET", path, &[], b"")).status;
    assert_eq!((status(devices, "/v1/operator/federations"), status(devices, "/metrics")), (404, 404));
    assert_eq!((status(operators, "/v1/operator/federations"), status(operators, "/metrics")), (401, 401));
    assert_eq!((status(operators, "/"), status(devices, "/healthz")), (200, 200));
    let held: Vec<TcpStream> = (0..4).map(|_| second_protocol(devices)).collect();
    assert!(!is_served(devices, "/healthz"));
    assert!(is_served(operators, "/healthz"));
    drop(held);
    runtime.block_on(server.stop()).unwrap();
}
