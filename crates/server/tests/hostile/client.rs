//! A client that sends whatever bytes it is given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// A server that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// What is sent, piece by piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pieces: Vec<(Duration, Vec<u8>)>,
}

impl Request {
    /// These bytes, whatever they are.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { pieces: vec![(Duration::ZERO, bytes.into())] }
    }

    /// More bytes, after a while.
    pub(crate) fn then(mut self, wait: Duration, bytes: impl Into<Vec<u8>>) -> Self {
        self.pieces.push((wait, bytes.into()));
        self
    }

    /// A request as HTTP/1.1 has it.
    pub(crate) fn of(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let length = body.len().to_string();
        let mut all = vec![("content-length", length.as_str())];
        all.extend_from_slice(headers);
        let mut bytes = head(method, path, &all);
        bytes.extend_from_slice(body);
        Self::raw(bytes)
    }

    /// Only the head, with exactly these headers beside the host.
    pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::raw(head(method, path, headers))
    }
}

fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    text.push_str("\r\n");
    text.into_bytes()
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// 0: the connection was closed without a response.
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Sends a request and reads the answer until the server closes the connection.
pub(crate) fn send(to: SocketAddr, request: &Request) -> Answer {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let (mut writer, pieces) = (stream.try_clone().unwrap(), request.pieces.clone());
    // The server may respond and close before it has read everything; then writing fails, which is fine.
    thread::spawn(move || {
        for (wait, piece) in pieces {
            thread::sleep(wait);
            if writer.write_all(&piece).is_err() {
                break;
            }
        }
    });
    read(stream)
}

fn read(mut stream: TcpStream) -> Answer {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no answer: {error}; so far {:?}", String::from_utf8_lossy(&all)),
        }
    }
    parsed(&all)
}

fn parsed(all: &[u8]) -> Answer {
    let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") else { return Answer::default() };
    let text = String::from_utf8_lossy(&all[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let pair = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(pair).collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = &all[end + 4..];
    Answer { status, headers, body: if chunked { unchunked(body) } else { body.to_vec() } }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(chunk) = size.filter(|size| *size > 0).and_then(|size| bytes.get(end + 2..end + 2 + size)) else {
            break;
        };
        out.extend_from_slice(chunk);
        bytes = bytes.get(end + 4 + chunk.len()..).unwrap_or_default();
    }
    out
}
