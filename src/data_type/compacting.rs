//! Giving back memory that a dehydrator has no use for.

use super::dehydrator_in;
use super::writing::delete_leftover;
use crate::pending::compaction;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::hold::Hold;
use crate::server::{Context, Key, Str};

/// What became of a dehydrator that was to be compacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compacted {
    /// There is nothing to do, or nothing any more.
    Done,
    /// The budget ran out.
    More,
    /// It is empty, and may not be deleted at this moment.
    Later,
}

/// Moves records together so that memory can be given back, and deletes an empty dehydrator. Nothing
/// else that can be read changes, so nothing is signalled. `go_on` is asked after every few
/// moves.
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
    // SAFETY: as in `Reading::dehydrator`. The key is open for reading so that nobody's WATCH breaks.
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
    let counted = dehydrator.counted();
    let is_done = loop {
        if !dehydrator.lawn.compact(MOVES) && !dehydrator.past.compact(MOVES) {
            break true;
        }
        trap::pass("compact");
        if !go_on() {
            break false;
        }
    };
    counted.become_those_of(dehydrator);
    if !is_done {
        return Compacted::More;
    }
    dehydrator.tracking().mark().looked_at();
    Compacted::Done
}
