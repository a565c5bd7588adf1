//! An answer that is an error: a status, a code for programs, and a sentence for people.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use redis::RedisError;
use serde_json::json;

#[derive(Clone, Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: String,
    pub error: String,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &str, error: impl Into<String>) -> Self {
        Self { status, code: code.into(), error: error.into() }
    }

    /// A request that makes no sense.
    pub fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD", error)
    }

    pub fn forbidden(code: &str, error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, error)
    }

    pub fn missing(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "MISSING", error)
    }
}

impl From<RedisError> for Refusal {
    fn from(error: RedisError) -> Self {
        let Some(code) = error.code() else {
            let text = format!("The server does not answer: {error}.");
            return Self::new(StatusCode::BAD_GATEWAY, "UNREACHABLE", text);
        };
        let status = match code {
            "NOPERM" | "READONLY" | "NOAUTH" | "WRONGPASS" => StatusCode::FORBIDDEN,
            "MOVED" | "ASK" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => StatusCode::BAD_GATEWAY,
            _ => StatusCode::CONFLICT,
        };
        let detail = error.detail().unwrap_or_default();
        Self::new(status, code, format!("The server refuses: {code} {detail}"))
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad(rejection.body_text())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "BAD", rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.error, "code": self.code }))).into_response()
    }
}
