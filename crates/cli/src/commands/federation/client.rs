//! Requests of operators and advertisers to a server.

use crate::args::ServerArgs;
use crate::output;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use sottovoce_device::{HttpError, check_address};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where a server writes the first token by default.
const DEFAULT_TOKEN: &str = "sottovoce-server/admin.token";
/// Bytes of a response.
const MAX_BYTES: u64 = 256 << 20;

/// A server, and an operator's or advertiser's token.
pub(crate) struct Client {
    agent: Agent,
    server: String,
    /// Beginning of all paths.
    base: String,
    token: String,
}

impl Client {
    pub(crate) fn new(args: &ServerArgs) -> Result<Self> {
        let path = args.token_file.as_deref().unwrap_or(Path::new(DEFAULT_TOKEN));
        let token = secret(path).context("an operator's token is required (--token-file)")?;
        Self::with_token((&args.server, args.plain_http), args.ca.as_deref(), token, "/v1/operator")
    }

    /// With a token, for paths below `base`.
    pub(crate) fn with_token(
        (server, plain_http): (&str, bool),
        ca: Option<&Path>,
        token: String,
        base: &str,
    ) -> Result<Self> {
        let server = check_address(server, plain_http).map_err(|error| match error {
            HttpError::Plain(_) => output::Usage(format!("{error}, or --plain-http if nobody can listen")),
            _ => output::Usage(error.to_string()),
        })?;
        let mut tls = TlsConfig::builder();
        if let Some(ca) = ca {
            tls = tls.root_certs(RootCerts::Specific(Arc::new(certificates(ca)?)));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .tls_config(tls.build());
        Ok(Self { agent: config.build().new_agent(), server, base: base.to_owned(), token })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        let request = self.agent.get(self.url(path)).header("authorization", self.bearer());
        self.answer(request.call())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let request = self.agent.post(self.url(path)).header("authorization", self.bearer());
        self.answer(request.content_type("application/json").send(body.to_string()))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Value> {
        let request = self.agent.delete(self.url(path)).header("authorization", self.bearer());
        self.answer(request.call())
    }

    fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.server, self.base)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn answer(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value> {
        let mut response = sent.with_context(|| format!("{} does not answer", self.server))?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(MAX_BYTES).read_to_vec();
        let body = body.with_context(|| format!("reading what {} answers", self.server))?;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(value);
        }
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let detail = text("detail").or_else(|| text("title")).unwrap_or_default();
        bail!("{} answers {}: {detail}", self.server, text("code").unwrap_or_else(|| status.to_string()))
    }
}

/// The first line of a file with a secret.
pub(crate) fn secret(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let line = text.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        bail!("{}: the file is empty", path.display());
    }
    Ok(line.to_owned())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let pem = std::fs::read(path).with_context(|| path.display().to_string())?;
    let mut all = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.with_context(|| path.display().to_string())? {
            all.push(certificate);
        }
    }
    if all.is_empty() {
        bail!("{}: no certificate in it", path.display());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever listens could take the token, and the server with it.
    #[test]
    fn operators_tokens_go_to_other_machines_over_https_only() {
        let client = |server: &str, plain: bool| Client::with_token((server, plain), None, "svo_1".to_owned(), "/v1");
        for elsewhere in ["http://films.example", "http://127.evil.example:8470", "http://10.0.0.1"] {
            let why = client(elsewhere, false).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(why.contains("--plain-http"), "{elsewhere}: {why}");
            assert!(client(elsewhere, true).is_ok(), "{elsewhere}");
        }
        assert!(client("http://127.0.0.1:8470", false).is_ok() && client("https://films.example", false).is_ok());
    }
}
