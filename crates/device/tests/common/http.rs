//! The server in memory behind a real socket.

use super::Server;
use sottovoce_device::{Method, Request, Response, Transport};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Listens on a free port of this machine for as long as the process lives; returns the address.
pub fn serve(server: Arc<Server>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            thread::spawn(move || talk(&server, stream));
        }
    });
    address
}

/// One request, one answer; a fault of the server's is a connection that ends.
fn talk(server: &Server, mut stream: TcpStream) -> Option<()> {
    let request = read(&mut BufReader::new(&mut stream))?;
    let response = server.send(&request).ok()?;
    write(&mut stream, &response).ok()
}

fn read(from: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let method = match words.next()? {
        "GET" => Method::Get,
        "POST" => Method::Post,
        _ => Method::Delete,
    };
    let path = words.next()?.to_owned();
    let (mut bearer, mut round_token, mut idempotency_key, mut length) = (None, None, None, 0);
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => bearer = value.strip_prefix("Bearer ").map(str::to_owned),
            "sottovoce-token" => round_token = Some(value.to_owned()),
            "idempotency-key" => idempotency_key = Some(value.to_owned()),
            "content-length" => length = value.parse().ok()?,
            _ => (),
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some(Request {
        method,
        path,
        bearer,
        audiences: false,
        round_token,
        idempotency_key,
        body: body.into(),
        max_response_bytes: u64::MAX,
    })
}

fn write(to: &mut impl Write, response: &Response) -> std::io::Result<()> {
    write!(to, "HTTP/1.1 {} x\r\nconnection: close\r\n", response.status)?;
    for (name, value) in &response.headers {
        write!(to, "{name}: {value}\r\n")?;
    }
    if response.status != 204 {
        write!(to, "content-length: {}\r\n", response.body.len())?;
    }
    to.write_all(b"\r\n")?;
    to.write_all(&response.body)
}
