//! Waking those who sleep, when it is their turn: what is due is taken for them, and they are unblocked with it.
//!
//! [`serve`] is called at the end of a pass of the event loop. Whose turn it is stands in [`blocked`].
//!
//! *One pass later.* A key in whose line something is due is ready. It is served at the end of the next pass of
//! the event loop: by then the server has freed the clients of which it read, when the element came due, that
//! they have hung up. Keys that are ready are served in turn, so that none keeps the others waiting.
//!
//! *Taken when woken.* What a client gets is taken, and its effect replicated, before the server is told
//! to unblock the client. So nobody else's command comes between, whichever thread has read it, and a
//! client for which nothing is left keeps its place in the line: it is never told that there is nothing.
//! If the client has gone when the server comes to reply, what was taken is given back.
//!
//! *What was missed.* What reaches a key by other ways than our commands (RENAME, COPY, MOVE, SWAPDB, RESTORE, a reload), a
//! wall clock that stepped, and a key whose slot another node serves now, are found by the [`backstop`],
//! which the server's cron calls.

use std::iter;
use std::rc::Rc;

use crate::clock;
use crate::data_type::{Dehydrator, inspect};
use crate::metrics::latency::{self, OverdueSince};
use crate::pending::blocked::{self, Lines, NextInLine, Outlook, Sleeper};
use crate::server::guard::trap;
use crate::server::key::Name;
use crate::server::{Context, Error, OwnedStr, Str};

use super::parcel::Parcel;
use super::unblocked::{Outcome, give_back, has_given_up, unblock};
use crate::commands::refusal;

/// Clients that are served at the end of one pass of the event loop; the rest are served when other
/// clients have had their turn. The server writes replies when the pass is over, the last one first: with fewer at a time
/// the first in the line hears sooner, and the other processor has something to read sooner. Of a hundred at once the median is
/// 0.9 ms with 24 and 1.4 with 64; a thousand at once cost the server at most a twentieth more.
const SERVED_MAX: usize = 24;
/// While nothing may be written (CLIENT PAUSE, FAILOVER, too few replicas, a disk that fails), this long
/// until the next look, in microseconds.
const RETRY_US: u64 = 20_000;

/// Returns when there is something to do next, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    let gives_back = has_given_up();
    blocked::with(|lines| lines.next_us(gives_back))
}

/// Unblocks those who have waited long enough, and, where `may_serve`, serves those whose keys are ready. What is
/// due by now is ready from here on.
pub fn serve(context: &Context, may_serve: bool) {
    time_out(context);
    let (now_us, gives_back) = (clock::monotonic_us(), has_given_up());
    let is_time = |lines: &mut Lines| (gives_back || lines.has_work()) && !lines.is_waiting(now_us);
    if may_serve && blocked::with(is_time) {
        blocked::with(|lines| lines.dismiss_some(SERVED_MAX));
        let may_write = context.may_write();
        if may_write {
            give_back(context);
        }
        let left = serve_ready(context, may_write);
        if !may_write && left > 0 && !blocked::with(|lines| lines.is_dismissing()) {
            blocked::with(|lines| lines.retry_at(now_us + RETRY_US));
        }
    }
    let now = clock::now();
    blocked::with(|lines| lines.come_due(now));
}

/// Unblocks those who have waited long enough. One whose words were sent twice may wait while what it asks for was given to
/// the other connection: it is told that.
fn time_out(context: &Context) {
    let now_us = clock::monotonic_us();
    for _ in 0..SERVED_MAX {
        let Some(sleeper) = blocked::with(|lines| lines.timed_out(now_us)) else { return };
        let held = Parcel::of_held(context, &sleeper).filter(|_| may_still_ask(context, &sleeper));
        if let Some(client) = blocked::with(|lines| lines.leave(&sleeper)) {
            unblock(context, client, held.map_or(Outcome::TimedOut, Outcome::Given));
        }
    }
}

/// Serves the lines of keys that are ready, in turn. Who is dismissed takes nothing, and is sent away though nothing may be
/// written; the others wait then. Returns how many more clients could be served in this pass.
fn serve_ready(context: &Context, may_write: bool) -> usize {
    let mut left = SERVED_MAX;
    for _ in 0..blocked::with(|lines| lines.ready()) {
        if left == 0 {
            break;
        }
        let Some(name) = blocked::with(Lines::next_ready) else { break };
        let sent_away = send_away(context, &name, left);
        left -= sent_away;
        if sent_away == 0 && may_write {
            left -= serve_line(context, &name, left);
        } else {
            blocked::with(|lines| lines.put_back(&name));
        }
    }
    left
}

/// Sends away so many of those who wait for a key, at the most, if they are dismissed. Returns how many.
fn send_away(context: &Context, name: &Name, most: usize) -> usize {
    let mut count = 0;
    while count < most
        && let Some((client, reason)) = blocked::with(|lines| lines.take_dismissed(name))
    {
        unblock(context, client, Outcome::SentAway(reason));
        count += 1;
    }
    count
}

/// Serves those who wait for a key, which is ready no more, until nothing is due or so many are served. Returns
/// how many were.
fn serve_line(context: &Context, name: &Rc<Name>, most: usize) -> usize {
    if !blocked::with(|lines| lines.begin_line(name)) {
        return 0;
    }
    let now = clock::now();
    let key = OwnedStr::new(&name.key);
    let is_there = context.select_db(name.db);
    let outlook = if is_there { look(context, key.as_str()) } else { Outlook::Next(None) };
    blocked::note_name(context, name, outlook);
    if !matches!(outlook, Outlook::Next(Some(next)) if next <= now) {
        return 0;
    }
    if !context.lets_clients_write(key.as_str()) {
        blocked::with(|lines| lines.revisit_at(name, Some(now + RETRY_US / 1000)));
        return 0;
    }
    let mut served = 0;
    while served < most {
        let Some(NextInLine { sleeper, from }) =
            blocked::with(|lines| lines.next_in_line(name, now))
        else {
            return served;
        };
        if !may_still_ask(context, &sleeper) {
            if let Some(client) = blocked::with(|lines| lines.leave(&sleeper)) {
                unblock(context, client, Outcome::SentAway(refusal::no_right()));
            }
            served += 1;
            continue;
        }
        // The client stays in the table meanwhile: to take calls out, by an event, and another module
        // may do as it likes then, such as to kill the client.
        let taken = from.iter().find_map(|from| take(context, &sleeper, from));
        let Some((parcel, overdue)) = taken else { break };
        trap::pass("woken");
        served += 1;
        latency::record(overdue.late_us(parcel.deadline()));
        match blocked::with(|lines| lines.leave(&sleeper)) {
            Some(client) => unblock(context, client, Outcome::Given(parcel)),
            None => parcel.give_back(context),
        }
    }
    if served == 0 {
        // It was due, and could not be taken: the backstop looks again.
        blocked::with(|lines| lines.revisit_at(name, None));
    }
    served
}

/// Returns whether a client may still run the command that it sleeps in, on all of its keys: its rights may have been
/// withdrawn since. BLPOP checks them then too.
fn may_still_ask(context: &Context, sleeper: &Sleeper) -> bool {
    let count = sleeper.names.len();
    let keys = sleeper.names.iter().map(|name| OwnedStr::new(&name.key));
    let words: Vec<_> = if sleeper.is_named {
        let mpoll = [OwnedStr::new(b"DEHYDRATOR.MPOLL"), OwnedStr::of_number(count as u64)];
        mpoll.into_iter().chain(keys).collect()
    } else {
        iter::once(OwnedStr::new(b"DEHYDRATOR.POLL")).chain(keys).collect()
    };
    let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
    context.may_still_run(sleeper.client, &words)
}

/// Takes what is due in one of its keys for a client. With it goes since when that has been overdue.
fn take(context: &Context, sleeper: &Sleeper, from: &Name) -> Option<(Parcel, OverdueSince)> {
    let overdue = blocked::with(|lines| lines.overdue(from))?;
    let parcel = Parcel::take(context, sleeper, OwnedStr::new(&from.key).as_str())?;
    Some((parcel, overdue))
}

/// Looks at keys that clients wait for, one after the other, while `go_on` says so; the next call carries on.
pub fn backstop(context: &Context, mut go_on: impl FnMut() -> bool) {
    for _ in 0..blocked::with(|lines| lines.watched()) {
        let Some(name) = blocked::with(Lines::next_watched) else { return };
        if context.select_db(name.db) {
            let key = OwnedStr::new(&name.key);
            if context.serves(key.as_str()) {
                blocked::note_name(context, &name, look(context, key.as_str()));
            } else {
                blocked::dismiss(context, &name, Error::SlotMoved);
            }
        }
        if !go_on() {
            return;
        }
    }
}

/// Looks at a key of the selected database, as a client that waits would.
fn look(context: &Context, key: Str<'_>) -> Outlook {
    inspect(context, key, Dehydrator::outlook).unwrap_or(Outlook::Next(None))
}
