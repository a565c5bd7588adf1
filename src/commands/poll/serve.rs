//! Waking blocked clients: due elements are taken for each client in turn, and the client is unblocked with them.
//!
//! [`serve`] is called at the end of a pass of the event loop. [`blocked`] holds the order of the clients.
//!
//! *One pass later.* A key with waiting clients and a due element is ready. It is served at the end of the next pass of
//! the event loop: by then the server has freed the clients whose disconnection it read in the pass in which the element
//! came due. Ready keys are served in turn, so that none keeps the others waiting.
//!
//! *Taken when woken.* Elements are taken, and the effect is replicated, before the server is told to unblock the
//! client. So no other client's command runs in between, whichever thread has read it. A client for which nothing is
//! left keeps its place in the queue and receives no empty reply. If the client has disconnected before its reply, the
//! elements are given back.
//!
//! *Backstop.* Some changes do not pass through our commands: RENAME, COPY, MOVE, SWAPDB, RESTORE, a reload, a step of
//! the wall clock, a slot that moved to another node. The [`backstop`], which the server's cron calls, finds them.

use std::iter;
use std::rc::Rc;

use crate::clock;
use crate::data_type::{Dehydrator, inspect};
use crate::metrics::latency::{LATENESS, OverdueSince};
use crate::pending::blocked::{self, Lines, NextInLine, Outlook, Sleeper};
use crate::server::guard::trap;
use crate::server::key::Name;
use crate::server::{Context, Error, OwnedStr, Str};

use super::taken::TakenElements;
use super::unblocked::{Outcome, give_back, has_returns, unblock};
use crate::commands::refusal;

/// Clients served at the end of one pass of the event loop, at most; the rest are served after other clients have had
/// their turn. The server writes replies when the pass is over, the last one first. With fewer at a time, the first in
/// the queue gets its reply sooner, and the other processor has something to read sooner. For a hundred clients woken at
/// once the median is 0.9 ms with 24 and 1.4 ms with 64; a thousand at once cost the server at most a twentieth more.
const SERVED_MAX: usize = 24;
/// Time between retries while writes are not allowed (CLIENT PAUSE, FAILOVER, too few replicas, a failing disk), in
/// microseconds.
const RETRY_US: u64 = 20_000;

/// Returns when there is work next, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    let gives_back = has_returns();
    blocked::with(|lines| lines.next_us(gives_back))
}

/// Unblocks the clients whose timeout has passed and, if `may_serve`, serves the clients of ready keys. Then marks keys
/// with due elements as ready.
pub fn serve(context: &Context, may_serve: bool) {
    time_out(context);
    let (now_us, gives_back) = (clock::monotonic_us(), has_returns());
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

/// Unblocks the clients whose timeout has passed. A client that repeated its request may have been given elements over
/// the other connection: it receives those.
fn time_out(context: &Context) {
    let now_us = clock::monotonic_us();
    for _ in 0..SERVED_MAX {
        let Some(sleeper) = blocked::with(|lines| lines.timed_out(now_us)) else { return };
        let held =
            TakenElements::of_held(context, &sleeper).filter(|_| may_still_ask(context, &sleeper));
        if let Some(client) = blocked::with(|lines| lines.leave(&sleeper)) {
            unblock(context, client, held.map_or(Outcome::TimedOut, Outcome::Given));
        }
    }
}

/// Serves the queues of ready keys in turn. A dismissed client takes nothing, so it is unblocked even if writes are not
/// allowed; the others wait then. Returns how many more clients could be served in this pass.
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

/// Unblocks at most `most` of the dismissed clients of a key. Returns how many.
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

/// Serves the clients of a key until nothing is due or `most` are served. The key is no longer ready afterwards. Returns
/// how many were served.
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
        // The client stays in the table meanwhile: taking publishes an event, and another module may then do
        // anything, such as kill the client.
        let taken = from.iter().find_map(|from| take(context, &sleeper, from));
        let Some((taken, overdue)) = taken else { break };
        trap::pass("woken");
        served += 1;
        LATENESS.record(overdue.late_us(taken.deadline()), 1);
        match blocked::with(|lines| lines.leave(&sleeper)) {
            Some(client) => unblock(context, client, Outcome::Given(taken)),
            None => taken.give_back(context),
        }
    }
    if served == 0 {
        // An element was due but could not be taken: the backstop tries again.
        blocked::with(|lines| lines.revisit_at(name, None));
    }
    served
}

/// Returns whether a client may still run the command in which it is blocked, on all of its keys: its rights may have
/// been withdrawn since. BLPOP checks this too.
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

/// Takes the due elements of one of the client's keys. Also returns since when they have been overdue.
fn take(
    context: &Context,
    sleeper: &Sleeper,
    from: &Name,
) -> Option<(TakenElements, OverdueSince)> {
    let overdue = blocked::with(|lines| lines.overdue(from))?;
    let taken = TakenElements::take(context, sleeper, OwnedStr::new(&from.key).as_str())?;
    Some((taken, overdue))
}

/// Checks the keys that clients wait for, one by one, while `go_on` returns true. The next call carries on from there.
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

/// Returns what a key of the selected database offers a waiting client.
fn look(context: &Context, key: Str<'_>) -> Outlook {
    inspect(context, key, Dehydrator::outlook).unwrap_or(Outlook::Next(None))
}
