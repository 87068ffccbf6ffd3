//! Blocking requests over HTTP, with rustls.
//!
//! No compression: models hardly compress, differences save more, and no response can expand in memory. No redirects: a
//! credential goes to the server that issued it and to no other.

use crate::transport::{HEADERS, Method, Request, Response, Transport, TransportError, WIRE};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, RequestBuilder};

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Certificate authority to trust instead of the public ones, as PEM; may hold several certificates.
    pub ca: Option<String>,
    /// Whether to accept `http:` addresses of other machines. Whoever listens can then read credentials.
    pub allow_plain: bool,
    /// Time-out of a connection.
    pub connect_timeout: Duration,
    /// Time-out of a request, response included.
    pub request_timeout: Duration,
    /// Idle connections to hold open.
    pub idle_connections: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            ca: None,
            allow_plain: false,
            connect_timeout: seconds(20),
            request_timeout: seconds(300),
            idle_connections: 2,
        }
    }
}

/// An address or certificate that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpError {
    /// Not an address of a server.
    #[error("{0:?} is no server's address: expected https://HOST[:PORT]")]
    Address(String),
    /// Credentials would travel unencrypted.
    #[error("{0:?}: plain http is for this machine only, because credentials would travel unencrypted; use https")]
    Plain(String),
    /// Not a certificate.
    #[error("the certificate authority: {0}")]
    Certificate(String),
}

/// A server over HTTP, for any number of devices and threads.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    agent: Agent,
    /// For anonymous uploads: a connection of its own for each, which never carried a credential.
    anonymous: Agent,
    base: String,
}

impl HttpTransport {
    /// To the server at this address, such as `https://example.org:8443`.
    ///
    /// # Errors
    /// If the address or the certificate authority cannot be used.
    pub fn new(server: &str, options: &HttpOptions) -> Result<Self, HttpError> {
        let base = check_address(server, options.allow_plain)?;
        let mut tls = TlsConfig::builder();
        if let Some(pem) = &options.ca {
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates(pem)?)));
        }
        let tls = tls.build();
        let agent = |connections| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_connect(Some(options.connect_timeout))
                .timeout_global(Some(options.request_timeout))
                .max_response_header_size(16 << 10)
                .max_idle_connections(connections)
                .max_idle_connections_per_host(connections)
                .user_agent(concat!("sottovoce-device/", env!("CARGO_PKG_VERSION")))
                .tls_config(tls.clone())
                .build()
                .new_agent()
        };
        Ok(Self { agent: agent(options.idle_connections), anonymous: agent(0), base })
    }
}

fn certificates(pem: &str) -> Result<Vec<Certificate<'static>>, HttpError> {
    let mut all = Vec::new();
    for item in parse_pem(pem.as_bytes()) {
        match item.map_err(|error| HttpError::Certificate(error.to_string()))? {
            PemItem::Certificate(certificate) => all.push(certificate),
            _ => return Err(HttpError::Certificate("it holds more than certificates".to_owned())),
        }
    }
    if all.is_empty() { Err(HttpError::Certificate("it holds no certificate".to_owned())) } else { Ok(all) }
}

/// Scheme, host and port of a server's address; nothing may follow them.
///
/// # Errors
/// If it is none, or names another machine by plain http although that is not allowed.
pub fn check_address(server: &str, allow_plain: bool) -> Result<String, HttpError> {
    let wrong = || HttpError::Address(server.to_owned());
    let uri: Uri = server.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(wrong()) };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    match scheme {
        "https" => (),
        "http" if is_this_machine(authority.host()) || allow_plain => (),
        "http" => return Err(HttpError::Plain(server.to_owned())),
        _ => return Err(wrong()),
    }
    Ok(format!("{scheme}://{authority}"))
}

/// Whether a host of an address is this machine: by its address, not by how its name begins.
fn is_this_machine(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn with_headers<B>(mut builder: RequestBuilder<B>, request: &Request) -> RequestBuilder<B> {
    if let Some(bearer) = &request.bearer {
        builder = builder.header("authorization", format!("Bearer {bearer}"));
    }
    if let Some(token) = &request.round_token {
        builder = builder.header("sottovoce-token", token);
    }
    if request.audiences {
        builder = builder.header("sottovoce-audiences", "1");
    }
    if let Some(key) = &request.idempotency_key {
        builder = builder.header("idempotency-key", key);
    }
    builder
}

impl Transport for HttpTransport {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let url = format!("{}{}", self.base, request.path);
        let agent = if request.round_token.is_some() { &self.anonymous } else { &self.agent };
        let sent = match request.method {
            Method::Get => with_headers(agent.get(url), request).call(),
            Method::Delete => with_headers(agent.delete(url), request).call(),
            Method::Post if request.body.is_empty() => with_headers(agent.post(url), request).send_empty(),
            Method::Post => with_headers(agent.post(url), request).content_type(WIRE).send(&request.body[..]),
        };
        let failed = |error: ureq::Error| TransportError(format!("reaching {}: {error}", self.base));
        let mut response = sent.map_err(failed)?;
        let headers = HEADERS.iter().filter_map(|&name| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some((name.to_owned(), value.to_owned()))
        });
        let headers = headers.collect();
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(request.max_response_bytes).read_to_vec().map_err(failed)?;
        Ok(Response { status, headers, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_https_and_local_addresses_only() {
        let of = |server: &str| check_address(server, false);
        assert_eq!(of("https://example.org:8443/").unwrap(), "https://example.org:8443");
        for here in ["http://localhost:8080", "http://127.0.0.1", "http://[::1]:80"] {
            assert_eq!(of(here).unwrap(), here);
        }
        for wrong in ["example.org", "ftp://x", "https://a/b", "https://me:secret@a", "https://a?b", ""] {
            assert!(matches!(of(wrong), Err(HttpError::Address(_))), "{wrong}");
        }
        let elsewhere =
            ["http://example.org", "http://127.evil.example", "http://127.0.0.1.evil.example", "http://[::2]"];
        for wrong in ["http://localhost.evil.example:80", "http://128.0.0.1"].iter().chain(&elsewhere) {
            assert!(matches!(of(wrong), Err(HttpError::Plain(_))), "{wrong}");
        }
        assert!(check_address("http://example.org", true).is_ok());
    }

    #[test]
    fn rejects_a_certificate_authority_without_certificates() {
        let options = HttpOptions { ca: Some("hello".to_owned()), ..HttpOptions::default() };
        let error = HttpTransport::new("https://example.org", &options).unwrap_err();
        assert_eq!(error, HttpError::Certificate("it holds no certificate".to_owned()));
    }
}
