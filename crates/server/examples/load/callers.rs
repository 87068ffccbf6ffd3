//! Callers that send prepared requests, each over its own connection.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The result of many calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Answers a second.
    pub(crate) rate: f64,
    /// Of the probe's answers, if there was one.
    pub(crate) p50: Duration,
    /// Likewise.
    pub(crate) p99: Duration,
}

/// Commits, as counted by the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commits {
    pub(crate) commits: u64,
    pub(crate) changes: u64,
}

/// One request as it goes over the wire.
pub(crate) type Made = Arc<dyn Fn(usize) -> Vec<u8> + Send + Sync>;

/// Sends `count` requests over so many connections; every answer must have this status.
pub(crate) async fn call(
    address: SocketAddr,
    callers: usize,
    count: usize,
    made: Made,
    status: u16,
) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for caller in 0..callers {
        let made = Arc::clone(&made);
        tasks.push(tokio::spawn(async move {
            let mut line = Connection::open(address).await?;
            for place in (caller..count).step_by(callers) {
                let found = line.exchange(&made(place)).await?;
                if found != status {
                    return Err(format!("an answer has status {found}, expected {status}"));
                }
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Times requests, one after the other, until it is stopped.
pub(crate) async fn probe(address: SocketAddr, request: Vec<u8>, stop: Arc<tokio::sync::Notify>) -> Vec<Duration> {
    let mut times = Vec::new();
    let Ok(mut line) = Connection::open(address).await else { return times };
    loop {
        let start = Instant::now();
        tokio::select! {
            answered = line.exchange(&request) => if answered.is_err() { break },
            () = stop.notified() => break,
        }
        times.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times
}

/// A persistent connection.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self { stream, buffer: vec![0; 4096] })
    }

    /// Sends a request and reads the whole answer; returns its status.
    async fn exchange(&mut self, request: &[u8]) -> Result<u16, String> {
        self.stream.write_all(request).await.map_err(|error| error.to_string())?;
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await.map_err(|error| error.to_string())?;
            filled += read;
            if read == 0 || filled == self.buffer.len() {
                return Err("an answer ends early or is too long".to_owned());
            }
            if let Some(status) = whole(&self.buffer[..filled]) {
                return Ok(status);
            }
        }
    }
}

/// The status of an answer, once all of it is there.
fn whole(answer: &[u8]) -> Option<u16> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().to_owned()))
        .and_then(|length| length.parse::<usize>().ok())
        .unwrap_or(0);
    (answer.len() >= end + length).then_some(status)
}
