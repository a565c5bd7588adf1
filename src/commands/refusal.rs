//! What a command is refused with that did not fail by a mistake of its author's: a program tells these by their codes,
//! which docs/commands.md lists.

use std::borrow::Cow;

use crate::server::Error;
use lawn::{StartError, UpdateError};

use super::args::shown;

/// Says that the id is there already.
pub fn exists(id: &[u8]) -> Error {
    Error::Coded("EXISTS", format!("id '{}' is there already", shown(id)).into())
}

/// Says that the element of that id has gone, and is not to come again yet.
pub fn remembered(id: &[u8]) -> Error {
    Error::Coded("EXISTS", format!("id '{}' was here and is remembered", shown(id)).into())
}

/// Says that the id is not there.
fn no_such_id(id: &[u8]) -> Error {
    Error::Coded("NOSUCHID", format!("no such id '{}'", shown(id)).into())
}

/// Says that nobody has said where dead letters go.
pub fn no_rule() -> Error {
    let reason =
        "there is no rule for dead letters: say ONDUE key HOLD DELIVERIES n and where they go";
    Error::Coded("NORULE", reason.into())
}

/// Returns what a client is told whose rights were withdrawn while it slept.
pub fn no_right() -> Error {
    let reason = "the user may no longer run this command, or access its keys";
    Error::Coded("NOPERM", reason.into())
}

/// Says that there is no room for one more element, or a larger one, until others have gone.
pub fn full(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::Coded("FULL", reason.into())
}

/// Says that it is more than the operator allows, however often it is sent.
pub fn limit(reason: String) -> Error {
    Error::Coded("LIMIT", reason.into())
}

/// Says why the lawn has not started an element of that id.
pub fn of_start(error: StartError, id: &[u8]) -> Error {
    match error {
        StartError::Exists => exists(id),
        StartError::Full => full(NO_ROOM),
        StartError::TooLate => "ttl is too large: now + ttl must fit in 63 bits".into(),
    }
}

/// Says why the lawn has not updated the element of that id.
pub fn of_update(error: UpdateError, id: &[u8]) -> Error {
    match error {
        UpdateError::Missing => no_such_id(id),
        UpdateError::Full => full(NO_ROOM),
    }
}

/// As docs/operations.md has it, under limits.
const NO_ROOM: &str = "the dehydrator holds as much as one can";
