//! The dashboard for operators: three files of the program, none from elsewhere.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use axum::response::IntoResponse;

/// The page may use its own script and style and call its own server; nothing else, and it must not be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn file(media: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 3] =
        [(CONTENT_TYPE, media), (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, text)
}

pub(super) async fn page() -> impl IntoResponse {
    file("text/html; charset=utf-8", include_str!("dashboard/page.html"))
}

pub(super) async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("dashboard/page.css"))
}

pub(super) async fn script() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("dashboard/page.js"))
}
