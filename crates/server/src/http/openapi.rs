//! The OpenAPI description of both interfaces.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// The OpenAPI 3.1 document; tests check it against the routes.
pub const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT)
}
