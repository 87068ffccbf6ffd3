//! Who is calling.

use super::problem::Problem;
use crate::federation::{Caller, Federation};
use crate::secret::{self, Kind};
use crate::server::Server;
use crate::tokens::Role;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use std::sync::Arc;

/// The secret of `Authorization: Bearer ...`.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let value = headers.get(AUTHORIZATION).ok_or_else(|| Problem::plain("no-credential"))?;
    let text = value.to_str().map_err(|_| Problem::plain("bad-credential"))?;
    let (scheme, secret) = text.split_once(' ').ok_or_else(|| Problem::plain("bad-credential"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Problem::plain("no-credential"));
    }
    Ok(secret.trim())
}

/// The federation of this name.
pub(super) fn federation(server: &Server, name: &str) -> Result<Arc<Federation>, Problem> {
    server.federation(name).ok_or_else(|| Problem::plain("no-federation"))
}

/// The device that calls.
pub(super) fn device(federation: &Federation, headers: &HeaderMap) -> Result<u32, Problem> {
    let secret = bearer(headers)?;
    if !secret::is_of(Kind::Device, secret) {
        return Err(Problem::plain("bad-credential"));
    }
    match federation.caller(&secret::hash(secret)) {
        Caller::Device(number) => Ok(number),
        Caller::Revoked => Err(Problem::plain("revoked")),
        Caller::Unknown => Err(Problem::plain("bad-credential")),
    }
}

/// Checks that an operator calls who may do what this role may.
pub(super) fn operator(server: &Server, headers: &HeaderMap, least: Role) -> Result<Role, Problem> {
    let role = server.role(bearer(headers)?).ok_or_else(|| Problem::plain("bad-credential"))?;
    if role < least {
        return Err(Problem::new(
            "not-allowed",
            format!("this takes the role {least}; the token has {role}"),
        ));
    }
    Ok(role)
}
