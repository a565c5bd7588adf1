//! The name of a queue: its node, its database and its key.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::query::Words;
use super::refusal::Refusal;

/// A queue, as requests name it: in JSON, or by `node`, `db` and `key` in their query.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Queue {
    pub node: String,
    #[serde(default)]
    pub db: u64,
    #[serde(rename = "key_b64", alias = "key")]
    pub key: Bytes,
}

impl<S: Sync> FromRequestParts<S> for Queue {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        Ok(Words::from_request_parts(parts, state).await?.0)
    }
}
