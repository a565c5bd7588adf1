//! The upkeep of a dehydrator: finding its new name after a rename, giving memory back, forgetting expired ids, ending pauses of groups.

use super::{Dehydrator, Opened, Writing, inspect, is_on_agenda};
use crate::clock;
use crate::config;
use crate::pending::agenda::{self, Reason};
use crate::replicate::Effect;
use crate::server::guard::{AbortOnPanic, trap};
use crate::server::key::Name;
use crate::server::{Context, Key, OwnedStr};
use lawn::{Groups, Lawn};

/// Records a dehydrator that has just got its name, or was found under it.
pub fn note_found(dehydrator: &Dehydrator, name: &Name) {
    dehydrator.tracking.found();
    dehydrator.note_upkeep(false, || (name.db, &name.key));
    if is_on_agenda(dehydrator) {
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
            if !dehydrator.compact(MOVES) {
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

/// Brings some groups of one dehydrator to limits that have changed, on replicas too. Dehydrators take turns.
pub fn fit_some_groups(context: &Context) {
    let Some(name) = agenda::take(&[Reason::FitGroups]) else { return };
    let key = OwnedStr::new(&name.key);
    let must_fit = context.select_db(name.db).then(|| {
        inspect(context, key.as_str(), |it| {
            it.tracking.visited(Reason::FitGroups);
            it.lawn.groups().is_some_and(Groups::must_fit)
        })
    });
    // Closing it records when its first element is available now, and the name again if groups are left.
    if must_fit.flatten() == Some(true)
        && let Ok(mut dehydrator) = Writing::open(context, key.as_str())
        && let Some(mut groups) = dehydrator.lawn().and_then(Lawn::groups_mut)
    {
        groups.fit_some();
    }
}

/// Forgets ids that are expired at `now`, and records the memory that this lets the dehydrator give back. Ends pauses of
/// groups that are over. `go_on` is asked after every few.
pub fn forget_expired(context: &Context, name: &Name, now: u64, mut go_on: impl FnMut() -> bool) {
    /// Some ten microseconds' work.
    const IDS: usize = 128;
    let has_ended = visit(context, name, Reason::Forget, |dehydrator| {
        while dehydrator.remembered.forget(now, IDS) > 0 && go_on() {}
        if let Some(mut groups) = dehydrator.lawn.groups_mut() {
            while groups.forget_logs(now, IDS) && go_on() {}
        }
        // A group without its log comes sooner, perhaps with a dead letter.
        if !dehydrator.lawn.group_rules().is_empty() && is_on_agenda(dehydrator) {
            agenda::add(name, &dehydrator.tracking);
        }
        let has_ended = dehydrator.lawn.group_rules().ended_pauses(now).next().is_some();
        if !has_ended {
            dehydrator.note_upkeep(false, || (name.db, &name.key));
        }
        has_ended
    });
    if has_ended == Some(true) {
        end_group_pauses(context, name, now, go_on);
    }
}

/// Ends pauses of groups that are over and replicates that, as the end of a key's own pause. Nothing waits for it: their
/// elements are given out before.
fn end_group_pauses(context: &Context, name: &Name, now: u64, mut go_on: impl FnMut() -> bool) {
    /// The most in one tick.
    const MOST: usize = 256;
    /// The wait of a replica and of a node that may not write, in milliseconds.
    const ELSEWHERE_MS: u64 = 1000;
    let sent = OwnedStr::new(&name.key);
    let key = sent.as_str();
    if !config::may_act(context) || !context.serves(key) || !context.lets_clients_write(key) {
        let later = now.saturating_add(ELSEWHERE_MS);
        let note = |it: &Dehydrator| it.note_group_pause(later, name.db, &name.key);
        return inspect(context, key, note).unwrap_or_default();
    }
    let Ok(mut dehydrator) = Writing::open_at(context, key, now) else { return };
    let over = dehydrator.look().into_iter().flat_map(|lawn| lawn.group_rules().ended_pauses(now));
    let over: Vec<_> = over.take(MOST).map(<[u8]>::to_vec).collect();
    let mut is_changed = false;
    for group in over {
        dehydrator.change_group(&group, |settings| settings.paused_until = 0);
        Effect::resumed(key, Some(&group)).replicate(context);
        is_changed = true;
        if !go_on() {
            break;
        }
    }
    // Closing it records the next visit.
    if is_changed {
        dehydrator.finish(c"dehydrator.resume");
    }
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
