//! Authentication and authorisation.

use super::problem::Problem;
use crate::federation::{CredentialHolder, Federation};
use crate::secret::{self, Kind};
use crate::server::{Role, Server};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// The secret of `Authorization: Bearer ...`.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let bad = || Problem::of("bad-credential");
    let value = headers.get(AUTHORIZATION).ok_or_else(|| Problem::of("no-credential"))?;
    let (scheme, secret) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(bad)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(secret.trim()) } else { Err(Problem::of("no-credential")) }
}

/// The device with the credential in a request.
pub(super) fn device(federation: &Federation, headers: &HeaderMap) -> Result<u32, Problem> {
    let secret = bearer(headers)?;
    // Its devices are no longer known.
    if federation.is_archived() {
        return Err(Problem::of("archived"));
    }
    if !secret::is_of(Kind::Device, secret) {
        return Err(Problem::of("bad-credential"));
    }
    match federation.credential_holder(&secret::hash(secret)) {
        CredentialHolder::Device(number) => Ok(number),
        CredentialHolder::Revoked => Err(Problem::of("revoked")),
        CredentialHolder::Unknown => Err(Problem::of("bad-credential")),
    }
}

/// The role of the operator with the token in a request; it must include `required`.
pub(super) fn operator(server: &Server, headers: &HeaderMap, required: Role) -> Result<Role, Problem> {
    let role = server.role(bearer(headers)?).ok_or_else(|| Problem::of("bad-credential"))?;
    if role >= required {
        return Ok(role);
    }
    let detail = format!("this requires the role {required}; the token has {role}");
    Err(Problem::new("not-allowed", detail))
}
