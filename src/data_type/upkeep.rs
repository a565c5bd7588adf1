//! The upkeep of a dehydrator: finding its name again, giving memory back, forgetting expired ids and ended pauses.

use super::{Dehydrator, Opened, Writing, is_scheduled};
use crate::clock;
use crate::pending::agenda::{self, Reason};
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::{Context, Key, OwnedStr};

/// Records a dehydrator that has just got its name, or was found under it.
pub fn note_found(dehydrator: &Dehydrator, name: &Name) {
    dehydrator.tracking.found();
    dehydrator.note_upkeep(false, || (name.db, &name.key));
    if is_scheduled(dehydrator) {
        agenda::add(name, &dehydrator.tracking);
    }
}

/// Moves records together to free memory, and deletes an empty dehydrator. Returns whether that is done; if not, the
/// name is recorded again. `go_on` is asked after every few moves.
pub fn compact(context: &Context, name: &Name, mut go_on: impl FnMut() -> bool) -> bool {
    /// A few microseconds' work.
    const MOVES: usize = 32;
    let mut is_idle = false;
    let is_done = visit(context, name, Reason::Compact, |dehydrator| {
        is_idle = dehydrator.is_idle();
        let share = dehydrator.census_share();
        let is_done = loop {
            if is_idle {
                break context.may_replicate();
            }
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
            let (tracking, now_us) = (&dehydrator.tracking, clock::monotonic_us());
            agenda::note_upkeep(tracking, name.db, &name.key, Reason::Compact, now_us);
        }
        is_done
    });
    let is_done = is_done.unwrap_or(true);
    if is_idle && is_done {
        // Closing it deletes it.
        drop(Writing::open(context, OwnedStr::new(&name.key).as_str()));
    }
    is_done
}

/// Forgets ids that are expired and pauses of groups that have ended at `now`, and records the memory that this lets the
/// dehydrator give back. `go_on` is asked after every few.
pub fn forget_expired(context: &Context, name: &Name, now: u64, mut go_on: impl FnMut() -> bool) {
    /// Some ten microseconds' work.
    const IDS: usize = 128;
    /// More, because each search for pauses visits all groups that have settings.
    const PAUSES: usize = 1024;
    visit(context, name, Reason::Forget, |dehydrator| {
        while dehydrator.remembered.forget(now, IDS) > 0 && go_on() {}
        if dehydrator.tracking.has_pauses() {
            while dehydrator.forget_pauses(now, PAUSES) == PAUSES && go_on() {}
        }
        dehydrator.note_upkeep(false, || (name.db, &name.key));
        if dehydrator.is_idle() {
            // Only pauses kept it. Compacting it deletes it.
            let (tracking, now_us) = (&dehydrator.tracking, clock::monotonic_us());
            agenda::note_upkeep(tracking, name.db, &name.key, Reason::Compact, now_us);
        }
    });
}

/// Changes the dehydrator that the agenda had for a reason. `None`: there is none under that name. No command can see
/// the difference, so nothing is signalled.
fn visit<T>(
    context: &Context,
    name: &Name,
    reason: Reason,
    change: impl FnOnce(&mut Dehydrator) -> T,
) -> Option<T> {
    let sent = OwnedStr::new(&name.key);
    // For reading, so that nobody's WATCH breaks.
    let mut opened = Opened::new(Key::open_to_inspect(context, sent.as_str())?).ok()?;
    let dehydrator = opened.dehydrator_mut()?;
    dehydrator.tracking.visited(reason);
    let _whole = AbortOnPanic::begin();
    Some(change(dehydrator))
}
