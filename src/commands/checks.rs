//! Checks of a request against what an operator allows clients (the longest TTL, the most elements in a dehydrator, memory),
//! and the errors that are not programming mistakes. Each of these has a code for programs; docs/commands.md lists the codes.
//!
//! Replicas and files get effects, which none of this checks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::config;
use crate::data_type::room::{group_length, is_group_full};
pub use crate::data_type::room::{has_room, is_within_length};
use crate::data_type::{NEVER, Writing};
use crate::server::{Context, Error, error::Result};
use lawn::{Element, GroupSettings, Lawn, StartError, UpdateError};

use super::args::shown;

/// Returns the deadline: `at`, or `ttl` from now. Fails if the deadline does not fit in 63 bits, or if `asked` (the TTL
/// without its slack) or `at` is further ahead than allowed.
pub fn deadline(asked: u64, ttl: u64, at: Option<u64>, now: u64) -> Result<u64> {
    if let Some(at) = at {
        moment("AT", at)?;
        if let Some(max) = config::MAX_TTL.limit()
            && at.saturating_sub(now) > max
        {
            let reason =
                format!("AT '{at}' is further ahead than dehydrator.max-ttl ({max} ms) allows");
            return Err(beyond_limit(reason));
        }
        return Ok(at);
    }
    from_now("ttl", asked, ttl, now)
}

/// Refuses a moment that is most likely in seconds: in milliseconds it is between 12 January 1970 and 3 March 1973. Fails
/// if it is such a moment.
pub fn moment(word: &str, at: u64) -> Result {
    const SECONDS: RangeInclusive<u64> = 1_000_000_000..=100_000_000_000;
    if SECONDS.contains(&at) {
        return Err(format!("{word} '{at}' looks like seconds: it must be in milliseconds").into());
    }
    Ok(())
}

/// Checks the length of a lease that begins now, if one does. Fails as [`deadline`] does.
pub fn lease(ms: Option<u64>, now: u64) -> Result {
    ms.map_or(Ok(()), |ms| from_now("LEASE", ms, ms, now).map(drop))
}

/// Returns the moment `ttl` milliseconds from now. `word`: the name of the argument `asked` in errors. Fails as
/// [`deadline`] does.
pub fn from_now(word: &str, asked: u64, ttl: u64, now: u64) -> Result<u64> {
    if let Some(max) = config::MAX_TTL.limit()
        && asked > max
    {
        let reason =
            format!("{word} '{asked}' is greater than dehydrator.max-ttl ({max} ms) allows");
        return Err(beyond_limit(reason));
    }
    match Lawn::deadline(ttl, now) {
        Ok(deadline) => Ok(deadline.min(NEVER)),
        Err(_) => {
            Err(format!("{word} '{asked}' is too large: now + ttl must fit in 63 bits").into())
        }
    }
}

/// Returns whether the LENGTH limit of a group leaves room for an element. An id that is in the group, or that the push keeps,
/// needs none.
#[inline(always)]
pub fn has_room_in_group(lawn: &Lawn, id: &[u8], group: Option<&[u8]>, replaces: bool) -> bool {
    match group {
        Some(group) if lawn.group_rules().may_limit_length() => {
            has_room_in(lawn, id, group, replaces)
        }
        _ => true,
    }
}

#[inline(never)]
fn has_room_in(lawn: &Lawn, id: &[u8], group: &[u8], replaces: bool) -> bool {
    let is_in = |old| lawn.group_name(old) == group;
    let may_stay = |old: Element<'_>| !replaces || old.group.is_some_and(is_in);
    !is_group_full(lawn, group) || lawn.look(id).is_some_and(may_stay)
}

/// Returns the error for a push beyond the LENGTH limit of its group or, if that is `most`, of the dehydrator.
pub fn too_long(lawn: &Lawn, most: u64, group: Option<&[u8]>) -> Error {
    match group.filter(|group| is_group_full(lawn, group)) {
        Some(group) => full(format!(
            "group '{}' holds {} elements already, which is the LENGTH that LIMIT set for it",
            shown(group),
            group_length(lawn, group)
        )),
        None => full(format!(
            "the dehydrator holds {most} elements already, which is the LENGTH that LIMIT set"
        )),
    }
}

/// Returns whether the `ids`, as many as LENGTH allows, fit within `dehydrator.max-elements`. They may repeat or exist.
pub fn has_room_for<'a>(lawn: &Lawn, ids: impl Iterator<Item = &'a [u8]>, length: u64) -> bool {
    config::MAX_ELEMENTS.limit().is_none_or(|max| {
        let further = ids.filter(|id| lawn.look(id).is_none()).collect::<BTreeSet<_>>();
        let (before, length) = (lawn.len() as u64, if length == 0 { u64::MAX } else { length });
        let after = (before + further.len() as u64).min(length.max(before));
        after <= max || after == before
    })
}

/// Returns the error for a push beyond `dehydrator.max-elements`.
pub fn too_many_elements() -> Error {
    let most = config::MAX_ELEMENTS.limit().unwrap_or_default();
    full(format!("the dehydrator holds {most} elements already, which is dehydrator.max-elements"))
}

/// Checks that there is memory for data that a client adds. Fails with [`Error::OUT_OF_MEMORY`].
pub fn memory(context: &Context) -> Result {
    if context.is_out_of_memory() && !context.is_replaying() {
        return Err(Error::OUT_OF_MEMORY);
    }
    Ok(())
}

/// Returns the settings of a group after a change. Fails with [`Error::OUT_OF_MEMORY`] if they are the group's first:
/// only those take memory, for its name too.
pub fn settings(
    context: &Context,
    dehydrator: &Writing<'_>,
    group: &[u8],
    change: impl FnOnce(&mut GroupSettings),
) -> Result<GroupSettings> {
    let before = dehydrator.look().map_or(GroupSettings::NONE, |lawn| lawn.group_rules().of(group));
    let mut settings = before;
    change(&mut settings);
    if before == GroupSettings::NONE && settings != before {
        memory(context)?;
    }
    Ok(settings)
}

fn exists(id: &[u8]) -> Error {
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

/// Returns the error for a schedule that does not exist.
pub fn no_such_schedule(name: &[u8]) -> Error {
    format!("no such schedule '{}'", shown(name)).into()
}

/// Returns the error for a key without a route for dead letters.
pub fn no_rule() -> Error {
    let reason =
        "no destination for dead letters: set one with ONDUE key HOLD DELIVERIES n <destination>";
    Error::Coded("NORULE", reason.into())
}

/// Returns the error for a key whose dead letters go to no stream.
pub fn no_letters() -> Error {
    let reason =
        "dead letters go to no stream: say ONDUE key HOLD DELIVERIES n STREAM and its name";
    Error::Coded("NORULE", reason.into())
}

/// Returns the error for a client whose rights were withdrawn while it was blocked.
pub fn no_right() -> Error {
    let reason = "the user may no longer run this command, or access its keys";
    Error::Coded("NOPERM", reason.into())
}

/// Returns the error when there is no room for another or a larger element until others have left.
fn full(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::Coded("FULL", reason.into())
}

/// Returns the error for a value beyond a setting of the operator: sending it again does not help.
fn beyond_limit(reason: String) -> Error {
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
