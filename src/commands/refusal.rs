//! Errors that are not programming mistakes. Each has a code for programs; docs/commands.md lists the codes.

use std::borrow::Cow;

use crate::server::Error;
use lawn::{StartError, UpdateError};

use super::args::shown;

/// Returns the error for an id that exists already.
pub fn exists(id: &[u8]) -> Error {
    Error::Coded("EXISTS", format!("id '{}' is there already", shown(id)).into())
}

/// Returns the error for a remembered id: its element has left, and a new push is refused.
pub fn remembered(id: &[u8]) -> Error {
    Error::Coded("EXISTS", format!("id '{}' was here and is remembered", shown(id)).into())
}

/// Returns the error for an id that does not exist.
fn no_such_id(id: &[u8]) -> Error {
    Error::Coded("NOSUCHID", format!("no such id '{}'", shown(id)).into())
}

/// Returns the error for a key without a route for dead letters.
pub fn no_rule() -> Error {
    let reason =
        "there is no rule for dead letters: say ONDUE key HOLD DELIVERIES n and where they go";
    Error::Coded("NORULE", reason.into())
}

/// Returns the error for a client whose rights were withdrawn while it was blocked.
pub fn no_right() -> Error {
    let reason = "the user may no longer run this command, or access its keys";
    Error::Coded("NOPERM", reason.into())
}

/// Returns the error when there is no room for another or a larger element until others have left.
pub fn full(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::Coded("FULL", reason.into())
}

/// Returns the error for a value beyond a setting of the operator: sending it again does not help.
pub fn limit(reason: String) -> Error {
    Error::Coded("LIMIT", reason.into())
}

/// Returns the error for an element that the lawn did not start.
pub fn of_start(error: StartError, id: &[u8]) -> Error {
    match error {
        StartError::Exists => exists(id),
        StartError::Full => full(NO_ROOM),
        StartError::TooLate => "ttl is too large: now + ttl must fit in 63 bits".into(),
    }
}

/// Returns the error for an element that the lawn did not update.
pub fn of_update(error: UpdateError, id: &[u8]) -> Error {
    match error {
        UpdateError::Missing => no_such_id(id),
        UpdateError::Full => full(NO_ROOM),
    }
}

/// docs/operations.md lists these limits.
const NO_ROOM: &str = "the dehydrator holds as much as one can";
