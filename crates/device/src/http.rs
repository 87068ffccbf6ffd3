//! Requests over HTTP, blocking, with rustls.
//!
//! No compression: models are numbers that hardly compress, differences save more, and nothing can swell in memory. No
//! redirects: a credential goes to the server it was made for and to no other.

use crate::transport::{HEADERS, Method, Request, Response, Transport, TransportError, WIRE};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, RequestBuilder};

/// How a server is reached.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// A certificate authority to trust instead of the web's, as PEM; may hold several certificates.
    pub ca: Option<String>,
    /// Whether addresses with `http:` are taken that do not point to this machine. Whoever listens can read credentials then.
    pub allow_plain: bool,
    /// For a connection.
    pub connect: Duration,
    /// For a whole request, answer included.
    pub whole: Duration,
    /// Connections kept open.
    pub connections: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { ca: None, allow_plain: false, connect: seconds(20), whole: seconds(300), connections: 2 }
    }
}

/// An address or certificate that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpError {
    /// Not an address of a server.
    #[error("{0:?} is no server's address: expected https://HOST[:PORT]")]
    Address(String),
    /// Credentials would go in clear.
    #[error(
        "{0:?}: plain http is for this machine only, because whoever listens could read credentials; use https"
    )]
    Plain(String),
    /// Not a certificate.
    #[error("the certificate authority: {0}")]
    Certificate(String),
}

/// A server over HTTP. One serves any number of devices and threads.
#[derive(Clone, Debug)]
pub struct HttpTransport {
    agent: Agent,
    /// For requests without a name: never over a connection that has carried a credential, nor two over one.
    apart: Agent,
    base: String,
}

impl HttpTransport {
    /// To the server of this address, such as `https://example.org:8443`.
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
        let config = |connections| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_connect(Some(options.connect))
                .timeout_global(Some(options.whole))
                .max_response_header_size(16 << 10)
                .max_idle_connections(connections)
                .max_idle_connections_per_host(connections)
                .user_agent(concat!("sottovoce-device/", env!("CARGO_PKG_VERSION")))
                .tls_config(tls.clone())
                .build()
                .new_agent()
        };
        Ok(Self { agent: config(options.connections), apart: config(0), base })
    }
}

fn certificates(pem: &str) -> Result<Vec<Certificate<'static>>, HttpError> {
    let mut all = Vec::new();
    for item in parse_pem(pem.as_bytes()) {
        match item.map_err(|error| HttpError::Certificate(error.to_string()))? {
            PemItem::Certificate(certificate) => all.push(certificate),
            _ => return Err(HttpError::Certificate("it holds something else than certificates".to_owned())),
        }
    }
    if all.is_empty() { Err(HttpError::Certificate("it holds no certificate".to_owned())) } else { Ok(all) }
}

/// Scheme, host and port, and nothing after them.
fn check_address(server: &str, allow_plain: bool) -> Result<String, HttpError> {
    let wrong = || HttpError::Address(server.to_owned());
    let uri: Uri = server.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(wrong()) };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    let here = matches!(authority.host(), "localhost" | "[::1]") || authority.host().starts_with("127.");
    match scheme {
        "https" => (),
        "http" if here || allow_plain => (),
        "http" => return Err(HttpError::Plain(server.to_owned())),
        _ => return Err(wrong()),
    }
    Ok(format!("{scheme}://{authority}"))
}

fn dressed<B>(mut builder: RequestBuilder<B>, request: &Request) -> RequestBuilder<B> {
    if let Some(bearer) = &request.bearer {
        builder = builder.header("authorization", format!("Bearer {bearer}"));
    }
    if let Some(token) = &request.round_token {
        builder = builder.header("sottovoce-token", token);
    }
    if let Some(key) = &request.idempotency_key {
        builder = builder.header("idempotency-key", key);
    }
    builder
}

impl Transport for HttpTransport {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let url = format!("{}{}", self.base, request.path);
        let agent = if request.round_token.is_some() { &self.apart } else { &self.agent };
        let sent = match request.method {
            Method::Get => dressed(agent.get(url), request).call(),
            Method::Delete => dressed(agent.delete(url), request).call(),
            Method::Post if request.body.is_empty() => dressed(agent.post(url), request).send_empty(),
            Method::Post => dressed(agent.post(url), request).content_type(WIRE).send(&request.body[..]),
        };
        let failed = |error: ureq::Error| TransportError(format!("reaching {}: {error}", self.base));
        let mut response = sent.map_err(failed)?;
        let headers = HEADERS.iter().filter_map(|&name| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some((name.to_owned(), value.to_owned()))
        });
        let headers = headers.collect();
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(request.most).read_to_vec().map_err(failed)?;
        Ok(Response { status, headers, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_servers_and_safe() {
        let of = |server: &str| check_address(server, false);
        assert_eq!(of("https://example.org:8443/").unwrap(), "https://example.org:8443");
        for here in ["http://localhost:8080", "http://127.0.0.1", "http://[::1]:80"] {
            assert_eq!(of(here).unwrap(), here);
        }
        for wrong in ["example.org", "ftp://x", "https://a/b", "https://me:secret@a", "https://a?b", ""] {
            assert!(matches!(of(wrong), Err(HttpError::Address(_))), "{wrong}");
        }
        assert!(matches!(of("http://example.org"), Err(HttpError::Plain(_))));
        assert!(check_address("http://example.org", true).is_ok());
    }

    #[test]
    fn a_certificate_that_is_none_is_said() {
        let options = HttpOptions { ca: Some("hello".to_owned()), ..HttpOptions::default() };
        let error = HttpTransport::new("https://example.org", &options).unwrap_err();
        assert_eq!(error, HttpError::Certificate("it holds no certificate".to_owned()));
    }
}
