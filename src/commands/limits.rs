//! What an operator allows clients: the longest TTL, the most elements in a dehydrator.
//!
//! What comes from the primary or from the append-only file was allowed once, and is never refused.

use crate::config;
use crate::lawn::Lawn;
use crate::server::{Context, Error, error::Result};

/// When `ttl` from now is, or what `at` says.
///
/// # Errors
///
/// If that does not fit in 63 bits, or is further ahead than allowed: by `asked`, which is the TTL without
/// its slack, or by `at`.
pub fn deadline(context: &Context, asked: u64, ttl: u64, at: Option<u64>, now: u64) -> Result<u64> {
    let ahead = at.map_or(asked, |at| at.saturating_sub(now));
    if let Some(max) = config::max_ttl().filter(|max| ahead > *max)
        && !context.is_replaying()
    {
        return Err(match at {
            Some(at) => format!("AT '{at}' is further ahead than dehydrator.max-ttl, {max} ms"),
            None => format!("ttl '{asked}' is greater than dehydrator.max-ttl, {max} ms"),
        }
        .into());
    }
    at.map_or_else(|| Lawn::deadline(ttl, now).map_err(|_| too_late(asked)), Ok)
}

/// What a client is told whose TTL does not fit.
pub fn too_late(ttl: u64) -> Error {
    format!("ttl '{ttl}' is too large: now + ttl must fit in 63 bits").into()
}

/// Whether there are no more elements than allowed.
pub fn has_room(context: &Context, lawn: &Lawn) -> bool {
    config::max_elements().is_none_or(|max| lawn.len() as u64 <= max || context.is_replaying())
}

/// What a client is told when there are.
pub fn full() -> Error {
    "the dehydrator holds dehydrator.max-elements already".into()
}
