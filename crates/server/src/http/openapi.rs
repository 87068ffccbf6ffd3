//! The description of both interfaces, for programs.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

/// In OpenAPI 3.1.
pub const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT)
}
