//! The cron's upkeep of a dehydrator: it gives memory back and forgets expired ids.

use super::dehydrator_in;
use super::writing::delete_leftover;
use crate::pending::compaction;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::hold::Hold;
use crate::server::key::Name;
use crate::server::{Context, Key, OwnedStr, Str};

/// The outcome of [`compact`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compacted {
    /// There is nothing left to do.
    Done,
    /// The budget ran out.
    More,
    /// The dehydrator is empty, and may not be deleted at this moment.
    Later,
}

/// Moves records together to free memory, and deletes an empty dehydrator. No command can see the difference, so
/// nothing is signalled. `go_on` is asked after every few moves.
pub fn compact(context: &Context, name: Str<'_>, mut go_on: impl FnMut() -> bool) -> Compacted {
    /// A few microseconds' work.
    const MOVES: usize = 32;
    let key = Key::open_to_inspect(context, name);
    let value = key.as_ref().and_then(|key| dehydrator_in(key).ok()?);
    let (Some(key), Some(mut value)) = (key, value) else {
        compaction::end_round();
        return Compacted::Done;
    };
    let hold = Hold::begin();
    // SAFETY: as in `Opened::dehydrator`. The key is open for reading so that nobody's WATCH breaks.
    let dehydrator = unsafe { value.as_mut() };
    if dehydrator.is_idle() {
        drop((key, hold));
        if !context.may_replicate() {
            return Compacted::Later;
        }
        delete_leftover(context, name);
        return Compacted::Done;
    }
    let _whole = AbortOnPanic::begin();
    let share = dehydrator.census_share();
    let is_done = loop {
        if !dehydrator.lawn.compact(MOVES) && !dehydrator.remembered.compact(MOVES) {
            break true;
        }
        trap::pass("compact");
        if !go_on() {
            break false;
        }
    };
    share.replace_by(dehydrator.census_share());
    if !is_done {
        return Compacted::More;
    }
    dehydrator.tracking().mark().visited();
    Compacted::Done
}

/// Forgets ids that are expired at `now`, and records the memory that this lets the dehydrator give back. No command
/// can see the difference, so nothing is signalled. `go_on` is asked after every few.
pub fn forget_expired_ids(
    context: &Context,
    name: &Name,
    now: u64,
    mut go_on: impl FnMut() -> bool,
) {
    /// Some ten microseconds' work.
    const IDS: usize = 128;
    let sent = OwnedStr::new(&name.key);
    let key = Key::open_to_inspect(context, sent.as_str());
    let value = key.as_ref().and_then(|key| dehydrator_in(key).ok()?);
    let Some(mut value) = value else { return compaction::end_round() };
    let _hold = Hold::begin();
    // SAFETY: as in `Opened::dehydrator`. The key is open for reading so that nobody's WATCH breaks.
    let dehydrator = unsafe { value.as_mut() };
    dehydrator.remembered.visited();
    let _whole = AbortOnPanic::begin();
    if let Some(ids) = dehydrator.remembered.ids_mut() {
        while ids.forget(now, IDS) > 0 && go_on() {}
    }
    dehydrator.remembered.note_from(name.db, &name.key, now);
    dehydrator.note_memory(name.db, &name.key);
}
