//! The words of a request's query.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// The words, or a refusal that says which of them is wrong.
pub struct Words<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Words<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let query: Result<Query<T>, QueryRejection> = Query::try_from_uri(&parts.uri);
        Ok(Self(query?.0))
    }
}
