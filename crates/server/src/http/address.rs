//! What stands in a request's address.

use super::problem::Problem;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// The variable parts of the path.
pub(super) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(of)| Self(of)).map_err(|error| Problem::new("bad-request", error.body_text()))
    }
}

/// What stands behind the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(of)| Self(of)).map_err(|error| Problem::new("bad-request", error.body_text()))
    }
}
