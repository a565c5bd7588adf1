//! Limits that an operator sets for clients: the longest TTL, the most elements in a dehydrator, memory.
//!
//! Commands from the primary or the append-only file were allowed before, and are never refused.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::config;
use crate::data_type::{NEVER, STUCK, runs};
use crate::server::{Context, Error, error::Result};
use lawn::{Element, Lawn};

use super::args::shown;
use super::refusal;

/// Returns the deadline: `at`, or `ttl` from now.
///
/// # Errors
///
/// If the deadline does not fit in 63 bits, or if `asked` (the TTL without its slack) or `at` is further ahead than
/// allowed.
pub fn deadline(context: &Context, asked: u64, ttl: u64, at: Option<u64>, now: u64) -> Result<u64> {
    if let Some(at) = at {
        if at == STUCK && !context.is_replaying() {
            return Err(format!(
                "ttl '{ttl}@{at}' is too large: no deadline is later than {NEVER}"
            )
            .into());
        }
        moment(context, at)?;
        if let Some(max) = exceeded(context, at.saturating_sub(now)) {
            let reason =
                format!("AT '{at}' is further ahead than dehydrator.max-ttl ({max} ms) allows");
            return Err(refusal::limit(reason));
        }
        return Ok(at);
    }
    from_now(context, "ttl", asked, ttl, now)
}

/// Refuses a moment that is most likely in seconds: in milliseconds it is between 12 January 1970 and 3 March 1973.
///
/// # Errors
///
/// If a client sent such a moment. Effects are not checked.
pub fn moment(context: &Context, at: u64) -> Result {
    const SECONDS: RangeInclusive<u64> = 1_000_000_000..=100_000_000_000;
    if SECONDS.contains(&at) && !context.is_replaying() {
        return Err(format!("AT '{at}' looks like seconds: it must be in milliseconds").into());
    }
    Ok(())
}

/// Checks the length of a lease that begins now, if one does.
///
/// # Errors
///
/// As those of [`deadline`].
pub fn lease(context: &Context, ms: Option<u64>, now: u64) -> Result {
    ms.map_or(Ok(()), |ms| from_now(context, "LEASE", ms, ms, now).map(drop))
}

/// Returns the moment `ttl` milliseconds from now. `word`: the name of the argument `asked` in errors.
///
/// # Errors
///
/// As those of [`deadline`].
pub fn from_now(context: &Context, word: &str, asked: u64, ttl: u64, now: u64) -> Result<u64> {
    if let Some(max) = exceeded(context, asked) {
        let reason =
            format!("{word} '{asked}' is greater than dehydrator.max-ttl ({max} ms) allows");
        return Err(refusal::limit(reason));
    }
    match Lawn::deadline(ttl, now) {
        Ok(deadline) => Ok(deadline.min(NEVER)),
        Err(_) => {
            Err(format!("{word} '{asked}' is too large: now + ttl must fit in 63 bits").into())
        }
    }
}

/// Returns the longest TTL that clients may use, if `ahead` is longer.
fn exceeded(context: &Context, ahead: u64) -> Option<u64> {
    config::max_ttl().filter(|max| ahead > *max && !context.is_replaying())
}

/// Returns whether there are at most `most` elements, the LENGTH limit (0: no limit).
#[inline]
pub fn is_within_length(context: &Context, lawn: &Lawn, most: u64) -> bool {
    most == 0 || lawn.len() as u64 <= most || context.is_replaying()
}

/// Returns whether the LENGTH limit of a group leaves room for an element. An id that is in the group, or that the push keeps,
/// needs none.
#[inline]
pub fn has_room_in_group(
    context: &Context,
    lawn: &Lawn,
    id: &[u8],
    group: Option<&[u8]>,
    replaces: bool,
) -> bool {
    let is_inside = |group: &[u8]| {
        let old = lawn.look(id);
        old.is_some_and(|old| {
            !replaces || old.group.is_some_and(|old| lawn.group_name(old) == group)
        })
    };
    group.is_none_or(|group| {
        !is_group_full(lawn, group) || is_inside(group) || context.is_replaying()
    })
}

/// Returns whether a group has as many elements as its LENGTH limit allows, or that of each group.
fn is_group_full(lawn: &Lawn, group: &[u8]) -> bool {
    let most = group_length(lawn, group);
    most > 0 && lawn.group_len(Some(group)) as u64 >= most
}

/// Returns whether a lease that is over ends when its element gets a later deadline, instead of running again: if `most`, the
/// HELD limit of the dehydrator, or that of the group counts running leases.
pub fn ends_lease(
    lawn: &Lawn,
    element: &Element<'_>,
    (deadline, now): (u64, u64),
    most: u64,
) -> bool {
    let is_over = lawn.token(element).is_some() && !runs(element.deadline, now);
    is_over && deadline > now && (most > 0 || lawn.limits_held(element))
}

/// Returns the LENGTH limit of a group, or that of each group. 0: no limit.
fn group_length(lawn: &Lawn, group: &[u8]) -> u64 {
    if !lawn.has_group_settings() {
        return 0;
    }
    match lawn.settings_of(group).limits.length {
        0 => lawn.each_group().length,
        own => own,
    }
}

/// Returns the error for a push beyond the LENGTH limit of its group or, if that is `most`, of the dehydrator.
pub fn too_long(lawn: &Lawn, most: u64, group: Option<&[u8]>) -> Error {
    match group.filter(|group| is_group_full(lawn, group)) {
        Some(group) => refusal::full(format!(
            "group '{}' holds {} elements already, which is the LENGTH that LIMIT set for it",
            shown(group),
            group_length(lawn, group)
        )),
        None => refusal::full(format!(
            "the dehydrator holds {most} elements already, which is the LENGTH that LIMIT set"
        )),
    }
}

/// Returns whether there are at most `dehydrator.max-elements` elements.
#[inline]
pub fn has_room(context: &Context, lawn: &Lawn) -> bool {
    config::max_elements().is_none_or(|max| lawn.len() as u64 <= max || context.is_replaying())
}

/// Returns whether the `ids`, as many as LENGTH allows, fit within `dehydrator.max-elements`. They may repeat or exist.
pub fn has_room_for<'a>(
    context: &Context,
    lawn: &Lawn,
    ids: impl Iterator<Item = &'a [u8]>,
    length: u64,
) -> bool {
    config::max_elements().is_none_or(|max| {
        let further = ids.filter(|id| lawn.look(id).is_none()).collect::<BTreeSet<_>>();
        let (before, length) = (lawn.len() as u64, if length == 0 { u64::MAX } else { length });
        let after = (before + further.len() as u64).min(length.max(before));
        after <= max || after == before || context.is_replaying()
    })
}

/// Returns the error for a push beyond `dehydrator.max-elements`.
pub fn full() -> Error {
    let most = config::max_elements().unwrap_or_default();
    refusal::full(format!(
        "the dehydrator holds {most} elements already, which is dehydrator.max-elements"
    ))
}

/// Checks that there is memory for data that a client adds.
///
/// # Errors
///
/// [`Error::OUT_OF_MEMORY`].
pub fn memory(context: &Context) -> Result {
    if context.is_out_of_memory() && !context.is_replaying() {
        return Err(Error::OUT_OF_MEMORY);
    }
    Ok(())
}
