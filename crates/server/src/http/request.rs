//! Extractors: the parameters of a request's path and its sender.

use super::body::{Body, Reservation, require_identity};
use super::problem::Problem;
use super::{Api, WIRE, auth};
use crate::federation::{Advertiser, Federation};
use crate::server::{Role, Server};
use axum::extract::{FromRequestParts, Path};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The header with the idempotency key of a request.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Characters of an idempotency key.
const MAX_KEY: usize = 64;
/// Characters of the key of an enrolment: random ones, since a credential follows from it.
const MIN_ENROLMENT_KEY: usize = 22;

/// The parameters of all paths; those that a path does not have keep their defaults.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    federation: String,
    pub(super) round: u64,
    pub(super) version: u64,
    pub(super) held: u64,
    pub(super) device: u32,
    pub(super) token: u64,
    pub(super) audience: u64,
    pub(super) measurement: u64,
    pub(super) rotation: u64,
    pub(super) action: String,
}

impl Params {
    async fn of(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let path = Path::<Self>::from_request_parts(parts, api).await;
        path.map(|Path(params)| params).map_err(|error| Problem::new("bad-request", error.body_text()))
    }

    fn federation(&self, server: &Server) -> Result<Arc<Federation>, Problem> {
        let missing = || Problem::of(if server.was_deleted(&self.federation) { "deleted" } else { "no-federation" });
        server.federation(&self.federation).ok_or_else(missing)
    }
}

/// A request to an existing federation, usually by a device.
pub(super) struct DeviceRequest {
    pub(super) server: Arc<Server>,
    pub(super) federation: Arc<Federation>,
    pub(super) params: Params,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<Api> for DeviceRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let params = Params::of(parts, api).await?;
        let federation = params.federation(&api.server)?;
        Ok(Self { server: Arc::clone(&api.server), federation, params, headers: parts.headers.clone() })
    }
}

impl DeviceRequest {
    /// The device that sent it.
    pub(super) fn device(&self) -> Result<u32, Problem> {
        auth::device(&self.federation, &self.headers)
    }

    /// The device that sent it, and the round.
    pub(super) fn device_and_round(&self) -> Result<(u32, u64), Problem> {
        Ok((self.device()?, self.params.round))
    }

    /// The idempotency key.
    pub(super) fn key(&self) -> Result<&str, Problem> {
        let key = self.headers.get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(allowed) {
            return Ok(key);
        }
        let detail = "the header Idempotency-Key must have 1 to 64 letters, digits, hyphens and underscores";
        Err(Problem::new("bad-request", detail))
    }

    /// The idempotency key of an enrolment. Whoever guessed it would be told the credential.
    pub(super) fn enrolment_key(&self) -> Result<&str, Problem> {
        let key = self.key()?;
        if key.len() >= MIN_ENROLMENT_KEY {
            return Ok(key);
        }
        let detail = "to enrol, the header Idempotency-Key must have 22 to 64 random letters, digits, hyphens and \
                      underscores: 128 bits, because whoever guesses it is told the credential";
        Err(Problem::new("bad-request", detail))
    }

    /// Checks that the body is an uncompressed message of the wire format.
    pub(super) fn require_wire(&self) -> Result<(), Problem> {
        require_identity(&self.headers)?;
        let media = self.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or("missing");
        if media.split(';').next().is_some_and(|media| media.trim() == WIRE) {
            return Ok(());
        }
        Err(Problem::new("wrong-media", format!("Content-Type is {media}, expected {WIRE}")))
    }

    /// Reads a message of the wire format.
    pub(super) async fn read(&self, body: Body, limit: u64) -> Result<(Bytes, Reservation), Problem> {
        self.require_wire()?;
        body.read(limit, &self.headers).await
    }
}

/// A request by an advertiser of a federation.
pub(super) struct AdvertiserRequest {
    pub(super) federation: Arc<Federation>,
    pub(super) advertiser: Advertiser,
    pub(super) params: Params,
    headers: HeaderMap,
}

impl FromRequestParts<Api> for AdvertiserRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let params = Params::of(parts, api).await?;
        // Without a token there is nothing to find out, not even which federations there are.
        let token = auth::bearer(&parts.headers)?;
        let found = params.federation(&api.server).ok();
        let found = found.and_then(|federation| Some((api.server.advertiser(token, federation.id)?, federation)));
        let (advertiser, federation) = found.ok_or_else(|| Problem::of("bad-credential"))?;
        Ok(Self { federation, advertiser, params, headers: parts.headers.clone() })
    }
}

impl AdvertiserRequest {
    /// Reads a JSON body.
    pub(super) async fn read<T: DeserializeOwned>(&self, body: Body, limit: u64) -> Result<T, Problem> {
        read_json(&self.headers, body, limit).await
    }
}

/// Reads a JSON body.
async fn read_json<T: DeserializeOwned>(headers: &HeaderMap, body: Body, limit: u64) -> Result<T, Problem> {
    require_identity(headers)?;
    let (bytes, _reservation) = body.read(limit, headers).await?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::new("bad-request", error.to_string()))
}

/// A request by an operator.
pub(super) struct OperatorRequest {
    pub(super) api: Api,
    pub(super) params: Params,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<Api> for OperatorRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let params = Params::of(parts, api).await?;
        Ok(Self { api: api.clone(), params, headers: parts.headers.clone() })
    }
}

impl OperatorRequest {
    /// Checks the operator's role.
    pub(super) fn require(&self, role: Role) -> Result<Role, Problem> {
        auth::operator(&self.api.server, &self.headers, role)
    }

    /// Checks the operator's role, then finds the federation.
    pub(super) fn federation(&self, role: Role) -> Result<Arc<Federation>, Problem> {
        self.require(role)?;
        self.params.federation(&self.api.server)
    }

    /// Reads a JSON body.
    pub(super) async fn read<T: DeserializeOwned>(&self, body: Body, limit: u64) -> Result<T, Problem> {
        read_json(&self.headers, body, limit).await
    }
}
